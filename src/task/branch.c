/* Branches: members of groups and sets. */
#include "task/branch.h"

#include "task/cancellation.h"
#include "task/fiber.h"

bool ci_branch_cancel(struct ci_branch *branch, int reason)
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
    leaf->caller = NULL; /* it may be started again */
    return true;
}

bool coir_branch_is_complete(const coir_branch *branch)
{
    return ((const struct ci_branch *)(const void *)branch)->end.state == CI_BRANCH_DONE;
}
