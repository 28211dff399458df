/* Clients that are slow, and bytes that are no request. */
#include <coir/web.h>
#include <stdio.h>

#include "client.h"

static coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;

static int stream(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    static char piece[10000];
    int64_t left = atoll(coir_request_param(req, "bytes"));
    int rc = coir_response_begin(res, 200, "text/plain", left);
    for (; rc == 0 && left > 0; left -= (int64_t)sizeof piece)
        rc = coir_response_write(res, piece, sizeof piece);
    return rc;
}

static int piece(coir_request *req, coir_response *res, void *arg)
{
    (void)req, (void)arg;
    static char bytes[10000];
    return coir_respond(res, 200, "text/plain", bytes, sizeof bytes);
}

static const struct route routes[] = {
    {"POST", "/count", count_body},
    {"GET", "/piece", piece},
    {"GET", "/stream/{bytes}", stream},
    {0},
};

static int serve(void *arg)
{
    (void)arg;
    return serve_routes(routes, &options);
}

#define POST "POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"

static void read_one_answer(coir_stream *stream)
{
    ssize_t n = coir_read(stream, answer, 1000);
    CHECK(n > 0);
    answer[answer_len = (size_t)n] = '\0';
}

/* How long until the server closes, sending nothing. */
static coir_time until_closed_in_silence(coir_stream *stream)
{
    coir_time start = coir_now();
    CHECK_EQ(coir_read(stream, answer, 1), 0);
    coir_close(stream);
    return coir_now() - start;
}

/* RFC 9112, 2.2: some clients send a CRLF behind a body. */
TEST_SERVER(a_connection_with_an_empty_line_is_idle)
{
    static const char *const lines[] = {"\r\n", "\r\n\r\n\r\n"};
    for (size_t i = 0; i < 2; i++)
        for (int apart = 0; apart < 2; apart++) {
            coir_stream *stream = dial();
            char text[200];
            snprintf(text, sizeof text, POST "%s", apart ? "" : lines[i]);
            send_text(stream, text);
            read_one_answer(stream);
            if (apart)
                send_text(stream, lines[i]);
            coir_time time = until_closed_in_silence(stream);
            CHECK(time >= 59 * COIR_S && time < 61 * COIR_S);
        }
    coir_stream *stream = dial();
    send_text(stream, POST "\r");
    read_one_answer(stream);
    coir_sleep_for(COIR_S);
    send_text(stream, "\n" POST); /* an empty line in two pieces, before a request */
    read_one_answer(stream);
    CHECK_EQ(status(answer), 200);
    send_text(stream, "\r"); /* and one that never ends: no request, so no answer */
    until_closed_in_silence(stream);
}

/* They are not answered, and put the idle timeout off by nothing. */
TEST_SERVER(empty_lines_keep_no_connection_alive)
{
    static const char *const lines[] = {"\r\n", "\r", "\n"};
    for (size_t i = 0; i < 2; i++) {
        coir_stream *stream = dial();
        coir_time start = coir_now();
        int rc = 0;
        send_text(stream, POST);
        read_one_answer(stream);
        for (int n = 0; rc == 0 && coir_now() - start < 200 * COIR_S; n++) {
            coir_sleep_for(4 * COIR_S);
            rc = coir_write_all(stream, lines[i == 0 ? 0 : 1 + n % 2],
                                strlen(lines[i == 0 ? 0 : 1 + n % 2]));
        }
        CHECK(coir_now() - start < 80 * COIR_S);
        coir_close(stream);
    }
}

/* ---- a client that is never silent ---- */

static bool answered_within(coir_stream *stream, coir_time pause)
{
    COIR_DEADLINE(coir_in(pause));
    return coir_stream_wait(stream, COIR_READ) != -ETIME;
}

/* Sends the text, then `drip` again and again, a pause behind each; how long until the server has
 * had enough. */
static coir_time drip_until_refused(const char *text, const char *drip, coir_time pause)
{
    coir_stream *stream = dial();
    coir_time start = coir_now();
    send_text(stream, text);
    while (!answered_within(stream, pause))
        if (coir_write_all(stream, drip, strlen(drip)) < 0)
            break;
    coir_time took = coir_now() - start;
    receive_all(stream);
    coir_close(stream);
    return took;
}

static void expect_refusal(coir_time took, coir_time from, coir_time to)
{
    if (status(answer) != 408 || took < from || took > to)
        test_fail(__FILE__, __LINE__, "%.15s after %lld ms", answer, (long long)(took / COIR_MS));
}

#define CHUNKED "POST /count HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
#define LONG "POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n"

