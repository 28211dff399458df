/* When an answer ends the connection, and that such an end resets no client: on real sockets and in
 * the simulator. */
#include <coir/web.h>
#include <stdio.h>

#include "client.h"

static coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;
static coir_scope *servers;
static coir_event go_on;

static int hello(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    return coir_respond_text(res, 200, "hello");
}

/* Sends back what it reads, while it reads; in chunks where the length is unknown. */
static int echo(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    char buf[1000];
    ssize_t n = coir_request_read(req, buf, sizeof buf);
    int64_t length = coir_request_length(req);
    int rc = n < 0 ? (int)n : coir_response_begin(res, 200, "text/plain", length);
    while (rc == 0 && n > 0) {
        rc = coir_response_write(res, buf, (size_t)n);
        if (rc == 0 && (n = coir_request_read(req, buf, sizeof buf)) < 0)
            rc = (int)n;
    }
    return rc;
}

/* Reads one byte, and answers piece by piece. */
static int pieces(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    char byte;
    ssize_t n = coir_request_read(req, &byte, 1);
    int rc = n < 0 ? (int)n : coir_response_begin(res, 200, "text/plain", 2);
    return rc < 0 ? rc : coir_response_write(res, "ok", 2);
}

/* Reads one byte, and answers at once. */
static int whole(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    char byte;
    ssize_t n = coir_request_read(req, &byte, 1);
    return n < 0 ? (int)n : coir_respond_text(res, 200, "ok");
}

static int patient(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    int rc = coir_event_wait(&go_on);
    return rc < 0 ? rc : hello(req, res, arg);
}

static int fails(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    const char *body;
    ssize_t n = coir_request_body(req, 100, &body);
    (void)res;
    return n < 0 ? (int)n : -EBADMSG;
}

/* Answers, and fails then. */
static int fails_late(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    int rc = hello(req, res, arg);
    return rc < 0 ? rc : -EBADMSG;
}

/* Answers before it reads. */
static int eager(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    const char *body;
    int rc = hello(req, res, arg);
    ssize_t n = rc < 0 ? rc : coir_request_body(req, SIZE_MAX, &body);
    return n < 0 ? (int)n : 0;
}

static int stops_the_server(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_scope_cancel(servers);
    int rc = coir_sleep_for(COIR_MS); /* the server drains now */
    return rc < 0 ? rc : hello(req, res, arg);
}

static const struct route routes[] = {
    {"GET", "/hello", hello},
    {"POST", "/hello", hello},
    {"POST", "/echo", echo},
    {"POST", "/pieces", pieces},
    {"POST", "/whole", whole},
    {"POST", "/patient", patient},
    {"POST", "/fails", fails},
    {"POST", "/fails-late", fails_late},
    {"POST", "/eager", eager},
    {"GET", "/stop", stops_the_server},
    {0},
};

static int serve(void *arg)
{
    (void)arg;
    return serve_routes(routes, &options);
}

static void beside_server(void (*client)(void))
{
    COIR_SCOPE(scope);
    servers = scope;
    coir_event_reset(&go_on);
    CHECK_EQ(coir_go(scope, serve, NULL), 0);
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    client();
    coir_scope_cancel(scope);
    CHECK_EQ(coir_scope_wait(scope), 0);
}

/* ---- it goes on ---- */

static void receive_until(coir_stream *stream, const char *end)
{
    ssize_t n = 1;
    for (answer_len = 0; answer_len < strlen(end) || !strstr(answer, end);) {
        n = coir_read(stream, answer + answer_len, 10000);
        if (n <= 0)
            test_fail(__FILE__, __LINE__, "%d, and no %s in %s", (int)n, end, answer);
        answer_len += (size_t)n;
        answer[answer_len] = '\0';
    }
}

static void expect_kept(coir_stream *stream, const char *end)
{
    receive_until(stream, end);
    send_text(stream, GET("/hello"));
    if (!strstr(answer, "Connection: close"))
        receive_until(stream, "hello");
    if (strstr(answer, "Connection: close"))
        test_fail(__FILE__, __LINE__, "an answer says close: %s", answer);
    coir_close(stream);
}

#define EXPECTS(path, length)                                      \
    "POST " path " HTTP/1.1\r\nHost: a\r\nContent-Length: " length \
    "\r\nExpect: 100-continue\r\n\r\n"

