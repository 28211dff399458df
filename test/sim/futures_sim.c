/* Tasks that wait for several things at once and hand values over: generators, sets and groups of
 * futures, frames without a stack, calls on other workers, posted functions, completions,
 * task-locals, deferred functions, parkers, conditions; under deadlines, with memory that runs out.
 *
 * What must hold:
 * 1. A generator hands its values over in order, each once, whatever interrupts the call, and gets
 *    what was sent for each; when it is freed early its function runs to its end.
 * 2. Each member of a set comes out once, and ended, and may then be added again; of a group as
 *    many have ended as its kind promises.
 * 3. Each deferred function is called once, the last registered first, and may wait; one that was
 *    disarmed never.
 * 4. A task sees its own locals and those of the task that spawned it, not its children's; and its
 *    name, also in a frame.
 * 5. Posted functions of one sender are called in order, each once, on the worker that was named,
 *    also those that a posted function posts; a call on a worker runs there, and its result comes
 *    back; a completion is told once.
 * 6. No wake-up of a parker is lost, and no signal of a condition. Whatever ends the wait for a
 *    condition, its caller has the mutex then, and no other has.
 * 7. The metrics are whole at any time, and have each worker.
 * 8. A handle has its task's result, whoever waited for it before and gave up; what gives up the
 *    wait for a task, or for a scope's, does not end it.
 * 9. An offloaded call is made once, or not at all if an error says so. */
#include <coir.h>
#include <coir/generator.h>
#include <coir/metrics.h>
#include <coir/offload.h>
#include <coir/sim.h>
#include <coir/waker.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { PLAYERS = 4, ACTS = 8, MEMBERS_MOST = 6, VALUES_MOST = 12, HOOKS_MOST = 5 };
enum { POSTS_FEW = 6, POSTS_MOST = 600 /* some blocks of them: task/post.c */ };
static const coir_time patience = 60 * COIR_S;
static bool memory_runs_out;

/* Often nothing. */
static coir_time some_time(void)
{
    return (coir_time)below((uint64_t)(2 * COIR_MS) >> below(10));
}

static coir_time some_deadline(void)
{
    return below(3) ? COIR_NEVER : coir_in(some_time());
}

/* An error that the caller's deadline or memory explains; anything else fails the seed. */
static bool has_failed(int64_t rc)
{
    MUST(rc >= 0 || rc == -ETIME || rc == -ENOMEM);
    return rc < 0;
}

/* ---- frames without a stack ---- */

/* Yields, sleeps, and ends with `result`. */
struct frame {
    coir_future future;
    coir_sleep_op pause;
    coir_future turn;
    int steps, result;
    int begun, ended;
    const char *name; /* of the task that polls it; NULL: it is one by itself */
};

static coir_future *frame_poll(coir_future *future)
{
    struct frame *self = coir_frame(future, struct frame);
    COIR_BEGIN(future);
    for (self->begun++; self->steps; self->steps--) {
        MUST(coir_task_name() == self->name); /* 4 */
        coir_future *step = below(2) ? coir_yield_op(&self->turn)
                                     : coir_sleep_until_op(&self->pause, coir_in(some_time()));
        self->turn.result = 0;
        COIR_AWAIT(future, step);
        int64_t rc = self->turn.result ? self->turn.result : self->pause.future.result;
        if (rc < 0) {
            self->ended++;
            COIR_RETURN(future, rc);
        }
    }
    self->ended++;
    COIR_RETURN(future, self->result);
    COIR_END(future);
}

static const coir_future_kind frame_kind = COIR_FUTURE_KIND("a frame", frame_poll, NULL);

static coir_future *frame_init(struct frame *frame, int result)
{
    *frame = (struct frame){.steps = (int)below(4), .result = result, .name = coir_task_name()};
    return coir_future_init(&frame->future, &frame_kind);
}

struct member {
    coir_branch branch;
    struct frame frame;
    coir_call call;
    bool out;
};

static int sleep_in_fiber(void *arg)
{
    struct frame *frame = arg;
    frame->begun++;
    int rc = coir_sleep_for(some_time());
    frame->ended++;
    return rc < 0 ? rc : frame->result;
}

static void make_member(struct member *member, int result)
{
    coir_future *future = frame_init(&member->frame, result);
    if (below(3) == 0)
        future = coir_call_init(&member->call, sleep_in_fiber, &member->frame);
    member->branch = (coir_branch)COIR_BRANCH(future);
    member->out = false;
}

