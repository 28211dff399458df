#include "task/tree.h"

#include "task/generator.h"
#include "task/group.h"
#include "task/set.h"
#include "task/task.h"
#include "task/worker.h"

enum { FUTURES_MOST = 256 /* that await each other: a program's may do so in a circle */ };

/* ---- futures ---- */

/* What awaits a future. */
static const coir_future *awaiter_of(const coir_future *future)
{
    return future->kind == &ci_fiber_kind
               ? ci_container_of(future, const struct ci_fiber, back)->call->future.caller
               : future->caller;
}

static const struct ci_branch *branch_of(const struct ci_runnable *runnable)
{
    return ci_container_of(runnable, const struct ci_branch, runnable);
}

/* What the outermost future of a runnable returns to. */
static const coir_future *end_of(const struct ci_runnable *runnable)
{
    return ci_runnable_is_branch(runnable) ? &branch_of(runnable)->end : &runnable->task->end;
}

/* The first member of a group or set that runs; or the one after another. NULL: none. */
static const struct ci_branch *member_after(const coir_future *future,
                                            const struct ci_branch *before)
{
    const struct ci_list *running = ci_set_running(future);
    if (running) {
        const struct ci_list *node = before ? before->link.next : running->next;
        return node == running ? NULL : ci_container_of(node, const struct ci_branch, link);
    }
    if (future->kind != &ci_group_kind)
        return NULL;
    const struct ci_group *group = ci_container_of(future, const struct ci_group, future);
    const struct ci_branch *branch = before ? before + 1 : group->branches;
    for (; branch < group->branches + group->count; branch++)
        if (branch->end.state == CI_BRANCH_RUNNING)
            return branch;
    return NULL;
}

/* The first member of what a runnable awaits, from this future on. */
static const struct ci_branch *first_member(const struct ci_runnable *runnable,
                                            const coir_future *future)
{
    const coir_future *end = end_of(runnable);
    const struct ci_branch *branch = NULL;
    for (int i = 0; i < FUTURES_MOST && future && future != end && !branch;
         i++, future = awaiter_of(future))
        branch = member_after(future, NULL);
    return branch;
}

/* The runnable that awaits a group or set; NULL: none does. */
static const struct ci_runnable *runnable_of(const coir_future *future)
{
    return future->kind == &ci_group_kind
               ? ci_container_of(future, const struct ci_group, future)->owner
               : ci_set_waiter(future);
}

/* ---- scopes that were left open ---- */

const struct ci_context *ci_fiber_innermost(const struct ci_fiber *fiber)
{
    const struct ci_worker *worker = fiber->runnable->task->worker;
    bool calls = worker->fiber == fiber && ci_load(&worker->halt.state) == CI_HALT_CALLS;
    return calls ? &worker->halt.here : &fiber->context;
}

/* Where the fiber's own stack was left. */
static const struct ci_context *context_of(const struct ci_fiber *fiber)
{
    const struct ci_context *context = ci_fiber_innermost(fiber);
    for (const coir_generator *generator = fiber->generator; generator;
         generator = ci_generator_outer(generator))
        context = ci_generator_resumer(generator);
    return context;
}

/* Whether it lies on the stack of one of the runnable's fibers, below what is in use of that. */
static bool is_below_the_stack(const struct ci_runnable *runnable, const struct ci_cancel_scope *at)
{
    const struct ci_stacks *stacks = &runnable->task->worker->stacks;
    const coir_future *end = end_of(runnable), *future = runnable->inner;
    for (int i = 0; i < FUTURES_MOST && future && future != end; i++) {
        if (future->kind == &ci_fiber_kind) {
            const struct ci_fiber *fiber = ci_container_of(future, const struct ci_fiber, back);
            if (ci_stack_bottom(stacks, at) == ci_stack_bottom(stacks, fiber))
                return (uintptr_t)at < (uintptr_t)context_of(fiber)->sp;
        }
        future = awaiter_of(future);
    }
    return false;
}

/* Its memory may be in use by another call: then this is its content by chance only. ASan lets
 * nobody read it. */
