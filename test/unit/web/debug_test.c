/* The routes of coir_route_debug: what they answer, and whom. */
#include <coir.h>
#include <coir/debug.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "sys/misuse.h"

static coir_router *router;
static coir_listener *listener;
static char address[64], answer[1 << 20];

static int serve(void *arg)
{
    (void)arg;
    coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;
    options.listener = listener;
    return coir_serve_http_with(&options, router);
}

/* The status; the whole is in `answer`. */
static int ask(const char *line, const char *headers)
{
    char request[500];
    coir_stream *stream;
    size_t len = 0;
    ssize_t n;
    CHECK_EQ(coir_tcp_connect(address, &stream), 0);
    snprintf(request, sizeof request, "%s HTTP/1.1\r\n%sConnection: close\r\n\r\n", line, headers);
    CHECK_EQ(coir_write_all(stream, request, strlen(request)), 0);
    while ((n = coir_read(stream, answer + len, sizeof answer - 1 - len)) > 0)
        len += (size_t)n;
    answer[len] = '\0';
    coir_close(stream);
    int status = 0;
    CHECK_EQ(sscanf(answer, "HTTP/1.1 %d", &status), 1);
    return status;
}

static void with_server(void (*fn)(void), bool traces)
{
    CHECK_EQ(coir_router_new(&router), 0);
    CHECK_EQ(coir_route_debug(router, "/debug/", "<p>a page", traces), 0);
    CHECK_EQ(coir_route_metrics(router, "/metrics"), 0);
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    CHECK_EQ(coir_listener_local(listener, address, sizeof address) > 0, 1);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, serve, NULL), 0);
    fn();
    coir_scope_cancel(scope);
    coir_scope_wait(scope);
    coir_router_free(router);
}

static void look(void)
{
    CHECK_EQ(ask("GET /debug/", "Host: localhost:80\r\n"), 200);
    CHECK(strstr(answer, "<p>a page"));
    CHECK(strstr(answer, "\r\nContent-Security-Policy: default-src 'self' "));
    CHECK_EQ(ask("GET /debug/tasks", "Host: localhost\r\n"), 200);
    CHECK(strstr(answer, "\"threadDump\"") && strstr(answer, "\"name\":\"http connection\""));
    CHECK(strstr(answer, "\"kind\":\"offloaded work\"")); /* the connection that asks */
    CHECK_EQ(ask("GET /debug/metrics", "Host: 127.0.0.1:8080\r\n"), 200);
    CHECK(strstr(answer, "\ncoir_http_requests_total 3\n"));
    CHECK(strstr(answer, "\ncoir_tasks_live{worker=\"0\"} "));
    CHECK_EQ(ask("POST /debug/trace", "Host: localhost\r\n"), 404);
}

static void ask_for_metrics(void)
{
    CHECK_EQ(ask("GET /metrics", "Host: www.example.org\r\n"), 200);
    CHECK(strstr(answer, "\r\nContent-Type: text/plain; version=0.0.4\r\n"));
    CHECK(strstr(answer, "\ncoir_http_requests_total 1\n"));
    CHECK(strstr(answer, "\n# TYPE coir_http_refused_total counter\ncoir_http_refused_total 0\n"));
    CHECK(strstr(answer, "\ncoir_tasks_live{worker=\"0\"} "));
}

TEST_REAL(the_metrics_for_all)
{
    with_server(ask_for_metrics, false);
}

TEST_REAL(a_page_and_the_metrics)
{
    with_server(look, false);
}

static void be_refused(void)
{
    static const char *const hosts[] = {"evil.example", "localhost.evil.example", "127.0.0.1.evil",
                                        "localhostess:80"};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        char header[100];
        snprintf(header, sizeof header, "Host: %s\r\n", hosts[i]);
        CHECK_EQ(ask("GET /debug/", header), 403);
        CHECK_EQ(ask("GET /debug/metrics", header), 403);
        CHECK_EQ(ask("GET /debug/events", header), 403);
        CHECK_EQ(ask("GET /debug/tasks", header), 403);
        CHECK_EQ(ask("POST /debug/trace", header), 403);
    }
    CHECK_EQ(ask("POST /debug/trace", "Host: localhost\r\nOrigin: http://evil.example\r\n"), 403);
    CHECK_EQ(ask("POST /debug/trace?ms=0", "Host: localhost\r\n"), 400);
    CHECK_EQ(ask("POST /debug/trace?ms=10001", "Host: localhost\r\n"), 400);
}

TEST_REAL(names_and_pages_of_others_are_refused)
{
    with_server(be_refused, true);
}

static void trace(void)
{
    CHECK_EQ(ask("POST /debug/trace?ms=1", "Host: localhost\r\nOrigin: http://localhost\r\n"), 200);
    CHECK(strstr(answer, "\"traceEvents\":["));
    CHECK_EQ(coir_trace_start(0), 0);
    CHECK_EQ(ask("POST /debug/trace?ms=1", "Host: localhost\r\n"), 409);
    CHECK_EQ(coir_trace_stop(), 0);
    CHECK_EQ(coir_recorder_start(), 0);
    CHECK_EQ(ask("POST /debug/trace", "Host: localhost\r\n"), 200);
    CHECK(strstr(answer, "\"traceEvents\":["));
    CHECK_EQ(coir_recorder_stop(), 0);
}

TEST_REAL(a_trace_is_recorded)
{
    with_server(trace, true);
}

static void follow(void)
{
    static const char request[] = "GET /debug/events HTTP/1.1\r\nHost: localhost\r\n\r\n";
    coir_stream *stream;
    size_t len = 0;
    ssize_t n;
    CHECK_EQ(coir_tcp_connect(address, &stream), 0);
    CHECK_EQ(coir_write_all(stream, request, sizeof request - 1), 0);
    do {
        n = coir_read(stream, answer + len, sizeof answer - 1 - len);
        CHECK(n > 0);
        len += (size_t)n;
        answer[len] = '\0';
    } while (!strstr(answer, "data: coir_http_requests_total 1"));
    CHECK(strstr(answer, "text/event-stream"));
    coir_close(stream);
}

TEST_REAL(events_have_the_metrics)
{
    with_server(follow, false);
}

TEST_REAL(a_prefix_begins_and_ends_with_a_slash)
{
    coir_router *mine;
    CHECK_EQ(coir_router_new(&mine), 0);
    ci_misuse_aborts = false;
    CHECK_EQ(coir_route_debug(mine, "/debug", NULL, false), -EINVAL);
    CHECK_EQ(coir_route_debug(mine, "debug/", NULL, false), -EINVAL);
    CHECK_EQ(coir_route_debug(mine, "/debug/", NULL, false), 0);
    coir_router_free(mine);
}