/* ---- generators ---- */

struct numbers {
    uint64_t from, count, got; /* `got`: values sent to it */
    bool ended;
};

static int generate(coir_generator *generator, uint64_t first, void *arg)
{
    struct numbers *numbers = arg;
    int rc = 0;
    MUST_BE(first, numbers->from);
    for (uint64_t i = 0; rc == 0 && i < numbers->count; i++) {
        uint64_t sent = 0;
        for (uint64_t pauses = below(3); pauses; pauses--)
            coir_sleep_for(some_time()); /* the caller's deadline ends it: the value comes anyway */
        rc = coir_generator_yield(generator, numbers->from + i, &sent);
        MUST(rc == 0 || rc == -ECANCELED);
        MUST(rc < 0 || sent == numbers->from + i + 1);
        numbers->got += rc == 0;
    }
    numbers->ended = true;
    return rc < 0 ? rc : -EPROTO;
}

static void use_generator(void)
{
    struct numbers numbers = {.from = below(100), .count = below(VALUES_MOST)};
    coir_generator *generator;
    if (has_failed(coir_generator_new(generate, &numbers, &generator)))
        return;
    uint64_t taken = 0, most = below(2) ? VALUES_MOST + 1 : below(VALUES_MOST), value = 0;
    int rc = 1;
    while (taken < most && rc == 1) {
        COIR_DEADLINE(some_deadline());
        rc = coir_generator_next(generator, numbers.from + taken, &value);
        if (rc == 1)
            MUST_BE(value, numbers.from + taken++);
        if (rc == -ETIME) /* it had passed before the call: the generator was not asked */
            rc = 1;
    }
    MUST(rc == 1 || (rc == -EPROTO && taken == numbers.count && numbers.got == taken));
    if (rc < 0) /* from then on always that */
        MUST_BE(coir_generator_next(generator, 0, &value), rc);
    coir_generator_free(generator);
    MUST(numbers.ended || !taken);
}

/* ---- sets and groups ---- */

static bool add_members(coir_set *set, struct member *members, int count)
{
    for (int i = 0; i < count; i++) {
        make_member(&members[i], i);
        if (has_failed(coir_set_add(set, &members[i].branch)))
            return false;
    }
    return true;
}

static void check_member(struct member *members, int count, coir_branch *branch)
{
    struct member *member = (struct member *)(void *)branch;
    int64_t result = branch->future->result;
    int index = (int)(member - members);
    MUST(index >= 0 && index < count && !member->out);
    MUST(coir_branch_is_complete(branch));
    MUST(result == index || result == -ENOMEM || result == -ECANCELED);
    MUST_BE(member->frame.begun, member->frame.ended);
    member->out = true;
}

/* A member that is out: the same future, from its start. */
static bool add_again(coir_set *set, struct member *member)
{
    if (member->branch.future != &member->frame.future || member->branch.future->result < 0)
        return false;
    member->frame.steps = (int)below(4);
    member->out = false;
    MUST_BE(coir_set_add(set, &member->branch), 0);
    return true;
}

static void use_set(void)
{
    struct member members[MEMBERS_MOST];
    int count = (int)below(MEMBERS_MOST), out = 0, rc = 1;
    coir_set set;
    coir_set_init(&set);
    bool whole = add_members(&set, members, count);
    int begun = (int)coir_set_live(&set), added = begun;
    MUST(whole ? added == count : added < count);
    while (rc == 1 && below(8)) {
        coir_branch *branch;
        COIR_DEADLINE(some_deadline());
        rc = coir_set_next(&set, &branch);
        if (rc == 1) {
            check_member(members, count, branch);
            out++;
            if (below(3) == 0)
                added += add_again(&set, (struct member *)(void *)branch);
        }
        if (rc == -ETIME) {
            rc = 1;
            if (below(2))
                coir_set_cancel(&set);
        }
        MUST_BE(coir_set_live(&set), added - out);
    }
    MUST(rc == 1 || out == added);
    coir_set_done(&set);
    MUST_BE(coir_set_live(&set), 0);
    for (int i = 0; i < begun; i++)
        MUST_BE(members[i].frame.begun, members[i].frame.ended);
}

