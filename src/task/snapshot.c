#include "task/snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/character.h"
#include "base/time.h"
#include "sys/clock.h"
#include "sys/unwind.h"
#include "task/generator.h"
#include "task/group.h"
#include "task/remote.h"
#include "task/runtime.h"
#include "task/set.h"
#include "task/tree.h"

enum { FRAMES = 64, LINES = 256 /* of a task */, DEPTH = 100 /* of its groups */ };

static const coir_time stack_time = 200 * COIR_MS;

/* What is being copied. */
struct copy {
    struct ci_snapshot *snapshot;
    const struct ci_halted *halted;
    const struct ci_worker *worker;
    bool all_halted;     /* of its runtime */
    size_t worker_index; /* in the snapshot */
    size_t first_task;   /* of the worker */
    size_t first_line;   /* of the task */
    coir_time stacks_until;
};

typedef void copy_fn(struct copy *copy, struct ci_worker *worker);

void *ci_snapshot_add(struct ci_snapshot *snapshot, struct ci_snapshot_array *array,
                      size_t item_size)
{
    if (array->count == array->size) {
        size_t size = array->size ? 2 * array->size : 64;
        void *items = realloc(array->items, size * item_size);
        if (!items) {
            snapshot->error = -ENOMEM;
            return NULL;
        }
        array->items = items;
        array->size = size;
    }
    void *item = (char *)array->items + array->count++ * item_size;
    memset(item, 0, item_size);
    return item;
}

static void copy_name(char *to, const char *name)
{
    size_t len = name ? ci_character_cut(name, CI_SNAPSHOT_NAME - 1) : 0;
    memcpy(to, name ? name : "", len);
    to[len] = '\0';
}

/* ---- the asynchronous stack of a task ---- */

static void add_line(struct copy *copy, struct ci_snapshot_line line)
{
    struct ci_snapshot *snapshot = copy->snapshot;
    if (snapshot->lines.count - copy->first_line >= LINES)
        return;
    struct ci_snapshot_line *to = ci_snapshot_add(snapshot, &snapshot->lines, sizeof *to);
    if (to)
        *to = line;
}

/* A context that was left on the stack of which `record` is the record. */
static void add_frames(struct copy *copy, const struct ci_worker *worker, const void *record,
                       const struct ci_context *context, int depth)
{
    void *frames[FRAMES];
    const char *bottom = ci_stack_bottom(&worker->stacks, record);
    if (ci_stack_bottom(&worker->stacks, context->sp) != bottom)
        return;
    int count = ci_unwind(&copy->snapshot->tables, context, context->sp,
                          bottom + worker->stacks.size, frames, FRAMES);
    for (int i = 0; i < count; i++)
        add_line(copy, (struct ci_snapshot_line){.kind = CI_LINE_FRAME,
                                                 .depth = (uint8_t)depth,
                                                 .exact = i == 0,
                                                 .address = frames[i]});
}

/* The stacks of a fiber: those of its generators that run, innermost first, and its own. */
static void add_fiber(struct copy *copy, const struct ci_fiber *fiber, int depth)
{
    const struct ci_worker *worker = fiber->runnable->task->worker;
    const struct ci_context *context = ci_fiber_innermost(fiber);
    for (const coir_generator *generator = fiber->generator; generator;
         generator = ci_generator_outer(generator)) {
        add_frames(copy, worker, generator, context, depth);
        context = ci_generator_resumer(generator);
    }
    add_frames(copy, worker, fiber, context, depth);
}

static void add_stack(struct copy *copy, const struct ci_runnable *runnable, const coir_future *end,
                      int depth);

static void add_member(struct copy *copy, const struct ci_branch *branch, int depth)
{
    add_line(copy, (struct ci_snapshot_line){
                       .kind = CI_LINE_MEMBER, .depth = (uint8_t)depth, .future = branch->future});
    add_stack(copy, &branch->runnable, &branch->end, depth + 1);
}

static void add_members(struct copy *copy, const coir_future *future, int depth)
{
    const struct ci_list *running = ci_set_running(future);
    if (depth > DEPTH)
        return;
    if (running) {
        ci_list_for_each (node, running)
            add_member(copy, ci_container_of(node, const struct ci_branch, link), depth);
    } else if (future->kind == &ci_group_kind) {
        const struct ci_group *group = ci_container_of(future, const struct ci_group, future);
        for (int32_t i = 0; i < group->count; i++)
            if (group->branches[i].end.state == CI_BRANCH_RUNNING)
                add_member(copy, &group->branches[i], depth);
    }
}

