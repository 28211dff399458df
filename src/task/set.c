/* Sets of futures: members are added while the set is awaited, and taken out as they complete.
 *
 * 1. A set has one waiter at a time: its future lies in the set.
 * 2. `live` counts the members in `running` and in `done`. */
#include "task/set.h"

#include <errno.h>

#include "base/check.h"
#include "coir/deadline.h"
#include "task/branch.h"
#include "task/cancellation.h"
#include "task/completed.h"
#include "task/waiter.h"

struct set {
    coir_future future; /* of the task that waits for the next member */
    struct ci_runnable *waiter;
    struct ci_list running, done;
    coir_branch **ret_branch;
    size_t live;
    struct ci_worker *worker; /* of its first member; NULL: it never had one */
};
CI_LEAVES_SPARE_WORDS(struct set, coir_set);
_Static_assert(offsetof(struct set, future) == 0, "ci_branch.owner");

#define SET_NOT_MADE "the set was not made"

static struct set *set_of(coir_set *set)
{
    return (struct set *)(void *)set;
}

void coir_set_init(coir_set *opaque)
{
    struct set *set = set_of(opaque);
    if (CI_REFUSED(!set, "set is NULL"))
        return;
    *set = (struct set){0};
    ci_list_init(&set->running);
    ci_list_init(&set->done);
}

/* ---- members ---- */

/* Whether `live` and the lists agree on whether there are members. */
static bool is_counted(const struct set *set)
{
    return !set->live == (ci_list_empty(&set->done) && ci_list_empty(&set->running));
}

static void take_done(struct set *set)
{
    struct ci_branch *branch = ci_container_of(ci_list_pop(&set->done), struct ci_branch, link);
    set->live--;
    set->future.result = 1;
    if (set->ret_branch)
        *set->ret_branch = (coir_branch *)(void *)branch;
}

static coir_future *member_end_poll(coir_future *end)
{
    struct ci_branch *branch = ci_container_of(end, struct ci_branch, end);
    struct set *set = branch->owner;
    if (end->state == CI_BRANCH_IDLE) { /* first poll: see coir_set_add */
        end->state = CI_BRANCH_RUNNING;
        return branch->future;
    }
    branch->end.state = CI_BRANCH_DONE;
    branch->future->caller = NULL; /* from now on it may be started again */
    ci_list_remove(&branch->link);
    ci_list_push(&set->done, &branch->link);
    ci_check(is_counted(set), "set.c 2");
    struct ci_runnable *waiter = set->waiter;
    if (!waiter)
        return NULL;
    set->waiter = NULL;
    take_done(set);
    ci_worker_current->runnable = waiter;
    waiter->inner = set->future.caller;
    return set->future.caller;
}

static const coir_future_kind member_end_kind =
    COIR_FUTURE_KIND("the rest of its set", member_end_poll, NULL);

int coir_set_add(coir_set *opaque, coir_branch *member)
{
    struct set *set = set_of(opaque);
    struct ci_branch *branch = (struct ci_branch *)(void *)member;
    struct ci_worker *worker = ci_worker_current;
    if (!worker || !worker->runnable)
        return ci_no_fiber();
    if (!set || !branch || !branch->future || !branch->future->kind || !set->running.next)
        return CI_MISUSE(-EINVAL, "set, branch or its future is NULL, or was not made");
    if (branch->future->caller)
        return CI_MISUSE(-EBUSY,
                         "the future of the branch was started before"); /* it is awaited before,
                                                                            perhaps by this set */
    int rc = set->worker ? CI_ELSEWHERE(set->worker) : 0;
    if (rc < 0)
        return rc;
    set->worker = worker;
    ci_branch_begin(branch, set, worker->runnable, &member_end_kind);
    if (branch->future->kind->cancel) {
        /* Until the member begins, the branch's end is its inner future: a leaf that was not polled
         * cannot be cancelled, and its runnable is in the queue already. */
        branch->end.state = CI_BRANCH_IDLE;
        branch->runnable.inner = &branch->end;
    }
    ci_list_push(&set->running, &branch->link);
    set->live++;
    ci_ready(worker, &branch->runnable);
    return 0;
}

size_t coir_set_live(const coir_set *set)
{
    return CI_REFUSED(!set, "set is NULL") ? 0 : ((const struct set *)(const void *)set)->live;
}

/* ---- waiting ---- */

/* Whether a wait has not returned, although it may have its member. */
static bool is_in_use(const struct set *set)
{
    return set->waiter || ci_leaf_is_in_use(&set->future);
}