static int wait_for_group(coir_branch *branches, size_t count, uint64_t kind)
{
    COIR_DEADLINE(some_deadline());
    switch (kind) {
    case 0: return coir_any(branches, count);
    case 1: return coir_any_in_order(branches, count);
    case 2: return coir_join_all(branches, count, below(3));
    default: return coir_join_or_cancel(branches, count, below(3));
    }
}

static void use_group(void)
{
    struct frame frames[MEMBERS_MOST];
    coir_branch branches[MEMBERS_MOST];
    size_t count = 1 + below(MEMBERS_MOST), complete = 0, failed = 0;
    uint64_t kind = below(4);
    for (size_t i = 0; i < count; i++)
        branches[i] = (coir_branch)COIR_BRANCH(frame_init(&frames[i], below(5) ? 0 : -EPROTO));
    int rc = wait_for_group(branches, count, kind);
    for (size_t i = 0; i < count; i++) {
        complete += coir_branch_is_complete(&branches[i]);
        failed += coir_branch_is_complete(&branches[i]) && branches[i].future->result == -EPROTO;
        MUST_BE(frames[i].begun, frames[i].ended);
    }
    if (rc == -EPROTO)
        MUST(kind == 3 && failed);
    else if (!has_failed(rc))
        MUST(kind < 2 ? rc < (int)count && coir_branch_is_complete(&branches[rc])
                      : complete == count && (kind == 2 || !failed));
}

/* ---- tasks that are waited for, by some who give up ---- */

struct work {
    int result, slept;
    bool ended;
};

static int do_work(void *arg)
{
    struct work *work = arg;
    work->slept = coir_sleep_for(some_time());
    work->ended = true;
    return work->slept < 0 ? work->slept : work->result;
}

/* -ETIME: it was given up. */
static int wait_for_end(coir_handle *handle)
{
    COIR_DEADLINE(some_deadline());
    if (below(2))
        return coir_join(handle);
    coir_case cases[] = {coir_case_join(handle), coir_case_after(some_time())};
    int which = below(2) ? coir_select(cases, 2) : coir_select_in_order(cases, 2);
    return which == 0 ? (int)cases[0].result : which == 1 ? -ETIME : which;
}

/* Its memory is then anything else's. */
static void let_go(coir_handle *handle, coir_scope *scope)
{
    coir_handle other;
    coir_handle_done(handle);
    memset(handle, 0xa5, sizeof *handle);
    memset(&other, 0xa5, sizeof other);
    MUST_BE(coir_scope_wait(scope), 0);
    MUST_BE(memcmp(handle, &other, sizeof other), 0);
    memset(handle, 0, sizeof *handle);
}

static void use_handle(void)
{
    struct work work = {.result = 1 + (int)below(9)};
    COIR_SERVING_SCOPE(scope);
    COIR_HANDLE(handle);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    options.place = below(2) ? COIR_ANYWHERE : COIR_HERE;
    if (has_failed(coir_go_with(scope, &options, do_work, &work)))
        return;
    bool cancelled = below(4) == 0;
    if (cancelled)
        coir_cancel(handle);
    int rc = -ETIME;
    while (rc == -ETIME && below(8)) /* or it lets go of the task */
        rc = wait_for_end(handle);
    if (rc == -ETIME) {
        let_go(handle, scope);
        return;
    }
    if (rc == -ENOMEM && !coir_handle_has_ended(handle))
        return; /* the select's */
    MUST(coir_handle_has_ended(handle));
    MUST_BE(coir_join(handle), rc); /* once more */
    if (rc == -ENOMEM)
        MUST(!work.ended); /* there was no memory for its stack */
    else
        MUST(work.ended && rc == (work.slept < 0 ? work.slept : work.result));
    MUST(work.slept == 0 || (cancelled && work.slept == -ECANCELED));
}

static void use_future_task(void)
{
    struct frame frame;
    int result = below(2) ? 0 : -EPROTO;
    COIR_SCOPE(scope);
    coir_future *future = frame_init(&frame, result);
    frame.name = NULL;
    if (has_failed(coir_go_future(scope, future)))
        return;
    MUST_BE(coir_scope_live(scope), 1);
    MUST_BE(coir_scope_wait(scope), result);
    MUST_BE(coir_scope_live(scope), 0);
    MUST(frame.begun == 1 && frame.ended == 1);
}

