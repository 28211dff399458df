/* Branches: members of groups and sets, each with a runnable of its own, whose outermost caller is
 * the branch's end. So a wake-up polls only the member that it is for.
 *
 *    IDLE -- begin --> RUNNING -- its future completes --> DONE
 *                         `-- cancelled at once --> WITHDRAWN
 */
#ifndef CI_TASK_BRANCH_H
#define CI_TASK_BRANCH_H

#include "base/list.h"
#include "base/options.h"
#include "task/cancellation.h"
#include "task/fiber.h"
#include "task/runnable.h"
#include "task/task.h"

enum { CI_BRANCH_IDLE, CI_BRANCH_RUNNING, CI_BRANCH_DONE, CI_BRANCH_WITHDRAWN }; /* end.state */

struct ci_branch {
    coir_future *future;
    struct ci_runnable runnable;
    coir_future end;
    void *owner;         /* struct ci_group or struct set: its future comes first */
    struct ci_list link; /* in its set; next is NULL in a group */
    uint64_t spare[CI_SPARE_WORDS];
};
_Static_assert(sizeof(struct ci_branch) == sizeof(coir_branch), "they lie in the program's arrays");

/* Makes a branch and begins to run it. `parent` is the runnable that awaits the group or set,
 * `kind` the kind of the branch's end. */
static inline void ci_branch_begin(struct ci_branch *branch, void *owner,
                                   const struct ci_runnable *parent, const coir_future_kind *kind)
{
    branch->runnable = (struct ci_runnable){.inner = branch->future,
                                            .task = parent->task,
                                            .interrupt = parent->interrupt,
                                            .cancelled = parent->interrupt};
    branch->end = (coir_future){kind, NULL, 0, CI_BRANCH_RUNNING};
    branch->owner = owner;
    branch->future->caller = &branch->end;
}

/* Whether the caller of a leaf that `runnable` polls is cleared when the wait is over: by a fiber
 * and by the end of a branch or of a task it is, a frame leaves it. */
static inline bool ci_leaf_is_cleared(const struct ci_runnable *runnable, const coir_future *leaf)
{
    if (leaf->caller->kind == &ci_fiber_kind)
        return true;
    if (!ci_runnable_is_branch(runnable))
        return !runnable->task->root.fn && runnable->task->root.arg == leaf;
    return leaf->caller == &ci_container_of(runnable, const struct ci_branch, runnable)->end;
}

/* Whether who waits in a leaf has not returned, although it may have been woken: of a leaf that
 * keeps ci_leaf_is_cleared in its `state`. Of a wait in a frame it is not known. */
static inline bool ci_leaf_is_in_use(const coir_future *leaf)
{
    return leaf->caller && leaf->state;
}

/* Cancels what a running branch waits for. True: that has ended the branch. */
static inline bool ci_branch_cancel(struct ci_branch *branch, int reason)
{
    struct ci_runnable *runnable = &branch->runnable;
    coir_future *leaf = runnable->inner;
    if (runnable->cancel_scopes || leaf->caller != &branch->end || runnable->cancelled) {
        ci_runnable_cancel(runnable, reason);
        return false;
    }
    runnable->cancelled = runnable->interrupt = reason;
    if (!leaf->kind->cancel || !leaf->kind->cancel(leaf, reason))
        return false;
    branch->end.state = CI_BRANCH_WITHDRAWN;
    leaf->caller = NULL; /* from now on it may be started again */
    return true;
}

#endif
