/* How anything waits. Every operation that may wait is a future; what the run queue holds is a
 * runnable.
 *
 * 1. poll answers who goes on: a child, the caller, or nobody (NULL, suspended). A loop follows the
 * answers, so depth costs nothing.
 * 2. A leaf that suspends leaves itself as its runnable's `inner`; that is where cancel finds it.
 * ci_wake puts the caller there.
 * 3. A leaf is woken exactly once per suspension, with its result set. Waking queues the runnable
 * and never runs it.
 * 4. A runnable that has been woken is not cancelled: its inner is no leaf any more, or the leaf
 * knows that its wake-up is on the way.
 * 5. cancel answers true when the wait was withdrawn, with `result` set to the reason: the
 * canceller wakes the runnable. It answers false when the wait cannot be withdrawn or will complete
 * by itself.
 * 6. What a call returns to is a future too: a fiber (poll: switch to its stack), the end of a
 * branch, or the end of a task.
 * 7. A task begins with one runnable; every member of a group of futures has one of its own. So a
 * member that was not woken is not polled.
 * 8. Whoever hands something over to a waiter of another worker claims it first (ci_claim): a
 * member of a coir_any is given something only if that decides the coir_any.
 */
#ifndef CI_TASK_WAITER_H
#define CI_TASK_WAITER_H

#include <stdbool.h>

#include "base/compiler.h"
#include "coir/future.h"

struct ci_runnable {
    struct ci_runnable *next;
    coir_future *inner;
    struct ci_task *task;
    struct ci_cancel_scope *cancel_scopes; /* what it is inside of, innermost first */
    int32_t interrupt; /* what suspending calls return: 0, -ECANCELED or -ETIME */
    int32_t cancelled; /* why it was asked to end, or 0 */
};

/* A task's own runnable is its first member. */
static inline bool ci_runnable_is_branch(const struct ci_runnable *runnable)
{
    return (const void *)runnable != (const void *)runnable->task;
}

/* Decides the coir_any that `leaf` is a member of, if it is, in favour of the leaf. False: it has
 * been decided already, and the leaf will be withdrawn: give it nothing. From any thread, while the
 * leaf is suspended. */
bool ci_branch_claim(struct ci_runnable *runnable, const coir_future *leaf);

static inline bool ci_claim(struct ci_runnable *runnable, const coir_future *leaf)
{
    return ci_likely(!ci_runnable_is_branch(runnable)) || ci_branch_claim(runnable, leaf);
}

/* For a hand-over between two members of which neither may be decided without the other: `self` is
 * being polled, `peer` is suspended. */
enum ci_pair { CI_PAIR_CLAIMED, CI_PAIR_SELF_LOST, CI_PAIR_PEER_LOST, CI_PAIR_SAME };
enum ci_pair ci_claim_pair(struct ci_runnable *self, const coir_future *self_leaf,
                           struct ci_runnable *peer, const coir_future *peer_leaf);

#endif