/* A deadline inside of the scope ends the wait, and not the tasks. */
static void give_up_wait(void)
{
    struct work work = {.result = 0};
    COIR_SCOPE(scope);
    if (has_failed(coir_go_anywhere(scope, do_work, &work)))
        return;
    {
        COIR_DEADLINE(coir_in(some_time()));
        int rc = coir_scope_wait(scope);
        MUST(rc == 0 || rc == -ETIME || rc == -ENOMEM);
        MUST(rc != 0 || work.ended);
    }
    int rc = coir_scope_wait(scope);
    MUST(rc == (work.ended ? 0 : -ENOMEM) && work.slept == 0);
}

static int be_called(void *arg)
{
    return ++*(int *)arg;
}

static void use_offload(void)
{
    int called = 0;
    COIR_DEADLINE(some_deadline());
    int rc = coir_offload(be_called, &called);
    MUST(rc == 1 || rc == -EAGAIN || has_failed(rc));
    MUST_BE(called, rc == 1);
}

/* ---- deferred functions and locals ---- */

struct hooks {
    int numbers[HOOKS_MOST], count, called, disarmed;
    coir_event ended;
};

struct hook {
    struct hooks *hooks;
    int number;
};

static void call_hook(void *arg)
{
    struct hook *hook = arg;
    struct hooks *hooks = hook->hooks;
    MUST(hook->number != hooks->disarmed);
    MUST(!hooks->called || hooks->numbers[hooks->called - 1] > hook->number);
    hooks->numbers[hooks->called++] = hook->number;
    MUST_BE(coir_sleep_for(some_time()), 0); /* whatever has ended the task */
}

static const char inherited, own;

/* `locals`: what the parent has set, and what it must not see. */
struct child {
    struct hooks hooks;
    struct hook each[HOOKS_MOST];
    int value, other;
};

static int be_a_child(void *arg)
{
    struct child *child = arg;
    struct hooks *hooks = &child->hooks;
    MUST(coir_local_get(&inherited) == &child->value && !coir_local_get(&own));
    if (!has_failed(coir_local_set(&inherited, &child->other)))
        MUST(coir_local_get(&inherited) == &child->other);
    has_failed(coir_local_set(&own, &child->other));
    hooks->disarmed = -1;
    for (int want = (int)below(HOOKS_MOST); hooks->count < want; hooks->count++) {
        child->each[hooks->count] = (struct hook){hooks, hooks->count};
        if (has_failed(coir_defer(call_hook, &child->each[hooks->count])))
            break;
    }
    if (hooks->count && below(3) == 0) {
        int which = (int)below((uint64_t)hooks->count);
        MUST(coir_defer_disarm(call_hook, &child->each[which]));
        MUST(!coir_defer_disarm(call_hook, &child->each[which]));
        hooks->disarmed = which;
    }
    return coir_sleep_for(some_time());
}

static void use_child(void)
{
    struct child child = {.value = 1};
    COIR_SCOPE(scope);
    if (has_failed(coir_local_set(&inherited, &child.value)))
        return;
    if (has_failed(coir_go(scope, be_a_child, &child)))
        return;
    if (below(3) == 0)
        coir_scope_cancel(scope);
    int rc = coir_scope_wait(scope);
    MUST(rc == 0 || rc == -ECANCELED);
    MUST_BE(child.hooks.called,
            child.hooks.count - (child.hooks.disarmed >= 0 && child.hooks.count));
    MUST(coir_local_get(&inherited) == &child.value && !coir_local_get(&own));
}

/* ---- other workers ---- */

struct posts {
    int worker, called;
    int more_posted, more_called; /* by what was called there */
    coir_waker waker;
};

struct post {
    struct posts *posts;
    int number;
};

static void called_for_more(void *arg)
{
    struct posts *posts = arg;
    MUST(posts->more_called < posts->more_posted);
    MUST_BE(coir_worker_index(), posts->worker);
    posts->more_called++;
    coir_waker_wake_by_ref(&posts->waker);
}

/* To the worker that makes the call. */
static void post_more(struct posts *posts)
{
    posts->more_posted++;
    if (has_failed(
            coir_runtime_post(coir_runtime_current(), posts->worker, called_for_more, posts)))
        posts->more_posted--;
}

