/* Lists the tasks of a runtime: the tree of scopes and tasks, as lines of text. Only while no task
 * runs. */
#include "task/dump.h"

#include <stdio.h>

#include "task/group.h"
#include "task/remote.h"
#include "task/runtime.h"
#include "task/set.h"
#include "task/snapshot.h"

enum { FUTURES_MOST = 256 };

static size_t append(char *text, size_t size, size_t at, const char *word)
{
    int len = snprintf(text + at, size - at, "%s", word);
    return at + (size_t)len < size ? at + (size_t)len : size - 1;
}

/* Writes what a suspended runnable waits for, cut at `size`. */
static void write_wait(const struct ci_runnable *runnable, char *text, size_t size)
{
    const coir_future *inner = runnable->inner;
    if (inner->kind != &ci_group_kind) {
        append(text, size, 0, inner->kind->name);
        return;
    }
    const struct ci_group *group = ci_container_of(inner, const struct ci_group, future);
    size_t at = append(text, size, 0, group->mode == CI_GROUP_ANY ? "any of" : "all of");
    for (const struct ci_branch *branch = group->branches; branch < group->branches + group->count;
         branch++)
        if (branch->end.state == CI_BRANCH_RUNNING) {
            at = append(text, size, at, branch == group->branches ? " " : ", ");
            at = append(text, size, at, branch->runnable.inner->kind->name);
        }
}

/* A stackless task without a name of its own is named after its outermost future. */
static const char *name_of(const struct ci_task *task)
{
    const coir_future *root = task->root.fn ? NULL : task->root.arg;
    return task->name ? task->name : root ? root->kind->name : "(without a name)";
}

static void dump_scope(const struct ci_scope *scope, int depth, ci_dump_fn *line, void *arg);

/* The scopes that a suspended runnable has open, and those of the members of what it awaits. */
static void dump_scopes(const struct ci_runnable *runnable, const coir_future *end, int depth,
                        ci_dump_fn *line, void *arg);

static void dump_member_scopes(const coir_future *future, int depth, ci_dump_fn *line, void *arg)
{
    const struct ci_list *running = ci_set_running(future);
    if (running)
        ci_list_for_each (node, running) {
            const struct ci_branch *branch = ci_container_of(node, const struct ci_branch, link);
            dump_scopes(&branch->runnable, &branch->end, depth, line, arg);
        }
    if (future->kind != &ci_group_kind)
        return;
    const struct ci_group *group = ci_container_of(future, const struct ci_group, future);
    for (int32_t i = 0; i < group->count; i++)
        if (group->branches[i].end.state == CI_BRANCH_RUNNING)
            dump_scopes(&group->branches[i].runnable, &group->branches[i].end, depth, line, arg);
}

static void dump_scopes(const struct ci_runnable *runnable, const coir_future *end, int depth,
                        ci_dump_fn *line, void *arg)
{
    for (const struct ci_cancel_scope *at = runnable->cancel_scopes;
         at && !ci_is_left_open(runnable, end, at); at = at->outer)
        if (at->kind == CI_CANCEL_SCOPE_TASKS)
            dump_scope(ci_container_of(at, struct ci_scope, cancel_scope), depth, line, arg);
    const coir_future *future = runnable->inner;
    for (int i = 0; i < FUTURES_MOST && future && future != end; i++) {
        bool is_fiber = future->kind == &ci_fiber_kind;
        if (!is_fiber)
            dump_member_scopes(future, depth, line, arg);
        future = is_fiber
                     ? ci_container_of(future, const struct ci_fiber, back)->call->future.caller
                     : future->caller;
    }
}

/* Of a task that runs: nothing is left open, as its function has not returned, and its innermost
 * future is not known. */
static void dump_open_scopes(const struct ci_runnable *runnable, int depth, ci_dump_fn *line,
                             void *arg)
{
    for (const struct ci_cancel_scope *at = runnable->cancel_scopes; at; at = at->outer)
        if (at->kind == CI_CANCEL_SCOPE_TASKS)
            dump_scope(ci_container_of(at, struct ci_scope, cancel_scope), depth, line, arg);
}

static void dump_task(const struct ci_task *task, int depth, ci_dump_fn *line, void *arg)
{
    char waits_for[200] = "nothing: it runs";
    bool travels = ci_remote_task_in_transit(task);
    bool runs = !travels && task->worker && task->worker->runnable == &task->runnable;
    if (travels)
        append(waits_for, sizeof waits_for, 0, "a message to another worker");
    else if (!runs)
        write_wait(&task->runnable, waits_for, sizeof waits_for);
    line(arg, depth, name_of(task), waits_for, task->runnable.cancelled, task);
    if (runs || !task->worker)
        dump_open_scopes(&task->runnable, depth + 1, line, arg);
    else if (!travels)
        dump_scopes(&task->runnable, &task->end, depth + 1, line, arg);
}

static void dump_scope(const struct ci_scope *scope, int depth, ci_dump_fn *line, void *arg)
{
    ci_list_for_each (node, &scope->tasks)
        dump_task(ci_container_of(node, struct ci_task, sibling), depth, line, arg);
    if (scope->resting) {
        char count[40];
        snprintf(count, sizeof count, "%zu task%s", scope->resting, scope->resting == 1 ? "" : "s");
        line(arg, depth, "(at rest)", count, 0, NULL);
    }
}

void ci_worker_dump(const struct ci_worker *worker, ci_dump_fn *line, void *arg)
{
    dump_scope(&worker->root, 0, line, arg);
}

void ci_runtime_dump(const coir_runtime *runtime, ci_dump_fn *line, void *arg)
{
    for (int i = 0; i < runtime->worker_count; i++)
        ci_worker_dump(&runtime->workers[i], line, arg);
}
