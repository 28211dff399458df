/* No answer depends on an earlier request: any request after any others on one connection is
 * answered byte for byte as on a connection of its own, save the Date. */
#include <coir/web.h>
#include <stdio.h>

#include "client.h"

/* ---- the server ---- */

static int hello(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    const char *name = coir_request_param(req, "name");
    return coir_respond_text(
        res, 200, "%s %s %s?%s from %s, %s", coir_request_method(req), name ? name : "nobody",
        coir_request_path(req), coir_request_query(req), coir_request_host(req),
        coir_request_header(req, "x") ? coir_request_header(req, "x") : "no x");
}

/* In one piece, however the body came. */
static int echo(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    char buf[300];
    size_t len = 0;
    ssize_t n;
    while ((n = coir_request_read(req, buf + len, sizeof buf - len)) > 0)
        len += (size_t)n;
    int rc = n < 0 ? (int)n : coir_response_begin(res, 200, "text/plain", coir_request_length(req));
    return rc < 0 ? rc : coir_response_write(res, buf, len);
}

static int fails(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    (void)res;
    return -EBADMSG;
}

static const struct route routes[] = {
    {"GET", "/hello", hello},
    {"GET", "/hello/{name}", hello},
    {"POST", "/echo", echo},
    {"GET", "/fails", fails},
    {0},
};

static int serve(void *arg)
{
    (void)arg;
    return serve_routes(routes, NULL);
}

/* ---- requests, right and wrong ---- */

static const char *const requests[] = {
    GET("/hello"),
    "GET /hello/you?a=b HTTP/1.1\r\nX: y\r\nHost: b.example:81\r\n\r\n",
    "HEAD /hello HTTP/1.1\r\nHost: a\r\n\r\n",
    "\r\n\r\n\r\n\r\n\r\n\r\nHEAD /hello HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET http://c.example/hello HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET http://c.example HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /hello HTTP/1.0\r\n\r\n",
    "GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    "OPTIONS /echo HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nT: "
    "u\r\n\r\n",
    "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nExpect: 100-continue\r\n\r\n",
    "POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
    "BREW /hello HTTP/1.1\r\nHost: a\r\n\r\n",
    GET("/none"),
    GET("/fails"),
    /* refused as early as can be, and as late */
    "\n",
    "HEAD\n",
    "GET\n",
    "\rX",
    "HEAD /hello HTTP/1.1\n",
    "H@AD /hello HTTP/1.1\r\n",
    "HEAD /\x01 HTTP/1.1\r\n",
    "HEAD /hello HTTP/2.0\r\n",
    "GET /hello HTTP/1.0\r\nX\r\n",
    "GET /hello HTTP/1.1\r\n\r\n",
    "HEAD /hello HTTP/1.1\r\n\r\n",
    "GET /hello HTTP/1.1\r\nHost: [\r\n\r\n",
    "GET /hello HTTP/1.1\r\nHost: a\r\nExpect: wonders\r\n\r\n",
    "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n",
    "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx",
    /* cut off: CUT_OFF of them, and last, for what comes next belongs to them */
    "GET /hel",
    "HEAD /hello HTTP/1.1\r\nHost",
    "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel",
    "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na",
};
enum { REQUESTS = sizeof requests / sizeof *requests, CUT_OFF = 4, ANSWER_MAX = 2000 };

/* Each one's answer on a connection of its own, without the Date. */
static char alone[REQUESTS][ANSWER_MAX];
static bool goes_on[REQUESTS]; /* the connection is kept after it */

static void hide_dates(char *text)
{
    static const char field[] = "\r\nDate: ";
    for (; (text = strstr(text, field)); text++)
        memset(text + sizeof field - 1, '.', 29);
}

static void read_until(coir_stream *stream, size_t len)
{
    answer_len = 0;
    while (answer_len < len) {
        ssize_t n = coir_read(stream, answer + answer_len, len - answer_len);
        CHECK(n > 0);
        answer_len += (size_t)n;
    }
}

static bool is_open(coir_stream *stream)
{
    char byte;
    COIR_DEADLINE(coir_in(100 * COIR_MS));
    return coir_read(stream, &byte, 1) == -ETIME;
}

static void ask_each_alone(void)
{
    for (int i = 0; i < REQUESTS; i++) {
        ask(requests[i]);
        CHECK(answer_len < ANSWER_MAX);
        hide_dates(answer);
        memcpy(alone[i], answer, answer_len + 1);
        coir_stream *stream = dial();
        send_text(stream, requests[i]);
        read_until(stream, answer_len);
        goes_on[i] = i < REQUESTS - CUT_OFF && is_open(stream);
        coir_close(stream);
    }
}

static void expect(const char *want, const char *what, const char *before, const char *last)
{
    hide_dates(answer);
    if (strcmp(answer, want) != 0)
        test_fail(__FILE__, __LINE__,
                  "%s: after\n%s\n-- the answer to --\n%s\n-- is --\n%s\n-- not --\n%s", what,
                  before, last, answer, want);
}

static void ask_each_after_each(void)
{
    ask_each_alone();
    int kept = 0;
    for (int a = 0; a < REQUESTS; a++) {
        kept += goes_on[a];
        for (int b = 0; goes_on[a] && b < REQUESTS; b++) {
            coir_stream *stream = dial();
            send_text(stream, requests[a]);
            read_until(stream, strlen(alone[a]));
            send_text(stream, requests[b]);
            coir_shutdown_write(stream);
            receive_all(stream);
            expect(alone[b], "one after the other", requests[a], requests[b]);
            coir_close(stream);
        }
    }
    CHECK(kept >= 12);
}

/* All but the last of a sequence keep the connection open; it comes in one piece, or in two cut
 * anywhere. */
static void ask_sequence(uint64_t *random)
{
    static char text[20000], want[20000];
    size_t len = 0, want_len = 0;
    int last = 0;
    for (int left = 1 + (int)(test_random(random) % 8); left > 0; left--) {
        do
            last = (int)(test_random(random) % REQUESTS);
        while (left > 1 && !goes_on[last]);
        len += (size_t)sprintf(text + len, "%s", requests[last]);
        want_len += (size_t)sprintf(want + want_len, "%s", alone[last]);
    }
    size_t cut = test_random(random) % 2 ? len : test_random(random) % len;
    coir_stream *stream = dial();
    send_bytes(stream, text, cut);
    if (cut < len)
        coir_sleep_for(COIR_MS);
    coir_write_all(stream, text + cut, len - cut); /* it may have been refused already */
    coir_shutdown_write(stream);
    receive_all(stream);
    coir_close(stream);
    expect(want, "in one piece", text, requests[last]);
}

static void ask_sequences(void)
{
    uint64_t random = 1;
    ask_each_alone();
    for (int i = 0; i < 2000; i++)
        ask_sequence(&random);
}

TEST_SIM(any_request_after_any_other_is_answered_as_on_a_fresh_connection)
{
    CHECK_EQ(with_server(serve, ask_each_after_each), 0);
}

TEST_SIM(pipelined_requests_are_answered_as_on_fresh_connections)
{
    CHECK_EQ(with_server(serve, ask_sequences), 0);
}
