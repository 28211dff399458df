#include "sync/wait.h"

#include "task/run_state.h"
#include "task/runtime.h"

coir_future *ci_wait_poll(coir_future *future)
{
    struct ci_wait *wait = ci_container_of(future, struct ci_wait, future);
    const struct ci_wait_kind *kind =
        ci_container_of(future->kind, const struct ci_wait_kind, waits.future);
    struct ci_worker *worker = ci_worker_current;
    if (wait->state == CI_WAIT_NEW && !wait->stubborn && ci_leaf_refused(worker, future))
        return future->caller;
    return kind->start(worker, wait) ? ci_leaf_complete(worker, future) : NULL;
}

bool ci_wait_withdraw(struct ci_wait *wait, int reason)
{
    ci_check(wait->runnable->task->worker == ci_worker_current, "wait.h 2");
    bool withdrawn = wait->state == CI_WAIT_QUEUED || wait->state == CI_WAIT_LOST;
    if (wait->state == CI_WAIT_QUEUED)
        ci_wait_take_off(wait, CI_WAIT_LOST);
    if (withdrawn)
        wait->future.result = reason;
    return withdrawn;
}

int ci_wait_cancel(coir_future *future, int reason)
{
    struct ci_wait *wait = ci_container_of(future, struct ci_wait, future);
    if (wait->stubborn)
        return false;
    ci_lock_take(wait->lock);
    bool withdrawn = ci_wait_withdraw(wait, reason);
    ci_lock_give(wait->lock);
    return withdrawn;
}

int ci_wait_cancel_own(coir_future *future, int reason)
{
    struct ci_wait *wait = ci_container_of(future, struct ci_wait, future);
    if (wait->stubborn)
        return false;
    ci_own_lock_take(wait->own_lock);
    bool withdrawn = ci_wait_withdraw(wait, reason);
    ci_own_lock_give(wait->own_lock);
    return withdrawn;
}

/* Another worker may take the waiter off meanwhile: TSan is not to see this. */
CI_UNINSTRUMENTED void ci_wait_describe(const coir_future *future, struct ci_wait_note *note)
{
    const struct ci_wait *wait = ci_container_of(future, const struct ci_wait, future);
    note->decided = wait->state != CI_WAIT_QUEUED;
    const struct ci_wait_kind *kind =
        ci_container_of(future->kind, const struct ci_wait_kind, waits.future);
    if (kind->describe)
        kind->describe(future, note);
}

/* ---- waking ---- */

void ci_wait_grant_all(struct ci_list *queue, int result, struct ci_list *granted)
{
    for (struct ci_wait *wait; (wait = ci_wait_grant(queue));) {
        wait->future.result = result;
        ci_list_push(granted, &wait->link);
    }
}

void ci_wait_count_granted(uint8_t number, const struct ci_list *granted)
{
    if (ci_likely(!number))
        return;
    ci_list_for_each (node, granted)
        ci_lock_wait_ended(number, ci_container_of(node, struct ci_wait, link)->since);
}

static void wake_here(struct ci_worker *worker, struct ci_wait *wait)
{
    if (wait->state == CI_WAIT_RETRYING) {
        /* its innermost future is the leaf still: it is polled again */
        ci_ready(worker, wait->runnable);
        return;
    }
    ci_wait_wake_own(worker, wait);
}

static void wake_came(struct ci_message *message)
{
    struct ci_wait *wait = ci_container_of(message, struct ci_wait, message);
    ci_check(wait->runnable->task->worker == ci_worker_current, "wait.h 4");
    wake_here(ci_worker_current, wait);
}

void ci_wait_wake(struct ci_wait *wait)
{
    struct ci_worker *worker = wait->runnable->task->worker;
    if (ci_likely(worker == ci_worker_current)) {
        wake_here(worker, wait);
        return;
    }
    wait->message.deliver = wake_came;
    ci_runtime_send(worker, &wait->message);
}

void ci_wait_wake_list(struct ci_list *granted)
{
    for (struct ci_list *node; (node = granted->next) != granted;) {
        ci_list_unlink(node);
        ci_wait_wake(ci_container_of(node, struct ci_wait, link));
    }
}
