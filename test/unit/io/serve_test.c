/* Servers: a shortage of descriptors, errors of connections, and the limit of connections a
 * worker. */
#include <coir.h>
#include <coir/web.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "echo.h"
#include "harness.h"

/* ---- raw connections ---- */

static char raw_address[64]; /* of the server of raw connections; empty until it listens */

static int serve_raw(coir_connection_fn *fn)
{
    coir_listener *raw;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &raw), 0);
    coir_listener_local(raw, raw_address, sizeof raw_address);
    int rc = coir_serve_tcp_with(TCP_ON(raw), fn, NULL);
    coir_listener_close(raw);
    return rc;
}

static int echo_server(void *arg)
{
    (void)arg;
    return serve_raw(echo);
}

/* Out of descriptors, accepting backs off without spinning, and goes on by itself when there are
 * some again. */
TEST_REAL(emfile_backs_off_and_recovers)
{
    int taken[64], count = 0;
    coir_stream *client;
    char byte;
    COIR_SERVING_SCOPE(scope);
    coir_go(scope, echo_server, NULL);
    while (!raw_address[0]) /* until it listens */
        coir_yield();
    /* its number is freed for the client below */
    int socket_for_client = socket(AF_INET, SOCK_STREAM, 0);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    struct rlimit few = {(rlim_t)socket_for_client + 1, limit.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
    while (count < 64 && (taken[count] = dup(0)) >= 0)
        count++;
    close(socket_for_client);
    /* the kernel connects it; no worker can accept it */
    CHECK_EQ(coir_tcp_connect(raw_address, &client), 0);
    CHECK_EQ(coir_write_all(client, "x", 1), 0);
    coir_counters before = COIR_COUNTERS, after = COIR_COUNTERS;
    coir_counters_get(coir_runtime_current(), &before);
    {
        COIR_DEADLINE(coir_in(250 * COIR_MS));
        CHECK_EQ(coir_read(client, &byte, 1), -ETIME);
    }
    coir_counters_get(coir_runtime_current(), &after);
    CHECK(after.driver_waits - before.driver_waits < 50); /* no spinning */
    setrlimit(RLIMIT_NOFILE, &limit);
    COIR_DEADLINE(coir_in(30 * COIR_S));
    CHECK_EQ(coir_read(client, &byte, 1), 1);
    coir_close(client);
    while (count)
        close(taken[--count]);
}

static int fail_for_a(coir_stream *stream, void *arg)
{
    char byte;
    (void)arg;
    if (coir_read(stream, &byte, 1) != 1)
        return -ENODATA;
    if (byte == 'a')
        return -EBADMSG;
    int rc = coir_write_all(stream, &byte, 1);
    return rc < 0 ? rc : (int)coir_read(stream, &byte, 1);
}

static int failing_server(void *arg)
{
    (void)arg;
    return serve_raw(fail_for_a);
}

TEST_REAL(one_handlers_error_never_touches_the_others)
{
    coir_stream *good, *bad;
    char byte;
    COIR_SERVING_SCOPE(scope);
    coir_go(scope, failing_server, NULL);
    while (!raw_address[0]) /* until it listens */
        coir_yield();
    CHECK_EQ(coir_tcp_connect(raw_address, &good), 0);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(coir_tcp_connect(raw_address, &bad), 0);
        CHECK_EQ(coir_write_all(bad, "a", 1), 0);
        CHECK_EQ(coir_read(bad, &byte, 1), 0); /* closed */
        coir_close(bad);
    }
    CHECK_EQ(coir_write_all(good, "b", 1), 0);
    CHECK_EQ(coir_read(good, &byte, 1), 1);
    coir_close(good);
    coir_counters counters = COIR_COUNTERS;
    coir_yield();
    coir_counters_get(coir_runtime_current(), &counters);
    CHECK(counters.task_errors >= 20);
}

/* ---- the limit of connections a worker: another worker takes what one cannot; what none can take
 * waits in the backlog ---- */

static int hello(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    return coir_respond_text(res, 200, "worker %d", coir_worker_index());
}

static coir_listener *listener;

static int serve(void *arg)
{
    coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;
    options.connections_max = 1;
    options.listener = listener;
    return coir_serve_http_with(&options, arg);
}

static coir_stream *dial(const char *address)
{
    coir_stream *stream;
    CHECK_EQ(coir_tcp_connect(address, &stream), 0);
    return stream;
}

