/* Push and flush: in order, as calls, cases and futures, from every worker. */
#include <unistd.h>

#include "io/write_queue.h"
#include "pair.h"
#include "write_queues.h"

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

static int finish(const char *text)
{
    coir_buffer *buffer;
    CHECK_EQ(coir_buffer_new(text, strlen(text), &buffer), 0);
    int rc = ci_write_queue_finish(t.queue, buffer);
    coir_buffer_unref(buffer);
    return rc;
}

TEST_SIM(the_last_push_passes_the_bounds_of_every_policy)
{
    for (int policy = COIR_OVERFLOW_WAIT; policy <= COIR_OVERFLOW_KEEP_LATEST; policy++) {
        COIR_HANDLE(waiting);
        COIR_SCOPE(scope);
        coir_go_options go = COIR_GO_OPTIONS;
        go.handle = waiting;
        fill((enum coir_overflow)policy);
        if (policy == COIR_OVERFLOW_WAIT) {
            CHECK_EQ(coir_go_with(scope, &go, push_waiting, "d"), 0);
            settle();
        }
        CHECK_EQ(finish("last"), 0);
        if (policy == COIR_OVERFLOW_WAIT)
            CHECK_EQ(coir_join(waiting), -EPIPE);
        CHECK_EQ(push("e"), -EPIPE);
        CHECK_EQ(push_waiting("e"), -EPIPE);
        CHECK_EQ(finish("e"), -EPIPE);
        expect_bytes("0"); /* one more is written: the queue is longer than its bounds */
        settle();
        expect_bytes("123456bclast");
        CHECK_EQ(coir_write_queue_flush(t.queue), 0);
        CHECK_EQ(push("e"), -EPIPE);
        close_queue();
    }
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

/* ---- other workers ---- */

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

/* ---- a flush, while another worker reports an outcome ---- */

static bool reporting, released;

/* Blocks the worker that drops "b". */
static void note_late(coir_buffer *buffer, int result, void *arg)
{
    if (*(const char *)coir_buffer_data(buffer) == 'b') {
        __atomic_store_n(&reporting, true, __ATOMIC_SEQ_CST);
        while (!__atomic_load_n(&released, __ATOMIC_SEQ_CST))
            usleep(100); /* lets the other worker run, on the simulated kernel too */
    }
    note(buffer, result, arg);
}

static int drop_oldest(void *arg)
{
    (void)arg;
    CHECK_EQ(push("d"), 0);
    return 0;
}

static int flush_and_count(void *arg)
{
    int *flushed = arg;
    CHECK_EQ(coir_write_queue_flush(t.queue), 0);
    expect_outcome('b', -COIR_EFULL);
    ++*flushed;
    return 0;
}

/* One flush begins before the last item has been written, and one after that. */
static void flush_while_reporting(void)
{
    int flushed = 0;
    coir_write_queue_options options = options_of(COIR_OVERFLOW_DROP_OLDEST, 2);
    options.on_outcome = note_late;
    fill_with(&options);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go_on(scope, 1, drop_oldest, NULL), 0);
    while (!__atomic_load_n(&reporting, __ATOMIC_SEQ_CST))
        coir_yield();
    CHECK_EQ(coir_go(scope, flush_and_count, &flushed), 0);
    settle();
    expect_bytes("0123456cd");
    while (stats_of(t.queue).items)
        coir_yield();
    CHECK_EQ(coir_go(scope, flush_and_count, &flushed), 0);
    settle();
    CHECK_EQ(flushed, 0);
    __atomic_store_n(&released, true, __ATOMIC_SEQ_CST);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(flushed, 2);
    close_queue();
}

TEST(a_flush_waits_for_outcomes_that_another_worker_reports)
{
    test_in_runtime(flush_while_reporting, 2);
}