static void expect_without_waiting(void)
{
    coir_stream *stream = dial();
    send_text(stream, EXPECTS("/hello", "3") "abc");
    expect_kept(stream, "hello");
    stream = dial();
    send_text(stream, EXPECTS("/hello", "3") "a");
    send_text(stream, "bc");
    expect_kept(stream, "hello");
    stream = dial();
    send_text(stream, EXPECTS("/echo", "3") "abc");
    expect_kept(stream, "abc");
    stream = dial();
    send_text(stream, EXPECTS("/whole", "3") "abc");
    expect_kept(stream, "ok");
    stream = dial();
    send_text(stream, EXPECTS("/patient", "3"));
    send_text(stream, "abc");
    coir_event_set(&go_on);
    expect_kept(stream, "hello");
}

TEST_REAL(a_body_that_did_not_wait_for_its_100_keeps_the_connection)
{
    beside_server(expect_without_waiting);
}

TEST_SIM(a_body_that_did_not_wait_for_its_100_keeps_the_connection_in_the_simulator)
{
    beside_server(expect_without_waiting);
}

enum { LONG = 1000000 };

/* The answer begins long before the request's end. */
static void expect_echo(void)
{
    static char text[LONG + 1];
    coir_stream *stream = dial();
    send_text(stream,
              "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
    receive_until(stream, "one\r\n");
    CHECK(!strstr(answer, "Connection: close"));
    send_text(stream, "3\r\ntwo\r\n0\r\n\r\n");
    expect_kept(stream, "two\r\n0\r\n\r\n");
    stream = dial();
    send_text(stream, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nfirst");
    receive_until(stream, "first");
    CHECK(!strstr(answer, "Connection: close"));
    memset(text, 'y', LONG - 5);
    memcpy(text + LONG - 9, "last", 4);
    for (size_t sent = 0; sent < LONG - 5; sent += 995) {
        size_t n = LONG - 5 - sent < 995 ? LONG - 5 - sent : 995;
        send_bytes(stream, text + sent, n);
        for (size_t got = 0; got < n;)
            got += (size_t)coir_read(stream, answer, n - got);
    }
    *answer = '\0';
    send_text(stream, GET("/hello"));
    receive_until(stream, "hello");
    CHECK(!strstr(answer, "Connection: close"));
    coir_close(stream);
}

TEST_REAL(an_echo_of_a_body_on_its_way_keeps_the_connection)
{
    beside_server(expect_echo);
}

/* A handler that answers at once, or has read nothing yet, is not expected to read the rest. */
static void expect_announced(void)
{
    static const char *const heads[] = {
        "POST /whole HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nx",
        "POST /whole HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
        "POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nx",
        EXPECTS("/hello", "3"),
    };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        coir_stream *stream = dial();
        send_text(stream, heads[i]);
        receive_all(stream);
        if (status(answer) != 200 || !strstr(answer, "Connection: close"))
            test_fail(__FILE__, __LINE__, "%s: %s", heads[i], answer);
        coir_close(stream);
    }
}

TEST_REAL(an_answer_that_leaves_a_body_unread_says_close)
{
    beside_server(expect_announced);
}

/* ---- it ends ---- */

/* Sends more requests once the answer has begun; then reads all of it, and the end. */
static void send_behind(const char *request, const char *end)
{
    coir_stream *stream = dial();
    send_text(stream, request);
    ssize_t n = coir_read(stream, answer, 1), rc = 0;
    answer_len = (size_t)n;
    for (int i = 0; i < 10 && rc == 0; i++) {
        static const char more[] = GET("/hello");
        rc = coir_write_all(stream, more, sizeof more - 1);
    }
    while (n > 0 && (n = coir_read(stream, answer + answer_len, 10000)) > 0)
        answer_len += (size_t)n;
    answer[answer_len] = '\0';
    if (rc < 0 || n < 0 || !strstr(answer, end) || occurrences(answer, "HTTP/1.1") != 1)
        test_fail(__FILE__, __LINE__, "%s%d, %d: %s", request, (int)rc, (int)n, answer);
    coir_close(stream);
}

static void expect_no_reset(void)
{
    send_behind("POST /fails HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx",
                "500 Internal Server Error\n");
    send_behind("POST /fails-late HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx", "hello");
    send_behind("POST /eager HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
                "hello");
    send_behind("POST /pieces HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nx", "ok");
    send_behind("GET /stop HTTP/1.1\r\nHost: a\r\n\r\n", "hello");
}

TEST_REAL(requests_behind_an_end_of_the_servers_reset_nobody)
{
    options.body_timeout = COIR_NEVER; /* the rest of a body is not waited for */
    beside_server(expect_no_reset);
}
