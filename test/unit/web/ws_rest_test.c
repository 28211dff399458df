/* WebSocket connections without a fiber at rest: those that have waited for a second have no task,
 * and behave as if they had one. */
#include "web/ws.h"

#include "records.h"
#include "wire.h"

enum { IDLERS = 50 };

static coir_ws_options options = COIR_WS_OPTIONS;
static int ended, result, code;
static coir_ws *newest;
static bool in_parts;

static int on_message(coir_ws *ws, coir_ws_message *message, void *arg)
{
    (void)arg;
    if (!message) {
        ended++;
        result = coir_ws_result(ws);
        code = coir_ws_close_code(ws);
        return 0;
    }
    if (in_parts) { /* a part for each message */
        bool last = coir_ws_message_len(message) == 0;
        return coir_ws_send_part(ws, COIR_WS_TEXT, coir_ws_message_data(message),
                                 coir_ws_message_len(message), last);
    }
    return coir_ws_send(ws, message);
}

static int handle(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    return coir_ws_handle_with(req, res, &options, on_message, NULL, &newest);
}

static int serve(void *arg)
{
    (void)arg;
    static const struct route routes[] = {{"GET", "/ws", handle}, {0}};
    return serve_routes(routes, NULL);
}

static void say(coir_stream *stream, const char *text)
{
    put_text(WIRE_FIN | TEXT, text);
    send_wire(stream);
}

static void hears(coir_stream *stream, const char *text)
{
    CHECK_EQ(read_frame(stream), WIRE_FIN | TEXT);
    CHECK(strcmp(came.payload, text) == 0);
}

static void echo_once(coir_stream *stream)
{
    say(stream, "hello");
    hears(stream, "hello");
}

static coir_stream *dial_and_rest(void)
{
    int busy = count_records();
    coir_stream *stream = dial_ws(WS_REQUEST);
    echo_once(stream);
    CHECK_EQ(count_records(), busy - 1);
    coir_sleep_for(2 * COIR_S);
    CHECK_EQ(count_records(), busy);
    return stream;
}

static void wait_for_end(coir_stream *stream, int want)
{
    coir_close(stream);
    coir_sleep_for(20 * COIR_S);
    CHECK_EQ(ended, 1);
    CHECK_EQ(result, want);
}

TEST_SERVER(those_that_wait_give_their_tasks_back)
{
    static coir_stream *idlers[IDLERS];
    for (int i = 0; i < IDLERS; i++)
        echo_once(idlers[i] = dial_ws(WS_REQUEST));
    int busy = count_records();
    for (int round = 0; round < 3; round++) {
        coir_sleep_for(3 * COIR_S);
        CHECK_EQ(count_records(), busy + IDLERS);
        for (int i = 0; i < IDLERS; i++)
            echo_once(idlers[i]);
        CHECK_EQ(count_records(), busy);
    }
    for (int i = 0; i < IDLERS; i++)
        coir_close(idlers[i]);
    coir_sleep_for(20 * COIR_S);
    CHECK_EQ(ended, IDLERS);
    CHECK_EQ(count_records(), busy + IDLERS);
}

/* The times around the one at which it rests, in steps of 10 us. */
TEST_SERVER(a_message_that_comes_as_it_begins_to_rest)
{
    coir_stream *stream = dial_ws(WS_REQUEST);
    for (int i = -100; i <= 100; i++) {
        echo_once(stream);
        coir_sleep_for(COIR_S + i * 10 * COIR_US);
    }
    wait_for_end(stream, -COIR_EEND);
}

TEST_SERVER(one_at_rest_is_sent_to)
{
    coir_stream *stream = dial_and_rest();
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(coir_ws_send_text(newest, "news"), 0);
        CHECK_EQ(coir_ws_flush(newest), 0);
        hears(stream, "news");
        coir_sleep_for(2 * COIR_S);
    }
    CHECK_EQ(coir_ws_flush(newest), 0);
    wait_for_end(stream, -COIR_EEND);
}

