/* Time for tasks. A sleep's start is read from the clock, not from a cached time: it never ends early. */
#include <errno.h>

#include "sys/clock.h"
#include "task/sleep.h"

static void on_time(struct ci_timer *timer)
{
    struct ci_sleep_op *op = ci_container_of(timer, struct ci_sleep_op, timer);
    op->future.result = 0;
    ci_wake(ci_worker_current, op->strand, &op->future);
}

static int sleep_cancel(coir_future *future, int reason)
{
    struct ci_sleep_op *op = ci_container_of(future, struct ci_sleep_op, future);
    ci_wheel_cancel(&ci_worker_current->loop.wheel, &op->timer);
    future->result = reason;
    return true;
}

static coir_future *sleep_poll(coir_future *future)
{
    struct ci_sleep_op *op = ci_container_of(future, struct ci_sleep_op, future);
    struct ci_worker *worker = ci_worker_current;
    if (ci_leaf_refused(worker, future))
        return future->caller;
    op->strand = ci_leaf_suspend(worker, future);
    ci_loop_start_timer(&worker->loop, &op->timer, op->timer.when);
    return NULL;
}

const coir_future_kind ci_sleep_kind = {"time", sleep_poll, sleep_cancel};

coir_future *ci_sleep_init(struct ci_sleep_op *op, coir_time when)
{
    op->future = (coir_future){&ci_sleep_kind, NULL, 0, 0};
    ci_timer_init(&op->timer, on_time);
    op->timer.when = when;
    return &op->future;
}

coir_future *coir_sleep_until_op(coir_sleep_op *op, coir_time when)
{
    return ci_sleep_init((struct ci_sleep_op *)(void *)op, when);
}

coir_future *coir_sleep_for_op(coir_sleep_op *op, coir_time duration)
{
    return coir_sleep_until_op(op, coir_in(duration));
}

int coir_sleep_until(coir_time when)
{
    int rc = 0;
    struct ci_fiber *fiber = ci_fiber_enter(&rc);
    if (!fiber)
        return rc;
    struct ci_worker *worker = ci_worker_current;
    return ci_await(worker, ci_sleep_init(CI_FIBER_OP(fiber, struct ci_sleep_op), when));
}

int coir_sleep_for(coir_time duration)
{
    return coir_sleep_until(coir_in(duration));
}

coir_time coir_now(void)
{
    struct ci_worker *worker = ci_worker_current;
    return worker ? ci_loop_update_now(&worker->loop) : ci_clock_now();
}

coir_time coir_in(coir_time duration)
{
    coir_time now = coir_now();
    if (duration <= 0)
        return now;
    return duration < COIR_NEVER - now ? now + duration : COIR_NEVER;
}