/* The number of the worker that answers, or the error. The answer may come in pieces. */
static int ask(coir_stream *stream)
{
    static const char text[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    char buf[500] = "";
    const char *said = NULL;
    ssize_t n = coir_write_all(stream, text, sizeof text - 1);
    for (size_t len = 0; n >= 0 && (!(said = strstr(buf, "worker ")) || !said[7]);) {
        n = coir_read(stream, buf + len, sizeof buf - 1 - len);
        CHECK(n != 0);
        len += n > 0 ? (size_t)n : 0;
    }
    return n < 0 ? (int)n : said[7] - '0';
}

static int wait_for_answer(coir_stream *stream)
{
    char buf[500];
    ssize_t n = coir_read(stream, buf, sizeof buf);
    return n < 0 ? (int)n : 0;
}

static void fill(void)
{
    char address[64];
    coir_router *router;
    CHECK_EQ(coir_router_new(&router), 0);
    CHECK_EQ(coir_route(router, "GET", "/", hello, NULL), 0);
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    coir_listener_local(listener, address, sizeof address);
    {
        COIR_DEADLINE(coir_in(30 * COIR_S));
        COIR_SERVING_SCOPE(servers);
        coir_go(servers, serve, router);
        for (int round = 0; round < 20; round++) {
            coir_stream *first = dial(address), *second = dial(address), *third;
            int a = ask(first), b = ask(second);
            if (a < 0 || b < 0 || a == b) /* one each */
                test_fail(__FILE__, __LINE__, "round %d: the first got %d, the second %d", round, a,
                          b);
            third = dial(address);
            {
                COIR_DEADLINE(coir_in(20 * COIR_MS));
                CHECK_EQ(ask(third), -ETIME); /* it waits in the backlog */
            }
            coir_close(first);
            CHECK_EQ(wait_for_answer(third), 0); /* and is taken when there is room */
            coir_close(second);
            coir_close(third);
        }
    }
    coir_listener_close(listener);
    coir_router_free(router);
}

TEST(what_one_worker_cannot_take_another_does_or_waits)
{
    test_in_runtime(fill, 2);
}

/* ---- layers that are complete while there is no room for a task ---- */

enum { TASKS = 16 };
static coir_event layers_end = COIR_EVENT_INIT;

static int layer_that_waits(coir_stream *transport, coir_stream **ret_stream, void *arg)
{
    (void)arg;
    int rc = coir_event_wait(&layers_end);
    if (rc == 0)
        *ret_stream = transport;
    return rc;
}

static int layered_server(void *arg)
{
    coir_listener *own;
    (void)arg;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &own), 0);
    coir_listener_local(own, raw_address, sizeof raw_address);
    coir_serve_tcp_options options = COIR_SERVE_TCP_OPTIONS;
    options.listener = own;
    options.layer = layer_that_waits;
    int rc = coir_serve_tcp_with(&options, echo, NULL);
    coir_listener_close(own);
    return rc;
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

/* In the order in which they are answered: one that is served keeps its task until it closes, and
 * others may wait for that. How many were served. */
static int take_answers(coir_stream **clients, int count)
{
    int served = 0;
    char byte;
    while (count > 0) {
        coir_case waits[TASKS];
        for (int i = 0; i < count; i++)
            waits[i] = coir_case_stream(clients[i], COIR_READ);
        int which = coir_select(waits, (size_t)count);
        CHECK(which >= 0);
        ssize_t n = coir_read(clients[which], &byte, 1);
        CHECK(n == 1 || n == 0 || n == -ECONNRESET);
        served += n == 1;
        coir_close(clients[which]);
        clients[which] = clients[--count];
    }
    return served;
}

/* Every task that the worker may have is one that waits for room for another. */
static int fill_with_layers(void *arg)
{
    coir_stream *clients[TASKS];
    (void)arg;
    COIR_DEADLINE(coir_in(60 * COIR_S));
    COIR_SERVING_SCOPE(scope);
    CHECK_EQ(coir_go(scope, layered_server, NULL), 0);
    while (!raw_address[0])
        coir_yield();
    for (int i = 0; i < TASKS; i++) {
        CHECK_EQ(coir_tcp_connect(raw_address, &clients[i]), 0);
        CHECK_EQ(coir_write_all(clients[i], "x", 1), 0);
    }
    while (coir_go(scope, nothing, NULL) != -EAGAIN)
        CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    coir_event_set(&layers_end);
    CHECK(take_answers(clients, TASKS) > 0);
    coir_scope_cancel(scope);
    return coir_scope_wait(scope);
}

TEST(layers_that_wait_for_room_do_not_wait_for_each_other)
{
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.tasks_max = TASKS;
    CHECK_EQ(test_run(&config, fill_with_layers, NULL), 0);
}
