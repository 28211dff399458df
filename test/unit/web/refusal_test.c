/* Clients beyond the limits of a server: they wait, are told so, or their connections are closed;
 * and who comes later is served again. */
#include <coir/sim.h>

#include "site.h"

static coir_http_counters counters(void)
{
    coir_http_counters now = COIR_HTTP_COUNTERS;
    CHECK_EQ(coir_http_counters_get(&now), 0);
    return now;
}

static void limit(size_t connections, size_t requests, enum coir_at_limit at_limit)
{
    options = (coir_serve_http_options)COIR_SERVE_HTTP_OPTIONS;
    options.connections_max = connections;
    options.requests_max = requests;
    options.at_limit = at_limit;
}

/* An answer of the server's that it has no room. */
static void is_refusal(const char *text)
{
    CHECK_EQ(status(text), 503);
    CHECK(strstr(text, "\r\nRetry-After: 1\r\n") && strstr(text, "\r\nConnection: close\r\n"));
}

static coir_stream *begin(const char *text)
{
    coir_stream *stream = dial();
    send_text(stream, text);
    coir_sleep_for(10 * COIR_MS);
    return stream;
}

static void hears(coir_stream *stream, int expected)
{
    ssize_t n = coir_read(stream, answer, sizeof answer - 1);
    CHECK(n > 0);
    answer[n] = '\0';
    CHECK_EQ(status(answer), expected);
}

/* ---- requests ---- */

static void two_naps_and_more(void)
{
    coir_stream *first = begin(GET("/nap/1000")), *second = begin(GET("/nap/2000"));
    coir_stream *third = dial();
    uint64_t before = counters().refused;
    send_text(third, GET("/hello"));
    is_refusal(receive_all(third));
    coir_close(third);
    CHECK_EQ(counters().refused, before + 1);
    CHECK_EQ(counters().errors_sent > 0, true);
    CHECK_EQ(handlers_running, 2);
    hears(first, 200);
    send_text(first, GET("/hello")); /* a turn is free, for the same connection too */
    hears(first, 200);
    CHECK_EQ(status(ask(GET("/hello"))), 200);
    hears(second, 200);
    coir_close(first);
    coir_close(second);
}

TEST_SIM(requests_beyond_the_limit_are_answered_503)
{
    limit(0, 2, COIR_LIMIT_ANSWERS);
    CHECK_EQ(with_server(serve, two_naps_and_more), 0);
}

static void queue_up(void)
{
    coir_stream *first = begin(GET("/nap/1000")), *more[5];
    coir_time start = coir_now();
    uint64_t before = counters().refused;
    for (int i = 0; i < 5; i++)
        more[i] = begin(GET("/nap/100"));
    CHECK_EQ(handlers_running, 1);
    for (int i = 0; i < 5; i++) { /* in their order */
        hears(more[i], 200);
        CHECK(coir_now() - start >= (900 + 100 * i) * COIR_MS);
        coir_close(more[i]);
    }
    hears(first, 200);
    coir_close(first);
    CHECK_EQ(counters().refused, before);
}

TEST_SIM(requests_beyond_the_limit_wait_for_their_turn)
{
    limit(0, 1, COIR_LIMIT_WAITS);
    CHECK_EQ(with_server(serve, queue_up), 0);
}

static void wait_too_long(void)
{
    coir_stream *first = begin(GET("/nap/90000")), *second = begin(GET("/hello"));
    is_refusal(receive_all(second));
    coir_close(second);
    coir_close(first); /* its handler is cancelled, and the turn is free */
    CHECK_EQ(status(ask(GET("/hello"))), 200);
}

TEST_SIM(a_request_that_has_waited_for_too_long_is_answered_503)
{
    limit(0, 1, COIR_LIMIT_WAITS);
    CHECK_EQ(with_server(serve, wait_too_long), 0);
}

static void leave_while_waiting(void)
{
    coir_stream *first = begin(GET("/nap/1000")), *second = begin(GET("/hello"));
    coir_stream *third = begin(GET("/hello"));
    coir_close(second);
    hears(third, 200);
    coir_close(first);
    coir_close(third);
}

TEST_SIM(a_client_that_leaves_while_it_waits_takes_no_turn_with_it)
{
    limit(0, 1, COIR_LIMIT_WAITS);
    CHECK_EQ(with_server(serve, leave_while_waiting), 0);
}

static void requests_are_closed(void)
{
    coir_stream *first = begin(GET("/nap/1000")), *second = dial();
    uint64_t before = counters().refused;
    send_text(second, GET("/hello"));
    CHECK_EQ(strlen(receive_all(second)), 0);
    CHECK_EQ(counters().refused, before + 1);
    coir_close(second);
    hears(first, 200);
    coir_close(first);
}