static coir_future *set_poll(coir_future *future)
{
    struct set *set = ci_container_of(future, struct set, future);
    struct ci_worker *worker = ci_worker_current;
    future->state = ci_leaf_is_cleared(worker->runnable, future);
    if (set->ret_branch && ci_leaf_refused(worker, future))
        return future->caller;
    ci_check(is_counted(set), "set.c 2");
    if (!set->live)
        return ci_leaf_complete(worker, future);
    if (ci_list_empty(&set->done)) {
        ci_check(!set->waiter, "set.c 1");
        set->waiter = ci_leaf_suspend(worker, future);
        return NULL;
    }
    take_done(set);
    return ci_leaf_complete(worker, future);
}

static int set_cancel(coir_future *future, int reason)
{
    struct set *set = ci_container_of(future, struct set, future);
    if (!set->ret_branch) /* the set is being closed */
        return false;
    set->waiter = NULL;
    future->result = reason;
    return true;
}

static const coir_future_kind set_kind =
    COIR_FUTURE_KIND("the next of a set of futures", set_poll, set_cancel);

const struct ci_list *ci_set_running(const coir_future *future)
{
    return future->kind == &set_kind ? &ci_container_of(future, const struct set, future)->running
                                     : NULL;
}

const struct ci_runnable *ci_set_waiter(const coir_future *future)
{
    return ci_container_of(future, const struct set, future)->waiter;
}

/* `ret_branch` is NULL when the set is being closed. */
static coir_future *next_op(struct set *set, coir_branch **ret_branch)
{
    ci_check(!set->waiter, "set.c 1");
    set->ret_branch = ret_branch;
    return coir_future_init(&set->future, &set_kind);
}

coir_future *ci_set_drop_next_op(coir_set *opaque)
{
    return next_op(set_of(opaque), NULL);
}

coir_future *coir_set_next_op(coir_set *opaque, coir_branch **ret_branch)
{
    if (!opaque || !ret_branch)
        return ci_completed_op(opaque, CI_MISUSE(-EINVAL, "set or ret_branch is NULL"));
    if (set_of(opaque)->worker && CI_ELSEWHERE(set_of(opaque)->worker))
        return NULL; /* the future, too, is its worker's */
    if (!set_of(opaque)->running.next)
        return ci_completed_op(opaque, CI_MISUSE(-EINVAL, SET_NOT_MADE));
    if (CI_REFUSED_AS(-EBUSY, is_in_use(set_of(opaque)), "another branch waits for the set"))
        return &set_of(opaque)->future; /* in flight: to await it is refused as well */
    return next_op(set_of(opaque), ret_branch);
}

int coir_set_next(coir_set *opaque, coir_branch **ret_branch)
{
    if (!opaque || !ret_branch)
        return CI_MISUSE(-EINVAL, "set or ret_branch is NULL");
    int rc = set_of(opaque)->worker ? CI_ELSEWHERE(set_of(opaque)->worker) : 0;
    if (rc < 0)
        return rc; /* its worker may change the rest */
    if (!set_of(opaque)->running.next)
        return CI_MISUSE(-EINVAL, SET_NOT_MADE);
    if (is_in_use(set_of(opaque)))
        return -EBUSY;
    return (int)coir_await(coir_set_next_op(opaque, ret_branch));
}

/* ---- end ---- */

void coir_set_cancel(coir_set *opaque)
{
    if (ci_forked() || CI_REFUSED(!opaque, "set is NULL") ||
        (set_of(opaque)->worker && CI_ELSEWHERE(set_of(opaque)->worker)) ||
        CI_REFUSED(!set_of(opaque)->running.next, SET_NOT_MADE))
        return;
    ci_list_for_each (node, &set_of(opaque)->running)
        ci_runnable_cancel(&ci_container_of(node, struct ci_branch, link)->runnable, -ECANCELED);
}

void coir_set_done(coir_set *opaque)
{
    if (ci_forked() || !opaque ||
        (set_of(opaque)->worker && CI_ELSEWHERE(set_of(opaque)->worker)) ||
        !set_of(opaque)->running.next)
        return;
    if (CI_REFUSED_AS(-EBUSY, is_in_use(set_of(opaque)), "another branch waits for the set"))
        return;
    coir_set_cancel(opaque);
    COIR_SHIELD;
    while (set_of(opaque)->live && coir_await(ci_set_drop_next_op(opaque)) >= 0)
        continue;
}
