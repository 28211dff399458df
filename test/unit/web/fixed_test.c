/* A server in fixed memory under ten times its load, on every real driver: nothing is allocated
 * once it serves, its resident memory does not grow, every client is answered, and the next one is
 * served. */
#include "web/fixed.h"

#include <coir.h>
#include <coir/web.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "harness.h"
#include "plain.h"

enum { CONNECTIONS = 20, REQUESTS = 4, CROWD = 10 * CONNECTIONS, ROUNDS = 5 };

static coir_runtime *runtime;
static coir_serve_http_options options;
static char address[64];

/* ---- counting what is allocated ---- */

static long allocations;

static void *counted_alloc(size_t size, void *context)
{
    (void)context;
    void *memory = NULL;
    __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
    return posix_memalign(&memory, 64, size) == 0 ? memory : NULL;
}

static void counted_free(void *memory, size_t size, void *context)
{
    (void)size;
    (void)context;
    free(memory);
}

static const coir_allocator counted = COIR_ALLOCATOR(counted_alloc, counted_free, NULL);

static long counted_now(void)
{
    return __atomic_load_n(&allocations, __ATOMIC_RELAXED);
}

/* KiB of memory that no file backs: pages of code come and go as the system likes. */
static long resident(void)
{
    long size = -1;
    char text[4096];
    int fd = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, text, sizeof text - 1);
    CHECK(n > 0);
    text[n] = '\0';
    const char *line = strstr(text, "\nAnonymous:");
    CHECK(line && sscanf(line, " Anonymous: %ld kB", &size) == 1);
    close(fd);
    return size;
}

/* ---- the server ---- */

static int some(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    char *memory = coir_request_alloc(req, 12000);
    int rc = coir_yield();
    if (memory)
        memset(memory, 'x', 12000);
    return rc < 0 ? rc
                  : coir_respond(res, memory ? 200 : 500, "text/plain", memory, memory ? 12000 : 0);
}

static int counts(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    coir_http_counters counters = COIR_HTTP_COUNTERS;
    CHECK_EQ(coir_http_counters_get(&counters), 0);
    return coir_respond_text(res, 200, "live %d refused %d\n", (int)counters.connections_live,
                             (int)counters.refused);
}

/* ---- clients, in a plain thread ---- */

static int own; /* of refused_at_rest: refused before the server noticed that the crowd has gone */
static int sockets[CROWD];
static char text[64 * 1024];
static size_t text_len;

/* Reads to the end: the status, or 0 if the connection ended without one. */
static int hear(int fd)
{
    ssize_t n;
    text_len = 0;
    while ((n = recv(fd, text + text_len, sizeof text - 1 - text_len, 0)) > 0)
        text_len += (size_t)n;
    text[text_len] = '\0';
    return strncmp(text, "HTTP/1.1 ", 9) == 0 ? atoi(text + 9) : 0;
}

static void say(int fd, const char *what)
{
    CHECK_EQ(send(fd, what, strlen(what), MSG_NOSIGNAL), strlen(what));
}

static int ask(const char *what)
{
    int fd = plain_dial(address);
    say(fd, what);
    int status = hear(fd);
    close(fd);
    return status;
}

#define ASK(path) "GET " path " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

/* How many of the crowd the server has refused; when no other connection is live. */
static int refused_at_rest(void)
{
    int live = 0, refused = 0;
    do {
        int status = ask(ASK("/counts"));
        CHECK(status == 200 || status == 503);
        own += status == 503;
        if (status == 200)
            CHECK_EQ(sscanf(strstr(text, "live "), "live %d refused %d", &live, &refused), 2);
    } while (live != 1);
    return refused - own;
}

