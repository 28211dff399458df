/* Connections at rest: those that have waited for a second without a request have no task, and
 * behave as if they had one. */
#include "client.h"
#include "records.h"

enum { IDLERS = 50 };

static coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;
static coir_stream *idlers[IDLERS];

static int hello(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    return coir_respond_text(res, 200, "hello");
}

static int serve(void *arg)
{
    static const struct route routes[] = {{"GET", "/hello", hello}, {0}};
    (void)arg;
    return serve_routes(routes, &options);
}

static void ask_once(coir_stream *stream)
{
    send_text(stream, GET("/hello"));
    CHECK(coir_read(stream, answer, 1000) > 0);
    CHECK_EQ(status(answer), 200);
}

static void open_idlers(void)
{
    for (int i = 0; i < IDLERS; i++) {
        idlers[i] = dial();
        ask_once(idlers[i]);
    }
}

static void close_idlers(void)
{
    for (int i = 0; i < IDLERS; i++)
        coir_close(idlers[i]);
}

static coir_http_counters http(void)
{
    coir_http_counters counters = COIR_HTTP_COUNTERS;
    CHECK_EQ(coir_http_counters_get(&counters), 0);
    return counters;
}

static uint64_t tasks_live(void)
{
    coir_counters counters = COIR_COUNTERS;
    coir_counters_get(coir_runtime_current(), &counters);
    return counters.tasks_live;
}

/* ---- rest ---- */

TEST_SERVER(connections_that_wait_give_their_tasks_back)
{
    open_idlers();
    uint64_t live = tasks_live();
    int busy = count_records();
    coir_sleep_for(3 * COIR_S);
    CHECK_EQ(count_records(), busy + IDLERS);
    CHECK_EQ(tasks_live(), live);
    CHECK_EQ(http().connections_live, IDLERS);
    for (int i = 0; i < IDLERS; i++)
        ask_once(idlers[i]);
    CHECK_EQ(count_records(), busy);
    CHECK_EQ(tasks_live(), live);
    close_idlers();
    coir_sleep_for(COIR_S);
    CHECK_EQ(http().connections_live, 0);
    CHECK_EQ(tasks_live(), live - IDLERS);
}

TEST_SERVER(a_connection_without_a_request_rests_too)
{
    int before = count_records();
    coir_stream *stream = dial();
    coir_sleep_for(500 * COIR_MS);
    CHECK_EQ(count_records(), before - 1);
    coir_sleep_for(2 * COIR_S);
    CHECK_EQ(count_records(), before);
    ask_once(stream);
    coir_close(stream);
}

TEST_SERVER(one_that_is_asked_each_half_second_does_not)
{
    coir_stream *stream = dial();
    ask_once(stream);
    int before = count_records();
    for (int i = 0; i < 10; i++) {
        coir_sleep_for(COIR_S / 2);
        CHECK_EQ(count_records(), before);
        ask_once(stream);
    }
    coir_close(stream);
}

TEST_SERVER(a_peer_that_closes_ends_a_connection_at_rest)
{
    open_idlers();
    uint64_t live = tasks_live();
    coir_sleep_for(3 * COIR_S);
    close_idlers();
    coir_sleep_for(100 * COIR_MS);
    CHECK_EQ(http().connections_live, 0);
    CHECK_EQ(tasks_live(), live - IDLERS);
}

TEST_SERVER(the_idle_timeout_counts_from_the_answer)
{
    coir_stream *stream = dial();
    ask_once(stream);
    coir_time start = coir_now();
    CHECK_EQ(coir_read(stream, answer, 1), 0);
    CHECK(coir_now() - start > 59 * COIR_S && coir_now() - start < 61 * COIR_S);
    coir_close(stream);
}

/* Bytes that are no request neither restart the time nor shorten it. */
TEST_SERVER(empty_lines_leave_the_idle_timeout_as_it_is)
{
    coir_stream *stream = dial();
    ask_once(stream);
    coir_time start = coir_now();
    for (int i = 0; i < 10; i++) {
        coir_sleep_for(i < 5 ? COIR_S / 3 : 3 * COIR_S);
        send_text(stream, "\r\n");
    }
    CHECK_EQ(coir_read(stream, answer, 1), 0);
    CHECK(coir_now() - start > 59 * COIR_S && coir_now() - start < 61 * COIR_S);
    coir_close(stream);
}

/* The first half of an empty line is no request either, also before the connection rests. */
TEST_SERVER(half_an_empty_line_leaves_the_idle_timeout_as_it_is)
{
    for (int i = 1; i < 4; i++) {
        coir_stream *stream = dial();
        ask_once(stream);
        coir_time start = coir_now();
        coir_sleep_for(i * COIR_S / 2);
        send_text(stream, "\r");
        coir_sleep_for(20 * COIR_S);
        send_text(stream, "\n\r");
        CHECK_EQ(coir_read(stream, answer, 1), 0);
        CHECK(coir_now() - start > 59 * COIR_S && coir_now() - start < 61 * COIR_S);
        coir_close(stream);
    }
}

