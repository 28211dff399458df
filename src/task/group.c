/* Groups of futures: coir_join_all, coir_join_or_cancel, coir_any. */
#include "task/group.h"

#include <errno.h>

#include "base/atomic.h"
#include "base/check.h"
#include "task/waiter.h"

/* The members that have begun and not ended. */
static int32_t count_running(const struct ci_group *group)
{
    int32_t running = 0;
    for (int32_t i = 0; i < group->count; i++)
        running += group->branches[i].end.state == CI_BRANCH_RUNNING;
    return running;
}

static void close_group(struct ci_group *group, int reason)
{
    if (group->closing)
        return;
    ci_debug_check(group->mode != CI_GROUP_ANY || ci_load_relaxed(&group->winner) != CI_NOBODY,
                   "group.h 2");
    group->closing = true;
    group->next = group->count;
    for (struct ci_branch *branch = group->branches; branch < group->branches + group->count;
         branch++)
        if (branch->end.state == CI_BRANCH_RUNNING && ci_branch_cancel(branch, reason))
            group->live--;
    ci_debug_check(group->live == count_running(group), "group.h 1");
}

static void member_ended(struct ci_group *group, struct ci_branch *branch)
{
    ci_debug_check(branch->end.state == CI_BRANCH_RUNNING, "group.h 1");
    branch->end.state = CI_BRANCH_DONE;
    branch->future->caller = NULL; /* from now on it may be started again */
    group->live--;
    ci_check(group->live >= 0, "group.h 1");
    int64_t result = branch->future->result;
    int32_t index = (int32_t)(branch - group->branches);
    if (group->mode == CI_GROUP_ANY) {
        if (ci_load_relaxed(&group->winner) == index || ci_group_decide(group, index))
            close_group(group, -ECANCELED);
    } else if (group->mode == CI_GROUP_JOIN_OR_CANCEL && result < 0 && !group->reason) {
        group->reason = (int32_t)result;
        close_group(group, -ECANCELED);
    }
}

static coir_future *member_end_poll(coir_future *end);

static const coir_future_kind member_end_kind =
    COIR_FUTURE_KIND("the rest of its group", member_end_poll, NULL);

/* A member without a future, or whose future is in flight already: in another group, or twice in
 * this one. It is left alone; the others end. */
static CI_COLD void refuse(struct ci_group *group, const coir_future *future)
{
    static const char *const calls[] = {
        [CI_GROUP_JOIN] = "coir_join_all",
        [CI_GROUP_JOIN_OR_CANCEL] = "coir_join_or_cancel",
        [CI_GROUP_ANY] = "coir_any",
    };
    int error =
        future && future->kind
            ? ci_misused(-EBUSY, "the future of a branch was started before and has not completed",
                         calls[group->mode], NULL)
            : ci_misused(-EINVAL, "a future of branches is NULL, or was not made",
                         calls[group->mode], NULL);
    if (group->mode == CI_GROUP_ANY)
        ci_group_decide(group, CI_NOBODY_EVER);
    if (!group->reason)
        group->reason = error;
    close_group(group, -ECANCELED);
}

static void begin(struct ci_worker *worker, struct ci_group *group, struct ci_branch *branch)
{
    ci_debug_check(branch->end.state == CI_BRANCH_IDLE, "group.h 1");
    ci_debug_check(!group->closing, "group.h 4");
    coir_future *next = branch->future;
    if (ci_unlikely(!next || !next->kind || next->caller != NULL)) {
        refuse(group, next);
        return;
    }
    ci_branch_begin(branch, group, group->owner, &member_end_kind);
    group->live++;
    if (next->kind == &ci_call_kind) { /* a stackful call: it needs a stack of its own */
        ci_ready(worker, &branch->runnable);
        return;
    }
    struct ci_fiber *fiber = worker->fiber;
    worker->runnable = &branch->runnable;
    worker->fiber = NULL;
    do
        next = next->kind->poll(next);
    while (next && next != &branch->end);
    worker->runnable = group->owner;
    worker->fiber = fiber;
    if (next)
        member_ended(group, branch);
}

static void begin_more(struct ci_worker *worker, struct ci_group *group)
{
    while (group->next < group->count && group->live < group->window) {
        uint32_t index = (uint32_t)group->first + (uint32_t)group->next++;
        index -= index < (uint32_t)group->count ? 0 : (uint32_t)group->count;
        begin(worker, group, &group->branches[index]);
        if (group->mode == CI_GROUP_ANY && ci_load_relaxed(&group->winner) != CI_NOBODY)
            close_group(group, -ECANCELED); /* another worker may have decided it in between */
    }
}

/* Every member has ended: sets the result. */
static void set_result(struct ci_group *group)
{
    ci_check(!group->live && group->next == group->count, "group.h 1");
    group->future.result =
        group->mode == CI_GROUP_ANY && group->winner >= 0 ? group->winner : group->reason;
}

/* Sets the result. The owner runs on, so a cancel must not find the group any more. */
static coir_future *finish(struct ci_group *group)
{
    set_result(group);
    group->owner->inner = group->future.caller;
    return group->future.caller;
}

static coir_future *group_poll(coir_future *future)
{
    struct ci_group *group = ci_container_of(future, struct ci_group, future);
    struct ci_worker *worker = ci_worker_current;
    if (ci_leaf_refused(worker, future))
        return future->caller;
    group->owner = ci_leaf_suspend(worker, future);
    begin_more(worker, group);
    if (group->live)
        return NULL;
    finish(group);
    return ci_leaf_complete(worker, future);
}

