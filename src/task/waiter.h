/* How tasks wait: the one header of this layer that a suspending operation needs. Every such
 * operation is a future; a future that suspends by itself, and awaits no other, is a leaf. The run
 * queue holds runnables.
 *
 * poll returns the future to run next: a child, the caller, or NULL when it has suspended. A loop
 * runs what poll returns, so the depth of calls costs nothing. What a call returns to is a future
 * too: a fiber (poll: switch to its stack), the end of a branch, or the end of a task.
 *
 * 1. A leaf that suspends leaves itself as its runnable's `inner`; that is where cancel finds it.
 * ci_wake puts the caller there. Until it is given its result, `result` is the loop's time when it
 * suspended, for dumps.
 * 2. A leaf is woken exactly once per suspension, with its result set. Waking queues the runnable
 * and never runs it.
 *
 * A runnable that has been woken is not cancelled: its `inner` is no leaf any more, or the leaf
 * records that its wake-up is in flight.
 *
 * cancel returns true when the wait was withdrawn, with `result` set to the reason: the canceller
 * wakes the runnable. It returns false when the wait cannot be withdrawn or will complete by
 * itself.
 *
 * A task begins with one runnable; every member of a group of futures has a runnable of its own, so
 * only members that were woken are polled.
 *
 * Before something is handed over to a waiter, the waiter is claimed (ci_branch_claim): a member of
 * a coir_any is given something only if that decides the coir_any.
 */
#ifndef CI_TASK_WAITER_H
#define CI_TASK_WAITER_H

#include "base/check.h"
#include "task/current.h"
#include "task/fiber.h"
#include "task/runnable.h"
#include "task/task.h"
#include "task/worker.h"

/* ---- waking ---- */

/* Puts a runnable at the end of the run queue. */
static inline void ci_ready(struct ci_worker *worker, struct ci_runnable *runnable)
{
    ci_debug_check(!*worker->ready_tail, "task/worker.h 2");
    runnable->next = NULL;
    *worker->ready_tail = runnable;
    worker->ready_tail = &runnable->next;
}

/* Queues a suspended runnable whose leaf has its result. Only on the runnable's worker. */
static inline void ci_wake(struct ci_worker *worker, struct ci_runnable *runnable,
                           coir_future *leaf)
{
    ci_debug_check(runnable->inner == leaf, "waiter.h 1, waiter.h 2");
    runnable->inner = leaf->caller;
    ci_ready(worker, runnable);
}

/* If `leaf` is a member of a coir_any, decides that in its favour. False: it was decided for
 * another member, and the leaf will be withdrawn: give it nothing. From any thread, while the leaf
 * is suspended. */
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

/* ---- the budget ---- */

/* Counts an operation that finished without parking. False: it was the last one of the runnable's
 * turn, and others run first. */
static inline bool ci_budget_spend(struct ci_worker *worker)
{
    return ci_likely(--worker->budget >= 0);
}

static inline bool ci_budget_is_spent(const struct ci_worker *worker)
{
    return worker->budget < 0;
}

/* ---- the poll of a leaf ---- */

/* Called first in a leaf's poll. True: the leaf is refused (the runnable is interrupted), with its
 * result set. */
static inline bool ci_leaf_refused(const struct ci_worker *worker, coir_future *leaf)
{
    leaf->result = worker->runnable->interrupt;
    return leaf->result != 0;
}

/* The return value of the poll of a leaf that is complete. Spends one of the runnable's budget;
 * when that is used up, other runnables run first. */
static inline coir_future *ci_leaf_complete(struct ci_worker *worker, coir_future *leaf)
{
    if (ci_budget_spend(worker))
        return leaf->caller;
    worker->runnable->inner = leaf->caller;
    ci_ready(worker, worker->runnable);
    return NULL;
}

/* Called when the leaf suspends. Returns the runnable that the leaf is to wake. */
static inline struct ci_runnable *ci_leaf_suspend(const struct ci_worker *worker, coir_future *leaf)
{
    struct ci_runnable *runnable = worker->runnable;
    runnable->inner = leaf;
    leaf->result = worker->loop.now;
    return runnable;
}

/* The same, of a leaf that was made with that time as its result. */
static inline struct ci_runnable *ci_leaf_suspend_timed(const struct ci_worker *worker,
                                                        coir_future *leaf)
{
    ci_debug_check(leaf->result == worker->loop.now, "waiter.h 1");
    struct ci_runnable *runnable = worker->runnable;
    runnable->inner = leaf;
    return runnable;
}

/* ---- a straight-line call of a fiber ---- */

/* Slow paths of the functions below. */
int ci_budget_yield(struct ci_worker *worker); /* always 0 */

/* Why the calling worker, if there is one, has no fiber that may suspend: an error. */
CI_COLD int ci_fiber_refuse(struct ci_worker *worker, const char *call, const void *place);

/* The first step of a suspending call: the fiber that it is made in. NULL: not in a fiber of this
 * process, or the fiber is interrupted; ci_fiber_refuse says which. */
static inline struct ci_fiber *ci_fiber_of_call(const struct ci_worker *worker)
{
    if (ci_unlikely(!worker || !worker->fiber || worker->runnable->interrupt))
        return NULL;
    return worker->fiber;
}

/* The same, with the error in *ret_error. */
static inline struct ci_fiber *ci_fiber_enter_in(int *ret_error, const char *call,
                                                 const void *place)
{
    struct ci_fiber *fiber = ci_fiber_of_call(ci_worker_current);
    if (ci_unlikely(!fiber))
        *ret_error = ci_fiber_refuse(ci_worker_current, call, place);
    return fiber;
}
#define ci_fiber_enter(ret_error) ci_fiber_enter_in(ret_error, CI_CALL, CI_PLACE)

/* Parks the fiber: other work runs until `future`, which has suspended with the fiber as its
 * caller, is woken. To be inlined into what parks: ci_park_here in park.h. */
void ci_park(struct ci_worker *worker);

/* In a fiber: polls `future`, parks until it is complete, and returns its result. */
int64_t ci_await(struct ci_worker *worker, coir_future *future);

/* A whole suspending call: checks that the caller is a fiber and not interrupted, then ci_await. */
static inline int64_t ci_await_in_fiber_in(coir_future *future, const char *call, const void *place)
{
    int rc = 0;
    return ci_fiber_enter_in(&rc, call, place) ? ci_await(ci_worker_current, future) : rc;
}
#define ci_await_in_fiber(future) ci_await_in_fiber_in(future, CI_CALL, CI_PLACE)

/* The last step of an operation that finished without parking. Spends one of the fiber's budget;
 * when that is used up, other runnables run first. */
static inline void ci_spend(struct ci_worker *worker)
{
    if (!ci_budget_spend(worker))
        ci_budget_yield(worker);
}

/* The same as the end of a function that returns 0. */
static inline int ci_spend_and_return(struct ci_worker *worker)
{
    return ci_budget_spend(worker) ? 0 : ci_budget_yield(worker);
}

#endif
