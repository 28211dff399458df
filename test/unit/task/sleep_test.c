/* Sleeps and timers: never early, in order, and nothing is left of those that were withdrawn. */
#include <coir.h>
#include <coir/loop.h>
#include <errno.h>
#include <time.h>

#include "harness.h"

static const coir_time computed = 3 * COIR_MS, waited = 2 * COIR_MS;

/* The machine's clock, which coir does not know to have been read. */
static coir_time real_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * COIR_S + now.tv_nsec;
}

static coir_time compute(void)
{
    coir_time start = real_now();
    while (real_now() - start < computed)
        continue;
    return real_now();
}

static coir_event never = COIR_EVENT_INIT;

/* Each way to wait for a duration, in the turn that computed before. */
static void wait_each_way(void)
{
    coir_sleep_op op;
    coir_time start = compute();
    CHECK_EQ(coir_sleep_for(waited), 0);
    CHECK(real_now() - start >= waited);

    start = compute();
    CHECK_EQ(coir_await(coir_sleep_for_op(&op, waited)), 0);
    CHECK(real_now() - start >= waited);

    start = compute();
    CHECK_EQ(coir_sleep_until(coir_in(waited)), 0);
    CHECK(real_now() - start >= waited);

    start = compute();
    {
        COIR_DEADLINE(coir_in(waited));
        CHECK_EQ(coir_event_wait(&never), -ETIME);
    }
    CHECK(real_now() - start >= waited);

    start = compute();
    coir_case waits[] = {coir_case_event(&never), coir_case_after(waited)};
    CHECK_EQ(coir_select(waits, 2), 1);
    CHECK(real_now() - start >= waited);
}

static int compute_beside(void *arg)
{
    while (!*(volatile int *)arg) {
        compute();
        coir_yield();
    }
    return 0;
}

static void wait_beside_one_that_computes(void)
{
    int stop = 0;
    COIR_SCOPE(scope);
    wait_each_way();
    coir_go(scope, compute_beside, &stop);
    wait_each_way();
    stop = 1;
    CHECK_EQ(coir_scope_wait(scope), 0);
}

TEST(no_sleep_ends_early)
{
    test_in_runtime(wait_beside_one_that_computes, 1);
}

static coir_time timer_start;
static int fired;

static void on_timer(coir_loop *loop, coir_timer *timer, void *arg)
{
    (void)arg;
    CHECK(real_now() - timer_start >= waited);
    timer_start = compute();
    if (++fired < 3)
        coir_timer_start(loop, timer, waited, on_timer, NULL);
}

TEST(no_timer_of_a_loop_fires_early)
{
    coir_loop *loop;
    coir_timer timer = {{0}};
    CHECK_EQ(coir_loop_new(&loop), 0);
    timer_start = compute();
    coir_timer_start(loop, &timer, waited, on_timer, NULL);
    CHECK_EQ(coir_loop_run(loop), 0);
    CHECK_EQ(fired, 3);
    coir_loop_free(loop);
}

TEST_SIM(sleeps_never_end_early_in_virtual_time)
{
    for (coir_time duration = 1; duration < 1000 * COIR_S; duration = duration * 7 + 3) {
        coir_time start = coir_now();
        CHECK_EQ(coir_sleep_for(duration), 0);
        CHECK_EQ(coir_now() - start, duration);
    }
}

TEST_REAL(sleeps_never_end_early_in_real_time)
{
    for (coir_time duration = 1; duration < 30 * COIR_MS; duration = duration * 3 + 1) {
        coir_time start = coir_now();
        CHECK_EQ(coir_sleep_for(duration), 0);
        CHECK(coir_now() - start >= duration);
    }
}

/* The last millisecond of a sleep is slept, not polled: a sleep costs a handful of waits, whatever
 * its length. */
TEST_REAL(sleeps_do_not_spin_at_their_end)
{
    coir_counters before = COIR_COUNTERS, after = COIR_COUNTERS;
    coir_counters_get(coir_runtime_current(), &before);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(coir_sleep_for(1500 * COIR_US), 0);
    coir_counters_get(coir_runtime_current(), &after);
    CHECK(after.driver_waits - before.driver_waits <= 30);
}

TEST_SIM(sleeps_end_in_the_order_of_their_durations)
{
    coir_sleep_op ops[4];
    static const coir_time durations[4] = {3 * COIR_MS, 1 * COIR_MS, COIR_NEVER, 2 * COIR_MS};
    coir_branch members[4], *ended;
    coir_set set;
    coir_set_init(&set);
    coir_time start = coir_now();
    for (int i = 0; i < 4; i++) {
        members[i] = (coir_branch)COIR_BRANCH(coir_sleep_for_op(&ops[i], durations[i]));
        CHECK_EQ(coir_set_add(&set, &members[i]), 0);
    }
    static const int order[] = {1, 3, 0};
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(coir_set_next(&set, &ended), 1);
        CHECK_EQ(ended - members, order[i]);
        CHECK_EQ(coir_now() - start, (i + 1) * COIR_MS);
    }
    coir_set_done(&set); /* the one that never ends */
    CHECK_EQ(ops[2].future.result, -ECANCELED);
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(coir_sleep_for(COIR_NEVER), -ETIME);
    }
    CHECK_EQ(coir_sleep_for(-5), 0);
}

TEST_REAL(a_sleep_withdrawn_before_the_worker_waits_leaves_nothing)
{
    for (int i = 0; i < 1000; i++) {
        coir_sleep_op sleep;
        coir_future turn;
        coir_branch race[] = {COIR_BRANCH(coir_sleep_for_op(&sleep, COIR_S)),
                              COIR_BRANCH(coir_yield_op(&turn))};
        CHECK_EQ(coir_any(race, 2), 1);
        CHECK_EQ(sleep.future.result, -ECANCELED);
    }
    coir_time start = coir_now();
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    CHECK(coir_now() - start >= COIR_MS);
}

/* In a fiber of any kind of worker. */
static void try_borders(void)
{
    static const coir_time past[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1};
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(coir_sleep_until(past[i]), 0);
        CHECK_EQ(coir_sleep_for(past[i]), 0);
        coir_case cases[] = {coir_case_at(past[i]), coir_case_at(COIR_NEVER)};
        CHECK_EQ(coir_select(cases, 2), 0);
        COIR_DEADLINE(past[i]);
        CHECK_EQ(coir_yield(), -ETIME);
    }
    CHECK_EQ(coir_in(COIR_NEVER), COIR_NEVER);
    CHECK_EQ(coir_in(COIR_NEVER - 1), COIR_NEVER);
    CHECK(coir_in(INT64_MIN) <= coir_now());
    COIR_DEADLINE(coir_in(COIR_NEVER));
    CHECK_EQ(coir_task_deadline(), COIR_NEVER);
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
}

TEST_REAL(any_time_can_be_slept_until)
{
    try_borders();
}

TEST_SIM(any_simulated_time_can_be_slept_until)
{
    try_borders();
}
