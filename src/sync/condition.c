/* Conditions: a wait for a signal, then one for the mutex. */
#include <errno.h>

#include "sync/mutex.h"
#include "task/completed.h"

struct condition {
    struct ci_lock lock;
    struct ci_list waiters;
};
CI_LEAVES_SPARE_WORDS(struct condition, coir_condition);

struct condition_op {
    coir_future future;
    struct ci_wait wait; /* for the signal, then for the mutex */
    struct condition *condition;
    coir_mutex *mutex;
    int32_t result;
};
CI_LEAVES_SPARE_WORDS(struct condition_op, coir_condition_op);

static void lock_condition(struct condition *condition)
{
    ci_lock_take(&condition->lock);
    ci_wait_open(&condition->waiters);
}

static coir_future *signal_poll(coir_future *future)
{
    struct ci_wait *wait = ci_container_of(future, struct ci_wait, future);
    struct condition_op *op = ci_container_of(wait, struct condition_op, wait);
    lock_condition(op->condition);
    ci_wait_queue(ci_worker_current, wait, &op->condition->waiters);
    ci_lock_give(&op->condition->lock);
    coir_mutex_unlock(op->mutex);
    return NULL;
}

static const struct ci_wait_kind signal_kind = {
    CI_DESCRIBED_KIND("a condition", signal_poll, ci_wait_cancel, offsetof(struct ci_wait, object),
                      ci_wait_describe),
    NULL, NULL};

static struct ci_wait_for wait_for(struct condition *condition)
{
    return (struct ci_wait_for){
        .kind = &signal_kind, .lock = &condition->lock, .object = condition};
}

#define NOT_HELD "no task has the mutex: lock it first"

static coir_future *condition_poll(coir_future *future)
{
    struct condition_op *self = ci_container_of(future, struct condition_op, future);
    COIR_BEGIN(future);
    if (ci_worker_current->runnable->interrupt)
        COIR_RETURN(future, ci_worker_current->runnable->interrupt);
    if (!ci_mutex_is_held(self->mutex))
        COIR_RETURN(future, ci_misused(-EINVAL, NOT_HELD, "coir_condition_wait_op", NULL));
    ci_wait_init(&self->wait, wait_for(self->condition));
    COIR_AWAIT(future, &self->wait.future);
    self->result = (int32_t)self->wait.future.result;
    COIR_AWAIT(future, ci_mutex_relock(&self->wait, self->mutex));
    COIR_RETURN(future, self->result);
}

static const coir_future_kind condition_kind =
    COIR_FUTURE_KIND("a condition", condition_poll, NULL);

coir_future *coir_condition_wait_op(coir_condition_op *opaque, coir_condition *condition,
                                    coir_mutex *mutex)
{
    if (!opaque || !condition || !mutex)
        return ci_completed_op(opaque, CI_MISUSE(-EINVAL, "op, condition or mutex is NULL"));
    struct condition_op *op = (struct condition_op *)(void *)opaque;
    op->condition = (struct condition *)(void *)condition;
    op->mutex = mutex;
    return coir_future_init(&op->future, &condition_kind);
}

int coir_condition_wait(coir_condition *condition, coir_mutex *mutex)
{
    if (!condition || !mutex)
        return CI_MISUSE(-EINVAL, "condition or mutex is NULL");
    if (!ci_mutex_is_held(mutex))
        return ci_worker_current ? CI_MISUSE(-EINVAL, NOT_HELD) : ci_no_fiber();
    coir_condition_op op;
    return (int)ci_await_in_fiber(coir_condition_wait_op(&op, condition, mutex));
}

void coir_condition_signal(coir_condition *opaque)
{
    if (ci_forked() || (!opaque && CI_MISUSE(-EINVAL, "condition is NULL")))
        return;
    struct condition *condition = (struct condition *)(void *)opaque;
    lock_condition(condition);
    struct ci_wait *wait = ci_wait_grant(&condition->waiters);
    if (wait)
        wait->future.result = 0;
    ci_lock_give(&condition->lock);
    if (wait)
        ci_wait_wake(wait);
}

void coir_condition_broadcast(coir_condition *opaque)
{
    if (ci_forked() || (!opaque && CI_MISUSE(-EINVAL, "condition is NULL")))
        return;
    struct condition *condition = (struct condition *)(void *)opaque;
    struct ci_list granted;
    ci_list_init(&granted);
    lock_condition(condition);
    ci_wait_grant_all(&condition->waiters, 0, &granted);
    ci_lock_give(&condition->lock);
    ci_wait_wake_all(&granted);
}
