/* A worker's clocks and timers, for the layers above: a timer lies in the wheel of the worker's
 * loop and calls `fire` on the worker's own stack. Only on the worker's thread. */
#ifndef CI_TASK_TIMER_H
#define CI_TASK_TIMER_H

#include "loop/timer_wheel.h"
#include "task/worker.h"

/* When the turn in progress began: no clock is read. */
static inline coir_time ci_worker_now(const struct ci_worker *worker)
{
    return worker->loop.now;
}

/* The time since 1970, in ns. */
static inline coir_time ci_worker_wall(struct ci_worker *worker)
{
    struct ci_driver *driver = worker->loop.driver;
    return driver->kind->wall(driver);
}

/* Starts a timer, or moves one that is started: moving it later is a store. */
static inline void ci_worker_set_timer(struct ci_worker *worker, struct ci_timer *timer,
                                       coir_time when)
{
    if (ci_timer_started(timer))
        ci_wheel_move(&worker->loop.wheel, timer, when);
    else
        ci_loop_start_timer(&worker->loop, timer, when);
}

static inline void ci_worker_cancel_timer(struct ci_worker *worker, struct ci_timer *timer)
{
    ci_wheel_cancel(&worker->loop.wheel, timer);
}

#endif
