/* Write queues: order, bounds, every policy, one outcome for each buffer, and how they end. */
#include <coir.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "pair.h"

static struct {
    coir_stream *far, *near;
    coir_write_queue *queue;
    int outcomes[128], last[128]; /* by the buffer's first byte: how many, and which */
} t;

static void note(coir_buffer *buffer, int result, void *arg)
{
    CHECK(arg == &t);
    unsigned char first = *(const unsigned char *)coir_buffer_data(buffer);
    t.outcomes[first]++;
    t.last[first] = result;
}

static coir_write_queue_options options_of(enum coir_overflow overflow, size_t items_max)
{
    coir_write_queue_options options = COIR_WRITE_QUEUE_OPTIONS;
    options.overflow = overflow;
    options.items_max = items_max;
    options.on_outcome = note;
    options.arg = &t;
    return options;
}

/* A pair in memory that holds `capacity` bytes, and a queue at its near end. */
static void open_queue(size_t capacity, const coir_write_queue_options *options)
{
    memset(&t, 0, sizeof t);
    CHECK_EQ(coir_duplex(capacity, &t.far, &t.near), 0);
    CHECK_EQ(coir_write_queue_new_with(t.near, options, &t.queue), 0);
}

static void close_queue(void)
{
    coir_write_queue_free(t.queue);
    coir_close(t.near);
    coir_close(t.far);
}

static int push(const char *text)
{
    coir_buffer *buffer;
    CHECK_EQ(coir_buffer_new(text, strlen(text), &buffer), 0);
    int rc = coir_write_queue_try_push(t.queue, buffer);
    coir_buffer_unref(buffer);
    return rc;
}

static void settle(void)
{
    for (int i = 0; i < 10; i++)
        coir_yield();
}

static void expect_bytes(const char *want)
{
    char got[300];
    CHECK_EQ(coir_read_full(t.far, got, strlen(want), NULL), strlen(want));
    CHECK(memcmp(got, want, strlen(want)) == 0);
}

static coir_write_queue_stats stats_of(coir_write_queue *queue)
{
    coir_write_queue_stats stats = COIR_WRITE_QUEUE_STATS;
    CHECK_EQ(coir_write_queue_stats_get(queue, &stats), 0);
    return stats;
}

TEST_SIM(what_is_pushed_is_written_in_order_without_a_task)
{
    coir_write_queue_options options = options_of(COIR_OVERFLOW_WAIT, 200);
    open_queue(0, &options);
    char want[201] = {0};
    for (int i = 0; i < 200; i++) {
        char text[2] = {(char)('0' + i % 64), 0};
        want[i] = text[0];
        CHECK_EQ(push(text), 0);
    }
    CHECK_EQ(stats_of(t.queue).written, 0); /* no push has made a system call */
    CHECK_EQ(coir_write_queue_flush(t.queue), 0);
    CHECK_EQ(stats_of(t.queue).written, 200);
    CHECK_EQ(stats_of(t.queue).sent, 200);
    expect_bytes(want);
    close_queue();
}

/* The first buffer has begun to be written, and two fit behind it. */
static void fill(enum coir_overflow overflow)
{
    coir_write_queue_options options = options_of(overflow, 2);
    open_queue(4, &options);
    CHECK_EQ(push("0123456"), 0);
    settle();
    CHECK_EQ(stats_of(t.queue).sent, 4);
    CHECK(push("b") == 0 && push("c") == 0);
    settle();
}

static void expect_outcome(char which, int result)
{
    CHECK_EQ(t.outcomes[(unsigned char)which], 1);
    CHECK_EQ(t.last[(unsigned char)which], result);
}

TEST_SIM(a_full_queue_drops_the_oldest_but_not_what_has_begun)
{
    fill(COIR_OVERFLOW_DROP_OLDEST);
    CHECK_EQ(push("d"), 0);
    expect_outcome('b', -COIR_EFULL);
    expect_bytes("0123456cd");
    CHECK_EQ(coir_write_queue_flush(t.queue), 0);
    CHECK_EQ(stats_of(t.queue).dropped, 1);
    CHECK_EQ(stats_of(t.queue).written, 3);
    expect_outcome('0', 0);
    expect_outcome('c', 0);
    expect_outcome('d', 0);
    close_queue();
}

TEST_SIM(a_full_queue_drops_the_newest)
{
    fill(COIR_OVERFLOW_DROP_NEWEST);
    CHECK_EQ(push("d"), 0);
    expect_outcome('d', -COIR_EFULL);
    expect_bytes("0123456bc");
    CHECK_EQ(coir_write_queue_flush(t.queue), 0);
    close_queue();
}

