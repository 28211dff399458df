/* Who is there and what each waits for: the tree of scopes and tasks, as log lines. Only while no
 * task runs. */
#include "task/task.h"

/* A task without a stack that was given no name has that of its outermost future. */
static const char *name_of(const struct ci_task *task)
{
    const coir_future *root = task->root.fn ? NULL : task->root.arg;
    return task->name ? task->name : root ? root->kind->name : "(without a name)";
}

static void dump_scope(const struct ci_scope *scope, int depth, ci_dump_fn *line, void *arg)
{
    ci_list_for_each (node, &scope->tasks) {
        const struct ci_task *task = ci_container_of(node, struct ci_task, sibling);
        char waits_for[200] = "nothing: it runs";
        if (!task->worker || task->worker->runnable != &task->runnable)
            ci_runnable_waits_for(&task->runnable, waits_for, sizeof waits_for);
        line(arg, depth, name_of(task), waits_for, task->runnable.cancelled);
        for (const struct ci_cancel_scope *cancel_scope = task->runnable.cancel_scopes;
             cancel_scope; cancel_scope = cancel_scope->outer)
            if (cancel_scope->kind == CI_CANCEL_SCOPE_TASKS)
                dump_scope(ci_container_of(cancel_scope, struct ci_scope, cancel_scope), depth + 1,
                           line, arg);
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
