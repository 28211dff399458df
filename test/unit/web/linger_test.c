/* Answers before the end of their request, on real sockets and in the simulator: the client gets to
 * see them, however it sends. */
#include <coir/web.h>
#include <stdio.h>

#include "client.h"

static coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;

static int hello(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    return coir_respond_text(res, 200, "hello");
}

static int fails(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    (void)res;
    return -EBADMSG;
}

/* Answers at once, and reads then. */
static int eager(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    char buf[1000];
    ssize_t n;
    int rc = coir_response_begin(res, 200, "text/plain", 2);
    if (rc == 0)
        rc = coir_response_write(res, "ok", 2);
    while (rc == 0 && (n = coir_request_read(req, buf, sizeof buf)) != 0)
        rc = n < 0 ? (int)n : 0;
    return rc;
}

/* More than lies in the buffers of a connection whose client does not read. */
enum { LARGE = 4 * 1000 * 1000 };

static bool begun;

static int large(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    static const char piece[10000];
    (void)req;
    begun = true;
    int rc = coir_response_begin(res, 200, "text/plain", LARGE);
    for (int i = 0; rc == 0 && i < LARGE / (int)sizeof piece; i++)
        rc = coir_response_write(res, piece, sizeof piece);
    return rc;
}

static const struct route routes[] = {
    {"GET", "/hello", hello},  {"POST", "/hello", hello}, {"GET", "/large", large},
    {"POST", "/fails", fails}, {"POST", "/eager", eager}, {0},
};

static int serve(void *arg)
{
    (void)arg;
    return serve_routes(routes, &options);
}

/* Sends all of it before it looks for an answer, as Python's http.client does: nothing of either is
 * lost. */
static void send_first(const char *head, size_t body_len, int want)
{
    static char piece[100000];
    coir_stream *stream = dial();
    memset(piece, 'y', sizeof piece);
    send_text(stream, head);
    for (size_t sent = 0; sent < body_len;) {
        size_t n = body_len - sent < sizeof piece ? body_len - sent : sizeof piece;
        int rc = coir_write_all(stream, piece, n);
        if (rc < 0)
            test_fail(__FILE__, __LINE__, "%s after %zu of %zu bytes: %.60s", coir_strerror(rc),
                      sent, body_len, head);
        sent += n;
    }
    ssize_t n;
    answer_len = 0;
    while ((n = coir_read(stream, answer + answer_len, 10000)) > 0)
        answer_len += (size_t)n;
    answer[answer_len] = '\0';
    coir_close(stream);
    if (n < 0 || status(answer) != want || !strstr(answer, "Connection: close\r\n") ||
        occurrences(answer, "HTTP/1.1") != 1)
        test_fail(__FILE__, __LINE__, "%d: %s: %.200s", (int)n, head, answer);
}

enum { MUCH = 50 * 1000 * 1000 };

static void expect_answers(void)
{
    send_first("POST /none HTTP/1.1\r\nHost: a\r\nContent-Length: 50000000\r\n\r\n", MUCH, 404);
    send_first("POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 50000000\r\n\r\n", MUCH, 200);
    send_first("GET /hello HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2faf080\r\n",
               MUCH, 200);
    send_first("POST /eager HTTP/1.1\r\nHost: a\r\nContent-Length: 50000000\r\n\r\n", MUCH, 200);
    send_first("POST /fails HTTP/1.1\r\nHost: a\r\nContent-Length: 50000000\r\n\r\n", MUCH, 500);
    send_first("BREW /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 50000000\r\n\r\n", MUCH, 501);
    /* refused on the way */
    send_first("POST /eager HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff",
               MUCH, 200);
    send_first("POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 50000000000\r\n\r\n", MUCH, 413);
    send_first("POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
               MUCH, 400);
    send_first("GET /", MUCH, 414);
    send_first("GET /hello HTTP/1.1\r\nHost: a\r\nX: ", MUCH, 431);
    send_first("POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 50000000\r\nExpect: "
               "100-continue\r\n\r\n",
               MUCH, 200);
    send_first("POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 65537\r\n\r\n", 65537, 200);
}

TEST_REAL(an_answer_before_the_end_of_its_request_arrives)
{
    CHECK_EQ(with_server(serve, expect_answers), 0);
}

/* A rest that is known and small is passed over. */
static void expect_kept(void)
{
    static char text[100000];
    static const char *const heads[] = {
        "POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 65536\r\n\r\n%065536d" GET("/hello"),
        "POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n%01d" GET("/hello"),
        "POST /hello HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
        "chunked\r\n\r\n3e8\r\n%01000d\r\n0\r\n\r\n" GET("/hello"),
        "POST /eager HTTP/1.1\r\nHost: a\r\nContent-Length: 65536\r\n\r\n%065536d" GET("/hello"),
    };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(text, sizeof text, heads[i], 0);
        ask(text);
        if (occurrences(answer, "HTTP/1.1 200") != 2 || strstr(answer, "Connection: close"))
            test_fail(__FILE__, __LINE__, "%zu: %s", i, answer);
    }
}