/* The cancel of the group's future, found as the owner's `inner`. */
static int group_cancel(coir_future *future, int reason)
{
    struct ci_group *group = ci_container_of(future, struct ci_group, future);
    if (group->mode == CI_GROUP_ANY)
        ci_group_decide(group, CI_NOBODY_EVER);
    if (!group->reason)
        group->reason = reason;
    close_group(group, reason);
    if (group->live)
        return false;
    set_result(group);
    return true; /* and the canceller wakes the owner */
}

const coir_future_kind ci_group_kind =
    COIR_FUTURE_KIND("several futures", group_poll, group_cancel);

static coir_future *member_end_poll(coir_future *end)
{
    struct ci_branch *branch = ci_container_of(end, struct ci_branch, end);
    struct ci_group *group = branch->owner;
    struct ci_worker *worker = ci_worker_current;
    member_ended(group, branch);
    begin_more(worker, group);
    /* counted when half of them have ended, and half of the rest: cheap with any number of them */
    ci_debug_check(group->live & (group->live - 1) || group->live == count_running(group),
                   "group.h 1");
    if (group->live)
        return NULL;
    worker->runnable = group->owner;
    return finish(group);
}

coir_future *ci_group_init(coir_group *opaque, coir_branch *branches, size_t count,
                           enum ci_group_mode mode, size_t window, size_t first)
{
    struct ci_group *group = (struct ci_group *)(void *)opaque;
    *group = (struct ci_group){
        .future = {&ci_group_kind, NULL, 0, 0},
        .branches = (struct ci_branch *)(void *)branches,
        .count = (int32_t)count,
        .first = (int32_t)first,
        .window = window && window < INT32_MAX ? (int32_t)window : INT32_MAX,
        .winner = CI_NOBODY,
        .reason = mode == CI_GROUP_ANY && count == 0 ? -EINVAL : 0,
        .mode = (uint8_t)mode,
    };
    for (size_t i = 0; i < count; i++) {
        group->branches[i].end.state = CI_BRANCH_IDLE;
        group->branches[i].link.next = NULL;
    }
    return &group->future;
}

coir_future *coir_join_all_op(coir_group *group, coir_branch *branches, size_t count, size_t window)
{
    if (CI_REFUSED(!group || (count && !branches), "group or branches is NULL"))
        return NULL;
    return ci_group_init(group, branches, count, CI_GROUP_JOIN, window, 0);
}

coir_future *coir_join_or_cancel_op(coir_group *group, coir_branch *branches, size_t count,
                                    size_t window)
{
    if (CI_REFUSED(!group || (count && !branches), "group or branches is NULL"))
        return NULL;
    return ci_group_init(group, branches, count, CI_GROUP_JOIN_OR_CANCEL, window, 0);
}

coir_future *coir_any_op(coir_group *group, coir_branch *branches, size_t count)
{
    if (CI_REFUSED(!group || (count && !branches), "group or branches is NULL"))
        return NULL;
    struct ci_worker *worker = ci_worker_current;
    size_t first = worker && count > 1 ? worker->rotation++ % count : 0;
    return ci_group_init(group, branches, count, CI_GROUP_ANY, 0, first);
}

coir_future *coir_any_in_order_op(coir_group *group, coir_branch *branches, size_t count)
{
    if (CI_REFUSED(!group || (count && !branches), "group or branches is NULL"))
        return NULL;
    return ci_group_init(group, branches, count, CI_GROUP_ANY, 0, 0);
}

/* Whether the array has `count` members, each with a future. */
static bool has_members(const coir_branch *branches, size_t count)
{
    if (count > INT32_MAX || (count && !branches))
        return false;
    for (size_t i = 0; i < count; i++)
        if (!branches[i].future || !branches[i].future->kind)
            return false;
    return true;
}

int coir_join_all(coir_branch *branches, size_t count, size_t window)
{
    if (!has_members(branches, count))
        return ci_worker_current
                   ? CI_MISUSE(-EINVAL, "branches or a future of theirs is NULL, or was not made")
                   : ci_no_fiber();
    coir_group group;
    return (int)coir_await(coir_join_all_op(&group, branches, count, window));
}

int coir_join_or_cancel(coir_branch *branches, size_t count, size_t window)
{
    if (!has_members(branches, count))
        return ci_worker_current
                   ? CI_MISUSE(-EINVAL, "branches or a future of theirs is NULL, or was not made")
                   : ci_no_fiber();
    coir_group group;
    return (int)coir_await(coir_join_or_cancel_op(&group, branches, count, window));
}

int coir_any(coir_branch *branches, size_t count)
{
    if (!has_members(branches, count))
        return ci_worker_current
                   ? CI_MISUSE(-EINVAL, "branches or a future of theirs is NULL, or was not made")
                   : ci_no_fiber();
    coir_group group;
    return (int)coir_await(coir_any_op(&group, branches, count));
}

int coir_any_in_order(coir_branch *branches, size_t count)
{
    if (!has_members(branches, count))
        return ci_worker_current
                   ? CI_MISUSE(-EINVAL, "branches or a future of theirs is NULL, or was not made")
                   : ci_no_fiber();
    coir_group group;
    return (int)coir_await(coir_any_in_order_op(&group, branches, count));
}
