/* Several futures awaited at once: join, try-join, any, and sets that grow.
 *
 * 1. A member runs on a branch: a runnable of its own, whose outermost caller is the branch's end.
 * So a wake-up reaches the one member that it is for, and nothing else is polled.
 * 2. `live` counts the members that have begun and not ended. A group ends when it is 0 and none is
 * to be begun.
 * 3. `winner` of a coir_any goes from NOBODY to an index, once; any thread may do that, before it
 * hands something over to a member. From then on the members that take something are refused. Two
 * coir_anys that are to be decided together: the one that is being polled is UNDECIDED, under a
 * lock of which there is one, until the other has been decided; others wait for that.
 * 4. A group that closes begins no more members and cancels those that run; one that had completed
 * keeps its result.
 *
 *    IDLE -- begin --> RUNNING -- its future completes --> DONE
 *                         `-- cancelled at once --> WITHDRAWN
 */
#include <errno.h>
#include <stdio.h>

#include "base/check.h"
#include "sys/lock.h"
#include "task/task.h"

enum { IDLE, RUNNING, DONE, WITHDRAWN }; /* end.state */
enum mode { JOIN, TRY_JOIN, ANY };
enum { NOBODY = -1, NOBODY_EVER = -2, UNDECIDED = -3 };

struct branch {
    coir_future *future;
    struct ci_runnable runnable;
    coir_future end;
    void *group;         /* struct group or struct set */
    struct ci_list link; /* of a set's member */
    uint64_t spare[CI_SPARE_WORDS];
};
_Static_assert(sizeof(struct branch) == sizeof(coir_branch), "they lie in the program's arrays");

struct group {
    coir_future future;
    struct ci_runnable *owner;
    struct branch *branches;
    int32_t count, next, live, window;
    int32_t first; /* the one to begin with */
    int32_t winner;
    int32_t reason; /* the first error, or why everything was cancelled */
    uint8_t mode;
    bool closing;
};
CI_LEAVES_SPARE_WORDS(struct group, coir_group);

struct set {
    coir_future future; /* of the one who waits for the next member */
    struct ci_runnable *waiter;
    struct ci_list running, done;
    coir_branch **ret_branch;
    size_t live;
};
CI_LEAVES_SPARE_WORDS(struct set, coir_set);

static coir_future *end_poll(coir_future *end);
static const coir_future_kind branch_end_kind =
    COIR_FUTURE_KIND("the rest of its group", end_poll, NULL);

/* ---- branches ---- */

static void make_branch(struct branch *branch, void *group, struct ci_runnable *owner)
{
    branch->runnable = (struct ci_runnable){NULL, branch->future,   owner->task,
                                            NULL, owner->interrupt, owner->interrupt};
    branch->end = (coir_future){&branch_end_kind, NULL, 0, RUNNING};
    branch->group = group;
    branch->future->caller = &branch->end;
}

/* Cancels what a branch waits for. True: it has ended by that. */
static bool cancel_branch(struct branch *branch, int reason)
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
    branch->end.state = WITHDRAWN;
    return true;
}

bool coir_branch_is_complete(const coir_branch *branch)
{
    return ((const struct branch *)(const void *)branch)->end.state == DONE;
}

/* ---- groups ---- */

static void close_group(struct group *group, int reason)
{
    if (group->closing)
        return;
    group->closing = true;
    group->next = group->count;
    for (struct branch *branch = group->branches; branch < group->branches + group->count; branch++)
        if (branch->end.state == RUNNING && cancel_branch(branch, reason))
            group->live--;
}

static bool win(struct group *group, int32_t index)
{
    int32_t seen = NOBODY;
    unsigned round = 0;
    while (!ci_compare_exchange(&group->winner, &seen, index)) {
        if (seen != UNDECIDED)
            return false;
        while (ci_load_relaxed(&group->winner) == UNDECIDED)
            ci_pause(round++);
        seen = NOBODY;
    }
    return true;
}

/* The coir_any that a suspended leaf decides, or NULL. */
static struct group *any_of(struct ci_runnable *runnable, const coir_future *leaf,
                            int32_t *ret_index)
{
    if (!ci_runnable_is_branch(runnable))
        return NULL;
    struct branch *branch = ci_container_of(runnable, struct branch, runnable);
    if (leaf->caller != &branch->end || branch->link.next)
        return NULL;
    struct group *group = branch->group;
    *ret_index = (int32_t)(branch - group->branches);
    return group->mode == ANY ? group : NULL;
}