TEST_SERVER(one_at_rest_is_pinged_and_ends_when_it_does_not_answer)
{
    coir_stream *stream = dial_and_rest();
    int resting = count_records();
    for (int i = 0; i < 5; i++) {
        coir_time start = coir_now();
        CHECK_EQ(read_frame(stream), WIRE_FIN | PING);
        CHECK(coir_now() - start > 27 * COIR_S && coir_now() - start < 31 * COIR_S);
        put_frame(WIRE_FIN | PONG, NULL, 0);
        send_wire(stream);
        coir_sleep_for(2 * COIR_S);
        CHECK_EQ(count_records(), resting);
    }
    CHECK_EQ(read_frame(stream), WIRE_FIN | PING);
    coir_time start = coir_now();
    CHECK_EQ(read_frame(stream), -1);
    CHECK(coir_now() - start > 19 * COIR_S && coir_now() - start < 21 * COIR_S);
    wait_for_end(stream, -ETIMEDOUT);
}

/* The program's own ping has a limit too, where coir sends none. */
TEST_SERVER(one_at_rest_ends_when_a_ping_of_the_program_is_not_answered)
{
    options.ping_interval = COIR_NEVER;
    coir_stream *stream = dial_and_rest();
    coir_sleep_for(60 * COIR_S);
    for (int i = 0; i < 2; i++) {
        coir_time start = coir_now();
        CHECK_EQ(coir_ws_ping(newest), 0);
        CHECK_EQ(read_frame(stream), WIRE_FIN | PING);
        if (i == 0) {
            put_frame(WIRE_FIN | PONG, NULL, 0);
            send_wire(stream);
            coir_sleep_for(60 * COIR_S);
            CHECK_EQ(ended, 0);
            continue;
        }
        CHECK_EQ(read_frame(stream), -1);
        CHECK(coir_now() - start > 19 * COIR_S && coir_now() - start < 21 * COIR_S);
    }
    wait_for_end(stream, -ETIMEDOUT);
}

TEST_SERVER(a_peer_that_closes_ends_one_at_rest)
{
    coir_stream *stream = dial_and_rest();
    put_close(4000, "");
    send_wire(stream);
    CHECK_EQ(read_frame(stream), WIRE_FIN | CLOSE);
    CHECK_EQ(read_frame(stream), -1);
    wait_for_end(stream, 0);
    CHECK_EQ(code, 4000);
}

TEST_SERVER(a_peer_that_leaves_ends_one_at_rest)
{
    wait_for_end(dial_and_rest(), -COIR_EEND);
}

TEST_SERVER(one_at_rest_is_closed_by_another_task)
{
    coir_stream *stream = dial_and_rest();
    CHECK_EQ(coir_ws_close(newest, 4001, "enough"), 0);
    CHECK_EQ(read_frame(stream), WIRE_FIN | CLOSE);
    CHECK_EQ(came_code(), 4001);
    CHECK_EQ(coir_ws_send_text(newest, "late"), -EPIPE);
    CHECK_EQ(read_frame(stream), -1); /* the close frame was not answered */
    wait_for_end(stream, -ETIMEDOUT);
}

/* The queue ends, and breaks the stream. */
TEST_SERVER(one_at_rest_whose_queue_overflows_ends)
{
    options.overflow = COIR_OVERFLOW_CLOSE;
    options.items_max = 2;
    coir_stream *stream = dial_and_rest();
    int rc = 0;
    for (int i = 0; i < 100 && rc == 0; i++)
        rc = coir_ws_send_text(newest, "news");
    CHECK_EQ(rc, -EPIPE);
    coir_sleep_for(COIR_S);
    CHECK_EQ(ended, 1);
    CHECK_EQ(result, -ECONNABORTED);
    coir_close(stream);
}

