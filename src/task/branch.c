/* Branches: members of groups and sets. */
#include "task/branch.h"

#include "sys/misuse.h"

bool coir_branch_is_complete(const coir_branch *branch)
{
    return !CI_REFUSED(!branch, "branch is NULL") &&
           ((const struct ci_branch *)(const void *)branch)->end.state == CI_BRANCH_DONE;
}
