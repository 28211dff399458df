/* Sleeps. A sleep reads its start from the clock, not from the loop's cached time, so it never ends
 * early. */
#include "task/sleep.h"

#include "coir/fiber.h"

#include "task/describe.h"
#include "task/waiter.h"

CI_FIBER_OP_FITS(struct ci_sleep_op);
CI_LEAVES_SPARE_WORDS(struct ci_sleep_op, coir_sleep_op);

/* What the timer's `when` means until it is started; in the future's state. */
enum meaning { UNTIL, FROM_NOW };

static void on_time(struct ci_timer *timer)
{
    struct ci_sleep_op *op = ci_container_of(timer, struct ci_sleep_op, timer);
    op->future.result = 0;
    ci_wake(ci_worker_current, op->runnable, &op->future);
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
    op->runnable = ci_leaf_suspend(worker, future);
    if (future->state == FROM_NOW)
        ci_loop_start_timer_after(&worker->loop, &op->timer, op->timer.when);
    else
        ci_loop_start_timer(&worker->loop, &op->timer, op->timer.when);
    return NULL;
}

static void sleep_describe(const coir_future *future, struct ci_wait_note *note)
{
    note->until = ci_container_of(future, const struct ci_sleep_op, future)->timer.when;
}

static const struct ci_described_kind sleep_kind =
    CI_DESCRIBED_KIND("time", sleep_poll, sleep_cancel, 0, sleep_describe);

static coir_future *init(struct ci_sleep_op *op, enum meaning meaning, coir_time when)
{
    op->future = (coir_future){&sleep_kind.future, NULL, 0, meaning};
    ci_timer_init(&op->timer, on_time);
    op->timer.when = when;
    return &op->future;
}

coir_future *coir_sleep_until_op(coir_sleep_op *op, coir_time when)
{
    if (CI_REFUSED(!op, "op is NULL"))
        return NULL;
    return init((struct ci_sleep_op *)(void *)op, UNTIL, when);
}

coir_future *coir_sleep_for_op(coir_sleep_op *op, coir_time duration)
{
    if (CI_REFUSED(!op, "op is NULL"))
        return NULL;
    return init((struct ci_sleep_op *)(void *)op, FROM_NOW, duration > 0 ? duration : 0);
}

static int run(enum meaning meaning, coir_time when, const char *call, const void *place)
{
    int rc = 0;
    struct ci_fiber *fiber = ci_fiber_enter_in(&rc, call, place);
    if (!fiber)
        return rc;
    return (int)ci_await(ci_worker_current,
                         init(CI_FIBER_OP(fiber, struct ci_sleep_op), meaning, when));
}

int coir_sleep_until(coir_time when)
{
    return run(UNTIL, when, CI_CALL, CI_PLACE);
}

int coir_sleep_for(coir_time duration)
{
    return run(FROM_NOW, duration > 0 ? duration : 0, CI_CALL, CI_PLACE);
}