/* `end`: what the outermost future of the runnable returns to. */
static void add_stack(struct copy *copy, const struct ci_runnable *runnable, const coir_future *end,
                      int depth)
{
    const coir_future *future = runnable->inner;
    size_t before = copy->snapshot->lines.count;
    while (future && future != end && copy->snapshot->lines.count - before < LINES) {
        if (future->kind == &ci_fiber_kind) {
            const struct ci_fiber *fiber = ci_container_of(future, const struct ci_fiber, back);
            add_fiber(copy, fiber, depth);
            future = fiber->call->future.caller;
            continue;
        }
        add_line(copy, (struct ci_snapshot_line){.kind = CI_LINE_FUTURE,
                                                 .depth = (uint8_t)depth,
                                                 .exact = true,
                                                 .address = (void *)(uintptr_t)future->kind->poll,
                                                 .future = future,
                                                 .name = future->kind->name});
        add_members(copy, future, depth);
        future = future->caller;
    }
}

/* A task that calls for the dump from the poll of a future: the futures that it is in are being
 * polled, so their links are not to be followed. */
static bool is_being_polled(const struct ci_worker *worker, const struct ci_task *task)
{
    return worker->runnable && worker->runnable->task == task && !worker->fiber;
}

/* ---- tasks ---- */

/* The worker that runs a task, if it is halted; otherwise NULL. */
static const struct ci_worker *halted_runner(const struct copy *copy, const struct ci_task *task)
{
    struct ci_lock *lock = &copy->worker->runtime->shared_lock;
    if (copy->all_halted)
        return task->worker;
    ci_lock_take(lock);
    const struct ci_worker *runner = task->worker;
    ci_lock_give(lock);
    return runner && ci_is_halted(copy->halted, runner) ? runner : NULL;
}

static uint8_t state_of(const struct copy *copy, const struct ci_task *task)
{
    if (!halted_runner(copy, task))
        return CI_TASK_UNKNOWN;
    const coir_future *inner = task->runnable.inner;
    if (ci_remote_task_in_transit(task))
        return CI_TASK_TRAVELS;
    if (task->worker->runnable && task->worker->runnable->task == task)
        return CI_TASK_RUNS;
    if (inner == &task->root.future || !inner)
        return CI_TASK_NOT_BEGUN;
    if (inner->kind == &ci_fiber_kind)
        return CI_TASK_READY;
    for (const struct ci_runnable *ready = task->worker->ready; ready; ready = ready->next)
        if (ready == &task->runnable)
            return CI_TASK_READY;
    return CI_TASK_WAITS;
}

/* What a stackless task runs is its outermost future. */
static void copy_root(struct ci_snapshot_task *to, const struct ci_task *task)
{
    const coir_future *root = task->root.fn ? NULL : task->root.arg;
    to->fn = (const void *)(uintptr_t)task->root.fn;
    if (root) {
        to->root = root->kind->name;
        to->fn = (const void *)(uintptr_t)root->kind->poll;
    }
}

/* A task that any worker may take from the shared queue, also one that is not halted. */
static bool copy_queued(const struct copy *copy, struct ci_snapshot_task *to,
                        const struct ci_task *task)
{
    struct ci_lock *lock = &copy->worker->runtime->shared_lock;
    ci_lock_take(lock);
    bool queued = !task->worker;
    if (queued) {
        copy_name(to->name, task->name);
        copy_root(to, task);
        to->cancelled = task->runnable.cancelled;
    }
    ci_lock_give(lock);
    return queued;
}

/* The nearest one; of what lies behind a scope that was left open, nothing is known. */
static coir_time deadline_of(const struct ci_task *task)
{
    coir_time nearest = COIR_NEVER;
    for (const struct ci_cancel_scope *at = task->runnable.cancel_scopes;
         at && !ci_tree_is_left_open(&task->runnable, at) && at->kind != CI_CANCEL_SCOPE_SHIELD;
         at = at->outer) {
        coir_time when = ci_cancel_scope_deadline(at);
        nearest = when < nearest ? when : nearest;
    }
    return nearest;
}

/* Whether it has begun, and is where it can be looked into. */
static bool is_readable(const struct ci_snapshot_task *to, const struct ci_task *task)
{
    return to->state != CI_TASK_UNKNOWN && to->state != CI_TASK_TRAVELS &&
           to->state != CI_TASK_NOT_BEGUN && !is_being_polled(task->worker, task);
}

