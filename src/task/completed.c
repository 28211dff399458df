/* Futures that have their result when they are made: of calls with nothing to wait for, and of
 * those whose arguments cannot be right. */
#include "task/completed.h"

#include "task/waiter.h"

static coir_future *completed_poll(coir_future *future)
{
    struct ci_worker *worker = ci_worker_current;
    if (worker->runnable->interrupt) {
        future->result = worker->runnable->interrupt;
        return future->caller;
    }
    return ci_leaf_complete(worker, future);
}

static const coir_future_kind completed_kind = COIR_FUTURE_KIND("nothing", completed_poll, NULL);

coir_future *ci_completed_op(void *op, int64_t result)
{
    coir_future *future = op;
    if (future)
        *future = (coir_future){&completed_kind, NULL, result, 0};
    return future;
}

static coir_future *make_completed(const coir_case *self, void *place)
{
    return ci_completed_op(place, self->number);
}

static bool try_completed(coir_case *self)
{
    self->result = self->number;
    return true;
}

coir_case ci_completed_case(int error)
{
    return (coir_case){.make = make_completed, .number = error, .try_now = try_completed};
}