static CI_UNINSTRUMENTED bool is_intact(const struct ci_runnable *runnable,
                                        const struct ci_cancel_scope *at)
{
    const struct ci_scope *scope = ci_container_of(at, const struct ci_scope, cancel_scope);
    if (at->runnable != runnable || at->kind < CI_CANCEL_SCOPE_DEADLINE ||
        at->kind > CI_CANCEL_SCOPE_TASKS)
        return false;
    return at->kind != CI_CANCEL_SCOPE_TASKS ||
           (scope->home == runnable->task->worker && scope->tasks.next &&
            (scope->live == scope->resting) ==
                (scope->tasks.next == &scope->tasks)); /* scope.h 2 */
}

bool ci_tree_is_left_open(const struct ci_runnable *runnable, const struct ci_cancel_scope *at)
{
    return is_below_the_stack(runnable, at) || !is_intact(runnable, at);
}

/* ---- the walk ---- */

static enum ci_tree_step at_node(struct ci_tree *tree, const struct ci_scope *scope,
                                 const struct ci_list *node)
{
    tree->scope = scope;
    if (node == &scope->tasks)
        return CI_TREE_SCOPE;
    tree->task = ci_container_of(node, const struct ci_task, sibling);
    return CI_TREE_TASK;
}

static enum ci_tree_step after_task(struct ci_tree *tree, const struct ci_task *task)
{
    return at_node(tree, task->scope, task->sibling.next);
}

/* Goes on with a runnable of a task that can be read: from its cancel scope `at` outwards, then
 * with the members of what it awaits, and then with what follows the runnable. */
static enum ci_tree_step go_on(struct ci_tree *tree, enum ci_tree_reach reach,
                               const struct ci_runnable *runnable, const struct ci_cancel_scope *at)
{
    const struct ci_task *task = runnable->task;
    const coir_future *future = runnable->inner;
    while (runnable) {
        for (; at; at = at->outer) {
            tree->runnable = runnable;
            tree->left_open = at;
            if (reach == CI_TREE_EVERYTHING && ci_tree_is_left_open(runnable, at))
                return CI_TREE_LEFT_OPEN;
            const struct ci_scope *scope = ci_container_of(at, const struct ci_scope, cancel_scope);
            if (at->kind != CI_CANCEL_SCOPE_TASKS)
                continue;
            tree->depth++;
            return at_node(tree, scope, scope->tasks.next);
        }
        if (reach != CI_TREE_EVERYTHING)
            break;
        const struct ci_branch *branch = first_member(runnable, future);
        if (!branch && ci_runnable_is_branch(runnable)) {
            future = branch_of(runnable)->owner; /* begins with its future */
            branch = member_after(future, branch_of(runnable));
        }
        if (branch) {
            runnable = &branch->runnable;
            at = runnable->cancel_scopes;
            future = runnable->inner;
        } else if (ci_runnable_is_branch(runnable)) {
            runnable = runnable_of(future);
            future = future->caller;
        } else {
            break;
        }
    }
    return after_task(tree, task);
}

static enum ci_tree_step after_scope(struct ci_tree *tree)
{
    if (tree->scope == tree->root)
        return CI_TREE_END;
    const struct ci_cancel_scope *at = &tree->scope->cancel_scope;
    tree->depth--;
    return go_on(tree, tree->reach(at->runnable->task, tree->arg), at->runnable, at->outer);
}

void ci_tree_init(struct ci_tree *tree, const struct ci_scope *root, ci_tree_reach_fn *reach,
                  void *arg)
{
    *tree = (struct ci_tree){.reach = reach, .arg = arg, .root = root, .step = CI_TREE_END};
}

static enum ci_tree_step into_task(struct ci_tree *tree, const struct ci_task *task)
{
    enum ci_tree_reach reach = tree->reach(task, tree->arg);
    return reach == CI_TREE_NOTHING
               ? after_task(tree, task)
               : go_on(tree, reach, &task->runnable, task->runnable.cancel_scopes);
}

enum ci_tree_step ci_tree_next(struct ci_tree *tree)
{
    switch (tree->step) {
    case CI_TREE_TASK: tree->step = into_task(tree, tree->task); break;
    case CI_TREE_SCOPE: tree->step = after_scope(tree); break;
    case CI_TREE_LEFT_OPEN:
        tree->step = go_on(tree, CI_TREE_EVERYTHING, tree->runnable, NULL);
        break;
    case CI_TREE_END: tree->step = at_node(tree, tree->root, tree->root->tasks.next); break;
    }
    return tree->step;
}