/* How long the leaf has waited. It may be given its result meanwhile, by another worker: TSan is
 * not to see this. */
static CI_UNINSTRUMENTED coir_time time_waited(const coir_future *leaf,
                                               const struct ci_wait_note *note, coir_time now)
{
    coir_time since = leaf->result; /* waiter.h 1 */
    return note->decided || since <= 0 ? 0 : ci_time_left(now, since);
}

static void copy_state(struct copy *copy, struct ci_snapshot_task *to, const struct ci_task *task)
{
    to->state = CI_TASK_NOT_BEGUN;
    to->number = task->number;
    to->spawned_at = task->spawned_at;
    if (copy_queued(copy, to, task) || (to->state = state_of(copy, task)) == CI_TASK_UNKNOWN)
        return;
    to->runner = task->worker->index;
    copy_name(to->name, task->name);
    if (to->state == CI_TASK_TRAVELS)
        return; /* it may have ended, and its outermost future be gone */
    copy_root(to, task);
    to->cancelled = task->runnable.cancelled;
    to->deadline =
        is_readable(to, task) ? deadline_of(task) : ci_runnable_deadline(&task->runnable);
    struct coir_loop *loop = &task->worker->loop;
    coir_time now = ci_driver_now(loop->driver);
    if (to->deadline != COIR_NEVER)
        to->deadline = ci_time_left(to->deadline, now);
    if (to->state != CI_TASK_WAITS)
        return;
    to->waits_for = task->runnable.inner->kind->name;
    ci_describe(task->runnable.inner, &to->note);
    to->waited = time_waited(task->runnable.inner, &to->note, now);
    /* the times of fresh timers are durations */
    to->has_time = to->note.until && ci_list_empty(&loop->fresh);
    to->left = ci_time_left(to->note.until, now);
}

/* What is left of it may have been overwritten since. */
static CI_UNINSTRUMENTED void note_left_open(struct ci_snapshot_task *to,
                                             const struct ci_runnable *runnable,
                                             const struct ci_cancel_scope *at)
{
    const struct ci_scope *scope = ci_container_of(at, const struct ci_scope, cancel_scope);
    bool whole = at->runnable == runnable && at->kind == CI_CANCEL_SCOPE_TASKS;
    to->left_a_scope_open = true;
    to->opened_at = whole ? scope->opened_at : NULL;
}

/* The scopes of one that can be read. */
static enum ci_tree_reach reach_of(const struct ci_task *task, void *arg)
{
    const struct ci_worker *runner = halted_runner(arg, task);
    return runner && !ci_remote_task_in_transit(task) && !is_being_polled(runner, task)
               ? CI_TREE_EVERYTHING
               : CI_TREE_NOTHING;
}

/* The index of the nearest task of the worker's tree that was copied and is above this depth. */
static int parent_at(const struct copy *copy, int depth)
{
    const struct ci_snapshot *snapshot = copy->snapshot;
    int at = snapshot->tasks.count > copy->first_task ? (int)snapshot->tasks.count - 1 : -1;
    while (at >= 0 && ci_snapshot_task(snapshot, (size_t)at)->depth >= depth)
        at = ci_snapshot_task(snapshot, (size_t)at)->parent;
    return at;
}

/* With what is the same of all that is listed as a task. */
static struct ci_snapshot_task *add_task(struct copy *copy, const void *id,
                                         const struct ci_tree *tree)
{
    struct ci_snapshot *snapshot = copy->snapshot;
    int parent = parent_at(copy, tree->depth);
    struct ci_snapshot_task *to = ci_snapshot_add(snapshot, &snapshot->tasks, sizeof *to);
    if (!to)
        return NULL;
    to->id = id;
    to->scope = tree->scope;
    to->parent = parent;
    to->depth = tree->depth;
    to->worker = (int)copy->worker_index;
    to->runner = to->holder = -1;
    to->deadline = COIR_NEVER;
    to->first_line = copy->first_line = snapshot->lines.count;
    if (parent >= 0)
        ci_snapshot_task(snapshot, (size_t)parent)->has_children = true;
    return to;
}