bool ci_branch_claim(struct ci_runnable *runnable, const coir_future *leaf)
{
    int32_t index = 0;
    struct group *group = any_of(runnable, leaf, &index);
    return !group || win(group, index);
}

static struct ci_lock pair_lock;

enum ci_pair ci_claim_pair(struct ci_runnable *self, const coir_future *self_leaf,
                           struct ci_runnable *peer, const coir_future *peer_leaf)
{
    int32_t self_index = 0, peer_index = 0;
    struct group *own = any_of(self, self_leaf, &self_index),
                 *other = any_of(peer, peer_leaf, &peer_index);
    if (!own)
        return !other || win(other, peer_index) ? CI_PAIR_CLAIMED : CI_PAIR_PEER_LOST;
    if (own == other)
        return CI_PAIR_SAME;
    if (!other)
        return win(own, self_index) ? CI_PAIR_CLAIMED : CI_PAIR_SELF_LOST;
    enum ci_pair pair = CI_PAIR_SELF_LOST;
    ci_lock_take(&pair_lock);
    if (win(own, UNDECIDED)) {
        pair = win(other, peer_index) ? CI_PAIR_CLAIMED : CI_PAIR_PEER_LOST;
        ci_store(&own->winner, pair == CI_PAIR_CLAIMED ? self_index : NOBODY);
    }
    ci_lock_give(&pair_lock);
    return pair;
}

static void member_ended(struct group *group, struct branch *branch)
{
    branch->end.state = DONE;
    group->live--;
    int result = (int)branch->future->result;
    int32_t index = (int32_t)(branch - group->branches);
    if (group->mode == ANY) {
        if (ci_load_relaxed(&group->winner) == index || win(group, index))
            close_group(group, -ECANCELED);
    } else if (group->mode == TRY_JOIN && result < 0 && !group->reason) {
        group->reason = result;
        close_group(group, -ECANCELED);
    }
}

