/* The end of a server: no client whose connection was accepted, or waits in the backlog, is cut
 * off; new clients are refused at once. In the simulator, and on every real driver. */
#include <coir.h>
#include <coir/web.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

enum { WAITING = 20, HAMMERS = 8 };

static coir_listener *listener;
static char address[64];
static bool serving;
static int connected, answered;
static coir_event held, released; /* a request is in /hold; it may be answered */

/* ---- servers ---- */

static int nap(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    int rc = coir_sleep_for(atoi(coir_request_param(req, "ms")) * COIR_MS);
    return rc < 0 ? rc : coir_respond_text(res, 200, "slept");
}

static int hold(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    coir_event_set(&held);
    int rc = coir_event_wait(&released);
    return rc < 0 ? rc : coir_respond_text(res, 200, "held");
}

static size_t connections_max;

static int serve_http(void *arg)
{
    (void)arg;
    coir_router *router;
    coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;
    options.connections_max = connections_max;
    CHECK_EQ(coir_router_new(&router), 0);
    CHECK_EQ(coir_route(router, "GET", "/nap/{ms}", nap, NULL), 0);
    CHECK_EQ(coir_route(router, "GET", "/hold", hold, NULL), 0);
    serving = true;
    options.listener = listener;
    CHECK_EQ(coir_serve_http_with(&options, router), -ECANCELED);
    serving = false;
    coir_router_free(router);
    return 0;
}

/* Answers each line with one. */
static int answer_lines(coir_stream *stream, void *arg)
{
    (void)arg;
    char byte;
    while (coir_read(stream, &byte, 1) > 0)
        if (byte == '\n' && coir_write_all(stream, "200\n", 4) < 0)
            break;
    return 0;
}

static int serve_lines(void *arg)
{
    (void)arg;
    coir_serve_tcp_options options = COIR_SERVE_TCP_OPTIONS;
    options.listener = listener;
    options.drain_timeout = 10 * COIR_S;
    serving = true;
    CHECK_EQ(coir_serve_tcp_with(&options, answer_lines, NULL), -ECANCELED);
    serving = false;
    return 0;
}

/* ---- clients ---- */

/* One request on a connection of its own: 0, or the error of connect. Every connection that was
 * made gets its answer. */
static int ask(const char *path)
{
    char text[1000] = "";
    coir_stream *stream;
    int rc = coir_tcp_connect(address, &stream);
    if (rc < 0)
        return rc;
    connected++;
    int len = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
                       path);
    CHECK_EQ(coir_write_all(stream, text, (size_t)len), 0);
    memset(text, 0, sizeof text);
    CHECK(coir_read(stream, text, sizeof text - 1) > 0);
    CHECK(strstr(text, "200"));
    answered++;
    coir_close(stream);
    return 0;
}

static int ask_once(void *arg)
{
    CHECK_EQ(ask(arg), 0);
    return 0;
}

static int ask_until_refused(void *arg)
{
    (void)arg;
    int rc;
    while ((rc = ask("/nap/0")) == 0)
        continue;
    CHECK_EQ(rc, -ECONNREFUSED);
    return 0;
}

static void listen_anywhere(void)
{
    connected = answered = 0;
    connections_max = 0;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    CHECK(coir_listener_local(listener, address, sizeof address) > 0);
}

/* ---- what is asked ---- */

/* Most clients wait in the backlog as the server is asked to stop, while a request goes on for
 * long. */
static void the_backlog(void)
{
    listen_anywhere();
    connections_max = 1;
    COIR_SCOPE(server);
    COIR_SCOPE(clients);
    coir_go(server, serve_http, NULL);
    coir_go(clients, ask_once, "/nap/300");
    while (connected < 1)
        coir_sleep_for(COIR_MS);
    for (int i = 1; i < WAITING; i++)
        coir_go(clients, ask_once, "/nap/5");
    while (connected < WAITING)
        coir_sleep_for(COIR_MS);
    coir_scope_cancel(server);
    coir_go(clients, ask_until_refused, NULL);
    CHECK_EQ(coir_scope_wait(clients), 0);
    CHECK(answered >= WAITING);
    coir_scope_wait(server);
    coir_listener_close(listener);
}

