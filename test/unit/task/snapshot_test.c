/* What is copied of the tasks of halted workers: the tree, the states, the stacks. */
#include "task/snapshot.h"

#include <coir.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/atomic.h"
#include "harness.h"
#include "sync/wait.h"
#include "sys/clock.h"
#include "sys/unwind.h"
#include "task/current.h"
#include "task/findings.h"
#include "task/runtime.h"

static struct ci_snapshot snapshot;

/* In a fiber: the calling worker, as it is now, and those that answer in time. */
static void take_within(coir_time halt_time, coir_time stack_time)
{
    struct ci_worker *worker = ci_worker_current;
    struct ci_halted halted = {.thread = ci_thread_mark(), .self = worker};
    ci_snapshot_init(&snapshot);
    snapshot.stack_time = stack_time;
    ci_unwind_here(&worker->halt.here);
    ci_halt_call(worker);
    ci_halt_all(&halted, halt_time);
    CHECK_EQ(halted.count, 1);
    CHECK_EQ(ci_snapshot_take(&snapshot, &halted), 0);
    ci_halt_release(&halted);
}

static void take(void)
{
    take_within(COIR_S, COIR_S);
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

/* ---- how long a task has waited ---- */

static coir_channel *channel;

static int receive_many(void *arg)
{
    int items[4];
    (void)arg;
    return (int)coir_channel_recv_many(channel, items, 4) < 0 ? -1 : 0;
}

/* A leaf's result is the time of its suspension, and then its result. */
TEST_SIM(a_wait_that_is_decided_but_not_woken_has_lasted_no_time)
{
    CHECK_EQ(coir_channel_new(sizeof(int), 1, &channel), 0);
    COIR_SERVING_SCOPE(scope);
    go(scope, "receiver", receive_many, NULL);
    CHECK_EQ(coir_sleep_for(10 * COIR_S), 0);
    take();
    CHECK(find("receiver")->waited >= 9 * COIR_S && find("receiver")->waited <= 10 * COIR_S);
    struct ci_task *task = (struct ci_task *)(uintptr_t)find("receiver")->id;
    ci_snapshot_done(&snapshot);
    struct ci_wait *wait = ci_container_of(task->runnable.inner, struct ci_wait, future);
    int64_t since = wait->future.result;
    wait->state = CI_WAIT_GRANTED; /* by another worker */
    wait->future.result = 3;
    take();
    CHECK_EQ(find("receiver")->waited, 0);
    ci_snapshot_done(&snapshot);
    wait->state = CI_WAIT_QUEUED;
    wait->future.result = since;
    coir_channel_close(channel);
    coir_scope_cancel(scope);
    coir_scope_wait(scope);
    coir_channel_free(channel);
}

static coir_shared_mutex shared = COIR_SHARED_MUTEX_INIT;

static int write_once(void *arg)
{
    (void)arg;
    int rc = coir_shared_mutex_lock(&shared);
    if (rc == 0)
        coir_shared_mutex_unlock(&shared);
    return rc;
}

static void take_after_unlock(void)
{
    struct ci_worker *worker = ci_worker_current;
    struct ci_halted halted = {.thread = ci_thread_mark(), .self = worker};
    ci_snapshot_init(&snapshot);
    ci_unwind_here(&worker->halt.here);
    ci_halt_call(worker);
    ci_halt_all(&halted, 60 * COIR_S);
    coir_shared_mutex_unlock(&shared);
    CHECK_EQ(ci_snapshot_take(&snapshot, &halted), 0);
    ci_halt_release(&halted);
    ci_findings_make(&snapshot);
}

/* The wake-up of the waiter lies in the inbox of its worker, which is halted: it holds the mutex,
 * but does not wait for itself. */
static int give_to_another_worker(void *arg)
{
    (void)arg;
    uint8_t state = CI_TASK_NOT_BEGUN;
    COIR_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = "writer";
    options.place = COIR_ON_WORKER(1);
    CHECK_EQ(coir_shared_mutex_lock(&shared), 0);
    CHECK_EQ(coir_go_with(scope, &options, write_once, NULL), 0);
    while (state != CI_TASK_WAITS) {
        CHECK_EQ(coir_sleep_for(COIR_MS), 0);
        take();
        state = find("writer")->state;
        ci_snapshot_done(&snapshot);
    }
    take_after_unlock();
    CHECK(find("writer")->state == CI_TASK_WAITS && find("writer")->note.decided);
    CHECK(!find("writer")->note.holder.task);
    CHECK_EQ(snapshot.findings.count, 0);
    ci_snapshot_done(&snapshot);
    return coir_scope_wait(scope);
}

TEST(who_has_got_a_lock_does_not_wait_for_itself)
{
    coir_config config = COIR_CONFIG;
    config.workers = 2;
    CHECK_EQ(test_run(&config, give_to_another_worker, NULL), 0);
}

/* ---- workers that do not answer ---- */

enum { DEAF = 3 };
static int32_t stuck, asked, looked;

/* Answers once all of them have been asked. */
static int block_until_all_are_asked(void *arg)
{
    sigset_t urgent, pending;
    sigemptyset(&urgent);
    sigaddset(&urgent, SIGURG);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &urgent, NULL), 0);
    ci_fetch_add(&stuck, 1);
    do
        CHECK_EQ(sigpending(&pending), 0);
    while (!sigismember(&pending, SIGURG));
    ci_fetch_add(&asked, 1);
    while (ci_load(&asked) < DEAF && !ci_load(&looked))
        ci_clock_sleep(COIR_MS);
    CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &urgent, NULL), 0);
    while (!ci_load(&looked))
        ci_clock_sleep(COIR_MS);
    return arg ? 1 : 0;
}