TEST_REAL(a_small_rest_of_a_request_keeps_the_connection)
{
    CHECK_EQ(with_server(serve, expect_kept), 0);
}

/* ---- bytes behind a request whose answer is still being read ---- */

static coir_stream *ask_large(const char *head)
{
    coir_stream *stream = dial();
    CHECK_EQ(coir_tcp_set_option(stream, COIR_TCP_RECEIVE_BUFFER, 65536), 0);
    begun = false;
    send_text(stream, head);
    while (!begun)
        coir_sleep_for(COIR_MS);
    return stream;
}

static void expect_all_of_it(coir_stream *stream)
{
    static char piece[16384];
    size_t sum = 0;
    ssize_t n;
    while ((n = coir_read(stream, piece, sizeof piece)) > 0)
        sum += (size_t)n;
    if (n < 0 || sum < LARGE)
        test_fail(__FILE__, __LINE__, "%zu bytes, then: %s", sum, coir_strerror((int)n));
    coir_close(stream);
}

static void send_behind(void)
{
    coir_stream *stream = ask_large("GET /large HTTP/1.0\r\n\r\n");
    send_text(stream, "\r\n"); /* as old clients do */
    expect_all_of_it(stream);
    stream = ask_large("GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    send_text(stream, GET("/hello"));
    expect_all_of_it(stream);
}

TEST_REAL(what_comes_behind_the_last_request_cuts_no_answer)
{
    CHECK_EQ(with_server(serve, send_behind), 0);
}

TEST_REAL(a_stop_cuts_no_answer_of_a_client_that_pipelines)
{
    COIR_SCOPE(server);
    coir_go(server, serve, NULL);
    coir_yield();
    coir_stream *stream = ask_large(GET("/large"));
    send_text(stream, GET("/hello"));
    coir_scope_cancel(server);
    expect_all_of_it(stream);
    coir_scope_wait(server);
}

/* A client that has not read its answer yet sends its next request as the server is stopped. */
TEST_SIM(a_stop_cuts_no_answer_of_a_client_that_goes_on)
{
    COIR_SCOPE(server);
    coir_go(server, serve, NULL);
    coir_stream *stream = dial();
    send_text(stream, GET("/hello"));
    coir_sleep_for(COIR_S);
    coir_scope_cancel(server);
    coir_sleep_for(10 * COIR_MS);
    send_text(stream, GET("/hello"));
    coir_sleep_for(10 * COIR_MS);
    CHECK(strstr(receive_all(stream), "hello"));
    coir_close(stream);
    coir_scope_wait(server);
}

/* ---- its bounds ---- */

static coir_http_counters counters = COIR_HTTP_COUNTERS;

static bool is_gone(void)
{
    coir_http_counters_get(&counters);
    return counters.connections_live == 0;
}

/* Goes on sending after the answer; how long until the connection is gone, and *ret_sent bytes. */
static coir_time send_on(size_t len, coir_time pause, size_t *ret_sent)
{
    static char piece[100000];
    coir_stream *stream = dial();
    coir_time start = coir_now();
    size_t sent = 0;
    send_text(stream, "POST /none HTTP/1.1\r\nHost: a\r\nContent-Length: 500000000\r\n\r\n");
    while (coir_read(stream, answer, 1000) > 0)
        continue;
    while (!is_gone()) {
        if (coir_write_all(stream, piece, len) == 0)
            sent += len;
        coir_sleep_for(pause);
    }
    coir_close(stream);
    *ret_sent = sent;
    return coir_now() - start;
}

static void expect_bounds(void)
{
    size_t sent;
    coir_time took = send_on(0, 100 * COIR_MS, &sent); /* silent */
    CHECK(took > COIR_S && took < 3 * COIR_S);
    took = send_on(1, COIR_S, &sent); /* a byte a second */
    CHECK(took > 29 * COIR_S && took < 33 * COIR_S);
    took = send_on(sizeof answer / 100, COIR_MS, &sent); /* as fast as it goes */
    CHECK(sent >= (63 << 20) && sent < (67 << 20) && took < 29 * COIR_S);
}

TEST_SIM(lingering_ends)
{
    CHECK_EQ(with_server(serve, expect_bounds), 0);
}

static void expect_own_bounds(void)
{
    size_t sent;
    coir_time took = send_on(1, COIR_S, &sent);
    CHECK(took > 4 * COIR_S && took < 8 * COIR_S);
    send_on(10000, 10 * COIR_MS, &sent);
    CHECK(sent >= 900000 && sent < 1200000);
}

TEST_SIM(lingering_has_bounds_of_ones_own)
{
    options.linger_timeout = 5 * COIR_S;
    options.linger_max = 1000000;
    CHECK_EQ(with_server(serve, expect_own_bounds), 0);
}

/* There is always something to read when the time is over. */
static void flood(void)
{
    size_t sent;
    send_on(100000, 0, &sent);
    CHECK(sent < options.linger_max / 2);
}

TEST_REAL(a_flood_does_not_prolong_it)
{
    options.linger_timeout = 10 * COIR_MS;
    options.linger_max = 1 << 30;
    CHECK_EQ(with_server(serve, flood), 0);
}
