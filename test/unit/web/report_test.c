/* What is said about handlers and connections that fail, and how often. */
#include <coir/web.h>
#include <stdio.h>

#include "client.h"

static char lines[200][512];
static int line_count;

static void keep_line(enum coir_log_level level, const char *line, void *context)
{
    (void)context;
    if (level <= COIR_LOG_WARNING && line_count < 200)
        snprintf(lines[line_count++], sizeof *lines, "%s", line);
}

/* ---- handlers ---- */

static int returns(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)res;
    coir_task_set_name("a name");
    return atoi(coir_request_param(req, "number"));
}

static int answers_and_returns(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    int rc = coir_respond_text(res, 200, "ok");
    CHECK_EQ(rc, 0);
    return atoi(coir_request_param(req, "number"));
}

static int too_short(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    coir_response_begin(res, 200, "text/plain", 100);
    return coir_response_write(res, "short", 5);
}

static int reads(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    char buf[100];
    ssize_t n;
    while ((n = coir_request_read(req, buf, sizeof buf)) > 0)
        continue;
    return n < 0 ? (int)n : coir_respond_text(res, 200, "ok");
}

static int streams(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    static char piece[10000];
    (void)req;
    int rc = coir_response_begin(res, 200, "text/plain", -1);
    while (rc == 0)
        rc = coir_response_write(res, piece, sizeof piece);
    return rc;
}

static const struct route routes[] = {
    {"GET", "/returns/{number}", returns}, {"GET", "/answers/{number}", answers_and_returns},
    {"GET", "/short", too_short},          {"POST", "/reads", reads},
    {"GET", "/streams", streams},          {0},
};

static int serve(void *arg)
{
    (void)arg;
    return serve_routes(routes, NULL);
}

/* ---- one runtime with a log ---- */

static void (*body)(void);

static int run_body(void *server)
{
    return with_server(*(coir_task_fn **)server, body);
}

static void run_logged(coir_task_fn *server, void (*test)(void))
{
    coir_runtime *runtime;
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.log = keep_line;
    unsetenv("COIR_WORKERS");
    body = test;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    CHECK_EQ(coir_runtime_run(runtime, run_body, &server), 0);
    coir_runtime_free(runtime);
}

static void expect_line(const char *start, const char *end)
{
    const char *line = line_count ? lines[line_count - 1] : "none";
    size_t len = strlen(line), end_len = strlen(end);
    if (line_count != 1 || strncmp(line, start, strlen(start)) != 0 || len < end_len ||
        strcmp(line + len - end_len, end) != 0)
        test_fail(__FILE__, __LINE__, "%d lines: %s", line_count, line);
    line_count = 0;
}

static void fail_in_every_way(void)
{
    CHECK_EQ(status(ask(GET("/returns/-5?query"))), 500);
    expect_line(
        "GET /returns/-5 from 127.0.0.1:",
        ": its handler failed: Input/output error (error 5); the client gets 500 (task a name)");
    CHECK_EQ(status(ask(GET("/returns/-99999"))), 500);
    expect_line(
        "GET /returns/-99999 from ",
        ": its handler failed: unknown error (error 99999); the client gets 500 (task a name)");
    CHECK_EQ(status(ask(GET("/returns/-2147483648"))), 500);
    expect_line("GET /returns/-2147483648 from ", ": its handler failed: unknown error (error "
                                                  "2147483648); the client gets 500 (task a name)");
    CHECK_EQ(status(ask(GET("/returns/404"))), 500);
    expect_line(
        "GET /returns/404 from 127.0.0.1:",
        ": its handler returned 404; return 0 or a negative error (a status is an argument of "
        "coir_respond); the client gets 500 (task a name)");
    CHECK_EQ(status(ask("HEAD /returns/0 HTTP/1.1\r\nHost: a\r\n\r\n")), 500);
    expect_line(
        "HEAD /returns/0 from ",
        ": its handler returned 0 without an answer: call coir_respond or coir_response_begin; "
        "the client gets 500 (task a name)");
    CHECK_EQ(status(ask(GET("/answers/-5"))), 200);
    expect_line("GET /answers/-5 from ",
                ": its handler failed: Input/output error (error 5) (task http connection)");
    CHECK_EQ(status(ask(GET("/answers/200"))), 200);
    expect_line("GET /answers/200 from ",
                "(a status is an argument of coir_respond) (task http connection)");
    CHECK_EQ(status(ask(GET("/short"))), 200);
    expect_line("GET /short from ", ": its answer is 95 bytes shorter than the length given to "
                                    "coir_response_begin (task http connection)");
}

