/* Task scopes: their records, and how tasks join and leave them.
 *
 * 1. A scope's fields and its list of tasks belong to its home worker, except `arriving`: a worker
 * that spawns into the scope of another one counts the task there, before it sends a message
 * (remote.c).
 * 2. `live` is the length of the list of tasks, and those at rest (rest.h).
 * 3. A scope is empty when neither `live` nor `arriving` counts anything. It does not close before.
 */
#ifndef CI_TASK_SCOPE_H
#define CI_TASK_SCOPE_H

#include "base/list.h"
#include "base/options.h"
#include "coir/scope.h"
#include "task/cancellation.h"

struct ci_worker;

struct ci_scope {
    struct ci_cancel_scope cancel_scope;
    struct ci_worker *home; /* NULL: not open */
    struct ci_list tasks;
    size_t live, resting;
    int32_t arriving; /* spawned by other workers, and not in `tasks` yet */
    uint64_t errors;
    int32_t error;     /* the first one */
    int32_t interrupt; /* the reason, if an interrupt from outside has cancelled its tasks */
    bool serving, cancelled, root;
    struct ci_runnable *waiter; /* suspended until the scope is empty, or NULL */
    const void *opened_at;      /* the return address of the public call */
    /* called for a task that failed; NULL: errors are counted */
    void (*task_failed)(struct ci_task *task, int error);
};
CI_LEAVES_SPARE_WORDS(struct ci_scope, coir_scope);

static inline struct ci_scope *ci_scope_of(coir_scope *scope)
{
    return (struct ci_scope *)(void *)scope;
}

/* Everything but its cancel scope, which its opener enters. */
void ci_scope_init(struct ci_scope *scope, struct ci_worker *home, bool serving);

/* A task of the scope has failed. */
CI_COLD void ci_scope_take_error(struct ci_scope *scope, struct ci_task *task, int error);

#endif