static void called_there(void *arg)
{
    struct post *post = arg;
    MUST_BE(post->posts->called, post->number);
    MUST_BE(coir_worker_index(), post->posts->worker);
    if (below(4) == 0)
        post_more(post->posts);
    post->posts->called++;
    coir_waker_wake_by_ref(&post->posts->waker);
}

/* The parker is woken for each; several wake-ups are one. */
static void use_posts(void)
{
    coir_parker parker;
    coir_runtime *runtime = coir_runtime_current();
    struct posts posts = {.worker = (int)below(coir_worker_count(runtime))};
    int count = 0, want = (int)below(below(16) ? POSTS_FEW : POSTS_MOST);
    struct post *each;
    if (has_failed(coir_parker_init(&parker)))
        return;
    MUST((each = malloc(POSTS_MOST * sizeof *each)));
    coir_waker waker = coir_parker_waker(&parker);
    posts.waker = coir_waker_clone(&waker);
    for (; count < want; count++) {
        each[count] = (struct post){&posts, count};
        if (has_failed(coir_runtime_post(runtime, posts.worker, called_there, &each[count])))
            break;
    }
    while (posts.called < count || posts.more_called < posts.more_posted) {
        COIR_DEADLINE(coir_in(patience));
        coir_case cases[] = {coir_case_parker(&parker)};
        MUST_BE(below(2) ? coir_parker_wait(&parker) : coir_select(cases, 1), 0);
    }
    coir_waker_drop(posts.waker);
    coir_waker_wake(waker);
    MUST_BE(coir_parker_wait(&parker), 0);
    coir_parker_done(&parker);
    free(each);
}

struct there {
    int worker, result;
};

static int run_there(void *arg)
{
    const struct there *there = arg;
    MUST_BE(coir_worker_index(), there->worker);
    int rc = coir_sleep_for(some_time());
    return rc < 0 ? rc : there->result;
}

static void use_other_worker(void)
{
    struct there there = {(int)below(coir_worker_count(coir_runtime_current())), (int)below(9)};
    COIR_DEADLINE(some_deadline());
    int rc = coir_call_on(there.worker, run_there, &there);
    MUST(has_failed(rc) || rc == there.result);
}

struct told {
    coir_event event;
    int64_t result;
    int times;
};

static void on_completion(int64_t result, void *arg)
{
    struct told *told = arg;
    told->times++;
    told->result = result;
    coir_event_set(&told->event);
}

static void use_completion(void)
{
    struct frame frame;
    coir_completion completion;
    struct told told = {.times = 0};
    COIR_SCOPE(scope);
    coir_future *future = frame_init(&frame, 3);
    frame.name = NULL;
    if (has_failed(coir_completion_start(scope, &completion, future, on_completion, &told)))
        return;
    MUST_BE(coir_event_wait(&told.event), 0);
    MUST_BE(told.times, 1);
    MUST_BE(told.result, 3);
    MUST_BE(coir_scope_wait(scope), 0);
}

/* ---- a condition: a stock that is taken from and put into ---- */

static struct {
    coir_mutex mutex;
    coir_condition filled;
    int stock, put, taken;
    bool busy; /* somebody has the mutex */
} shop;

static void enter_shop(void)
{
    MUST(!shop.busy);
    shop.busy = true;
}

/* Now and then after a while. */
static void leave_shop(void)
{
    if (below(2))
        coir_sleep_for(some_time()); /* or until the caller's deadline */
    shop.busy = false;
}

static void put(int count)
{
    MUST_BE(coir_mutex_lock(&shop.mutex), 0);
    enter_shop();
    shop.stock += count;
    shop.put += count;
    if (count == 1)
        coir_condition_signal(&shop.filled);
    else
        coir_condition_broadcast(&shop.filled);
    leave_shop();
    coir_mutex_unlock(&shop.mutex);
}

/* Often it comes again before anybody whom it has woken. */
static void put_some(void)
{
    do
        put(1 + (int)below(3));
    while (below(2));
}

static int wait_in_shop(void)
{
    leave_shop();
    int rc = coir_condition_wait(&shop.filled, &shop.mutex);
    enter_shop();
    return rc;
}

static void take(void)
{
    COIR_DEADLINE(coir_in(some_time()));
    int rc = coir_mutex_lock(&shop.mutex);
    if (has_failed(rc))
        return;
    enter_shop();
    while (rc == 0 && !shop.stock)
        rc = wait_in_shop();
    if (!has_failed(rc)) {
        shop.stock--;
        shop.taken++;
    }
    MUST_BE(shop.stock, shop.put - shop.taken);
    leave_shop();
    coir_mutex_unlock(&shop.mutex);
}