static int look_at_the_deaf(void *arg)
{
    (void)arg;
    COIR_SCOPE(scope);
    for (int i = 1; i <= DEAF; i++)
        CHECK_EQ(coir_go_on(scope, i, block_until_all_are_asked, NULL), 0);
    while (ci_load(&stuck) < DEAF)
        CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    take_within(COIR_MS, 60 * COIR_S);
    ci_store(&looked, 1);
    CHECK_EQ(snapshot.workers.count, 1 + DEAF);
    CHECK(ci_snapshot_worker(&snapshot, 0)->answered);
    for (size_t i = 1; i <= DEAF; i++) {
        CHECK(!ci_snapshot_worker(&snapshot, i)->answered);
        CHECK_EQ(ci_snapshot_worker(&snapshot, i)->trace_error, 0);
    }
    ci_snapshot_done(&snapshot);
    return coir_scope_wait(scope);
}

TEST(stacks_of_several_workers_are_asked_for_at_once)
{
    coir_config config = COIR_CONFIG;
    config.workers = 1 + DEAF;
    CHECK_EQ(test_run(&config, look_at_the_deaf, NULL), 0);
}

/* ---- lean ones ---- */

enum { MANY = 2000 };
static struct ci_snapshot lean;

static void take_lean(const struct ci_holder *wanted, size_t wanted_count)
{
    struct ci_worker *worker = ci_worker_current;
    struct ci_halted halted = {.thread = ci_thread_mark(), .self = worker};
    ci_snapshot_init_lean(&lean, wanted, wanted_count);
    ci_unwind_here(&worker->halt.here);
    ci_halt_call(worker);
    ci_halt_all(&halted, COIR_S);
    CHECK_EQ(ci_snapshot_take(&lean, &halted), 0);
    ci_halt_release(&halted);
    ci_findings_make(&lean);
    CHECK_EQ(lean.error, 0);
}

static coir_mutex kept = COIR_MUTEX_INIT;

static int keep(void *arg)
{
    CHECK_EQ(coir_mutex_lock(&kept), 0);
    int rc = coir_event_wait(arg);
    coir_mutex_unlock(&kept);
    return rc;
}

