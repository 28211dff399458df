/* What the run queue holds: a task, or one member of a group of futures, with the future at which
 * it was suspended. */
#ifndef CI_TASK_RUNNABLE_H
#define CI_TASK_RUNNABLE_H

#include <stdbool.h>

#include "base/compiler.h"
#include "coir/base.h"
#include "coir/future.h"

struct ci_cancel_scope;
struct ci_task;

struct ci_runnable {
    struct ci_runnable *next; /* in a queue */
    coir_future *inner;       /* the innermost future: what is polled when it runs next */
    struct ci_task *task;
    struct ci_cancel_scope *cancel_scopes; /* those it is inside of, innermost first */
    int32_t interrupt; /* what suspending calls return: 0, -ECANCELED or -ETIME */
    int32_t cancelled; /* the reason of its cancellation, or 0 */
};

/* A task's own runnable is its first member. */
static inline bool ci_runnable_is_branch(const struct ci_runnable *runnable)
{
    return (const void *)runnable != (const void *)runnable->task;
}

#endif
