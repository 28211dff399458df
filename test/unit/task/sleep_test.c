/* No wait for time ends early, however long its task has computed since the clock was read last. */
#include <coir.h>
#include <coir/loop.h>
#include <errno.h>
#include <time.h>

#include "harness.h"

static const coir_time computed = 3 * COIR_MS, duration = 2 * COIR_MS;

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
    CHECK_EQ(coir_sleep_for(duration), 0);
    CHECK(real_now() - start >= duration);

    start = compute();
    CHECK_EQ(coir_await(coir_sleep_for_op(&op, duration)), 0);
    CHECK(real_now() - start >= duration);

    start = compute();
    CHECK_EQ(coir_sleep_until(coir_in(duration)), 0);
    CHECK(real_now() - start >= duration);

    start = compute();
    {
        COIR_DEADLINE(coir_in(duration));
        CHECK_EQ(coir_event_wait(&never), -ETIME);
    }
    CHECK(real_now() - start >= duration);

    start = compute();
    coir_case waits[] = {coir_case_event(&never), coir_case_after(duration)};
    CHECK_EQ(coir_select(waits, 2), 1);
    CHECK(real_now() - start >= duration);
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
    CHECK(real_now() - timer_start >= duration);
    timer_start = compute();
    if (++fired < 3)
        coir_timer_start(loop, timer, duration, on_timer, NULL);
}

TEST(no_timer_of_a_loop_fires_early)
{
    coir_loop *loop;
    coir_timer timer = {{0}};
    CHECK_EQ(coir_loop_new(&loop), 0);
    timer_start = compute();
    coir_timer_start(loop, &timer, duration, on_timer, NULL);
    CHECK_EQ(coir_loop_run(loop), 0);
    CHECK_EQ(fired, 3);
    coir_loop_free(loop);
}

/* ---- after a burst ---- */

static int sleep_a_little(void *arg)
{
    (void)arg;
    return coir_sleep_for(COIR_MS);
}

static coir_counters counters(void)
{
    coir_counters now = COIR_COUNTERS;
    coir_counters_get(coir_runtime_current(), &now);
    return now;
}

static int sleep_longer(void *arg)
{
    (void)arg;
    return coir_sleep_for(3 * COIR_S);
}

/* Once it is quiet, the stacks that only the burst needed go back; those of the first mapping
 * stay, and what is left can be used. */
static void burst(coir_task_fn *sleep)
{
    enum { BURST = 12000 };
    for (int round = 0; round < 3; round++) {
        {
            COIR_SCOPE(scope);
            for (int i = 0; i < BURST; i++)
                CHECK_EQ(coir_go(scope, sleep, NULL), 0);
            CHECK_EQ(coir_scope_wait(scope), 0);
        }
        /* at once all of them are kept: another burst may come */
        CHECK(counters().stacks_cached >= BURST);
        coir_sleep_for(10 * COIR_S);
        CHECK(counters().stacks_cached < 1000);
        CHECK_EQ(counters().stacks_live, 1);
    }
}

TEST_SIM(the_stacks_of_a_burst_go_back_when_it_is_quiet)
{
    burst(sleep_a_little);
}

/* The same when the first looks found everything in use. */
TEST_SIM(the_stacks_of_a_long_burst_go_back_too)
{
    burst(sleep_longer);
}
