/* What clients can make a server hold, and what it gives back: resident memory, on every real
 * driver. */
#include <coir.h>
#include <coir/web.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/compiler.h"
#include "harness.h"
#include "plain.h"

enum { HALF_HEADS = 5000, KEEPERS = 4000, MIB = 1 << 20 };

static coir_runtime *runtime;
static char address[64];
static int sockets[HALF_HEADS];
static void (*client)(void);

static int hello(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    return coir_respond_text(res, 200, "hello");
}

static int live(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    coir_http_counters counters = COIR_HTTP_COUNTERS;
    coir_http_counters_get(&counters);
    return coir_respond_text(res, 200, "live %d\n", (int)counters.connections_live);
}

/* ---- clients, in a plain thread ---- */

static size_t resident(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%*s %ld", &pages) == 1);
    fclose(file);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void say(int fd, const char *text)
{
    CHECK_EQ(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static void hear(int fd, char *text, size_t size)
{
    ssize_t n = recv(fd, text, size - 1, 0);
    CHECK(n > 0);
    text[n] = '\0';
    CHECK(strstr(text, "200 OK"));
}

/* How many connections the server has, this one not counted; it has read what they sent before. */
static int count(void)
{
    char text[1000];
    int fd = plain_dial(address);
    say(fd, "GET /live HTTP/1.1\r\nHost: a\r\n\r\n");
    hear(fd, text, sizeof text);
    close(fd);
    CHECK(strstr(text, "live "));
    return atoi(strstr(text, "live ") + 5) - 1;
}

static void wait_for_count(int connections)
{
    while (count() != connections)
        sched_yield();
}

/* The memory comes back, in its time: within the limit of the test. */
static void wait_for_memory(size_t most)
{
    while (resident() > most)
        count();
}

static void send_half_heads(void)
{
    count();
    size_t before = resident();
    for (int i = 0; i < HALF_HEADS; i++) {
        sockets[i] = plain_dial(address);
        say(sockets[i], "GET / HTTP/1.1\r\nHost: a\r\nX-Long: abcdefgh");
    }
    wait_for_count(HALF_HEADS);
    size_t held = resident() - before;
    CHECK(held < (size_t)60 * MIB);
    for (int i = 0; i < HALF_HEADS; i++)
        close(sockets[i]);
    wait_for_count(0);
    wait_for_memory(before + (size_t)12 * MIB);
}

/* All ask at the same time, again and again. */
static void keep_asking(void)
{
    char text[1000];
    count();
    size_t before = resident();
    for (int i = 0; i < KEEPERS; i++)
        sockets[i] = plain_dial(address);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < KEEPERS; i++)
            say(sockets[i], "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        for (int i = 0; i < KEEPERS; i++)
            hear(sockets[i], text, sizeof text);
    }
    wait_for_memory(before + (size_t)12 * MIB); /* while they are still there */
    for (int i = 0; i < KEEPERS; i++)
        close(sockets[i]);
    wait_for_count(0);
}

/* ---- one run ---- */

static void *run_client(void *arg)
{
    (void)arg;
    client();
    coir_runtime_stop(runtime);
    return NULL;
}

static int serve(void *arg)
{
    (void)arg;
    pthread_t thread;
    coir_listener *listener;
    coir_router *router;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    CHECK(coir_listener_local(listener, address, sizeof address) > 0);
    CHECK_EQ(coir_router_new(&router), 0);
    CHECK_EQ(coir_route(router, "GET", "/", hello, NULL), 0);
    CHECK_EQ(coir_route(router, "GET", "/live", live, NULL), 0);
    CHECK_EQ(pthread_create(&thread, NULL, run_client, NULL), 0);
    CHECK_EQ(coir_serve_http_with(HTTP_ON(listener), router), -ECANCELED);
    pthread_join(thread, NULL);
    coir_listener_close(listener);
    coir_router_free(router);
    return 0;
}

static void on(const char *driver, void (*clients)(void))
{
    if (CI_ASAN || CI_TSAN)
        return; /* they keep what was freed, and shadow what is used */
    struct rlimit files;
    coir_config config = COIR_CONFIG;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
    unsetenv("COIR_WORKERS");
    unsetenv("COIR_DRIVER");
    config.driver = driver;
    config.workers = 1;
    client = clients;
    if (coir_runtime_new(&config, &runtime) < 0) {
        CHECK(strcmp(driver, "io_uring") == 0); /* it does not work here */
        return;
    }
    CHECK_EQ(coir_runtime_run(runtime, serve, NULL), 0);
    coir_runtime_free(runtime);
}

TEST(half_sent_heads_cost_little_on_io_uring)
{
    on("io_uring", send_half_heads);
}

TEST(half_sent_heads_cost_little_on_epoll)
{
    on("epoll", send_half_heads);
}

TEST(what_a_burst_needed_is_given_back_on_io_uring)
{
    on("io_uring", keep_asking);
}

TEST(what_a_burst_needed_is_given_back_on_epoll)
{
    on("epoll", keep_asking);
}
