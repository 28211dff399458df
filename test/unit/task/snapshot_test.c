/* What is copied of the tasks of halted workers: the tree, the states, the stacks. */
#include "task/snapshot.h"

#include <coir.h>
#include <errno.h>
#include <string.h>

#include "harness.h"
#include "sys/unwind.h"
#include "task/current.h"
#include "task/runtime.h"

static struct ci_snapshot snapshot;

/* In a fiber: the calling worker, as it is now. */
static void take(void)
{
    struct ci_worker *worker = ci_worker_current;
    struct ci_halted halted = {.thread = ci_thread_mark(), .self = worker};
    ci_snapshot_init(&snapshot);
    ci_unwind_here(&worker->halt.here);
    ci_halt_call(worker);
    ci_halt_all(&halted, COIR_S);
    CHECK_EQ(halted.count, 1);
    CHECK_EQ(ci_snapshot_take(&snapshot, &halted), 0);
    ci_halt_release(&halted);
}

static const struct ci_snapshot_task *find(const char *name)
{
    for (size_t i = 0; i < snapshot.tasks.count; i++)
        if (strcmp(ci_snapshot_task(&snapshot, i)->name, name) == 0)
            return ci_snapshot_task(&snapshot, i);
    test_fail(__FILE__, __LINE__, "there is no task %s", name);
}

static unsigned lines_of_kind(const struct ci_snapshot_task *task, enum ci_line_kind kind)
{
    unsigned count = 0;
    for (size_t i = 0; i < task->line_count; i++)
        count += ci_snapshot_line(&snapshot, task->first_line + i)->kind == kind;
    return count;
}

static void go(coir_scope *scope, const char *name, coir_task_fn *fn, void *arg)
{
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = name;
    CHECK_EQ(coir_go_with(scope, &options, fn, arg), 0);
}

static coir_event event = COIR_EVENT_INIT;

static int wait_for_the_event(void *arg)
{
    (void)arg;
    COIR_DEADLINE(coir_now() + 100 * COIR_S);
    return coir_event_wait(&event);
}

static int open_two_scopes(void *arg)
{
    (void)arg;
    COIR_SCOPE(outer);
    go(outer, "in outer", wait_for_the_event, NULL);
    COIR_SCOPE(inner);
    go(inner, "in inner", wait_for_the_event, NULL);
    return coir_scope_wait(inner);
}

static int choose(void *arg)
{
    (void)arg;
    coir_case cases[] = {coir_case_after(100 * COIR_S), coir_case_after(200 * COIR_S)};
    int rc = coir_select(cases, 2);
    return rc < 0 ? rc : 0;
}

static void look_at_a_tree(void)
{
    COIR_SERVING_SCOPE(scope);
    go(scope, "parent", open_two_scopes, NULL);
    go(scope, "chooser", choose, NULL);
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    go(scope, "new", wait_for_the_event, NULL);
    take();
    CHECK_EQ(snapshot.workers.count, 1);
    CHECK(ci_snapshot_worker(&snapshot, 0)->answered);
    CHECK_EQ(snapshot.tasks.count, 6);
    const struct ci_snapshot_task *main_task = ci_snapshot_task(&snapshot, 0);
    const struct ci_snapshot_task *parent = find("parent"), *inner = find("in inner");
    CHECK(main_task->state == CI_TASK_RUNS && main_task->parent == -1 && main_task->has_children);
    CHECK(main_task->depth == 0 && lines_of_kind(main_task, CI_LINE_FRAME) > 2);
    CHECK(parent->parent == 0 && parent->depth == 1 && parent->has_children);
    CHECK(parent->state == CI_TASK_WAITS && parent->note.object == inner->scope);
    CHECK(inner->depth == 2 && ci_snapshot_task(&snapshot, (size_t)inner->parent) == parent);
    CHECK(find("in outer")->scope != inner->scope && find("in outer")->parent == inner->parent);
    CHECK(inner->note.object == &event && strcmp(inner->waits_for, "an event") == 0);
    CHECK(inner->deadline > 90 * COIR_S && inner->deadline <= 100 * COIR_S);
    CHECK(lines_of_kind(inner, CI_LINE_FRAME) > 2 && lines_of_kind(inner, CI_LINE_FUTURE) == 1);
    CHECK_EQ(lines_of_kind(find("chooser"), CI_LINE_MEMBER), 2);
    CHECK_EQ(find("new")->state, CI_TASK_NOT_BEGUN);
    CHECK_EQ(find("new")->line_count, 0);
    ci_snapshot_done(&snapshot);
    coir_scope_cancel(scope);
    take();
    CHECK(find("in inner")->state == CI_TASK_READY || find("in inner")->state == CI_TASK_WAITS);
    CHECK(find("chooser")->cancelled == -ECANCELED);
    ci_snapshot_done(&snapshot);
}

TEST_REAL(the_tree_of_tasks_is_copied)
{
    look_at_a_tree();
}

TEST_SIM(the_tree_of_simulated_tasks_is_copied)
{
    look_at_a_tree();
}