/* Clients come and go as fast as they can. */
static void be_hammered(coir_task_fn *serve)
{
    listen_anywhere();
    COIR_SCOPE(server);
    COIR_SCOPE(clients);
    coir_go(server, serve, NULL);
    for (int i = 0; i < HAMMERS; i++)
        coir_go(clients, ask_until_refused, NULL);
    while (answered < 40)
        coir_sleep_for(COIR_MS);
    coir_scope_cancel(server);
    CHECK_EQ(coir_scope_wait(clients), 0);
    CHECK_EQ(connected, answered);
    coir_scope_wait(server);
    coir_listener_close(listener);
}

static void http_is_hammered(void)
{
    be_hammered(serve_http);
}

static void lines_are_hammered(void)
{
    be_hammered(serve_lines);
}

/* New clients are refused while a request is still in progress: before it has been answered. */
static void who_comes_late(void)
{
    listen_anywhere();
    COIR_SCOPE(server);
    COIR_SCOPE(clients);
    coir_go(server, serve_http, NULL);
    held = released = (coir_event)COIR_EVENT_INIT;
    coir_go(clients, ask_once, "/hold");
    CHECK_EQ(coir_event_wait(&held), 0);
    coir_scope_cancel(server);
    ask_until_refused(NULL);
    CHECK(serving);
    coir_event_set(&released);
    CHECK_EQ(coir_scope_wait(clients), 0);
    coir_scope_wait(server);
    coir_listener_close(listener);
}

/* ---- where it is asked ---- */

static void (*asked)(void);
static char log_text[1000];

static void keep_log(enum coir_log_level level, const char *line, void *context)
{
    (void)context;
    if (level == COIR_LOG_INFO)
        snprintf(log_text, sizeof log_text, "%s", line);
}

static int run_asked(void *arg)
{
    (void)arg;
    asked();
    return 0;
}

static void everywhere(void (*what)(void), int rounds)
{
    static const char *const drivers[] = {"io_uring", "epoll", "poll"};
    unsetenv("COIR_WORKERS");
    unsetenv("COIR_DRIVER");
    for (uint64_t seed = 1; seed <= 20; seed++)
        test_in_sim(what, seed % 2 + 1, seed);
    asked = what;
    for (int i = 0; i < 3; i++)
        for (unsigned workers = 1; workers <= 2; workers++)
            for (int round = 0; round < rounds; round++) {
                coir_config config = COIR_CONFIG;
                coir_runtime *runtime;
                config.driver = drivers[i];
                config.workers = workers;
                config.log = keep_log;
                int rc = coir_runtime_new(&config, &runtime);
                if (rc < 0 && i == 0)
                    break; /* io_uring does not work here */
                CHECK_EQ(rc, 0);
                CHECK_EQ(coir_runtime_run(runtime, run_asked, NULL), 0);
                coir_runtime_free(runtime);
            }
}

TEST(who_waits_in_the_backlog_is_served)
{
    everywhere(the_backlog, 1);
}

TEST(nobody_is_cut_off_by_an_http_server_that_stops)
{
    everywhere(http_is_hammered, 1);
}

TEST(nobody_is_cut_off_by_a_server_that_stops)
{
    everywhere(lines_are_hammered, 1);
}

TEST(who_comes_late_is_refused)
{
    unsigned left = 0;
    int len = 0;
    everywhere(who_comes_late, 1);
    /* The second worker may have taken a late client's request before it heard of the stop. */
    CHECK_EQ(sscanf(log_text, "stopping, %u request%n", &left, &len), 1);
    CHECK(left == 1 ? strcmp(log_text + len, " left") == 0 : strcmp(log_text + len, "s left") == 0);
    CHECK(left >= 1);
}
