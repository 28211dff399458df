/* The HTTP server in the simulated world: real handlers, virtual network and time. What happens on
 * real sockets is in test/e2e. */
#include <coir.h>
#include <coir/sim.h>
#include <coir/web.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "harness.h"

/* ---- the server under test ---- */

static int handlers_cancelled, handlers_running;

static int hello(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    const char *name = coir_request_param(req, "name");
    return coir_respond_text(res, 200, "Hello, %s!", name ? name : "World");
}

static int echo(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    char buf[3000];
    ssize_t n = 1, len = 0;
    while (n > 0 && len < (ssize_t)sizeof buf) {
        /* a small body is there before the answer begins */
        if ((n = coir_request_read(req, buf + len, sizeof buf - (size_t)len)) < 0)
            return (int)n;
        len += n;
    }
    n = len;
    int rc = coir_response_begin(res, 200, "text/plain", coir_request_length(req));
    while (rc == 0 && n > 0)
        if ((rc = coir_response_write(res, buf, (size_t)n)) == 0 &&
            (n = coir_request_read(req, buf, sizeof buf)) < 0)
            rc = (int)n;
    return rc;
}

static int nap(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    handlers_running++;
    int rc = coir_sleep_for(atoi(coir_request_param(req, "ms")) * COIR_MS);
    handlers_running--;
    if (rc < 0) {
        handlers_cancelled++;
        return rc;
    }
    return coir_respond_text(res, 200, "slept");
}

static int nap_if_there(coir_request *req, coir_response *res, void *arg);

static int big(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    static char piece[10000];
    int64_t left = atoll(coir_request_param(req, "bytes"));
    int rc = coir_response_begin(res, 200, "application/octet-stream", left);
    memset(piece, 'b', sizeof piece);
    while (rc == 0 && left > 0) {
        size_t n = left < (int64_t)sizeof piece ? (size_t)left : sizeof piece;
        rc = coir_response_write(res, piece, n);
        left -= (int64_t)n;
    }
    return rc;
}

static int broken(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    (void)res;
    return -EBADMSG;
}

static int says_nothing(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    (void)res;
    return 0;
}

static int too_short(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    coir_response_begin(res, 200, "text/plain", 100);
    return coir_response_write(res, "short", 5);
}

static int fields(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    CHECK_EQ(coir_response_add_header(res, "X-Bad", "a\r\nSet-Cookie: b"), -EINVAL);
    CHECK_EQ(coir_response_add_header(res, "Bad Name", "a"), -EINVAL);
    CHECK_EQ(coir_response_add_header(res, "Content-Length", "5"), -EINVAL);
    CHECK_EQ(coir_response_add_header(res, "X-Good", coir_request_query_value(req, "v")), 0);
    CHECK_EQ(coir_response_begin(res, 200, NULL, -2), -EINVAL);
    CHECK_EQ(coir_response_begin(res, 200, NULL, INT64_MIN), -EINVAL);
    int rc = coir_respond(res, 200, NULL, NULL, 0);
    CHECK_EQ(coir_respond_text(res, 200, "again"), -EALREADY);
    CHECK_EQ(coir_response_add_header(res, "X-Late", "x"), -EALREADY);
    return rc;
}

static int chunks(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    int rc = coir_response_begin(res, 200, "text/plain", -1);
    if (rc == 0)
        rc = coir_response_write(res, "one", 3);
    if (rc == 0)
        rc = coir_sleep_for(COIR_S);
    return rc < 0 ? rc : coir_response_write(res, "two", 3);
}

static int slash(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    return coir_respond_text(res, 200, "slash");
}

static int star(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    return coir_respond_text(res, 200, "star");
}

/* A Content-Type of so many bytes, beside another field. */
static int long_type(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    char type[10000];
    int len = snprintf(type, sizeof type, "a/%0*d", atoi(coir_request_param(req, "bytes")) - 2, 0);
    CHECK_EQ(coir_response_add_header(res, "X", "y"), 0); /* 6 bytes */
    int rc = coir_respond(res, 200, type, "it", 2);
    if (rc < 0)
        rc = coir_respond_text(res, 200, "%d: %s", len, coir_strerror(rc));
    return rc;
}

static coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;

static const struct route routes[] = {
    {"GET", "/hello", hello},          {"GET", "/hello/{name}", hello},
    {"POST", "/echo", echo},           {"GET", "/nap/{ms}", nap},
    {"GET", "/big/{bytes}", big},      {"GET", "/broken", broken},
    {"GET", "/nothing", says_nothing}, {"GET", "/short", too_short},
    {"GET", "/fields", fields},        {"GET", "/chunks", chunks},
    {"GET", "/a%2Fb", slash},          {"HEAD", "/a%2Fb", star},
    {"GET", "/caf\xc3\xa9/%2A", star}, {"GET", "/type/{bytes}", long_type},
    {"GET", "/there", nap_if_there},   {0},
};

static int serve(void *arg)
{
    (void)arg;
    coir_router *router = make_router(routes);
    options.address = server_address;
    int rc = coir_serve_http_with(&options, router);
    coir_router_free(router);
    return rc;
}

TEST_SERVER(routes_answer)
{
    CHECK(strstr(ask(GET("/hello")), "\r\n\r\nHello, World!"));
    CHECK(strstr(ask(GET("/hello/caf%C3%A9%20au%2Flait")), "Hello, caf\xc3\xa9 au/lait!"));
    CHECK(strstr(ask(GET("http://elsewhere/hello?x")), "Hello, World!"));
    CHECK(strstr(ask(GET("/hell%6f")), "Hello, World!") &&
          strstr(ask(GET("/%68ello/%79ou")), "Hello, you!"));
    CHECK(strstr(ask(GET("/a%2fb")), "slash") && strstr(ask(GET("/a%2Fb")), "slash") &&
          strstr(ask(GET("/%63af%c3%a9/*")), "star"));
    ask("HEAD /a%2fb HTTP/1.1\r\nHost: a\r\n\r\n"); /* its own route, behind GET's */
    CHECK(strstr(answer, "Content-Length: 4\r\n"));
    CHECK_EQ(status(ask(GET("/a/b"))), 404);
    CHECK_EQ(status(ask(GET("/%2fhello"))), 404);
    CHECK_EQ(status(ask(GET("/hello%2fyou"))), 404); /* that slash does not separate */
    CHECK_EQ(status(ask(GET("/hello%00"))), 400);
    CHECK_EQ(status(ask(GET("/hello/%"))), 400);
    CHECK_EQ(status(ask(GET("/none"))), 404);
    CHECK_EQ(status(ask(GET("/hello/"))), 404);
    CHECK_EQ(status(ask(GET("/hello/a/b"))), 404);
    CHECK_EQ(status(ask("POST /hello HTTP/1.1\r\nHost: a\r\n\r\n")), 405);
    CHECK(strstr(answer, "Allow: GET, HEAD, OPTIONS\r\n"));
    CHECK_EQ(status(ask("OPTIONS /echo HTTP/1.1\r\nHost: a\r\n\r\n")), 204);
    CHECK(strstr(answer, "Allow: POST, OPTIONS\r\n"));
    CHECK_EQ(status(ask("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n")), 204);
    CHECK_EQ(status(ask("BREW /hello HTTP/1.1\r\nHost: a\r\n\r\n")), 501);
    ask("HEAD /hello HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK(status(answer) == 200 && strstr(answer, "Content-Length: 13\r\n") &&
          strstr(answer, "\r\n\r\n")[4] == '\0');
    CHECK(strstr(ask("GET /hello HTTP/1.0\r\n\r\n"), "Connection: close"));
    CHECK(strstr(ask("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
                 "Connection: keep-alive"));
    CHECK(strstr(answer, "Date: Thu, 01 Jan 2026 "));
}

TEST(a_bad_route_is_refused)
{
    static const struct route bad[] = {
        {"GET", "no/slash", hello}, {"GET", "/a%", hello},
        {"GET", "/a%0g", hello},    {"GET", "/a%00", hello},
        {"GET", "/a?b", hello},     {"GET", "/a#b", hello},
        {"GET", "/a{b}", hello},    {"GET", "/{}", hello},
        {"G T", "/", hello},        {"GET", "/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}", hello},
    };
    coir_router *router = make_router(routes);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (coir_route(router, bad[i].method, bad[i].pattern, bad[i].handler, NULL) != -EINVAL)
            test_fail(__FILE__, __LINE__, "%s %s", bad[i].method, bad[i].pattern);
    coir_router_free(router);
}

/* A route that no request could reach is refused. */
TEST(a_route_behind_its_like_is_refused)
{
    static const struct {
        const char *first, *second;
        bool dead;
    } cases[] = {
        {"/", "/", true},
        {"/a", "/a", true},
        {"/a", "/%61", true},
        {"/%61", "/a", true},
        {"/a%2fb", "/a%2Fb", true},
        {"/{x}", "/{y}", true},
        {"/{x}", "/a", true},
        {"/a/{x}/c", "/a/b/c", true},
        {"/a/{x}", "/a/{x}", true},
        {"/a", "/{x}", false},
        {"/a", "/a/", false},
        {"/a/", "/a", false},
        {"/{x}", "/", false},
        {"/", "/{x}", false},
        {"/{x}/b", "/a/{y}", false},
        {"/{x}", "/a/b", false},
        {"/a%2fb", "/a/b", false},
        {"/a/{x}", "/a/", false},
        {"/{x}/{y}", "/a/b/c", false},
        {"/a", "/A", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        coir_router *router;
        CHECK_EQ(coir_router_new(&router), 0);
        CHECK_EQ(coir_route(router, "GET", cases[i].first, hello, NULL), 0);
        CHECK_EQ(coir_route(router, "PUT", cases[i].second, hello, NULL), 0);
        CHECK_EQ(coir_route(router, "HEAD", cases[i].second, hello, NULL), 0);
        if (coir_route(router, "GET", cases[i].second, hello, NULL) !=
            (cases[i].dead ? -EEXIST : 0))
            test_fail(__FILE__, __LINE__, "%s behind %s", cases[i].second, cases[i].first);
        coir_router_free(router);
    }
    coir_router *router;
    CHECK_EQ(coir_router_new(&router), 0);
    CHECK_EQ(coir_route(router, "GET", "/files/*", hello, NULL),
             -EINVAL); /* not what it looks like: a literal star is %2A */
    CHECK_EQ(coir_route(router, "GET", "/files/{rest*}", hello, NULL), -EINVAL);
    CHECK_EQ(coir_route(router, "GET", "/files/{rest...}", hello, NULL), -EINVAL);
    CHECK_EQ(coir_route(router, "GET", "/files/{a-b_C1}", hello, NULL), 0);
    /* coir_request_param could give only one of them */
    CHECK_EQ(coir_route(router, "GET", "/y/{a}/{a}", hello, NULL), -EINVAL);
    CHECK_EQ(coir_route(router, "GET", "/{long}/y/{l}/{long}", hello, NULL), -EINVAL);
    CHECK_EQ(coir_route(router, "GET", "/y/{a}/{aa}/{b}/a", hello, NULL), 0);
    coir_router_free(router);
}

TEST_SERVER(handlers_that_fail_get_a_status_or_an_early_end)
{
    CHECK_EQ(status(ask(GET("/broken"))), 500);
    CHECK_EQ(status(ask(GET("/nothing"))), 500);
    CHECK_EQ(status(ask(GET("/short"))), 200);
    CHECK(strcmp(strstr(answer, "\r\n\r\n") + 4, "short") == 0);
    CHECK(strstr(ask(GET("/fields?v=a%20b+c")), "X-Good: a b c\r\n"));
    CHECK(strstr(ask(GET("/type/201")), "00000\r\nContent-Length: 2\r\nX: y\r\n\r\nit"));
    CHECK(strstr(ask(GET("/type/8186")), "00000\r\nContent-Length: 2\r\nX: y\r\n\r\nit") &&
          answer_len > 8192);
    CHECK(strstr(ask(GET("/type/8187")), "\r\n\r\n8187: a limit"));
    CHECK(strstr(ask(GET("/chunks")), "\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"));
    CHECK(strstr(ask("GET /chunks HTTP/1.0\r\n\r\n"), "\r\n\r\nonetwo"));
}

/* What a handler wrote is sent before it waits. */
TEST_SERVER(a_waiting_handler_holds_nothing_back)
{
    coir_stream *stream = dial();
    send_text(stream, GET("/hello") GET("/chunks"));
    COIR_DEADLINE(coir_in(500 * COIR_MS));
    ssize_t n;
    answer_len = 0;
    while ((n = coir_read(stream, answer + answer_len, 1000)) > 0)
        answer_len += (size_t)n;
    answer[answer_len] = '\0';
    CHECK_EQ(n, -ETIME);
    CHECK(strstr(answer, "Hello, World!") && strstr(answer, "3\r\none\r\n") &&
          !strstr(answer, "two"));
    coir_close(stream);
}

TEST_SERVER(pipelined_requests_are_answered_at_once_and_in_order)
{
    static const int counts[] = {2, 16, 64, 256};
    static char requests[256 * 64];
    for (size_t i = 0; i < 4; i++) {
        size_t len = 0;
        for (int n = 0; n < counts[i]; n++)
            len += (size_t)snprintf(requests + len, sizeof requests - len,
                                    "GET /hello/%d HTTP/1.1\r\nHost: a\r\n\r\n", n);
        coir_stream *stream = dial();
        coir_time start = coir_now();
        send_bytes(stream, requests, len);
        answer_len = 0;
        while (occurrences(answer, "Hello, ") < counts[i]) {
            ssize_t n = coir_read(stream, answer + answer_len, sizeof answer - 1 - answer_len);
            CHECK(n > 0);
            answer[answer_len += (size_t)n] = '\0';
        }
        CHECK(coir_now() - start < COIR_MS);
        const char *at = answer;
        for (int n = 0; n < counts[i]; n++) {
            char want[32];
            snprintf(want, sizeof want, "Hello, %d!", n);
            CHECK((at = strstr(at, want)));
        }
        coir_close(stream);
        memset(answer, 0, sizeof answer);
    }
}

TEST_SERVER(a_head_that_ends_where_the_buffer_ends_gets_its_body)
{
    static const char first[] = GET("/hello"),
                      post[] = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n";
    for (int off = -2; off <= 2; off++) {
        static char requests[20000];
        size_t end = (size_t)(16384 + off), len = 0;
        while (len + 2 * sizeof first + sizeof post < end)
            len += (size_t)sprintf(requests + len, "%s", first);
        len += (size_t)sprintf(requests + len, "GET /hello HTTP/1.1\r\nHost: ");
        while (len < end - (sizeof post - 1) - 4)
            requests[len++] = 'a';
        len += (size_t)sprintf(requests + len, "\r\n\r\n%s", post);
        CHECK_EQ(len, end);
        coir_stream *stream = dial();
        send_bytes(stream, requests, len);
        coir_sleep_for(COIR_MS);
        send_text(stream, "some body");
        coir_shutdown_write(stream);
        CHECK(strstr(receive_all(stream), "some body"));
        coir_close(stream);
    }
}

TEST_SERVER(a_request_split_at_every_byte_is_answered)
{
    static const char text[] = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
                               "chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n" GET("/hello");
    for (size_t cut = 1; cut < sizeof text - 1; cut++) {
        coir_stream *stream = dial();
        send_bytes(stream, text, cut);
        coir_sleep_for(COIR_MS);
        send_bytes(stream, text + cut, sizeof text - 1 - cut);
        coir_shutdown_write(stream);
        receive_all(stream);
        coir_close(stream);
        if (!strstr(answer, "o\r\n0\r\n\r\nHTTP/1.1 200 OK"))
            test_fail(__FILE__, __LINE__, "cut at %zu: %s", cut, answer);
        CHECK(strstr(answer, "Hello, World!"));
    }
    coir_stream *stream = dial();
    for (size_t at = 0; at < sizeof text - 1; at++) {
        send_bytes(stream, text + at, 1);
        coir_sleep_for(10 * COIR_US);
    }
    coir_shutdown_write(stream);
    CHECK(strstr(receive_all(stream), "Hello, World!"));
    coir_close(stream);
}

/* Bad requests: the status, then the end, even though more follows; and nothing of what follows is
 * answered. */
TEST_SERVER(bad_requests_get_their_status_and_the_end)
{
    static const struct {
        const char *text;
        int status;
    } cases[] = {
        {"GET /hello HTTP/1.1\nHost: a\n\n", 400},
        {"GET /hello HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", 400},
        {"GET /hello HTTP/1.1\r\n\r\n", 400},
        {"GET /hello HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
         400},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: "
         "chunked\r\n\r\n0\r\n\r\n",
         400},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, x\r\n\r\n0\r\n\r\n", 400},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x, chunked\r\n\r\n0\r\n\r\n", 501},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n\r\n", 400},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
         "chunked\r\n\r\nffffffffffffffffff\r\n\r\n",
         400},
        {"POST /hello HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n\r\n", 405},
        {"GET /hello HTTP/3.0\r\nHost: a\r\n\r\n", 505},
        {"GET /hello HTTP/1.1\r\nHost: a\r\nExpect: wonders\r\n\r\n", 417},
        {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400}, /* TLS to a plain port */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        coir_stream *stream = dial();
        send_text(stream, cases[i].text);
        coir_write_all(stream, GET("/hello/smuggled"), sizeof GET("/hello/smuggled") - 1);
        receive_all(stream); /* ends: the server closes */
        coir_close(stream);
        if (status(answer) != cases[i].status || strstr(answer, "smuggled") ||
            !strstr(answer, "Connection: close"))
            test_fail(__FILE__, __LINE__, "got %s for %s", answer, cases[i].text);
    }
    static char lines[20000];
    snprintf(lines, sizeof lines, "GET /%09000d HTTP/1.1\r\nHost: a\r\n\r\n", 0);
    CHECK_EQ(status(ask(lines)), 414);
    snprintf(lines, sizeof lines, "GET / HTTP/1.1\r\nHost: a\r\nX: %09000d\r\n\r\n", 0);
    CHECK_EQ(status(ask(lines)), 431);
    size_t len = (size_t)snprintf(lines, sizeof lines, "GET / HTTP/1.1\r\nHost: a\r\n");
    for (int i = 0; i < 100; i++)
        len += (size_t)snprintf(lines + len, sizeof lines - len, "X-%d: y\r\n", i);
    snprintf(lines + len, sizeof lines - len, "\r\n");
    CHECK_EQ(status(ask(lines)), 431);
}

