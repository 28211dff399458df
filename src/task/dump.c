/* Lists the tasks of a runtime: the tree of scopes and tasks, as lines of text. Only while no task
 * runs. */
#include "task/dump.h"

#include <stdio.h>

#include "task/group.h"
#include "task/remote.h"
#include "task/runtime.h"
#include "task/tree.h"

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

static bool runs(const struct ci_task *task)
{
    return task->worker && task->worker->runnable == &task->runnable;
}

static enum ci_tree_reach reach_of(const struct ci_task *task, void *arg)
{
    (void)arg;
    if (ci_remote_task_in_transit(task) || !task->worker)
        return CI_TREE_NOTHING;
    return runs(task) ? CI_TREE_SCOPES : CI_TREE_EVERYTHING;
}

static void dump_task(const struct ci_task *task, int depth, ci_dump_fn *line, void *arg)
{
    char waits_for[200] = "nothing: it runs";
    if (ci_remote_task_in_transit(task))
        append(waits_for, sizeof waits_for, 0, "a message to another worker");
    else if (!runs(task))
        write_wait(&task->runnable, waits_for, sizeof waits_for);
    line(arg, depth, name_of(task), waits_for, task->runnable.cancelled, task);
}

static void dump_rest(const struct ci_scope *scope, int depth, ci_dump_fn *line, void *arg)
{
    char count[40];
    if (!scope->resting)
        return;
    snprintf(count, sizeof count, "%zu task%s", scope->resting, scope->resting == 1 ? "" : "s");
    line(arg, depth, "(at rest)", count, 0, NULL);
}

void ci_worker_dump(const struct ci_worker *worker, ci_dump_fn *line, void *arg)
{
    struct ci_tree tree;
    enum ci_tree_step step;
    ci_tree_init(&tree, &worker->root, reach_of, NULL);
    while ((step = ci_tree_next(&tree)) != CI_TREE_END)
        if (step == CI_TREE_TASK)
            dump_task(tree.task, tree.depth, line, arg);
        else if (step == CI_TREE_SCOPE)
            dump_rest(tree.scope, tree.depth, line, arg);
}

void ci_runtime_dump(const coir_runtime *runtime, ci_dump_fn *line, void *arg)
{
    for (int i = 0; i < runtime->worker_count; i++)
        ci_worker_dump(&runtime->workers[i], line, arg);
}
