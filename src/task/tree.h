/* The tree of scopes and tasks of a worker, walked from the outside in: each task is followed by
 * the tasks of the scopes that it has open, and of those that the members of what it awaits have.
 * Neither recursion nor memory is needed, however deep the tree is: the way back is in the records.
 * Only while its tasks do not run.
 *
 * A scope that was left open by a function which has returned is not followed: nothing in it can be
 * relied on. It is recognised by its address, below what is in use of its fiber's stack; or, where
 * a later call has the same part of the stack in use, by what that has written over it. One that is
 * intact is as good as open. */
#ifndef CI_TASK_TREE_H
#define CI_TASK_TREE_H

#include "task/fiber.h"
#include "task/scope.h"

struct ci_task;

enum ci_tree_step {
    CI_TREE_TASK,      /* `task`, of `scope` */
    CI_TREE_SCOPE,     /* all tasks of `scope` have been passed */
    CI_TREE_LEFT_OPEN, /* the scope `left_open` of `runnable`, with those outside of it */
    CI_TREE_END
};

/* What is to be walked of the scopes of a task. */
enum ci_tree_reach {
    CI_TREE_NOTHING,
    CI_TREE_SCOPES,    /* its own: it runs, so what it awaits is not known, and none is left open */
    CI_TREE_EVERYTHING /* it is suspended */
};

/* The same answer each time. */
typedef enum ci_tree_reach ci_tree_reach_fn(const struct ci_task *task, void *arg);

struct ci_tree {
    ci_tree_reach_fn *reach;
    void *arg;
    const struct ci_scope *root;

    enum ci_tree_step step; /* the last one */
    const struct ci_scope *scope;
    const struct ci_task *task;
    int depth; /* of the task, or of the tasks of the scope; or of the runnable's task */
    const struct ci_runnable *runnable;
    const struct ci_cancel_scope *left_open;
};

void ci_tree_init(struct ci_tree *tree, const struct ci_scope *root, ci_tree_reach_fn *reach,
                  void *arg);
enum ci_tree_step ci_tree_next(struct ci_tree *tree);

/* Whether the cancel scope of a suspended runnable was left open. */
bool ci_tree_is_left_open(const struct ci_runnable *runnable, const struct ci_cancel_scope *at);

/* Where the fiber, or the innermost generator that runs on it, was left. */
const struct ci_context *ci_fiber_innermost(const struct ci_fiber *fiber);

#endif