TEST_SIM(connections_of_requests_beyond_the_limit_are_closed)
{
    limit(0, 1, COIR_LIMIT_CLOSES);
    CHECK_EQ(with_server(serve, requests_are_closed), 0);
}

/* The last answer of a slow client keeps its turn until it has been sent. */
static void read_slowly(void)
{
    coir_stream *slow = begin(GET("/big/8000000"));
    is_refusal(ask(GET("/hello")));
    size_t got = 0;
    ssize_t n;
    while (got < 8000000 && (n = coir_read(slow, answer, sizeof answer)) > 0)
        got += (size_t)n;
    coir_sleep_for(COIR_S);
    CHECK_EQ(status(ask(GET("/hello"))), 200);
    coir_close(slow);
}

TEST_SIM(an_answer_that_is_being_sent_counts_as_a_request)
{
    limit(0, 1, COIR_LIMIT_ANSWERS);
    CHECK_EQ(with_server(serve, read_slowly), 0);
}

/* Half a head holds no turn, and an idle connection does not either. */
static void idle_and_half(void)
{
    coir_stream *idle = begin(GET("/hello")), *half = begin("GET /hello HTTP/1.1\r\nHo");
    CHECK_EQ(status(ask(GET("/hello"))), 200);
    send_text(half, "st: a\r\n\r\n");
    hears(half, 200);
    coir_close(idle);
    coir_close(half);
}

TEST_SIM(a_connection_without_a_request_holds_no_turn)
{
    limit(0, 1, COIR_LIMIT_ANSWERS);
    CHECK_EQ(with_server(serve, idle_and_half), 0);
}

/* ---- connections ---- */

static void three_connections(void)
{
    coir_stream *first = begin(GET("/hello")), *second = dial(), *third = dial();
    hears(first, 200);
    is_refusal(receive_all(third)); /* before it has asked for anything */
    coir_close(third);
    send_text(second, GET("/hello"));
    hears(second, 200);
    coir_close(first);
    coir_sleep_for(10 * COIR_S); /* the connections that were refused have ended */
    CHECK_EQ(status(ask(GET("/hello"))), 200);
    CHECK_EQ(counters().connections_live, 1);
    coir_close(second);
}

TEST_SIM(connections_beyond_the_limit_are_answered_503)
{
    limit(2, 0, COIR_LIMIT_ANSWERS);
    CHECK_EQ(with_server(serve, three_connections), 0);
}

static void third_is_closed(void)
{
    uint64_t before = counters().refused;
    coir_stream *first = begin(GET("/hello")), *second = dial(), *third = dial();
    CHECK_EQ(strlen(receive_all(third)), 0);
    coir_close(third);
    CHECK_EQ(counters().refused, before + 1);
    coir_close(first);
    coir_sleep_for(COIR_S);
    CHECK_EQ(status(ask(GET("/hello"))), 200);
    coir_close(second);
}

TEST_SIM(connections_beyond_the_limit_are_closed)
{
    limit(2, 0, COIR_LIMIT_CLOSES);
    CHECK_EQ(with_server(serve, third_is_closed), 0);
}

/* Ten times as many as there may be, all at once: each is served, told so, or waits. */
enum { CROWD = 200 };
static int served, refused;

static int one_of_many(void *arg)
{
    (void)arg;
    char text[1000];
    coir_stream *stream = dial();
    send_text(stream, GET("/nap/50"));
    coir_shutdown_write(stream);
    ssize_t n = coir_read(stream, text, sizeof text - 1);
    if (n > 0) {
        text[n] = '\0';
        served += status(text) == 200;
        refused += status(text) == 503;
    }
    coir_close(stream);
    return 0;
}

static void crowd(void)
{
    COIR_SCOPE(scope);
    uint64_t before = counters().refused;
    served = refused = 0;
    for (int i = 0; i < CROWD; i++)
        CHECK_EQ(coir_go(scope, one_of_many, NULL), 0);
    coir_scope_wait(scope);
    CHECK_EQ(served + refused, CROWD);
    CHECK(served >= 4 && refused > 0);
    CHECK_EQ(counters().refused - before, refused);
    CHECK_EQ(status(ask(GET("/hello"))), 200); /* at once */
}

TEST_SIM(a_crowd_is_answered_and_the_next_client_is_served)
{
    limit(20, 4, COIR_LIMIT_ANSWERS);
    CHECK_EQ(with_server(serve, crowd), 0);
}

TEST_SIM(a_server_that_stops_serves_those_that_wait)
{
    limit(0, 1, COIR_LIMIT_WAITS);
    COIR_SCOPE(server);
    coir_go(server, serve, NULL);
    coir_sleep_for(COIR_MS);
    coir_stream *first = begin(GET("/nap/1000")), *second = begin(GET("/hello"));
    coir_scope_cancel(server);
    hears(first, 200);
    hears(second, 200);
    coir_close(first);
    coir_close(second);
    coir_scope_wait(server);
}