TEST_SIM(a_full_queue_keeps_only_the_latest)
{
    fill(COIR_OVERFLOW_KEEP_LATEST);
    CHECK_EQ(push("d"), 0);
    expect_outcome('b', -COIR_EFULL);
    expect_outcome('c', -COIR_EFULL);
    expect_bytes("0123456d");
    CHECK_EQ(coir_write_queue_flush(t.queue), 0);
    close_queue();
}

static int push_waiting(void *arg)
{
    coir_buffer *buffer;
    CHECK_EQ(coir_buffer_new(arg, strlen(arg), &buffer), 0);
    int rc = coir_write_queue_push(t.queue, buffer);
    coir_buffer_unref(buffer);
    return rc;
}

TEST_SIM(a_full_queue_is_waited_for_in_order)
{
    fill(COIR_OVERFLOW_WAIT);
    COIR_SCOPE(scope);
    CHECK_EQ(push("x"), -EAGAIN);
    CHECK_EQ(coir_go(scope, push_waiting, "d"), 0);
    coir_yield();
    CHECK_EQ(coir_go(scope, push_waiting, "e"), 0);
    settle();
    CHECK_EQ(push("x"), -EAGAIN); /* a push does not overtake others */
    expect_bytes("0123456bcde");
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(t.outcomes['x'], 0); /* refused: no outcome */
    close_queue();
}

TEST_SIM(one_that_waits_and_is_cancelled_lets_those_behind_it_in)
{
    coir_write_queue_options options = options_of(COIR_OVERFLOW_WAIT, 10);
    options.bytes_max = 10;
    open_queue(1, &options);
    COIR_HANDLE(large);
    COIR_SCOPE(scope);
    coir_go_options go = COIR_GO_OPTIONS;
    go.handle = large;
    CHECK(push("ab") == 0 && push("cdef") == 0);
    settle(); /* one byte is on its way: "ab" has begun, and counts no more */
    CHECK_EQ(coir_go_with(scope, &go, push_waiting, "ghijklm"), 0);
    coir_yield();
    CHECK_EQ(coir_go(scope, push_waiting, "x"), 0);
    settle();
    CHECK_EQ(stats_of(t.queue).items, 2);
    coir_cancel(large);
    CHECK_EQ(coir_join(large), -ECANCELED);
    settle();
    CHECK_EQ(stats_of(t.queue).items, 3);
    expect_bytes("abcdefx");
    CHECK_EQ(t.outcomes['g'], 0);
    coir_write_queue_flush(t.queue);
    close_queue();
}

TEST_SIM(the_bound_in_bytes_holds_and_no_buffer_is_larger)
{
    coir_write_queue_options options = options_of(COIR_OVERFLOW_DROP_OLDEST, 100);
    options.bytes_max = 8;
    open_queue(1, &options);
    CHECK_EQ(push("123456789"), -COIR_ETOOLARGE);
    CHECK_EQ(push("12"), 0);
    settle();
    CHECK(push("abc") == 0 && push("def") == 0 && push("gh") == 0);
    CHECK_EQ(stats_of(t.queue).bytes, 1 + 8);
    CHECK_EQ(push("ijkl"), 0); /* needs the room of two */
    CHECK_EQ(stats_of(t.queue).dropped, 2);
    expect_bytes("12ghijkl");
    CHECK_EQ(coir_write_queue_flush(t.queue), 0);
    close_queue();
}

static int read_one(void *arg)
{
    char byte;
    (void)arg;
    return (int)coir_read(t.near, &byte, 1);
}

TEST_SIM(a_full_queue_that_closes_takes_the_stream_along)
{
    fill(COIR_OVERFLOW_CLOSE);
    COIR_HANDLE(reader);
    COIR_SERVING_SCOPE(scope);
    coir_go_options go = COIR_GO_OPTIONS;
    go.handle = reader;
    CHECK_EQ(coir_go_with(scope, &go, read_one, NULL), 0);
    settle();
    CHECK_EQ(push("d"), -EPIPE);
    CHECK_EQ(coir_join(reader), -ECONNABORTED);
    CHECK_EQ(coir_write_queue_flush(t.queue), -COIR_EFULL);
    CHECK_EQ(stats_of(t.queue).failed, 3);
    expect_outcome('0', -COIR_EFULL);
    expect_outcome('b', -COIR_EFULL);
    CHECK_EQ(t.outcomes['d'], 0); /* refused */
    CHECK_EQ(push("e"), -EPIPE);
    CHECK_EQ(read_one(NULL), -ECONNABORTED);
    close_queue();
}