/* Two tasks, often on two workers, take turns: each waits for the other's signal. */
struct turns {
    coir_mutex mutex;
    coir_condition changed;
    int taken, rounds;
};

static void take_turns(struct turns *turns, int first)
{
    for (int i = 0; i < turns->rounds; i++) {
        MUST_BE(coir_mutex_lock(&turns->mutex), 0);
        while (turns->taken % 2 != first)
            MUST_BE(coir_condition_wait(&turns->changed, &turns->mutex), 0);
        turns->taken++;
        if (below(2))
            coir_condition_signal(&turns->changed);
        else
            coir_condition_broadcast(&turns->changed);
        coir_mutex_unlock(&turns->mutex);
    }
}

static int take_second_turns(void *arg)
{
    take_turns(arg, 1);
    return 0;
}

/* A partner without memory for its stack would be waited for in vain. */
static void use_turns(void)
{
    struct turns turns = {.rounds = 1 + (int)below(20)};
    int workers = (int)coir_worker_count(coir_runtime_current());
    if (memory_runs_out)
        return;
    COIR_SCOPE(scope);
    COIR_DEADLINE(coir_in(patience));
    MUST_BE(coir_go_on(scope, (int)below((uint64_t)workers), take_second_turns, &turns), 0);
    take_turns(&turns, 0);
    MUST_BE(coir_scope_wait(scope), 0);
    MUST_BE(turns.taken, 2 * turns.rounds);
}

/* ---- the metrics ---- */

static void use_metrics(void)
{
    enum { SIZE = 65536 };
    char *text = malloc(SIZE);
    coir_runtime *runtime = coir_runtime_current();
    int64_t len = text ? coir_metrics_text(runtime, text, SIZE) : -ENOMEM;
    if (!has_failed(len)) {
        MUST(len > 0 && len < SIZE && (size_t)len == strlen(text) && text[len - 1] == '\n');
        size_t workers = 0;
        for (const char *at = text; (at = strstr(at, "\ncoir_tasks_live{")); at++)
            workers++;
        MUST_BE(workers, coir_worker_count(runtime));
    }
    free(text);
}

/* ---- all of it ---- */

static void do_something(void)
{
    switch (below(16)) {
    case 0: use_generator(); break;
    case 1: use_set(); break;
    case 2: use_group(); break;
    case 3: use_child(); break;
    case 4: use_posts(); break;
    case 5: use_other_worker(); break;
    case 6: use_completion(); break;
    case 7: put_some(); break;
    case 8: use_metrics(); break;
    case 9: use_turns(); break;
    case 10: use_handle(); break;
    case 11: use_future_task(); break;
    case 12: give_up_wait(); break;
    case 13: use_offload(); break;
    default: take(); break;
    }
}

static int play(void *arg)
{
    int rc = 0;
    (void)arg;
    for (int i = 0; rc == 0 && i < ACTS; i++) {
        do_something();
        rc = coir_sleep_for(some_time());
    }
    return rc;
}

static int be_everybody(void *arg)
{
    static const char *const name = "a player";
    int rc = 0;
    COIR_DEADLINE(coir_in(patience));
    COIR_SERVING_SCOPE(scope); /* a task that had no memory for its stack ends no other task */
    for (int i = 0; i < PLAYERS; i++) {
        coir_go_options options = COIR_GO_OPTIONS;
        options.name = name;
        options.place = below(2) ? COIR_ANYWHERE : COIR_HERE;
        rc = coir_go_with(scope, &options, play, arg);
        MUST(rc == 0 || rc == -ENOMEM);
    }
    return coir_scope_wait(scope);
}

int scenario(coir_sim *sim)
{
    memset(&shop, 0, sizeof shop);
    MUST_BE(chaos_configure(sim), 0);
    if ((memory_runs_out = below(4) == 0))
        coir_sim_faults(sim, NULL, (coir_faults){.no_memory = 0.05});
    int rc;
    do /* there may not even be memory for a task */
        rc = coir_sim_host_main(sim, "host", be_everybody, NULL);
    while (rc == -ENOMEM);
    return rc;
}
