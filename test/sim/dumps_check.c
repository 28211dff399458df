/* Compares a dump with what the tasks say of themselves. Of a task that has moved since the dump
 * was asked for only its place in the tree is known. */
#include <string.h>

#include "sim/dumps.h"
#include "sim/must.h"

const char *const dump_kinds[WHATS] = {
    "",
    "its turn",
    "",
    "offloaded work",
    "time",
    "a mutex",
    "an item of a channel",
    "room in a channel",
    "a semaphore",
    "an event",
    "several futures",
    "the tasks of a scope",
    "a task",
};

/* What is being checked. */
static const struct dump *dump;
static const struct moment *before, *after;

/* In seconds: what times are rounded to, and how coarsely the begin of a wait is kept. */
static const double rounding = 0.001, coarse = 0.005;

/* What a failure was about. */
static const struct task *checked;
static const struct seen *checked_as; /* NULL: it is not shown */

static void describe(void)
{
    fprintf(stderr, "task %s, which waits for %s, is shown in state %d, for %s\n", checked->name,
            dump_kinds[checked->wait.what], checked_as ? (int)checked_as->state : -1,
            checked_as ? checked_as->kind : "nothing");
}

#define EXPECT(condition) \
    ((condition) ? (void)0 : (describe(), must_have_held(__FILE__, __LINE__, #condition, 0)))

static bool is_still(int number)
{
    const struct task *then = &before->run.tasks[number], *now = &after->run.tasks[number];
    return then->seq == now->seq && then->life == now->life;
}

static bool is_cancelled(int number)
{
    for (; number >= 0; number = after->run.tasks[number].parent)
        if (after->run.tasks[number].cancelled)
            return true;
    return false;
}

/* A waiter of a semaphore that gives up may let the next one go. */
static bool has_rivals(const struct task *task)
{
    int rivals = 0;
    for (int i = 0; i < TASKS_MOST; i++)
        rivals += i != task->number && (before->run.tasks[i].wait.what == UNITS ||
                                        after->run.tasks[i].wait.what == UNITS);
    return rivals > 0;
}

/* The object as it was after the dump. */
static const struct object *object_of(const struct wanted *wanted)
{
    size_t at = (size_t)((const char *)wanted->object - (const char *)&model);
    return (const struct object *)(const void *)((const char *)&after->run + at);
}

static bool has_moved(const struct wanted *wanted)
{
    return wanted->object && object_of(wanted)->moves != wanted->moves;
}

/* Whether all tasks of the scope that is waited for have ended, which the scope hears later. */
static bool are_over(const struct task *task)
{
    const void *scope = object_of(&task->wait)->address;
    for (int i = 0; i < TASKS_MOST; i++) {
        const struct task *child = &after->run.tasks[i];
        if (child->scope == scope && (child->life == SPAWNED || child->life == BEGUN))
            return false;
    }
    return true;
}

/* Whether something may have let the task go. */
static bool may_be_ready(const struct task *task)
{
    coir_time now = after->now;
    if (is_cancelled(task->number) || task->due <= now || task->deadline <= now ||
        after->run.tasks[task->number].until <= now || has_moved(&task->wait))
        return true;
    if (task->wait.what == A_TASK && after->run.tasks[task->joined].life == ENDED)
        return true;
    if (task->wait.what == TASKS && are_over(task))
        return true;
    for (int i = 0; i < task->member_count; i++)
        if (has_moved(&task->members[i]))
            return true;
    return task->wait.what == UNITS && has_rivals(task);
}

/* ---- one task ---- */

static const struct seen *with_id(uint64_t id)
{
    for (int i = 0; i < dump->count; i++)
        if (dump->seen[i].id == id)
            return &dump->seen[i];
    return NULL;
}

static void check_place(const struct seen *seen, const struct task *task)
{
    EXPECT((seen->parent < 0) == (task->parent < 0));
    if (task->parent >= 0)
        EXPECT(strcmp(dump->seen[seen->parent].name, model.tasks[task->parent].name) == 0);
    if (seen->scope && task->parent >= 0)
        EXPECT(seen->scope == (uintptr_t)task->scope);
}

/* What is left of a time, in seconds. */
static void check_left(double left, coir_time until)
{
    double most = (double)(until - before->now) / (double)COIR_S;
    EXPECT(left >= (double)(until - after->now) / (double)COIR_S - rounding);
    EXPECT(left <= (most > 0 ? most : 0) + rounding);
}

static void check_holder(const struct seen *seen, const struct task *task)
{
    int holder = object_of(&task->wait)->holder;
    const struct seen *shown = with_id(seen->holder);
    EXPECT(!seen->holder || shown);
    if (holder >= 0 && !has_moved(&task->wait))
        EXPECT(shown && strcmp(shown->name, model.tasks[holder].name) == 0);
}

static void check_members(const struct seen *seen, const struct task *task)
{
    EXPECT(seen->member_count == task->member_count);
    for (int i = 0; i < task->member_count; i++)
        EXPECT(strcmp(seen->members[i], dump_kinds[task->members[i].what]) == 0);
}

static void check_waited(const struct seen *seen, const struct task *task)
{
    EXPECT(seen->waited <= (double)(after->now - task->since) / (double)COIR_S + coarse);
    if (!may_be_ready(task)) /* what tries again begins to wait anew */
        EXPECT(seen->waited >= (double)(before->now - task->since) / (double)COIR_S - coarse);
}

/* The task that is waited for is shown, unless it has just ended. */
static void check_joined(const struct seen *seen, const struct task *task)
{
    const struct task *joined = &after->run.tasks[task->joined];
    const struct seen *shown = with_id(seen->object);
    EXPECT(seen->object);
    if (joined->life != ENDED)
        EXPECT(shown && strcmp(shown->name, joined->name) == 0);
}

static void check_wait(const struct seen *seen, const struct task *task)
{
    EXPECT(strcmp(seen->kind, dump_kinds[task->wait.what]) == 0);
    const void *object = task->wait.object ? object_of(&task->wait)->address : NULL;
    if (task->wait.what == A_TASK)
        check_joined(seen, task);
    else
        EXPECT(seen->object == (uintptr_t)object);
    if (task->wait.what == A_MUTEX)
        check_holder(seen, task);
    else
        EXPECT(!seen->holder);
    if (task->wait.what == TIME && seen->left >= 0)
        check_left(seen->left, task->until);
    if (task->wait.what == SEVERAL && !may_be_ready(task))
        check_members(seen, task);
    if (seen->waited >= 0)
        check_waited(seen, task);
}

static void check_begun(const struct seen *seen, const struct task *task)
{
    EXPECT(seen->worker < 0 || seen->worker == task->worker);
    if (task->wait.what == A_TURN || task->wait.what == A_DUMP) {
        EXPECT(seen->state == (task->wait.what == A_TURN ? READY : RUNNING));
        return;
    }
    EXPECT(task->wait.what != NOTHING); /* workers are halted where no task runs */
    if (seen->state != WAITING) {
        EXPECT(seen->state == READY && may_be_ready(task));
        return;
    }
    check_wait(seen, task);
    EXPECT(seen->has_frame_kind == task->stackless);
    EXPECT((seen->deadline >= 0) == (task->deadline != COIR_NEVER));
    if (task->deadline != COIR_NEVER)
        check_left(seen->deadline, task->deadline);
}

static void check_task(const struct task *task)
{
    const struct seen *found = NULL;
    checked = task;
    checked_as = NULL;
    for (int i = 0; i < dump->count; i++)
        if (strcmp(dump->seen[i].name, task->name) == 0) {
            EXPECT(!found);
            checked_as = found = &dump->seen[i];
        }
    if (found)
        check_place(found, &after->run.tasks[task->number]);
    if (!is_still(task->number))
        return;
    switch (task->life) {
    case NEVER_USED: EXPECT(!found); break;
    case SPAWNED: EXPECT(found && (found->state == NEW || found->state == TRAVELLING)); break;
    case BEGUN:
        EXPECT(found);
        check_begun(found, task);
        break;
    case ENDED: EXPECT(!found || found->state == TRAVELLING); break; /* to the home of its scope */
    }
}

/* ---- cycles ---- */

/* The task that has the mutex for which this one waits, if both are known for certain; or -1. */
static int known_holder(int number)
{
    const struct task *task = &before->run.tasks[number];
    return task->life == BEGUN && task->wait.what == A_MUTEX && is_still(number) &&
                   !may_be_ready(task)
               ? object_of(&task->wait)->holder
               : -1;
}

static bool is_in_cycle(int number)
{
    int at = number;
    for (int i = 0; i < TASKS_MOST && at >= 0; i++)
        if ((at = known_holder(at)) == number)
            return true;
    return false;
}

static bool is_reported(const char *name)
{
    for (int i = 0; i < dump->cycle_count; i++)
        for (int j = 0; dump->cycles[i][j]; j++) {
            const struct seen *party = with_id(dump->cycles[i][j]);
            EXPECT(party && party->state == WAITING && party->holder);
            if (strcmp(party->name, name) == 0)
                return true;
        }
    return false;
}

static void check_cycles(void)
{
    for (int i = 0; i < TASKS_MOST; i++) {
        const struct task *task = &before->run.tasks[i];
        if (is_in_cycle(i))
            EXPECT(is_reported(task->name));
        else if (task->life == BEGUN && is_still(i) && task->wait.what != A_MUTEX)
            EXPECT(!is_reported(task->name));
    }
}

/* It makes no call that could let another thread go on. */
void dump_check(const struct dump *taken, enum coir_dump_format format, const struct moment *from,
                const struct moment *to)
{
    dump = taken;
    before = from;
    after = to;
    for (int i = 0; i < TASKS_MOST; i++)
        check_task(&before->run.tasks[i]);
    if (format == COIR_DUMP_JSON)
        check_cycles();
}