TEST_SIM(closing_the_stream_fails_what_is_queued)
{
    fill(COIR_OVERFLOW_WAIT);
    COIR_HANDLE(waiting);
    COIR_SERVING_SCOPE(scope);
    coir_go_options go = COIR_GO_OPTIONS;
    go.handle = waiting;
    CHECK_EQ(coir_go_with(scope, &go, push_waiting, "d"), 0);
    settle();
    coir_close(t.near);
    CHECK_EQ(coir_join(waiting), -EPIPE);
    expect_outcome('0', -ECANCELED);
    expect_outcome('c', -ECANCELED);
    CHECK_EQ(push("e"), -EPIPE);
    CHECK_EQ(stats_of(t.queue).error, -ECANCELED);
    coir_write_queue_free(t.queue);
    coir_close(t.far);
}

TEST_SIM(the_queue_is_the_only_writer_until_it_is_freed)
{
    coir_write_queue *second;
    open_queue(0, NULL);
    CHECK_EQ(coir_write(t.near, "x", 1), -EBUSY);
    CHECK_EQ(coir_try_write(t.near, "x", 1), -EBUSY);
    CHECK_EQ(coir_stream_wait(t.near, COIR_WRITE), -EBUSY);
    CHECK_EQ(coir_write_queue_new(t.near, &second), -EBUSY);
    CHECK_EQ(push("a"), 0);
    CHECK_EQ(coir_write_queue_flush(t.queue), 0);
    coir_write_queue_free(t.queue);
    CHECK_EQ(coir_write(t.near, "x", 1), 1);
    expect_bytes("ax");
    coir_close(t.near);
    coir_close(t.far);
}

TEST_SIM(freeing_a_queue_fails_what_lies_in_it)
{
    coir_write_queue_options options = options_of(COIR_OVERFLOW_WAIT, 10);
    open_queue(0, &options);
    CHECK(push("a") == 0 && push("b") == 0); /* its message is still on the way */
    close_queue();
    expect_outcome('a', -ECANCELED);
    expect_outcome('b', -ECANCELED);
    settle();
}

TEST_SIM(a_push_and_a_flush_are_cases)
{
    fill(COIR_OVERFLOW_WAIT);
    coir_buffer *buffer;
    CHECK_EQ(coir_buffer_new("d", 1, &buffer), 0);
    coir_case cases[] = {coir_case_push(t.queue, buffer), coir_case_flush(t.queue),
                         coir_case_after(COIR_MS)};
    CHECK_EQ(coir_select(cases, 3), 2);
    CHECK_EQ(t.outcomes['d'], 0);
    coir_case two[] = {coir_case_push(t.queue, buffer), coir_case_stream(t.far, COIR_READ)};
    CHECK_EQ(coir_select(two, 2), 1);
    expect_bytes("0123456bc");
    CHECK_EQ(coir_select_in_order(cases, 2), 0);
    expect_bytes("d");
    coir_case flush[] = {coir_case_flush(t.queue)};
    CHECK_EQ(coir_select(flush, 1), 0);
    expect_outcome('d', 0);
    coir_buffer_unref(buffer);
    close_queue();
}

TEST_SIM(a_push_and_a_flush_are_futures)
{
    coir_wait_op one, two;
    coir_buffer *buffer;
    fill(COIR_OVERFLOW_WAIT);
    CHECK_EQ(coir_buffer_new("d", 1, &buffer), 0);
    coir_branch both[] = {COIR_BRANCH(coir_write_queue_push_op(&one, t.queue, buffer)),
                          COIR_BRANCH(coir_write_queue_flush_op(&two, t.queue))};
    COIR_SCOPE(scope);
    coir_group group;
    coir_future *all = coir_join_all_op(&group, both, 2, 2);
    CHECK_EQ(coir_go_future(scope, all), 0);
    settle();
    expect_bytes("0123456bcd");
    CHECK_EQ(coir_scope_wait(scope), 0);
    expect_outcome('c', 0);
    expect_outcome('d', 0);
    coir_buffer_unref(buffer);
    close_queue();
}

/* ---- sockets, workers ---- */

TEST_REAL(a_peer_that_is_gone_ends_the_queue)
{
    memset(&t, 0, sizeof t);
    connect_pair(&t.far, &t.near);
    coir_write_queue_options options = options_of(COIR_OVERFLOW_WAIT, 1000);
    CHECK_EQ(coir_write_queue_new_with(t.near, &options, &t.queue), 0);
    CHECK_EQ(coir_tcp_set_option(t.far, COIR_TCP_RESET_ON_CLOSE, 1), 0);
    coir_close(t.far);
    int rc = 0;
    COIR_DEADLINE(coir_in(30 * COIR_S));
    while ((rc = push("x")) == 0)
        CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    CHECK_EQ(rc, -EPIPE);
    rc = coir_write_queue_flush(t.queue);
    CHECK(rc == -ECONNRESET || rc == -EPIPE);
    CHECK_EQ(stats_of(t.queue).failed + stats_of(t.queue).written, (uint64_t)t.outcomes['x']);
    coir_write_queue_free(t.queue);
    coir_close(t.near);
}

