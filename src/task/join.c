/* Handles: joining a task that was spawned with one, and the wake-up of the task that joins.
 *
 * 1. A handle has one waiter at a time. The future of coir_join_op lies in the handle. That of
 * coir_join lies in the fiber, so that its result is there when the handle is used again before the
 * fiber runs. */
#include <errno.h>

#include "base/check.h"
#include "sys/fork.h"
#include "task/branch.h"
#include "task/completed.h"
#include "task/describe.h"
#include "task/task.h"
#include "task/waiter.h"

static int join_cancel(coir_future *future, int reason)
{
    ci_container_of(future, struct ci_handle, future)->waiter = NULL;
    future->result = reason;
    return true;
}

bool ci_handle_has_result(const struct ci_handle *handle, int64_t *ret_result)
{
    if (handle->task)
        return false;
    *ret_result = handle->used ? handle->result : -EINVAL;
    return true;
}

static coir_future *join_poll(coir_future *future)
{
    struct ci_handle *handle = ci_container_of(future, struct ci_handle, future);
    struct ci_worker *worker = ci_worker_current;
    future->state = ci_leaf_is_cleared(worker->runnable, future);
    if (ci_leaf_refused(worker, future))
        return future->caller;
    if (ci_handle_has_result(handle, &future->result))
        return ci_leaf_complete(worker, future);
    ci_check(!handle->waiter, "join.c 1");
    handle->waiter = ci_leaf_suspend(worker, future);
    return NULL;
}

static void join_describe(const coir_future *future, struct ci_wait_note *note)
{
    note->task = ci_container_of(future, const struct ci_handle, future)->task;
}

static const struct ci_described_kind join_kind =
    CI_DESCRIBED_KIND("a task", join_poll, join_cancel, 0, join_describe);

struct join_call {
    coir_future future;
    struct ci_handle *handle;
};
CI_FIBER_OP_FITS(struct join_call);

static int call_cancel(coir_future *future, int reason)
{
    ci_container_of(future, struct join_call, future)->handle->waiter = NULL;
    future->result = reason;
    return true;
}

static void call_describe(const coir_future *future, struct ci_wait_note *note)
{
    note->task = ci_container_of(future, const struct join_call, future)->handle->task;
}

static const struct ci_described_kind call_kind =
    CI_DESCRIBED_KIND("a task", NULL, call_cancel, 0, call_describe);

static int wait_for_end(struct ci_worker *worker, struct ci_handle *handle)
{
    struct join_call *call = CI_FIBER_OP(worker->fiber, struct join_call);
    *call = (struct join_call){{&call_kind.future, &worker->fiber->back, 0, 0}, handle};
    handle->waiter = ci_leaf_suspend(worker, &call->future);
    ci_park(worker);
    return (int)call->future.result;
}

/* Whether who waits in the future of the handle has not returned, although the task may have ended.
 */
static bool is_in_flight(const struct ci_handle *handle)
{
    return ci_leaf_is_in_use(&handle->future) ||
           (handle->waiter && handle->waiter->inner == &handle->future);
}

coir_future *coir_join_op(coir_handle *opaque)
{
    struct ci_handle *handle = ci_handle_of(opaque);
    if (CI_REFUSED(!handle, "handle is NULL") || (handle->used && CI_ELSEWHERE(handle->worker)))
        return NULL; /* the future, too, is its worker's */
    bool in_flight = is_in_flight(handle);
    if (CI_REFUSED_AS(-EBUSY, in_flight || handle->waiter,
                      "another task waits in a join of the handle"))
        return in_flight ? &handle->future /* to await it is refused as well */
                         : ci_completed_op(&handle->future, -EBUSY);
    return coir_future_init(&handle->future, &join_kind.future);
}

int coir_join(coir_handle *opaque)
{
    int rc = 0;
    struct ci_handle *handle = ci_handle_of(opaque);
    if (!ci_fiber_enter(&rc))
        return rc;
    if (!handle)
        return CI_MISUSE(-EINVAL, "handle is NULL");
    if (!handle->used)
        return CI_MISUSE(-EINVAL, "the handle was given to no task");
    if ((rc = CI_ELSEWHERE(handle->worker)) < 0)
        return rc;
    if (!handle->task)
        return handle->result;
    if (handle->waiter)
        return -EBUSY;
    return wait_for_end(ci_worker_current, handle);
}

static void end_wait(struct ci_handle *handle, int result)
{
    struct ci_runnable *waiter = handle->waiter;
    if (!waiter)
        return;
    handle->waiter = NULL;
    waiter->inner->result = result;
    ci_wake(waiter->task->worker, waiter, waiter->inner);
}

void ci_handle_complete(struct ci_handle *handle, int64_t result)
{
    handle->task = NULL;
    handle->result = result < INT32_MAX ? (int32_t)result : INT32_MAX;
    end_wait(handle, handle->result);
}

bool coir_handle_has_ended(const coir_handle *opaque)
{
    const struct ci_handle *handle = (const struct ci_handle *)(const void *)opaque;
    return !CI_REFUSED(!handle, "handle is NULL") && handle->used &&
           !CI_ELSEWHERE(handle->worker) && !handle->task;
}

void coir_handle_done(coir_handle *opaque)
{
    if (ci_forked())
        return;
    if (!opaque)
        return;
    struct ci_handle *handle = ci_handle_of(opaque);
    if (handle->task && CI_ELSEWHERE(handle->worker))
        return;
    if (CI_REFUSED(handle->waiter != NULL, "a task waits in coir_join of the handle"))
        end_wait(handle, -EINVAL); /* nothing else would wake it */
    if (!handle->task)
        return;
    handle->task->handle = NULL;
    handle->task = NULL;
    handle->used = false; /* nothing is known of its task any more */
}