static void copy_task(struct copy *copy, const struct ci_tree *tree, const struct ci_task *task,
                      bool with_stack)
{
    struct ci_snapshot *snapshot = copy->snapshot;
    struct ci_snapshot_task *to = add_task(copy, task, tree);
    if (!to)
        return;
    copy_state(copy, to, task);
    if (!is_readable(to, task)) {
        snapshot->whole = snapshot->whole && to->state != CI_TASK_RUNS;
        return;
    }
    if (with_stack)
        add_stack(copy, &task->runnable, &task->end, 0);
    to->line_count = snapshot->lines.count - to->first_line;
}

static uint64_t bit_of(const void *task)
{
    return (uint64_t)1 << ((uintptr_t)task * 0x9e3779b97f4a7c15u >> 58);
}

static bool is_wanted(const struct ci_snapshot *snapshot, const struct ci_task *task)
{
    if (!(snapshot->wanted_bits & bit_of(task)))
        return false;
    for (size_t i = 0; i < snapshot->wanted_count; i++)
        if (snapshot->wanted[i].task == task && snapshot->wanted[i].number == task->number)
            return true;
    return false;
}

/* Whether it waits for a lock that a task holds. */
static bool waits_for_holder(struct copy *copy, const struct ci_task *task)
{
    struct ci_wait_note note = {0};
    if (reach_of(task, copy) == CI_TREE_NOTHING || !ci_waits_for_lock(task->runnable.inner))
        return false;
    ci_describe(task->runnable.inner, &note);
    return note.holder.task && !note.decided;
}

static void pass_task(struct copy *copy, const struct ci_tree *tree)
{
    struct ci_snapshot *snapshot = copy->snapshot;
    const struct ci_task *task = tree->task;
    struct ci_snapshot_seen *seen = ci_snapshot_add(snapshot, &snapshot->seen, sizeof *seen);
    if (!seen)
        return;
    *seen = (struct ci_snapshot_seen){task, task->number, -1};
    bool wanted = !snapshot->lean || is_wanted(snapshot, task);
    if (!wanted && !waits_for_holder(copy, task)) {
        struct ci_worker *runner = copy->all_halted ? task->worker : NULL;
        snapshot->whole = snapshot->whole && !(runner && is_being_polled(runner, task));
        return;
    }
    seen->index = (int32_t)snapshot->tasks.count;
    copy_task(copy, tree, task, wanted);
}

static void copy_left_open(struct copy *copy, const struct ci_tree *tree)
{
    struct ci_snapshot *snapshot = copy->snapshot;
    const struct ci_task *task = tree->runnable->task;
    struct ci_snapshot_seen *seen =
        (struct ci_snapshot_seen *)snapshot->seen.items + snapshot->seen.count;
    do
        seen--;
    while (seen->id != task);
    snapshot->whole = false;
    if (seen->index < 0) {
        seen->index = (int32_t)snapshot->tasks.count;
        copy_task(copy, tree, task, false);
    }
    if (!snapshot->error)
        note_left_open(ci_snapshot_task(snapshot, (size_t)seen->index), tree->runnable,
                       tree->left_open);
}

static void copy_resting(struct copy *copy, const struct ci_tree *tree)
{
    size_t count = tree->scope->resting;
    struct ci_snapshot_task *to = add_task(copy, tree->scope, tree);
    if (!to)
        return;
    to->state = CI_TASK_RESTS;
    snprintf(to->name, sizeof to->name, "%zu task%s", count, count == 1 ? "" : "s");
}

static void end_scope(struct copy *copy, const struct ci_tree *tree)
{
    const struct ci_scope *scope = tree->scope;
    if (scope->resting && !copy->snapshot->lean)
        copy_resting(copy, tree);
    if (ci_load_relaxed(&scope->arriving)) /* they may run already */
        copy->snapshot->whole = false;
}

static void copy_tree(struct copy *copy, const struct ci_scope *root)
{
    struct ci_tree tree;
    ci_tree_init(&tree, root, reach_of, copy);
    copy->first_task = copy->snapshot->tasks.count;
    while (!copy->snapshot->error)
        switch (ci_tree_next(&tree)) {
        case CI_TREE_TASK: pass_task(copy, &tree); break;
        case CI_TREE_SCOPE: end_scope(copy, &tree); break;
        case CI_TREE_LEFT_OPEN: copy_left_open(copy, &tree); break;
        case CI_TREE_END: return;
        }
}

/* ---- workers ---- */

