/* Branches: members of groups and sets. */
#include "task/branch.h"

bool coir_branch_is_complete(const coir_branch *branch)
{
    return ((const struct ci_branch *)(const void *)branch)->end.state == CI_BRANCH_DONE;
}
