/* Which task holds a lock, for dumps: kept beside the lock, which works without it. A lock that a
 * plain thread has taken has no holder. */
#ifndef CI_SYNC_HOLDER_H
#define CI_SYNC_HOLDER_H

#include "base/atomic.h"
#include "task/describe.h"
#include "task/task.h"

/* By the task that has taken the lock, or by the one that hands it over. */
static inline void ci_holder_set(struct ci_holder *holder, const struct ci_task *task)
{
    ci_store_relaxed(&holder->number, task->number);
    ci_store_relaxed(&holder->task, task);
}

/* Before the lock is given back: another may take it at once. */
static inline void ci_holder_clear(struct ci_holder *holder)
{
    ci_store_relaxed(&holder->task, NULL);
}

static inline struct ci_holder ci_holder_read(const struct ci_holder *holder)
{
    return (struct ci_holder){ci_load_relaxed(&holder->task), ci_load_relaxed(&holder->number)};
}

#endif