TEST(handlers_that_fail_or_misuse_are_named)
{
    run_logged(serve, fail_in_every_way);
    CHECK_EQ(line_count, 0);
}

/* No client can fill the log by what it sends, or by leaving. */
static void misbehave(void)
{
    ask(GET("/none"));
    ask("POST /returns/1 HTTP/1.1\r\nHost: a\r\n\r\n");
    ask("\r\nbad\r\n\r\n");
    ask("POST /reads HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx");
    ask("POST /reads HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    CHECK_EQ(
        status(ask(
            "POST /reads HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n")),
        400);
    for (int i = 0; i < 5; i++) {
        coir_http_counters counters = COIR_HTTP_COUNTERS;
        coir_stream *stream = dial();
        send_text(stream, GET("/streams"));
        CHECK(coir_read(stream, answer, 100) > 0);
        coir_close(stream); /* with more to be read: a reset */
        do {
            coir_sleep_for(COIR_MS);
            coir_http_counters_get(&counters);
        } while (counters.connections_live);
    }
}

TEST(clients_that_misbehave_are_not_logged)
{
    run_logged(serve, misbehave);
    if (line_count)
        test_fail(__FILE__, __LINE__, "%d lines: %s", line_count, lines[0]);
}

enum { FAILURES = 1000 };

static void fail_often(void)
{
    coir_stream *stream = dial();
    for (int i = 0; i < FAILURES; i++) {
        send_text(stream, GET("/answers/1"));
        CHECK(coir_read(stream, answer, 1000) > 0);
    }
    coir_close(stream);
}

/* Ten a second; each of the others is counted by a line of its own, at the latest when the runtime
 * is freed. */
TEST(of_many_warnings_most_are_only_counted)
{
    coir_time start = coir_now();
    run_logged(serve, fail_often);
    long seconds = (long)((coir_now() - start) / COIR_S) + 2, told = 0;
    CHECK(line_count <= 11 * seconds);
    for (int i = 0; i < line_count; i++) {
        unsigned long long suppressed = 0;
        if (sscanf(lines[i], "worker 0: %llu more warnings suppressed within one second",
                   &suppressed) == 1)
            CHECK(suppressed > 0);
        told += suppressed ? (long)suppressed : 1;
    }
    CHECK_EQ(told, FAILURES);
}

/* ---- plain connections ---- */

static int quit(coir_stream *stream, void *arg)
{
    char byte = 0;
    (void)arg;
    coir_read(stream, &byte, 1);
    return byte - 'a';
}

static int serve_plainly(void *arg)
{
    coir_listener *listener;
    (void)arg;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    coir_listener_local(listener, server_address, sizeof server_address);
    int rc = coir_serve_tcp_with(TCP_ON(listener), quit, NULL);
    coir_listener_close(listener);
    return rc;
}

static void end_in_every_way(void)
{
    ask("a");
    CHECK_EQ(line_count, 0);
    ask("\\"); /* 5 before a */
    expect_line("connection from 127.0.0.1:",
                " ended with an error: Input/output error (error 5, task connection)");
    ask("b");
    expect_line("connection from 127.0.0.1:",
                ": its function returned 1; return 0 or a negative error (task connection)");
}

TEST(connections_that_fail_are_named)
{
    run_logged(serve_plainly, end_in_every_way);
}
