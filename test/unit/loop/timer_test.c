/* Timers with callbacks: in order, never early, moved and stopped. */
#include <coir/loop.h>

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
