/* Timers with callbacks: in order, never early, moved and stopped. */
#include <coir/loop.h>
#include <errno.h>

#include "harness.h"

static int calls;
static coir_time last_due;

/* The argument is when it is due: whatever the delays of this machine were while they were started,
 * they fire in that order. */
static void check_order(coir_loop *loop, coir_timer *timer, void *arg)
{
    (void)timer;
    coir_time due = *(coir_time *)arg;
    CHECK(due >= last_due && coir_now() >= due);
    last_due = due;
    if (++calls == 3)
        coir_loop_stop(loop);
}

TEST(timers_fire_in_order)
{
    static const coir_time delays[4] = {100 * COIR_S, 3 * COIR_MS, 2 * COIR_MS, 1 * COIR_MS};
    coir_loop *loop;
    coir_timer timers[3] = {{{0}}, {{0}}, {{0}}};
    coir_time due[3];
    CHECK_EQ(coir_loop_new(&loop), 0);
    for (int i = 0; i < 4; i++) { /* the last one moves the first */
        coir_timer_start(loop, &timers[i % 3], delays[i], check_order, &due[i % 3]);
        due[i % 3] = coir_loop_now(loop) + delays[i];
    }
    CHECK_EQ(coir_loop_run(loop), 0);
    CHECK_EQ(calls, 3);
    coir_loop_free(loop);
}

static void count_call(coir_loop *loop, coir_timer *timer, void *arg)
{
    (void)loop;
    (void)timer;
    ++*(int *)arg;
}

TEST(a_stopped_timer_does_not_fire)
{
    coir_loop *loop;
    coir_timer stopped = {{0}}, other = {{0}}, never = {{0}};
    int fired = 0;
    CHECK_EQ(coir_loop_new(&loop), 0);
    coir_timer_start(loop, &stopped, 0, count_call, &fired);
    coir_timer_start(loop, &other, -5, count_call, &fired); /* in the past: at once */
    coir_timer_stop(loop, &stopped);
    coir_timer_stop(loop, &stopped);
    coir_timer_stop(loop, &never);
    CHECK_EQ(coir_loop_run(loop), 0);
    CHECK_EQ(fired, 1);
    coir_loop_free(loop);
}

static coir_time due_next;

/* With every call the next one is due at the next multiple of the interval that has not passed. */
static void check_rhythm(coir_loop *loop, coir_timer *timer, void *arg)
{
    const coir_time interval = *(coir_time *)arg;
    coir_time now = coir_loop_now(loop);
    CHECK(now >= due_next);
    due_next += interval;
    if (due_next <= now)
        due_next += ((now - due_next) / interval + 1) * interval;
    if (++calls == 1)
        while (coir_now() < due_next + 2 * interval) /* it will be late by two calls */
            continue;
    if (calls == 5)
        coir_timer_stop(loop, timer); /* nothing is left: the loop returns */
}

/* Taken out of one wheel by the other, it would leave a hole in both. */
TEST(a_timer_is_not_moved_to_another_loop)
{
    coir_loop *loop, *other;
    coir_timer timer = {{0}};
    coir_timer_options options = COIR_TIMER_OPTIONS;
    int fired = 0;
    CHECK_EQ(coir_loop_new(&loop), 0);
    CHECK_EQ(coir_loop_new(&other), 0);
    coir_timer_start(loop, &timer, COIR_MS, count_call, &fired);
    CHECK_EQ(coir_timer_start_with(other, &timer, &options, count_call, &fired), -EBUSY);
    coir_timer_start(other, &timer, 0, count_call, &fired);
    CHECK(!coir_loop_alive(other));
    CHECK_EQ(coir_loop_run(loop), 0);
    CHECK_EQ(fired, 1);
    coir_timer_start(other, &timer, 0, count_call, &fired);
    CHECK_EQ(coir_loop_run(other), 0);
    CHECK_EQ(fired, 2);
    coir_loop_free(loop);
    coir_loop_free(other);
}

TEST(a_timer_repeats_in_its_rhythm_and_is_never_early)
{
    coir_loop *loop;
    coir_timer timer = {{0}};
    coir_timer_options options = COIR_TIMER_OPTIONS;
    coir_time interval = options.interval = 2 * COIR_MS;
    options.delay = COIR_MS;
    CHECK_EQ(coir_loop_new(&loop), 0);
    CHECK_EQ(coir_timer_start_with(loop, &timer, &options, check_rhythm, &interval), 0);
    due_next = coir_loop_now(loop) + options.delay;
    CHECK_EQ(coir_loop_run(loop), 0);
    CHECK_EQ(calls, 5);
    options.interval = -1;
    CHECK_EQ(coir_timer_start_with(loop, &timer, &options, check_rhythm, &interval), -EINVAL);
    coir_loop_free(loop);
}

