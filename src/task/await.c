/* Awaiting in a fiber: the fiber parks until the future is complete. */
#include <errno.h>

#include "task/park.h"

void ci_park(struct ci_worker *worker)
{
    ci_park_here(worker, worker->fiber);
}

int64_t ci_await(struct ci_worker *worker, coir_future *future)
{
    struct ci_fiber *fiber = worker->fiber;
    coir_future *back = &fiber->back, *next = future;
    future->caller = back;
    do
        if ((next = next->kind->poll(next)) == back)
            return future->result;
    while (next);
    ci_park_here(worker, fiber);
    return future->result;
}

/* A future has a caller from its start to its end. */
static CI_COLD int refuse(const coir_future *future, const char *call, const void *place)
{
    if (!future || !future->kind)
        return ci_misused(-EINVAL, "future is NULL, or was not made", call, place);
    return ci_misused(-EBUSY, "the future was started before and has not completed", call, place);
}

int64_t coir_await(coir_future *future)
{
    int rc = 0;
    struct ci_fiber *fiber = ci_fiber_enter(&rc);
    if (!fiber)
        return rc;
    if (ci_unlikely(!future || future->caller || !future->kind))
        return refuse(future, CI_CALL, CI_PLACE);
    struct ci_worker *worker = ci_worker_current;
    future->caller = &fiber->back;
    if (fiber->before_park)
        fiber->before_park(fiber->before_park_arg);
    worker->handover = future; /* its frames run on the worker's own stack */
    worker->fiber = NULL;
    ci_context_switch(&fiber->context, &worker->context);
    future->caller = NULL; /* from now on it may be started as a task */
    return future->result;
}