TEST_SERVER(one_that_sends_a_message_in_parts_does_not_rest)
{
    in_parts = true;
    coir_stream *stream = dial_ws(WS_REQUEST);
    int busy = count_records();
    for (int i = 0; i < 3; i++) {
        say(stream, "a");
        CHECK_EQ(read_frame(stream), i ? CONT : TEXT);
        coir_sleep_for(3 * COIR_S);
        CHECK_EQ(count_records(), busy);
    }
    say(stream, "");
    CHECK_EQ(read_frame(stream), WIRE_FIN | CONT);
    coir_sleep_for(3 * COIR_S);
    CHECK_EQ(count_records(), busy + 1);
    wait_for_end(stream, -COIR_EEND);
}

/* What has come of a message is kept: a head, a payload, fragments. */
TEST_SERVER(one_that_waits_for_the_rest_of_a_message_does_not_rest)
{
    coir_stream *stream = dial_and_rest();
    int resting = count_records();
    CHECK(!newest->awake);
    static const size_t cuts[] = {1, 5, 8, 9, 12, 19};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        wire_len = 0;
        put_frame(TEXT, "hel", 3);
        CHECK_EQ(wire_len, 9);
        put_frame(WIRE_FIN | CONT, "lo, you", 7);
        CHECK_EQ(coir_write_all(stream, wire, cuts[i]), 0);
        coir_sleep_for(3 * COIR_S);
        CHECK(newest->awake);
        CHECK_EQ(count_records(), resting - 1);
        CHECK_EQ(coir_write_all(stream, wire + cuts[i], wire_len - cuts[i]), 0);
        hears(stream, "hello, you");
        coir_sleep_for(3 * COIR_S);
        CHECK(!newest->awake);
        CHECK_EQ(count_records(), resting);
    }
    wire_len = 0;
    wait_for_end(stream, -COIR_EEND);
}

/* ---- the drain ---- */

static void drain_those_at_rest(bool answers, bool without_memory)
{
    coir_stream *idlers[IDLERS];
    COIR_SCOPE(server);
    coir_go(server, serve, NULL);
    coir_sleep_for(COIR_MS);
    for (int i = 0; i < IDLERS; i++)
        echo_once(idlers[i] = dial_ws(WS_REQUEST));
    coir_sleep_for(3 * COIR_S);
    coir_time start = coir_now();
    if (without_memory)
        take_records();
    coir_scope_cancel(server);
    for (int i = 0; i < IDLERS; i++) {
        CHECK_EQ(read_frame(idlers[i]), WIRE_FIN | CLOSE);
        CHECK_EQ(came_code(), 1001);
        put_close(1001, "");
        if (answers)
            send_wire(idlers[i]);
        wire_len = 0;
    }
    if (without_memory) { /* until after drain_timeout */
        sleep_without_records(15 * COIR_S);
        CHECK(ended < IDLERS / 2); /* some get records that others gave back */
        start = coir_now();
        give_records_back();
    }
    for (int i = 0; i < IDLERS; i++) {
        CHECK_EQ(read_frame(idlers[i]), -1);
        coir_close(idlers[i]);
    }
    coir_scope_wait(server);
    CHECK_EQ(ended, IDLERS);
    CHECK(coir_now() - start < (answers || without_memory ? COIR_S : 11 * COIR_S));
}

TEST_SIM(a_drain_ends_those_at_rest)
{
    drain_those_at_rest(true, false);
    CHECK_EQ(result, 0);
}

TEST_SIM(a_drain_ends_those_at_rest_that_do_not_answer)
{
    drain_those_at_rest(false, false);
    CHECK_EQ(result, -ETIME);
}

TEST_SIM(without_memory_a_drain_ends_them_later)
{
    drain_those_at_rest(false, true);
}

TEST_SIM(without_memory_a_drain_ends_those_that_answer_later)
{
    drain_those_at_rest(true, true);
}