TEST_REAL(a_stuck_peer_is_reset_by_the_policy)
{
    static char large[64 * 1024];
    memset(&t, 0, sizeof t);
    connect_pair(&t.far, &t.near);
    coir_write_queue_options options = COIR_WRITE_QUEUE_OPTIONS;
    options.overflow = COIR_OVERFLOW_CLOSE;
    coir_buffer *buffer;
    CHECK_EQ(coir_buffer_wrap(large, sizeof large, NULL, NULL, &buffer), 0);
    CHECK_EQ(coir_write_queue_new_with(t.near, &options, &t.queue), 0);
    COIR_DEADLINE(coir_in(30 * COIR_S));
    while (coir_write_queue_try_push(t.queue, buffer) == 0)
        CHECK_EQ(coir_yield(), 0);
    CHECK_EQ(read_one(NULL), -ECONNABORTED);
    coir_close(t.near);
    coir_write_queue_free(t.queue);
    coir_buffer_unref(buffer);
    ssize_t n;
    while ((n = coir_read(t.far, large, sizeof large)) > 0)
        continue;
    CHECK_EQ(n, -ECONNRESET);
    coir_close(t.far);
}

enum { WORKERS = 3, PUSHES = 3000 };

struct word {
    int pusher, number;
};

static int push_many(void *arg)
{
    for (int i = 0; i < PUSHES; i++) {
        struct word word = {(int)(intptr_t)arg, i};
        coir_buffer *buffer;
        CHECK_EQ(coir_buffer_new(&word, sizeof word, &buffer), 0);
        CHECK_EQ(coir_write_queue_push(t.queue, buffer), 0);
        coir_buffer_unref(buffer);
    }
    return 0;
}

static void push_from_everywhere(void)
{
    int next[WORKERS] = {0};
    memset(&t, 0, sizeof t);
    connect_pair(&t.far, &t.near);
    coir_write_queue_options options = COIR_WRITE_QUEUE_OPTIONS;
    options.items_max = 20;
    CHECK_EQ(coir_write_queue_new_with(t.near, &options, &t.queue), 0);
    COIR_SCOPE(scope);
    for (intptr_t i = 0; i < WORKERS; i++)
        CHECK_EQ(coir_go_on(scope, (int)i, push_many, (void *)i), 0);
    for (int i = 0; i < WORKERS * PUSHES; i++) {
        struct word word;
        CHECK_EQ(coir_read_full(t.far, &word, sizeof word, NULL), sizeof word);
        CHECK(word.pusher >= 0 && word.pusher < WORKERS);
        CHECK_EQ(word.number, next[word.pusher]++);
    }
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(stats_of(t.queue).written, WORKERS * PUSHES);
    close_queue();
}

TEST(every_worker_may_push)
{
    test_in_runtime(push_from_everywhere, WORKERS);
}

static bool over;

/* On another worker than the queue's, which stays awake meanwhile. */
static int push_beside(void *arg)
{
    coir_counters before = COIR_COUNTERS, after = COIR_COUNTERS;
    (void)arg;
    CHECK_EQ(coir_counters_get(coir_runtime_current(), &before), 0);
    for (int i = 0; i < 1000; i++)
        CHECK_EQ(push("x"), 0);
    CHECK_EQ(coir_counters_get(coir_runtime_current(), &after), 0);
    CHECK_EQ(after.wakeups_sent, before.wakeups_sent);
    __atomic_store_n(&over, true, __ATOMIC_SEQ_CST);
    return 0;
}

static void stay_awake(void)
{
    memset(&t, 0, sizeof t);
    CHECK_EQ(coir_duplex(0, &t.far, &t.near), 0);
    CHECK_EQ(coir_write_queue_new(t.near, &t.queue), 0);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go_on(scope, 1, push_beside, NULL), 0);
    while (!__atomic_load_n(&over, __ATOMIC_SEQ_CST))
        coir_yield();
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(coir_write_queue_flush(t.queue), 0);
    CHECK_EQ(stats_of(t.queue).written, 1000);
    close_queue();
}

TEST(no_wakeup_is_sent_while_the_owner_is_awake)
{
    test_in_runtime(stay_awake, 2);
}