/* All at once, in halves: heads in two parts, some of which wait in the server. */
static void crowd(int *ret_refused)
{
    int served = 0, refused = 0;
    for (int i = 0; i < CROWD; i++) {
        sockets[i] = plain_dial(address);
        say(sockets[i], i % 3 ? ASK("/some") : "GET /some HT");
    }
    for (int i = 0; i < CROWD; i += 3)
        send(sockets[i], "TP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 38, MSG_NOSIGNAL);
    for (int i = 0; i < CROWD; i++) {
        int status = hear(sockets[i]);
        served += status == 200;
        refused += status == 503;
        CHECK(status == 200 || status == 503);
        close(sockets[i]);
    }
    CHECK(served >= REQUESTS);
    CHECK_EQ(served + refused, CROWD);
    *ret_refused = refused;
}

static void overload(void)
{
    int refused = 0, before = refused_at_rest();
    long had = counted_now();
    crowd(&refused); /* the code's own pages come */
    before += refused;
    CHECK_EQ(refused_at_rest(), before);
    long size = resident();
    for (int i = 0; i < ROUNDS; i++) {
        crowd(&refused);
        before += refused;
    }
    CHECK_EQ(refused_at_rest(), before);
    CHECK_EQ(ask(ASK("/some")), 200);
    CHECK(text_len > 12000);
    CHECK_EQ(counted_now(), had);
    long more = resident() - size;
    if (more > 0)
        printf("%ld KiB more than after the first crowd\n", more);
    CHECK(CI_ASAN || CI_TSAN || more <= 0);
}

static void *run_client(void *arg)
{
    (void)arg;
    overload();
    coir_runtime_stop(runtime);
    return NULL;
}

/* ---- one run ---- */

static int serve(void *arg)
{
    (void)arg;
    pthread_t thread;
    coir_listener *listener;
    coir_router *router;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    CHECK(coir_listener_local(listener, address, sizeof address) > 0);
    CHECK_EQ(coir_router_new(&router), 0);
    CHECK_EQ(coir_route(router, "GET", "/some", some, NULL), 0);
    CHECK_EQ(coir_route(router, "GET", "/counts", counts, NULL), 0);
    CHECK_EQ(pthread_create(&thread, NULL, run_client, NULL), 0);
    options.listener = listener;
    CHECK_EQ(coir_serve_http_with(&options, router), -ECANCELED);
    pthread_join(thread, NULL);
    coir_listener_close(listener);
    coir_router_free(router);
    return 0;
}

/* The stack of a thread is the program's own; how deep the loop comes there depends on when what
 * happens. */
static __attribute__((noinline)) void touch_stack(void)
{
    volatile char pages[64 * 1024];
    for (size_t i = 0; i < sizeof pages; i += 512)
        pages[i] = 0;
}

static void on(const char *driver, enum coir_at_limit at_limit)
{
    coir_config config = COIR_CONFIG;
    unsetenv("COIR_WORKERS");
    unsetenv("COIR_DRIVER");
    config.driver = driver;
    config.workers = 1;
    config.allocator = &counted;
    own = 0;
    options = (coir_serve_http_options)COIR_SERVE_HTTP_OPTIONS;
    options.connections_max = CONNECTIONS;
    options.requests_max = REQUESTS;
    options.at_limit = at_limit;
    options.fixed_memory = true;
    if (coir_runtime_new(&config, &runtime) < 0) {
        CHECK(strcmp(driver, "io_uring") == 0); /* it does not work here */
        return;
    }
    touch_stack();
    CHECK_EQ(coir_runtime_run(runtime, serve, NULL), 0);
    coir_runtime_free(runtime);
}

TEST(ten_times_the_load_on_io_uring)
{
    on("io_uring", COIR_LIMIT_ANSWERS);
}

TEST(ten_times_the_load_on_epoll)
{
    on("epoll", COIR_LIMIT_ANSWERS);
}

TEST(ten_times_the_load_on_poll)
{
    on("poll", COIR_LIMIT_ANSWERS);
}

TEST(ten_times_the_load_that_waits)
{
    on("epoll", COIR_LIMIT_WAITS);
    on("io_uring", COIR_LIMIT_WAITS);
}
