/* The walk of the tree of scopes and tasks: its order and depths, and what it does not follow. */
#include "task/tree.h"

#include <coir.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "task/current.h"
#include "task/task.h"
#include "task/worker.h"

static char walked[4000];

static enum ci_tree_reach reach_of(const struct ci_task *task, void *arg)
{
    (void)arg;
    if (task->name && strcmp(task->name, "closed") == 0)
        return CI_TREE_NOTHING;
    return &task->runnable == ci_worker_current->runnable ? CI_TREE_SCOPES : CI_TREE_EVERYTHING;
}

static void note(int depth, const char *what)
{
    size_t len = strlen(walked);
    snprintf(walked + len, sizeof walked - len, "%d %s\n", depth, what);
}

/* Notes the tasks that have a name, the ends of scopes, and what was left open. */
static void walk(void)
{
    struct ci_tree tree;
    enum ci_tree_step step;
    walked[0] = '\0';
    ci_tree_init(&tree, &ci_worker_current->root, reach_of, NULL);
    while ((step = ci_tree_next(&tree)) != CI_TREE_END)
        if (step == CI_TREE_TASK)
            note(tree.depth, tree.task->name);
        else if (step == CI_TREE_SCOPE)
            note(tree.depth, "end");
        else
            note(tree.depth, "left open");
}

static void expect(const char *words)
{
    if (strcmp(walked, words) != 0)
        test_fail(__FILE__, __LINE__, "walked:\n%snot:\n%s", walked, words);
}

static void go(coir_scope *scope, const char *name, coir_task_fn *fn, void *arg)
{
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = name;
    CHECK_EQ(coir_go_with(scope, &options, fn, arg), 0);
}

static int nap(void *arg)
{
    (void)arg;
    return coir_sleep_for(COIR_S);
}

static int open_two_scopes(void *arg)
{
    (void)arg;
    COIR_SCOPE(outer);
    go(outer, "outer", nap, NULL);
    COIR_SCOPE(empty);
    CHECK_EQ(coir_scope_live(empty), 0);
    COIR_DEADLINE(coir_in(10 * COIR_S));
    COIR_SCOPE(inner);
    go(inner, "inner 1", nap, NULL);
    go(inner, "inner 2", nap, NULL);
    return coir_scope_wait(inner);
}

/* ---- members ---- */

static int spawn_one(void *arg)
{
    COIR_SCOPE(scope);
    go(scope, arg, nap, NULL);
    return coir_scope_wait(scope);
}

/* A member of a group that awaits a group itself. */
static int join_inside(void *arg)
{
    coir_call calls[2];
    coir_branch branches[2];
    memset(branches, 0, sizeof branches);
    branches[0].future = coir_call_init(&calls[0], nap, NULL);
    branches[1].future = coir_call_init(&calls[1], spawn_one, arg);
    return coir_join_all(branches, 2, 0);
}

static int join(void *arg)
{
    coir_call calls[4];
    coir_branch branches[4];
    (void)arg;
    COIR_SCOPE(scope);
    go(scope, "own", nap, NULL);
    memset(branches, 0, sizeof branches);
    branches[0].future = coir_call_init(&calls[0], spawn_one, "of member 0");
    branches[1].future = coir_call_init(&calls[1], nap, NULL);
    branches[2].future = coir_call_init(&calls[2], join_inside, "of a member of member 2");
    branches[3].future = coir_call_init(&calls[3], spawn_one, "of member 3");
    return coir_join_all(branches, 4, 0);
}

static int wait_for_a_set(void *arg)
{
    coir_call calls[2];
    coir_branch branches[2], *done;
    coir_set set;
    (void)arg;
    memset(branches, 0, sizeof branches);
    coir_set_init(&set);
    for (int i = 0; i < 2; i++) {
        branches[i].future =
            coir_call_init(&calls[i], spawn_one, i ? "of the second" : "of the first");
        CHECK_EQ(coir_set_add(&set, &branches[i]), 0);
    }
    int rc = coir_set_next(&set, &done);
    coir_set_done(&set);
    return rc < 0 ? rc : 0;
}

TEST_SIM(tasks_are_walked_with_their_scopes_and_those_of_members)
{
    COIR_SCOPE(scope);
    go(scope, "two", open_two_scopes, NULL);
    go(scope, "joiner", join, NULL);
    go(scope, "closed", open_two_scopes, NULL);
    go(scope, "chooser", wait_for_a_set, NULL);
    go(scope, "last", nap, NULL);
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    walk();
    const char *own = strstr(walked, "\n1 two\n");
    CHECK(own != NULL); /* before it is what the harness runs */
    memmove(walked, own + 1, strlen(own));
    expect("1 two\n2 inner 1\n2 inner 2\n2 end\n2 end\n2 outer\n2 end\n"
           "1 joiner\n2 own\n2 end\n2 of member 0\n2 end\n2 of a member of member 2\n2 end\n"
           "2 of member 3\n2 end\n"
           "1 closed\n"
           "1 chooser\n2 of the first\n2 end\n2 of the second\n2 end\n"
           "1 last\n1 end\n0 end\n");
    coir_scope_cancel(scope);
}

/* ---- scopes that were left open ---- */

static void *volatile opened;

static __attribute__((noinline)) void leave_a_scope_open(void)
{
    coir_scope scope;
    opened = &scope; /* it is not to be optimised away */
    go(coir_scope_open(&scope), "lost", nap, NULL);
}

/* Its memory is in use by a later call, which has written over it. */
static __attribute__((noinline)) int wait_above(void)
{
    char own[4096];
    memset(own, 'A', sizeof own);
    opened = own;
    return coir_sleep_for(COIR_S);
}

static int leave_and_wait(void *arg)
{
    leave_a_scope_open();
    return wait_above() + (arg ? 1 : 0);
}

static int leave_below(void *arg)
{
    leave_a_scope_open();
    return coir_sleep_for(COIR_S) + (arg ? 1 : 0);
}

static void look_at_what_is_left_open(coir_task_fn *fn)
{
    coir_scope scope;
    coir_scope_open(&scope);
    go(&scope, "leaver", fn, NULL);
    go(&scope, "other", nap, NULL);
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    walk();
    const char *own = strstr(walked, "\n1 leaver\n");
    CHECK(own != NULL);
    memmove(walked, own + 1, strlen(own));
    expect("1 leaver\n1 left open\n1 other\n1 end\n0 end\n");
    exit(0); /* the task would end inside of the scope */
}

TEST_SIM(a_scope_left_open_that_was_written_over_is_not_followed)
{
    look_at_what_is_left_open(leave_and_wait);
}

TEST_SIM(a_scope_left_open_below_the_stack_is_not_followed)
{
    look_at_what_is_left_open(leave_below);
}
