/* Claims: a coir_any is decided once, two together or neither. */
#include "harness.h"
#include "task/group.h"
#include "task/waiter.h"

/* A coir_any whose only member is suspended in a leaf. */
struct any {
    struct ci_group group;
    struct ci_branch branch;
    coir_future leaf;
};

static int task; /* stands for the task of all of them: no runnable of this file is its own */

static void make(struct any *any)
{
    *any = (struct any){.group = {.winner = CI_NOBODY, .mode = CI_GROUP_ANY, .count = 1}};
    any->group.branches = &any->branch;
    any->branch.owner = &any->group;
    any->branch.runnable.task = (struct ci_task *)(void *)&task;
    any->leaf.caller = &any->branch.end;
}

static enum ci_pair claim(struct any *self, struct any *peer)
{
    return ci_claim_pair(&self->branch.runnable, &self->leaf, &peer->branch.runnable, &peer->leaf);
}

TEST(the_first_claim_decides)
{
    struct any any;
    make(&any);
    CHECK(ci_claim(&any.branch.runnable, &any.leaf));
    CHECK_EQ(any.group.winner, 0);
    CHECK(!ci_claim(&any.branch.runnable, &any.leaf));
    CHECK(!ci_group_decide(&any.group, CI_NOBODY_EVER));
    make(&any);
    CHECK(ci_group_decide(&any.group, CI_NOBODY_EVER));
    CHECK(!ci_claim(&any.branch.runnable, &any.leaf));
}

TEST(what_is_no_member_of_an_any_is_always_given)
{
    struct any any;
    make(&any);
    any.group.mode = CI_GROUP_JOIN;
    CHECK(ci_claim(&any.branch.runnable, &any.leaf));
    CHECK(ci_claim(&any.branch.runnable, &any.leaf));
    CHECK_EQ(any.group.winner, CI_NOBODY);
}

TEST(a_pair_is_decided_together_or_not_at_all)
{
    struct any self, peer;
    make(&self), make(&peer);
    CHECK_EQ(claim(&self, &peer), CI_PAIR_CLAIMED);
    CHECK_EQ(self.group.winner, 0);
    CHECK_EQ(peer.group.winner, 0);
    make(&self);
    CHECK_EQ(claim(&self, &peer), CI_PAIR_PEER_LOST);
    CHECK_EQ(self.group.winner, CI_NOBODY); /* it may be decided by another member */
    make(&peer);
    CHECK(ci_group_decide(&self.group, 0));
    CHECK_EQ(claim(&self, &peer), CI_PAIR_SELF_LOST);
    CHECK_EQ(peer.group.winner, CI_NOBODY);
    CHECK_EQ(claim(&peer, &peer), CI_PAIR_SAME);
}
