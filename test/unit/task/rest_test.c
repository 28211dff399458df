/* Tasks at rest: counted as before, and woken as before. */
#include "task/rest.h"

#include <coir.h>
#include <coir/dump.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "task/runtime.h"
#include "task/spawn.h"
#include "task/waiter.h"

struct sleeper {
    coir_future future, leaf;
    int ran;
};

static coir_future *leaf_poll(coir_future *future)
{
    if (ci_leaf_refused(ci_worker_current, future))
        return future->caller;
    ci_leaf_suspend(ci_worker_current, future);
    return NULL;
}

static int leaf_cancel(coir_future *future, int reason)
{
    future->result = reason;
    return 1;
}

static const coir_future_kind leaf_kind = COIR_FUTURE_KIND("leaf", leaf_poll, leaf_cancel);

static coir_future *sleeper_poll(coir_future *future)
{
    struct sleeper *self = coir_frame(future, struct sleeper);
    coir_future *caller = future->caller;
    COIR_BEGIN(future);
    COIR_AWAIT(future, coir_future_init(&self->leaf, &leaf_kind));
    self->ran++;
    caller->result = self->leaf.result;
    future->state = 0;
    return caller;
    COIR_END(future);
}

static const coir_future_kind sleeper_kind = COIR_FUTURE_KIND("sleeper", sleeper_poll, NULL);

static struct ci_task *begin(coir_scope *scope, struct sleeper *sleeper)
{
    struct ci_task *task;
    coir_future_init(&sleeper->future, &sleeper_kind);
    sleeper->ran = 0;
    CHECK_EQ(ci_go_future(scope, "sleeper", &sleeper->future, &task), 0);
    CHECK(!ci_task_may_rest(task, &sleeper->leaf)); /* it has not begun */
    coir_sleep_for(COIR_MS);
    CHECK(ci_task_may_rest(task, &sleeper->leaf));
    return task;
}

static size_t live(void)
{
    return ci_worker_current->tasks.live;
}

/* Whether a dump in this format says this. */
static bool dumped(enum coir_dump_format format, const char *what)
{
    static char text[1 << 16];
    FILE *file = tmpfile();
    CHECK_EQ(coir_dump(fileno(file), format), 0);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return strstr(text, what);
}

TEST_SIM(a_task_at_rest_is_counted_and_goes_on)
{
    COIR_SCOPE(scope);
    struct sleeper sleeper;
    struct ci_task *task = begin(scope, &sleeper);
    size_t before = live();
    ci_task_rest(task);
    CHECK_EQ(coir_scope_live(scope), 1);
    CHECK_EQ(live(), before);
    CHECK(dumped(COIR_DUMP_TEXT, "rest: they wait without a record"));
    CHECK(dumped(COIR_DUMP_JSON, "\"state\":\"resting\""));
    CHECK((task = ci_task_rouse(scope, "sleeper", &sleeper.future, &sleeper.leaf)));
    CHECK_EQ(live(), before);
    sleeper.leaf.result = 0;
    ci_wake(ci_worker_current, &task->runnable, &sleeper.leaf);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(sleeper.ran, 1);
    CHECK_EQ(live(), before - 1);
}

TEST_SIM(a_roused_task_is_cancelled_with_its_scope)
{
    COIR_SCOPE(scope);
    struct sleeper sleeper;
    ci_task_rest(begin(scope, &sleeper));
    CHECK(ci_task_rouse(scope, "sleeper", &sleeper.future, &sleeper.leaf));
    coir_scope_cancel(scope);
    coir_scope_wait(scope);
    CHECK_EQ(sleeper.ran, 1);
    CHECK_EQ(sleeper.leaf.result, -ECANCELED);
}

static struct {
    const struct ci_task *record;
    const void *spawned_at;
    uint32_t number;
} other;

static int note_itself(void *arg)
{
    (void)arg;
    other.record = ci_worker_current->runnable->task;
    other.spawned_at = other.record->spawned_at;
    other.number = other.record->number;
    return 0;
}

/* The record that it gets was another task's meanwhile. */
TEST_SIM(a_roused_task_is_not_taken_for_another_one)
{
    COIR_SCOPE(scope);
    struct sleeper sleeper;
    struct ci_task *record = begin(scope, &sleeper), *task;
    ci_task_rest(record);
    COIR_SCOPE(others);
    CHECK_EQ(coir_go(others, note_itself, NULL), 0);
    CHECK_EQ(coir_scope_wait(others), 0);
    CHECK(other.record == record && other.spawned_at);
    coir_sleep_for(10 * COIR_S);
    uint64_t started = ci_worker_current->tasks_started;
    coir_time since = sleeper.leaf.result;
    CHECK((task = ci_task_rouse(scope, "sleeper", &sleeper.future, &sleeper.leaf)) == record);
    CHECK(task->number != other.number && !task->spawned_at);
    CHECK(since > 0 && since <= ci_worker_current->loop.now - 10 * COIR_S);
    CHECK_EQ(sleeper.leaf.result, since); /* it has waited at rest, too */
    CHECK_EQ(ci_worker_current->tasks_started, started);
    uint32_t number = task->number;
    ci_task_rest(task);
    CHECK((task = ci_task_rouse(scope, "sleeper", &sleeper.future, &sleeper.leaf)) == record);
    CHECK(task->number != number);
    coir_scope_cancel(scope);
    coir_scope_wait(scope); /* while the sleeper is there */
}

TEST_SIM(one_that_is_roused_in_a_cancelled_scope_is_interrupted)
{
    COIR_SCOPE(scope);
    struct sleeper sleeper;
    struct ci_task *task;
    ci_task_rest(begin(scope, &sleeper));
    coir_scope_cancel(scope);
    CHECK((task = ci_task_rouse(scope, "sleeper", &sleeper.future, &sleeper.leaf)));
    CHECK_EQ(task->runnable.cancelled, -ECANCELED);
    CHECK_EQ(task->runnable.interrupt, -ECANCELED);
    sleeper.leaf.result = -ECANCELED;
    ci_wake(ci_worker_current, &task->runnable, &sleeper.leaf);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(coir_scope_live(scope), 0);
}

TEST_SIM(a_task_that_ends_at_rest_leaves_its_scope)
{
    COIR_SCOPE(scope);
    struct sleeper sleeper;
    size_t before = live();
    ci_task_rest(begin(scope, &sleeper));
    ci_task_end_at_rest(scope);
    CHECK_EQ(coir_scope_live(scope), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(live(), before);
}

TEST_SIM(one_that_is_woken_or_cancelled_may_not_rest)
{
    COIR_SCOPE(scope);
    struct sleeper sleeper;
    struct ci_task *task = begin(scope, &sleeper);
    sleeper.leaf.result = 0;
    ci_wake(ci_worker_current, &task->runnable, &sleeper.leaf);
    CHECK(!ci_task_may_rest(task, &sleeper.leaf));
    coir_scope_wait(scope);
    task = begin(scope, &sleeper);
    ci_runnable_cancel(&task->runnable, -ECANCELED);
    CHECK(!ci_task_may_rest(task, &sleeper.leaf));
    coir_scope_wait(scope);
}