TEST_SERVER(drips_end_wherever_they_drip)
{
    expect_refusal(drip_until_refused("GET / HTTP/1.1\r\nHost: a\r\nX: ", "y", 2 * COIR_S),
                   9 * COIR_S, 12 * COIR_S);
    expect_refusal(drip_until_refused("G", "E", 2 * COIR_S), 9 * COIR_S, 12 * COIR_S);
    expect_refusal(drip_until_refused(LONG, "y", 2 * COIR_S), 29 * COIR_S, 33 * COIR_S);
    expect_refusal(drip_until_refused(CHUNKED, "0", 2 * COIR_S), 29 * COIR_S, 33 * COIR_S);
    expect_refusal(drip_until_refused(CHUNKED "5;", "y", 2 * COIR_S), 29 * COIR_S, 33 * COIR_S);
    expect_refusal(drip_until_refused(CHUNKED "5\r\n", "y", 7 * COIR_S), 29 * COIR_S, 37 * COIR_S);
    expect_refusal(drip_until_refused(CHUNKED, "1\r\ny\r\n", 2 * COIR_S), 29 * COIR_S, 36 * COIR_S);
    expect_refusal(drip_until_refused(CHUNKED "0\r\n", "y", 2 * COIR_S), 29 * COIR_S, 33 * COIR_S);
    /* a burst buys no time */
    static char burst[sizeof LONG + 100000];
    snprintf(burst, sizeof burst, "%s%090000d", LONG, 0);
    expect_refusal(drip_until_refused(burst, "y", 2 * COIR_S), 29 * COIR_S, 34 * COIR_S);
}

TEST_SERVER(a_body_at_the_least_rate_arrives)
{
    static const char hundred[] = "0123456789012345678901234567890123456789012345678901234567890123"
                                  "456789012345678901234567890123456789";
    coir_stream *stream = dial();
    send_text(stream, LONG);
    for (int i = 0; i < 200; i++) { /* 100 bytes a second */
        coir_sleep_for(COIR_S);
        CHECK_EQ(coir_write_all(stream, hundred, 100), 0);
    }
    for (int i = 0; i < 9800; i++) /* the rest at once */
        send_bytes(stream, hundred, 100);
    read_one_answer(stream);
    CHECK(status(answer) == 200 && strstr(answer, "\r\n\r\n1000000"));
    coir_close(stream);
}

static void use_own_limits(void)
{
    options.body_timeout = 5 * COIR_S;
    options.header_timeout = 3 * COIR_S;
    options.rate_min = 1000;
    options.body_total_timeout = 60 * COIR_S;
}

static void expect_own_limits(void)
{
    char hundred[101];
    memset(hundred, 'y', 100);
    hundred[100] = '\0';
    expect_refusal(drip_until_refused("G", "E", COIR_S), 2 * COIR_S, 4 * COIR_S);
    /* a tenth of the rate */
    expect_refusal(drip_until_refused(LONG, hundred, COIR_S), 5 * COIR_S, 7 * COIR_S);
    /* just enough: the total time ends it */
    expect_refusal(drip_until_refused(LONG, hundred, 100 * COIR_MS), 55 * COIR_S, 65 * COIR_S);
}

TEST_SIM(limits_of_time_can_be_chosen)
{
    use_own_limits();
    CHECK_EQ(with_server(serve, expect_own_limits), 0);
}

/* A reader that takes much at a time, and rests in between for longer than write_timeout in all, is
 * not slow. */
static void read_in_bursts(void)
{
    coir_stream *stream = dial();
    size_t sum = 0;
    ssize_t n = 1;
    send_text(stream, "GET /stream/1000000000 HTTP/1.1\r\nHost: a\r\n\r\n");
    for (int i = 0; i < 100 && n > 0; i++) {
        coir_sleep_for(800 * COIR_MS);
        for (size_t burst = 0;
             burst < 1000000 && (n = coir_read(stream, answer, sizeof answer / 10)) > 0;
             burst += (size_t)n)
            sum += (size_t)n;
    }
    if (n <= 0)
        test_fail(__FILE__, __LINE__, "cut off after %zu bytes", sum);
    coir_close(stream);
}

TEST_SIM(a_reader_in_bursts_is_not_slow)
{
    options.rate_min = 50000;
    options.write_timeout = 2 * COIR_S;
    CHECK_EQ(with_server(serve, read_in_bursts), 0);
}

static void expect_total_time(void)
{
    expect_refusal(drip_until_refused(LONG, "", 10 * COIR_S), 3 * COIR_S, 4 * COIR_S); /* silent */
}