TEST_SERVER(one_that_empty_lines_have_woken_rests_again)
{
    coir_stream *stream = dial();
    ask_once(stream);
    coir_time start = coir_now();
    int busy = count_records();
    for (int i = 0; i < 8; i++) {
        coir_sleep_for(3 * COIR_S + i * COIR_S / 4);
        CHECK_EQ(count_records(), busy + 1);
        send_text(stream, i & 1 ? "\r\n" : "\r\n\r\n");
        coir_sleep_for(COIR_MS);
        CHECK_EQ(count_records(), busy);
    }
    CHECK_EQ(coir_read(stream, answer, 1), 0);
    CHECK(coir_now() - start > 59 * COIR_S && coir_now() - start < 61 * COIR_S);
    coir_close(stream);
}

TEST_SERVER(without_an_idle_timeout_one_that_empty_lines_have_woken_rests_again)
{
    options.idle_timeout = COIR_NEVER;
    coir_stream *stream = dial();
    ask_once(stream);
    int busy = count_records();
    for (int i = 0; i < 3; i++) {
        coir_sleep_for(3 * COIR_S);
        CHECK_EQ(count_records(), busy + 1);
        send_text(stream, "\r\n");
    }
    coir_sleep_for(COIR_MS);
    ask_once(stream);
    coir_close(stream);
}

TEST_SERVER(half_a_head_wakes_one_at_rest)
{
    coir_stream *stream = dial();
    coir_sleep_for(5 * COIR_S);
    send_text(stream, "GET /hello HTTP/1.1\r\nHo");
    coir_sleep_for(2 * COIR_S);
    send_text(stream, "st: a\r\n\r\n");
    CHECK(coir_read(stream, answer, 1000) > 0);
    CHECK_EQ(status(answer), 200);
    coir_close(stream);
}

/* The times around the one at which it rests, in steps of 1 us: the bytes come in its turn, too. */
TEST_SERVER(a_request_that_comes_as_it_begins_to_rest)
{
    for (int i = -100; i <= 100; i++) {
        coir_stream *stream = dial();
        ask_once(stream);
        coir_sleep_for(COIR_S + i * COIR_US);
        ask_once(stream);
        coir_close(stream);
    }
    coir_sleep_for(COIR_S);
    CHECK_EQ(http().connections_live, 0);
}

TEST_SERVER(pipelined_requests_wake_one_at_rest)
{
    coir_stream *stream = dial();
    size_t len = 0;
    int answers = 0;
    coir_sleep_for(3 * COIR_S);
    send_text(stream, GET("/hello") GET("/hello") GET("/hello") GET("/hello"));
    while (answers < 4) {
        ssize_t n = coir_read(stream, answer + len, 1000);
        CHECK(n > 0);
        answer[len += (size_t)n] = '\0';
        answers = 0;
        for (const char *at = answer; (at = strstr(at, "\r\n\r\nhello")); at++)
            answers++;
    }
    coir_close(stream);
}

TEST_SERVER(one_that_was_woken_rests_again)
{
    coir_stream *stream = dial();
    ask_once(stream);
    int busy = count_records();
    for (int i = 0; i < 3; i++) {
        coir_sleep_for(3 * COIR_S);
        CHECK_EQ(count_records(), busy + 1);
        ask_once(stream);
        CHECK_EQ(count_records(), busy);
    }
    coir_close(stream);
}

TEST_SIM(a_drain_ends_those_at_rest)
{
    COIR_SCOPE(server);
    coir_go(server, serve, NULL);
    open_idlers();
    coir_sleep_for(3 * COIR_S);
    coir_time start = coir_now();
    coir_scope_cancel(server);
    for (int i = 0; i < IDLERS; i++)
        CHECK(coir_read(idlers[i], answer, 1) <= 0);
    coir_scope_wait(server);
    CHECK(coir_now() - start < COIR_S);
    close_idlers();
}

/* ---- without memory ---- */

TEST_SERVER(without_memory_one_that_is_woken_is_closed_and_counted)
{
    open_idlers();
    coir_sleep_for(3 * COIR_S);
    uint64_t live = tasks_live(), refused = http().refused;
    CHECK(take_records() >= IDLERS);
    send_text(idlers[0], GET("/hello"));
    CHECK(coir_read(idlers[0], answer, 1) <= 0);
    CHECK_EQ(http().refused, refused + 1);
    CHECK_EQ(http().connections_live, IDLERS - 1);
    give_records_back();
    CHECK_EQ(tasks_live(), live - 1);
    for (int i = 1; i < IDLERS; i++)
        ask_once(idlers[i]);
    close_idlers();
}

TEST_SERVER(without_memory_the_idle_timeout_holds)
{
    open_idlers();
    coir_sleep_for(3 * COIR_S);
    take_records();
    for (int i = 0; i < IDLERS; i++)
        CHECK(coir_read(idlers[i], answer, 1) <= 0);
    CHECK_EQ(http().connections_live, 0);
    give_records_back();
    close_idlers();
}

TEST_SIM(without_memory_a_drain_ends_them)
{
    COIR_SCOPE(server);
    coir_go(server, serve, NULL);
    open_idlers();
    coir_sleep_for(3 * COIR_S);
    coir_time start = coir_now();
    take_records();
    coir_scope_cancel(server);
    for (int i = 0; i < IDLERS; i++)
        CHECK(coir_read(idlers[i], answer, 1) <= 0);
    give_records_back();
    coir_scope_wait(server);
    CHECK(coir_now() - start < COIR_S);
    close_idlers();
}
