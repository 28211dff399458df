/* Branches: what became of the members of a group. */
#include <coir.h>
#include <errno.h>

#include "harness.h"

TEST_SIM(complete_is_what_has_completed_and_not_what_was_withdrawn_or_never_begun)
{
    coir_sleep_op ops[3];
    coir_branch branches[3];
    for (int i = 0; i < 3; i++)
        branches[i] = (coir_branch)COIR_BRANCH(coir_sleep_for_op(&ops[i], (i + 1) * COIR_S));
    CHECK(!coir_branch_is_complete(&branches[0]));
    CHECK_EQ(coir_any(branches, 3), 0);
    CHECK(coir_branch_is_complete(&branches[0]));
    CHECK(!coir_branch_is_complete(&branches[1]));
    CHECK_EQ(branches[1].future->result, -ECANCELED);

    coir_sleep_for_op(&ops[0], COIR_S);
    coir_sleep_for_op(&ops[1], COIR_S);
    COIR_DEADLINE(coir_in(COIR_MS));
    CHECK_EQ(coir_join_all(branches, 2, 1), -ETIME); /* one at a time: the second never begins */
    CHECK(!coir_branch_is_complete(&branches[0]));
    CHECK(!coir_branch_is_complete(&branches[1]));
    CHECK_EQ(branches[1].future->result, 0);
}

static int fail_after(void *arg)
{
    int rc = coir_sleep_for(COIR_MS);
    return rc < 0 ? rc : *(int *)arg;
}

TEST_SIM(a_member_that_was_withdrawn_may_be_started_again)
{
    int result = 0;
    coir_call calls[2];
    coir_sleep_op op;
    coir_branch branches[2] = {COIR_BRANCH(coir_call_init(&calls[0], fail_after, &result)),
                               COIR_BRANCH(coir_sleep_for_op(&op, COIR_S))};
    CHECK_EQ(coir_any(branches, 2), 0);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go_future(scope, &op.future), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
}