static int wait_for_the_mutex(void *arg)
{
    (void)arg;
    int rc = coir_mutex_lock(&kept);
    if (rc == 0)
        coir_mutex_unlock(&kept);
    return rc;
}

/* What is copied does not grow with the number of tasks, and no stack is unwound but of a task that
 * is wanted. */
static void look_at_many(void)
{
    COIR_SERVING_SCOPE(scope);
    for (int i = 0; i < MANY; i++)
        go(scope, "one of many", i % 2 ? wait_for_the_event : choose, NULL);
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    take_lean(NULL, 0);
    CHECK_EQ(lean.seen.count, MANY + 1);
    CHECK_EQ(lean.tasks.count, 0);
    CHECK_EQ(lean.lines.count, 0);
    CHECK_EQ(lean.tables.count, 0);
    CHECK(sizeof(struct ci_snapshot_seen) == 16);

    go(scope, "keeper", keep, &event);
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    go(scope, "waiter", wait_for_the_mutex, NULL);
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    take_lean(NULL, 0);
    CHECK_EQ(lean.seen.count, MANY + 3);
    CHECK_EQ(lean.tasks.count, 1);
    CHECK_EQ(lean.lines.count, 0);
    const struct ci_snapshot_task *waiter = ci_snapshot_task(&lean, 0);
    CHECK(strcmp(waiter->name, "waiter") == 0 && waiter->note.object == &kept);
    CHECK(waiter->holder < 0 && waiter->holder_lives);
    CHECK_EQ(lean.findings.count, 0); /* its holder lives, though it is not copied */

    struct ci_holder wanted[] = {{waiter->id, waiter->number},
                                 waiter->note.holder,
                                 {waiter->id, waiter->number + 1}}; /* another one of its record */
    take_lean(wanted, 3);
    CHECK_EQ(lean.tasks.count, 2);
    CHECK(lean.lines.count > 2);
    for (size_t i = 0; i < 2; i++) {
        const struct ci_snapshot_task *task = ci_snapshot_task(&lean, i);
        bool waits = strcmp(task->name, "waiter") == 0;
        CHECK(waits || strcmp(task->name, "keeper") == 0);
        CHECK(task->line_count > 1 && task->state == CI_TASK_WAITS);
        CHECK_EQ(task->holder, waits ? 1 - (int)i : -1);
    }
    take_lean(&wanted[2], 1);
    CHECK_EQ(lean.tasks.count, 1);
    CHECK_EQ(lean.lines.count, 0);
    ci_snapshot_done(&lean);
    coir_scope_cancel(scope);
}

TEST_SIM(a_lean_snapshot_copies_what_findings_need)
{
    look_at_many();
}

TEST_REAL(a_lean_snapshot_of_a_real_worker_copies_what_findings_need)
{
    look_at_many();
}

/* ---- a deep tree ---- */

enum { NESTED = 3000 };

static int nest(void *arg)
{
    size_t depth = (size_t)(uintptr_t)arg;
    if (depth == NESTED)
        return wait_for_the_event(NULL);
    COIR_SCOPE(scope);
    go(scope, depth + 1 == NESTED ? "innermost" : "nested", nest, (void *)(uintptr_t)(depth + 1));
    return coir_scope_wait(scope);
}

TEST_SIM(scopes_are_copied_however_deep_they_are)
{
    COIR_SERVING_SCOPE(scope);
    go(scope, "nested", nest, NULL);
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    go(scope, "beside", wait_for_the_event, NULL);
    take();
    CHECK_EQ(snapshot.tasks.count, NESTED + 3);
    CHECK(snapshot.whole);
    CHECK_EQ(find("innermost")->depth, NESTED + 1);
    CHECK_EQ(find("innermost")->note.object, &event);
    CHECK_EQ(find("beside")->depth, 1);
    CHECK_EQ(find("beside")->parent, 0);
    ci_snapshot_done(&snapshot);
    coir_event_set(&event);
    CHECK_EQ(coir_scope_wait(scope), 0);
}