TEST_SIM(the_total_time_also_ends_a_silence)
{
    options.body_total_timeout = 3 * COIR_S;
    CHECK_EQ(with_server(serve, expect_total_time), 0);
}

static void expect_no_limits(void)
{
    coir_time took = drip_until_refused(
        "POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 700\r\n\r\n", "y", 4 * COIR_S);
    if (status(answer) != 200 || took < 699 * 4 * COIR_S)
        test_fail(__FILE__, __LINE__, "%.15s after %lld s", answer, (long long)(took / COIR_S));
    expect_refusal(drip_until_refused(LONG, "y", 6 * COIR_S), 4 * COIR_S, 6 * COIR_S);
}

TEST_SIM(slowness_can_be_allowed)
{
    use_own_limits();
    options.rate_min = COIR_UNLIMITED;
    options.body_total_timeout = COIR_NEVER;
    CHECK_EQ(with_server(serve, expect_no_limits), 0);
}

/* ---- a client that takes its answers slowly ---- */

/* Takes so many bytes a second, at most for `most`; when the connection was gone. */
static coir_time take_slowly(const char *text, size_t bytes, coir_time most)
{
    coir_http_counters counters = COIR_HTTP_COUNTERS;
    coir_stream *stream = dial();
    coir_time start = coir_now();
    send_text(stream, text);
    do {
        coir_sleep_for(COIR_S);
        ssize_t n = coir_read(stream, answer, bytes);
        coir_http_counters_get(&counters);
        if (n <= 0)
            break;
    } while (counters.connections_live && coir_now() - start < most);
    coir_close(stream);
    return coir_now() - start;
}

TEST_SERVER(answers_are_not_taken_for_ever)
{
    coir_time took = take_slowly(GET("/stream/10000000"), 1, 1000 * COIR_S);
    CHECK(took > 55 * COIR_S && took < 70 * COIR_S);
    took = take_slowly(GET("/stream/10000000"), 50, 10000 * COIR_S); /* half the rate */
    CHECK(took > 55 * COIR_S && took < 1000 * COIR_S);
    took = take_slowly(GET("/stream/10000000"), 2000, 2000 * COIR_S);
    CHECK(took >= 2000 * COIR_S);
}

/* Whatever part of an answer is left when its handler has ended. */
TEST_SERVER(who_takes_nothing_is_dropped_wherever_the_answer_stops)
{
    enum { CLIENTS = 200 };
    static coir_stream *clients[CLIENTS];
    coir_http_counters counters = COIR_HTTP_COUNTERS;
    char request[100];
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = dial();
        snprintf(request, sizeof request, GET("/stream/%d"), i * 10000);
        send_text(clients[i], request);
    }
    coir_sleep_for(30 * COIR_S);
    coir_http_counters_get(&counters);
    CHECK_EQ(counters.connections_live, CLIENTS);
    coir_sleep_for(220 * COIR_S); /* 60 s, and what 16 KiB may take */
    coir_http_counters_get(&counters);
    CHECK_EQ(counters.connections_live, 0);
    for (int i = 0; i < CLIENTS; i++)
        coir_close(clients[i]);
}

/* Asks for many pieces one after another, and takes their answers later: how many bytes come. */
static size_t take_pieces_after(int count, coir_time pause)
{
    coir_stream *stream = dial();
    size_t sum = 0;
    ssize_t n;
    for (int i = 0; i < count; i++) {
        send_text(stream, GET("/piece"));
        coir_sleep_for(20 * COIR_MS); /* the answer is sent, or waits by itself for room */
    }
    coir_sleep_for(pause);
    COIR_DEADLINE(coir_in(COIR_S));
    while ((n = coir_read(stream, answer, sizeof answer)) > 0)
        sum += (size_t)n;
    coir_close(stream);
    return sum;
}

static void take_no_last_answer(void)
{
    enum { MANY = 100 };
    size_t one = take_pieces_after(1, 0);
    CHECK_EQ(take_pieces_after(MANY, COIR_S), MANY * one);
    CHECK(take_pieces_after(MANY, 7 * COIR_S) < MANY * one);
}

/* The last answer is sent by the connection, without a fiber. */
TEST_SIM(a_client_that_takes_nothing_of_the_last_answer_is_closed)
{
    options = (coir_serve_http_options)COIR_SERVE_HTTP_OPTIONS;
    options.write_timeout = 5 * COIR_S;
    options.rate_min = 1000000;
    CHECK_EQ(with_server(serve, take_no_last_answer), 0);
}