static coir_time called_at[100];

static void note_turn(coir_loop *loop, coir_timer *timer, void *arg)
{
    coir_time due = *(coir_time *)arg;
    (void)timer;
    CHECK(coir_loop_now(loop) >= due);
    called_at[calls++] = coir_loop_now(loop);
}

/* 100 timers over 10 ms that may be 50 ms late: without slack each would have a wake-up of its
 * own. */
TEST(timers_with_slack_share_wake_ups)
{
    coir_loop *loop;
    coir_timer timers[100] = {{{0}}};
    coir_time due[100];
    coir_timer_options options = COIR_TIMER_OPTIONS;
    options.slack = 50 * COIR_MS;
    CHECK_EQ(coir_loop_new(&loop), 0);
    for (int i = 0; i < 100; i++) {
        options.delay = (100 + i) * 100 * COIR_US;
        CHECK_EQ(coir_timer_start_with(loop, &timers[i], &options, note_turn, &due[i]), 0);
        due[i] = coir_loop_now(loop) + options.delay;
    }
    CHECK_EQ(coir_loop_run(loop), 0);
    CHECK_EQ(calls, 100);
    int wake_ups = 1;
    for (int i = 1; i < 100; i++)
        wake_ups += called_at[i] != called_at[i - 1];
    CHECK(wake_ups <= 20);
    coir_loop_free(loop);
}

TEST(a_weak_timer_does_not_keep_the_loop_running)
{
    coir_loop *loop;
    coir_timer weak = {{0}}, once = {{0}};
    coir_timer_options options = COIR_TIMER_OPTIONS;
    int fired = 0;
    options.weak = true;
    options.interval = COIR_US;
    CHECK_EQ(coir_loop_new(&loop), 0);
    CHECK_EQ(coir_timer_start_with(loop, &weak, &options, count_call, &fired), 0);
    CHECK_EQ(coir_loop_run(loop), 0); /* returns at once */
    CHECK_EQ(fired, 0);
    coir_timer_start(loop, &once, 5 * COIR_MS, count_call, &(int){0});
    CHECK_EQ(coir_loop_run(loop), 0); /* it is called while something else keeps the loop running */
    CHECK(fired > 0);
    coir_timer_start(loop, &weak, COIR_S, count_call, &fired); /* as a strong one */
    CHECK(coir_loop_alive(loop));
    coir_timer_stop(loop, &weak);
    CHECK(!coir_loop_alive(loop));
    coir_loop_free(loop);
}

static coir_timer doomed[3];

static void stop_all(coir_loop *loop, coir_timer *timer, void *arg)
{
    (void)timer, (void)arg;
    calls++;
    for (int i = 0; i < 3; i++) { /* itself too; none is looked at again */
        coir_timer_stop(loop, &doomed[i]);
        doomed[i] = (coir_timer){{0}};
    }
}

TEST(a_timer_may_stop_and_free_those_that_are_due_with_it)
{
    coir_loop *loop;
    coir_timer_options options = COIR_TIMER_OPTIONS;
    options.interval = COIR_US;
    CHECK_EQ(coir_loop_new(&loop), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(coir_timer_start_with(loop, &doomed[i], &options, stop_all, NULL), 0);
    CHECK_EQ(coir_loop_run(loop), 0);
    CHECK_EQ(calls, 1);
    coir_loop_free(loop);
}

static void look_at_clock(coir_loop *loop, coir_timer *timer, void *arg)
{
    (void)timer, (void)arg;
    coir_time before = coir_loop_now(loop);
    while (coir_now() <= before)
        continue;
    CHECK_EQ(coir_loop_now(loop), before); /* it stands still in a turn, */
    CHECK(coir_loop_update_now(loop) > before);
    CHECK(coir_loop_now(loop) > before);
    calls++;
}

TEST(the_time_of_a_loop_stands_still_until_it_is_updated)
{
    coir_loop *loop;
    coir_timer timer = {{0}};
    CHECK_EQ(coir_loop_new(&loop), 0);
    coir_timer_start(loop, &timer, 0, look_at_clock, NULL);
    CHECK_EQ(coir_loop_run(loop), 0);
    CHECK_EQ(calls, 1);
    coir_loop_free(loop);
}