static void begin(struct ci_worker *worker, struct group *group, struct branch *branch)
{
    make_branch(branch, group, group->owner);
    group->live++;
    if (branch->future->kind == &ci_call_kind) { /* it wants a stack of its own */
        ci_ready(worker, &branch->runnable);
        return;
    }
    struct ci_fiber *fiber = worker->fiber;
    coir_future *next = branch->future;
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

static void begin_more(struct ci_worker *worker, struct group *group)
{
    while (group->next < group->count && group->live < group->window) {
        int32_t index = (group->first + group->next++) % group->count;
        begin(worker, group, &group->branches[index]);
        if (group->mode == ANY && ci_load_relaxed(&group->winner) != NOBODY)
            close_group(group, -ECANCELED); /* another worker may have decided it meanwhile */
    }
}

/* The owner goes on: no cancel must find the group any more. */
static coir_future *finish(struct group *group)
{
    group->owner->inner = group->future.caller;
    group->future.result = group->mode == ANY && group->winner >= 0 ? group->winner : group->reason;
    return group->future.caller;
}

static coir_future *group_poll(coir_future *future)
{
    struct group *group = ci_container_of(future, struct group, future);
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

/* Found through the owner's runnable. */
static int group_cancel(coir_future *future, int reason)
{
    struct group *group = ci_container_of(future, struct group, future);
    if (group->mode == ANY)
        win(group, NOBODY_EVER);
    if (!group->reason)
        group->reason = reason;
    close_group(group, reason);
    if (group->live)
        return false;
    finish(group);
    return true;
}

static const coir_future_kind group_kind =
    COIR_FUTURE_KIND("several futures", group_poll, group_cancel);

static coir_future *set_member_ended(struct set *set, struct branch *branch);

static coir_future *end_poll(coir_future *end)
{
    struct branch *branch = ci_container_of(end, struct branch, end);
    if (end->state == IDLE) {
        end->state = RUNNING;
        return branch->future;
    }
    if (branch->link.next)
        return set_member_ended(branch->group, branch);
    struct group *group = branch->group;
    struct ci_worker *worker = ci_worker_current;
    member_ended(group, branch);
    begin_more(worker, group);
    if (group->live)
        return NULL;
    worker->runnable = group->owner;
    return finish(group);
}

static coir_future *init(coir_group *words, coir_branch *branches, size_t count, enum mode mode,
                         size_t window, bool rotates)
{
    struct group *group = (struct group *)(void *)words;
    *group = (struct group){
        .future = {&group_kind, NULL, 0, 0},
        .branches = (struct branch *)(void *)branches,
        .count = (int32_t)count,
        .window = window && window < INT32_MAX ? (int32_t)window : INT32_MAX,
        .winner = NOBODY,
        .reason = mode == ANY && count == 0 ? -EINVAL : 0,
        .mode = (uint8_t)mode,
    };
    if (rotates && count > 1 && ci_worker_current)
        group->first = (int32_t)(ci_worker_current->rotation++ % (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        group->branches[i].end.state = IDLE;
        group->branches[i].link.next = NULL;
    }
    return &group->future;
}

coir_future *coir_join_all_op(coir_group *group, coir_branch *branches, size_t count, size_t window)
{
    return init(group, branches, count, JOIN, window, false);
}

coir_future *coir_join_or_cancel_op(coir_group *group, coir_branch *branches, size_t count,
                                    size_t window)
{
    return init(group, branches, count, TRY_JOIN, window, false);
}

coir_future *coir_any_op(coir_group *group, coir_branch *branches, size_t count)
{
    return init(group, branches, count, ANY, 0, true);
}

coir_future *coir_any_in_order_op(coir_group *group, coir_branch *branches, size_t count)
{
    return init(group, branches, count, ANY, 0, false);
}

int coir_join_all(coir_branch *branches, size_t count, size_t window)
{
    coir_group group;
    return (int)coir_await(coir_join_all_op(&group, branches, count, window));
}

int coir_join_or_cancel(coir_branch *branches, size_t count, size_t window)
{
    coir_group group;
    return (int)coir_await(coir_join_or_cancel_op(&group, branches, count, window));
}

int coir_any(coir_branch *branches, size_t count)
{
    coir_group group;
    return (int)coir_await(coir_any_op(&group, branches, count));
}

int coir_any_in_order(coir_branch *branches, size_t count)
{
    coir_group group;
    return (int)coir_await(coir_any_in_order_op(&group, branches, count));
}

/* ---- what a runnable waits for ---- */

static size_t append(char *text, size_t size, size_t at, const char *word)
{
    int len = snprintf(text + at, size - at, "%s", word);
    return at + (size_t)len < size ? at + (size_t)len : size - 1;
}

void ci_runnable_waits_for(const struct ci_runnable *runnable, char *text, size_t size)
{
    const coir_future *inner = runnable->inner;
    if (inner->kind != &group_kind) {
        append(text, size, 0, inner->kind->name);
        return;
    }
    const struct group *group = ci_container_of(inner, const struct group, future);
    size_t at = append(text, size, 0, group->mode == ANY ? "any of" : "all of");
    for (const struct branch *branch = group->branches; branch < group->branches + group->count;
         branch++)
        if (branch->end.state == RUNNING) {
            at = append(text, size, at, branch == group->branches ? " " : ", ");
            at = append(text, size, at, branch->runnable.inner->kind->name);
        }
}

/* ---- sets ---- */

static struct set *set_of(coir_set *set)
{
    return (struct set *)(void *)set;
}

void coir_set_init(coir_set *words)
{
    struct set *set = set_of(words);
    *set = (struct set){0};
    ci_list_init(&set->running);
    ci_list_init(&set->done);
}

int coir_set_add(coir_set *words, coir_branch *member)
{
    struct set *set = set_of(words);
    struct branch *branch = (struct branch *)(void *)member;
    struct ci_worker *worker = ci_worker_current;
    if (!worker || !worker->runnable)
        return ci_no_fiber();
    make_branch(branch, set, worker->runnable);
    if (branch->future->kind->cancel) {
        /* Until the member begins, the branch's end is its inner future: a leaf that was not polled
         * cannot be cancelled, and its runnable is in the queue already. */
        branch->end.state = IDLE;
        branch->runnable.inner = &branch->end;
    }
    ci_list_push(&set->running, &branch->link);
    set->live++;
    ci_ready(worker, &branch->runnable);
    return 0;
}

size_t coir_set_live(const coir_set *set)
{
    return ((const struct set *)(const void *)set)->live;
}

static void take_done(struct set *set)
{
    struct branch *branch = ci_container_of(ci_list_pop(&set->done), struct branch, link);
    set->live--;
    set->future.result = 1;
    if (set->ret_branch)
        *set->ret_branch = (coir_branch *)(void *)branch;
}

static coir_future *set_member_ended(struct set *set, struct branch *branch)
{
    branch->end.state = DONE;
    ci_list_remove(&branch->link);
    ci_list_push(&set->done, &branch->link);
    struct ci_runnable *waiter = set->waiter;
    if (!waiter)
        return NULL;
    set->waiter = NULL;
    take_done(set);
    ci_worker_current->runnable = waiter;
    waiter->inner = set->future.caller;
    return set->future.caller;
}

static coir_future *set_poll(coir_future *future)
{
    struct set *set = ci_container_of(future, struct set, future);
    struct ci_worker *worker = ci_worker_current;
    if (set->ret_branch && ci_leaf_refused(worker, future))
        return future->caller;
    if (!set->live)
        return ci_leaf_complete(worker, future);
    if (ci_list_empty(&set->done)) {
        set->waiter = ci_leaf_suspend(worker, future);
        return NULL;
    }
    take_done(set);
    return ci_leaf_complete(worker, future);
}

static int set_cancel(coir_future *future, int reason)
{
    struct set *set = ci_container_of(future, struct set, future);
    if (!set->ret_branch) /* being closed */
        return false;
    set->waiter = NULL;
    future->result = reason;
    return true;
}

static const coir_future_kind set_kind =
    COIR_FUTURE_KIND("the next of a set of futures", set_poll, set_cancel);

coir_future *coir_set_next_op(coir_set *words, coir_branch **ret_branch)
{
    struct set *set = set_of(words);
    ci_check(!set->waiter);
    set->ret_branch = ret_branch;
    return coir_future_init(&set->future, &set_kind);
}

int coir_set_next(coir_set *words, coir_branch **ret_branch)
{
    if (set_of(words)->waiter)
        return -EBUSY;
    return (int)coir_await(coir_set_next_op(words, ret_branch));
}

void coir_set_cancel(coir_set *words)
{
    if (ci_forked())
        return;
    ci_list_for_each (node, &set_of(words)->running)
        ci_runnable_cancel(&ci_container_of(node, struct branch, link)->runnable, -ECANCELED);
}

void coir_set_done(coir_set *words)
{
    if (ci_forked())
        return;
    coir_set_cancel(words);
    COIR_SHIELD;
    while (set_of(words)->live && coir_await(coir_set_next_op(words, NULL)) >= 0)
        continue;
}

/* ---- completions ---- */

struct completion {
    coir_future future;
    coir_future *child;
    void (*fn)(int64_t result, void *arg);
    void *arg;
};
CI_LEAVES_SPARE_WORDS(struct completion, coir_completion);

static coir_future *completion_poll(coir_future *future);

static const coir_future_kind completion_kind =
    COIR_FUTURE_KIND("a completion", completion_poll, NULL);
static const coir_future_kind background_kind =
    /* without a scope: the result is fn's alone */
    COIR_FUTURE_KIND("a completion", completion_poll, NULL);

static coir_future *completion_poll(coir_future *future)
{
    struct completion *completion = ci_container_of(future, struct completion, future);
    COIR_BEGIN(future);
    COIR_AWAIT(future, completion->child);
    int64_t result = completion->child->result;
    coir_future *caller = future->caller;
    caller->result = future->kind == &background_kind ? 0 : result; /* else the scope's, too */
    /* may free everything but the caller */
    completion->fn(result, completion->arg);
    return caller;
}

int coir_completion_start(coir_scope *scope, coir_completion *words, coir_future *future,
                          void (*fn)(int64_t result, void *arg), void *arg)
{
    struct completion *completion = (struct completion *)(void *)words;
    *completion = (struct completion){
        {scope ? &completion_kind : &background_kind, NULL, 0, 0}, future, fn, arg};
    struct ci_task *task;
    return CI_MISUSE_IF(-EBADF, ci_go_future(scope, NULL, &completion->future, &task));
}
