/* Claims: deciding which member of a coir_any wins, from any thread. */
#include "base/atomic.h"
#include "base/check.h"
#include "sys/lock.h"
#include "sys/thread.h"
#include "task/group.h"
#include "task/waiter.h"

bool ci_group_decide(struct ci_group *group, int32_t index)
{
    int32_t seen = CI_NOBODY;
    unsigned round = 0;
    while (!ci_compare_exchange(&group->winner, &seen, index)) {
        if (seen != CI_UNDECIDED)
            return false;
        while (ci_load_relaxed(&group->winner) == CI_UNDECIDED)
            ci_pause(round++);
        seen = CI_NOBODY;
    }
    return true;
}

/* The coir_any that a suspended leaf decides, or NULL. */
static struct ci_group *any_of(struct ci_runnable *runnable, const coir_future *leaf,
                               int32_t *ret_index)
{
    if (!ci_runnable_is_branch(runnable))
        return NULL;
    struct ci_branch *branch = ci_container_of(runnable, struct ci_branch, runnable);
    if (leaf->caller != &branch->end || branch->link.next)
        return NULL;
    struct ci_group *group = branch->owner;
    *ret_index = (int32_t)(branch - group->branches);
    return group->mode == CI_GROUP_ANY ? group : NULL;
}

bool ci_branch_claim(struct ci_runnable *runnable, const coir_future *leaf)
{
    int32_t index = 0;
    struct ci_group *group = any_of(runnable, leaf, &index);
    return !group || ci_group_decide(group, index);
}

/* Only one pair is decided at a time: two that share a group would wait for each other. */
static struct ci_lock pair_lock;

enum ci_pair ci_claim_pair(struct ci_runnable *self, const coir_future *self_leaf,
                           struct ci_runnable *peer, const coir_future *peer_leaf)
{
    int32_t self_index = 0, peer_index = 0;
    struct ci_group *own = any_of(self, self_leaf, &self_index),
                    *other = any_of(peer, peer_leaf, &peer_index);
    if (!own)
        return !other || ci_group_decide(other, peer_index) ? CI_PAIR_CLAIMED : CI_PAIR_PEER_LOST;
    if (own == other)
        return CI_PAIR_SAME;
    if (!other)
        return ci_group_decide(own, self_index) ? CI_PAIR_CLAIMED : CI_PAIR_SELF_LOST;
    enum ci_pair pair = CI_PAIR_SELF_LOST;
    ci_lock_take(&pair_lock);
    if (ci_group_decide(own, CI_UNDECIDED)) {
        pair = ci_group_decide(other, peer_index) ? CI_PAIR_CLAIMED : CI_PAIR_PEER_LOST;
        ci_check(ci_load_relaxed(&own->winner) == CI_UNDECIDED, "group.h 3");
        ci_store(&own->winner, pair == CI_PAIR_CLAIMED ? self_index : CI_NOBODY);
    }
    ci_lock_give(&pair_lock);
    return pair;
}