TEST_SERVER(bodies_are_streamed_limited_and_thrown_away)
{
    static char body[50000], request[51000];
    memset(body, 'z', sizeof body - 1);
    snprintf(request, sizeof request,
             "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n%s", sizeof body - 1,
             body);
    ask(request);
    CHECK(status(answer) == 200 && strcmp(strstr(answer, "\r\n\r\n") + 4, body) == 0);
    /* a small body that nobody reads is passed over; the connection goes on */
    ask("GET /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" GET("/hello"));
    CHECK_EQ(occurrences(answer, "Hello, World!"), 2);
    /* a large one ends it */
    coir_stream *stream = dial();
    send_text(stream, "GET /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n");
    coir_write(stream, body, sizeof body);
    receive_all(stream);
    CHECK_EQ(occurrences(answer, "Hello, World!"), 1);
    coir_close(stream);
    options.body_max = 0;
    ask("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n");
    CHECK_EQ(status(answer), 413);
}

TEST_SERVER(continue_is_sent_when_the_body_is_wanted)
{
    coir_stream *stream = dial();
    send_text(
        stream,
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    ssize_t n = coir_read(stream, answer, 1000);
    CHECK(n == 25 && memcmp(answer, "HTTP/1.1 100 Continue\r\n\r\n", 25) == 0);
    send_text(stream, "ok");
    coir_shutdown_write(stream);
    CHECK(status(receive_all(stream)) == 200 && strstr(answer, "\r\n\r\nok"));
    coir_close(stream);
    /* and not when it is not: the final answer comes, and the connection closes */
    stream = dial();
    send_text(
        stream,
        "POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    CHECK_EQ(status(receive_all(stream)), 405);
    coir_close(stream);
}

TEST_SERVER(slow_heads_and_idle_connections_end)
{
    coir_stream *stream = dial();
    coir_time start = coir_now();
    for (int i = 0; i < 8; i++) { /* a byte a second does not help */
        send_text(stream, "G");
        coir_sleep_for(COIR_S);
    }
    receive_all(stream);
    CHECK_EQ(status(answer), 408);
    CHECK(coir_now() - start > 9 * COIR_S && coir_now() - start < 13 * COIR_S);
    coir_close(stream);
    stream = dial();
    start = coir_now();
    CHECK_EQ(coir_read(stream, answer, 1), 0);
    CHECK(coir_now() - start >= 60 * COIR_S && coir_now() - start < 61 * COIR_S);
    coir_close(stream);
    stream = dial(); /* each request puts the end off */
    start = coir_now();
    for (int i = 0; i < 5; i++) {
        send_text(stream, GET("/hello"));
        CHECK(coir_read(stream, answer, 1000) > 0);
        coir_sleep_for(50 * COIR_S);
    }
    CHECK_EQ(coir_read(stream, answer, 1), 0);
    CHECK(coir_now() - start >= 260 * COIR_S && coir_now() - start < 261 * COIR_S);
    coir_close(stream);
    stream = dial(); /* a body that stalls */
    send_text(stream, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    receive_all(stream);
    CHECK_EQ(status(answer), 408);
    coir_close(stream);
}

TEST_SERVER(a_client_that_hangs_up_cancels_its_handler_and_a_half_close_does_not)
{
    coir_stream *stream = dial();
    send_text(stream, GET("/nap/5000"));
    coir_shutdown_write(stream);
    CHECK_EQ(status(receive_all(stream)), 200);
    coir_close(stream);
    CHECK_EQ(handlers_cancelled, 0);
    stream = dial();
    send_text(stream, GET("/chunks") GET("/nap/1000000"));
    coir_sleep_for(2 * COIR_S);
    CHECK_EQ(handlers_running, 1);
    coir_close(stream); /* with unread data: a reset */
    coir_sleep_for(COIR_S);
    CHECK_EQ(handlers_running, 0);
    CHECK_EQ(handlers_cancelled, 1);
}

static int nap_if_there(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_request_set_end_cancels(req, coir_request_query_value(req, "late") == NULL);
    int rc = coir_sleep_for(COIR_S);
    coir_request_set_end_cancels(req, coir_request_query_value(req, "never") == NULL);
    if (rc == 0)
        rc = coir_sleep_for(4 * COIR_S);
    handlers_cancelled += rc == -ECANCELED;
    return rc < 0 ? rc : coir_respond_text(res, 200, "slept");
}

/* Sends a request and closes its direction a while later: how many handlers were cancelled by that.
 */
static int cancelled_by_end(const char *request, coir_time after)
{
    int before = handlers_cancelled;
    coir_stream *stream = dial();
    send_text(stream, request);
    coir_sleep_for(after);
    coir_shutdown_write(stream);
    receive_all(stream);
    coir_close(stream);
    return handlers_cancelled - before;
}

TEST_SERVER(a_half_close_cancels_the_handlers_that_ask_for_it)
{
    CHECK_EQ(cancelled_by_end(GET("/there"), 0), 1);
    CHECK_EQ(cancelled_by_end(GET("/there"), COIR_S / 2), 1);
    CHECK_EQ(cancelled_by_end(GET("/there"), 2 * COIR_S), 1);
    /* said after the end had come */
    CHECK_EQ(cancelled_by_end(GET("/there?late=1"), COIR_S / 2), 1);
    CHECK_EQ(cancelled_by_end(GET("/there?late=1&never=1"), COIR_S / 2), 0);
    CHECK_EQ(cancelled_by_end(GET("/there?never=1"), 2 * COIR_S), 0);
    CHECK_EQ(cancelled_by_end(GET("/nap/1000"), 0), 0);
}

TEST_SIM(a_half_close_cancels_handlers_where_the_server_wants_it)
{
    options.end_cancels = true;
    COIR_SCOPE(server);
    coir_go(server, serve, NULL);
    CHECK_EQ(cancelled_by_end(GET("/nap/1000"), COIR_S / 2), 1);
    CHECK_EQ(cancelled_by_end(GET("/there?late=1&never=1"), COIR_S / 2), 0);
    coir_scope_cancel(server);
    coir_scope_wait(server);
}

TEST_SERVER(a_slow_reader_gets_everything)
{
    coir_stream *stream = dial();
    send_text(stream, GET("/big/3000000"));
    size_t got = 0;
    for (ssize_t n; (n = coir_read(stream, answer, 50000)) > 0;) {
        got += (size_t)n;
        if (got % 7 == 0)
            coir_sleep_for(10 * COIR_S); /* each pause shorter than the limit */
        if (got > 3000000)
            break;
    }
    CHECK(got > 3000000 && got < 3000500);
    coir_close(stream);
    stream = dial(); /* and one who stops for good is dropped */
    send_text(stream, GET("/big/3000000"));
    coir_sleep_for(100 * COIR_S);
    coir_counters counters = COIR_COUNTERS;
    coir_http_counters http = COIR_HTTP_COUNTERS;
    coir_counters_get(coir_runtime_current(), &counters);
    coir_http_counters_get(&http);
    CHECK_EQ(http.connections_live, 0);
    coir_close(stream);
}

enum { IDLERS = 5000 };

TEST_SERVER(five_thousand_idle_connections_hold_no_stack_and_end_by_their_timeout)
{
    static coir_stream *idlers[IDLERS];
    coir_counters counters = COIR_COUNTERS;
    coir_http_counters http = COIR_HTTP_COUNTERS;
    for (int i = 0; i < IDLERS; i++) {
        idlers[i] = dial();
        if (i % 2) {
            send_text(idlers[i], GET("/hello"));
            CHECK(coir_read(idlers[i], answer, 1000) > 0);
        }
    }
    coir_counters_get(coir_runtime_current(), &counters);
    coir_http_counters_get(&http);
    CHECK_EQ(http.connections_live, IDLERS);
    CHECK(counters.stacks_live < 10);
    coir_sleep_for(62 * COIR_S);
    coir_http_counters_get(&http);
    CHECK_EQ(http.connections_live, 0);
    for (int i = 0; i < IDLERS; i++) {
        CHECK_EQ(coir_read(idlers[i], answer, 1), 0);
        coir_close(idlers[i]);
    }
}

/* ---- the graceful end ---- */

static int stopped_at(coir_time nap)
{
    char request[100];
    snprintf(request, sizeof request, "GET /nap/%d HTTP/1.1\r\nHost: a\r\n\r\n",
             (int)(nap / COIR_MS));
    COIR_SCOPE(server);
    coir_go(server, serve, NULL);
    coir_stream *idle = dial();
    coir_stream *busy = dial();
    send_text(busy, request);
    coir_sleep_for(COIR_S);
    coir_time start = coir_now();
    coir_scope_cancel(server);
    CHECK_EQ(coir_read(idle, answer, 1), 0); /* at once */
    CHECK(coir_now() - start < COIR_S);
    receive_all(busy);
    coir_close(idle);
    coir_close(busy);
    coir_scope_wait(server);
    return (int)((coir_now() - start) / COIR_S);
}

TEST_SIM(a_stopped_server_drains)
{
    CHECK_EQ(stopped_at(5 * COIR_S), 4); /* one second had passed */
    CHECK(strstr(answer, "slept") && strstr(answer, "Connection: close"));
    CHECK_EQ(stopped_at(100 * COIR_S), 10); /* the drain timeout */
    CHECK_EQ(answer_len, 0);
}

/* ---- clients that vanish at any moment, on networks of every kind ---- */

static int rude_client(void *arg)
{
    static const char text[] =
        GET("/hello") "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello" GET(
            "/nap/50") GET("/big/100000");
    uint64_t *random = arg;
    for (int i = 0; i < 10; i++) {
        coir_stream *stream;
        *random = *random * 6364136223846793005u + 1442695040888963407u;
        int rc = coir_tcp_connect("server:80", &stream);
        if (rc < 0) {
            coir_sleep_for(COIR_MS);
            continue;
        }
        COIR_DEADLINE(coir_in((coir_time)(*random >> 40) * 10));
        size_t len = (size_t)(*random >> 33) % sizeof text;
        rc = coir_write_all(stream, text, len);
        if (rc == 0 && (*random >> 60) % 2)
            coir_shutdown_write(stream);
        if (rc == 0 && (*random >> 61) % 2)
            while (coir_read(stream, answer, 5000) > 0)
                continue;
        coir_close(stream);
    }
    return 0;
}

static int polite_client(void *arg)
{
    (void)arg;
    for (int i = 0; i < 20;) {
        coir_stream *stream;
        if (coir_tcp_connect("server:80", &stream) < 0) {
            coir_sleep_for(COIR_MS);
            continue;
        }
        if (coir_write_all(stream, GET("/hello"), sizeof GET("/hello") - 1) == 0) {
            char buf[500];
            ssize_t n = coir_read(stream, buf, sizeof buf);
            if (n > 9)
                CHECK(memcmp(buf, "HTTP/1.1 ", 9) == 0);
            i += n > 0;
        }
        coir_close(stream);
    }
    return 0;
}

static int all_clients(void *arg)
{
    uint64_t seeds[4] = {*(uint64_t *)arg, *(uint64_t *)arg + 77, *(uint64_t *)arg * 31, 5};
    COIR_SCOPE(scope);
    for (int i = 0; i < 4; i++)
        coir_go(scope, rude_client, &seeds[i]);
    coir_go(scope, polite_client, NULL);
    return coir_scope_wait(scope);
}

static int rude_scenario(coir_sim *sim, void *arg)
{
    coir_host *server = coir_sim_host(sim, "server", serve, NULL);
    coir_link link = {.latency = COIR_MS,
                      .jitter = COIR_MS,
                      .loss = 0.02,
                      .reset = *(uint64_t *)arg % 2 ? 0.02 : 0,
                      .short_io = 0.3};
    coir_sim_link(sim, server, NULL, link);
    return coir_sim_host_main(sim, "clients", all_clients, arg);
}

/* SEEDS=N runs N seeds; SEED=N prints the trace of one. */
TEST(clients_may_vanish_at_any_moment)
{
    const char *count = getenv("SEEDS");
    uint64_t first = 1, last = count ? (uint64_t)atoll(count) : 300;
    if (test_one_seed(&first))
        last = first;
    for (uint64_t seed = first; seed <= last; seed++) {
        coir_sim_options sim_options = test_sim_options(seed, 1 + (unsigned)(seed % 2));
        coir_sim_result result = COIR_SIM_RESULT, again = COIR_SIM_RESULT;
        int rc = coir_sim_run(&sim_options, rude_scenario, &seed, &result);
        if (rc < 0)
            test_fail(__FILE__, __LINE__, "SEED=%llu: %s", (unsigned long long)seed,
                      coir_strerror(rc));
        if (seed % 20)
            continue;
        CHECK_EQ(coir_sim_run(&sim_options, rude_scenario, &seed, &again), 0);
        CHECK(result.trace_hash == again.trace_hash);
    }
}