/* ---- without memory ---- */

TEST_SERVER(without_memory_a_message_waits)
{
    coir_stream *stream = dial_and_rest();
    take_records();
    say(stream, "hello");
    coir_sleep_for(5 * COIR_S);
    give_records_back();
    hears(stream, "hello");
    echo_once(stream);
    wait_for_end(stream, -COIR_EEND);
}

/* For a while there is none for a ping, or for its queue. */
TEST_SERVER(without_memory_for_a_ping_it_is_sent_later)
{
    coir_stream *stream = dial_and_rest();
    coir_allocator *allocator = &ci_http_worker_of(ci_worker_current)->messages.allocator,
                   before = *allocator;
    coir_time start = coir_now();
    coir_sleep_for(20 * COIR_S);
    allocator->alloc = no_memory;
    coir_sleep_for(40 * COIR_S);
    *allocator = before;
    CHECK_EQ(ended, 0);
    CHECK_EQ(read_frame(stream), WIRE_FIN | PING);
    CHECK(coir_now() - start > 59 * COIR_S && coir_now() - start < 62 * COIR_S);
    put_frame(WIRE_FIN | PONG, NULL, 0);
    send_wire(stream);
    echo_once(stream);
    wait_for_end(stream, -COIR_EEND);
}

/* For what it has beside its task. */
TEST_SERVER(without_memory_to_be_awake_a_message_waits)
{
    coir_stream *stream = dial_and_rest();
    int resting = count_records();
    records_of = &ci_http_worker_of(ci_worker_current)->awakes;
    take_records();
    say(stream, "hello");
    coir_sleep_for(5 * COIR_S);
    CHECK(!newest->awake);
    give_records_back();
    records_of = NULL;
    CHECK_EQ(count_records(), resting);
    hears(stream, "hello");
    echo_once(stream);
    wait_for_end(stream, -COIR_EEND);
}

TEST_SERVER(without_memory_silence_ends_it_later)
{
    coir_stream *stream = dial_and_rest();
    sleep_without_records(100 * COIR_S);
    CHECK_EQ(ended, 0);
    give_records_back();
    coir_sleep_for(COIR_S);
    CHECK_EQ(ended, 1);
    wait_for_end(stream, -ETIMEDOUT);
}

/* ---- without a stack ---- */

static struct ci_stack_free *stacks_taken;
static const coir_allocator *allocator_of_stacks;

static void take_stacks(void)
{
    struct ci_stacks *stacks = &ci_worker_current->stacks;
    allocator_of_stacks = stacks->allocator;
    stacks->allocator = &none;
    for (struct ci_stack_free *stack; (stack = ci_stacks_take(stacks));) {
        stack->next = stacks_taken;
        stacks_taken = stack;
    }
    CHECK(stacks_taken);
}

static void give_stacks_back(void)
{
    struct ci_stacks *stacks = &ci_worker_current->stacks;
    stacks->allocator = allocator_of_stacks;
    for (struct ci_stack_free *next; stacks_taken; stacks_taken = next) {
        next = stacks_taken->next;
        ci_stacks_give(stacks, stacks_taken);
    }
}

TEST_SERVER(without_a_stack_a_message_waits)
{
    coir_stream *stream = dial_and_rest();
    take_stacks();
    say(stream, "hello");
    coir_sleep_for(COIR_S);
    give_stacks_back();
    hears(stream, "hello");
    echo_once(stream);
    wait_for_end(stream, -COIR_EEND);
}

TEST_SERVER(without_a_stack_the_end_is_told_later)
{
    coir_stream *stream = dial_and_rest();
    take_stacks();
    coir_shutdown_write(stream);
    coir_sleep_for(COIR_S);
    CHECK_EQ(ended, 0);
    give_stacks_back();
    coir_sleep_for(COIR_S);
    CHECK_EQ(ended, 1);
    wait_for_end(stream, -COIR_EEND);
}