/* One that has not answered is asked for its stack. */
static void add_worker(struct copy *copy, struct ci_worker *worker, int runtime)
{
    struct ci_snapshot *snapshot = copy->snapshot;
    struct ci_snapshot_worker *to =
        snapshot->error ? NULL : ci_snapshot_add(snapshot, &snapshot->workers, sizeof *to);
    if (!to)
        return;
    to->runtime = runtime;
    to->index = worker->index;
    to->answered = ci_is_halted(copy->halted, worker);
    if (to->answered)
        return;
    snapshot->whole = false;
    if (snapshot->may_interrupt && !snapshot->may_interrupt(worker, snapshot->arg))
        to->trace_error = -EAGAIN;
    else
        to->trace_error = ci_halt_ask_stack(worker);
}

static bool all_halted(const struct ci_halted *halted, const coir_runtime *runtime)
{
    for (int i = 0; i < runtime->worker_count; i++)
        if (!ci_is_halted(halted, &runtime->workers[i]))
            return false;
    return true;
}

static void copy_worker(struct copy *copy, struct ci_worker *worker)
{
    copy->worker = worker;
    copy->all_halted = all_halted(copy->halted, worker->runtime);
    if (ci_snapshot_worker(copy->snapshot, copy->worker_index)->answered)
        copy_tree(copy, &worker->root);
}

static void take_stack(struct copy *copy, struct ci_worker *worker)
{
    struct ci_snapshot_worker *to = ci_snapshot_worker(copy->snapshot, copy->worker_index);
    if (to->answered || to->trace_error < 0)
        return;
    to->trace_error = ci_halt_await_stack(worker, copy->stacks_until);
    if (to->trace_error < 0)
        return;
    to->traced = worker->halt.traced;
    to->running = worker->halt.running;
    to->running_fn = worker->halt.running_fn;
    memcpy(to->running_name, worker->halt.running_name, sizeof to->running_name);
}

static void for_each_worker(struct copy *copy, copy_fn *fn)
{
    copy->worker_index = 0;
    for (int i = 0; i < copy->halted->count; i++)
        for (int j = 0; j < copy->halted->runtimes[i]->worker_count; j++, copy->worker_index++)
            if (copy->worker_index < copy->snapshot->workers.count)
                fn(copy, &copy->halted->runtimes[i]->workers[j]);
}

static void list_tables(struct ci_snapshot *snapshot)
{
    memset(&snapshot->rows, 0, sizeof snapshot->rows);
    ci_frame_tables_list(&snapshot->tables);
    snapshot->tables.rows = &snapshot->rows;
}

void ci_snapshot_init(struct ci_snapshot *snapshot)
{
    memset(snapshot, 0, sizeof *snapshot);
    snapshot->whole = true;
    snapshot->stack_time = stack_time;
    list_tables(snapshot);
}

static void empty(struct ci_snapshot_array *array)
{
    array->count = 0;
}

void ci_snapshot_init_lean(struct ci_snapshot *snapshot, const struct ci_holder *wanted,
                           size_t wanted_count)
{
    empty(&snapshot->tasks);
    empty(&snapshot->lines);
    empty(&snapshot->workers);
    empty(&snapshot->seen);
    empty(&snapshot->findings);
    empty(&snapshot->parties);
    snapshot->whole = snapshot->lean = true;
    snapshot->error = 0;
    snapshot->stack_time = stack_time;
    snapshot->wanted = wanted;
    snapshot->wanted_count = wanted_count;
    snapshot->wanted_bits = 0;
    for (size_t i = 0; i < wanted_count; i++)
        snapshot->wanted_bits |= bit_of(wanted[i].task);
    if (wanted_count)
        list_tables(snapshot);
}

int ci_snapshot_take(struct ci_snapshot *snapshot, const struct ci_halted *halted)
{
    struct copy copy = {.snapshot = snapshot,
                        .halted = halted,
                        .stacks_until = ci_time_after(ci_clock_now(), snapshot->stack_time)};
    for (int i = 0; i < halted->count; i++)
        for (int j = 0; j < halted->runtimes[i]->worker_count; j++)
            add_worker(&copy, &halted->runtimes[i]->workers[j], i);
    for_each_worker(&copy, copy_worker);
    for_each_worker(&copy, take_stack);
    snapshot->runtimes_left_out = halted->left_out;
    snapshot->whole = snapshot->whole && !halted->left_out;
    return snapshot->error;
}

void ci_snapshot_done(struct ci_snapshot *snapshot)
{
    free(snapshot->tasks.items);
    free(snapshot->lines.items);
    free(snapshot->workers.items);
    free(snapshot->seen.items);
    free(snapshot->findings.items);
    free(snapshot->parties.items);
}
