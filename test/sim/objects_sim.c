/* Tasks on one to four workers that use channels, locks, semaphores, latest values and events: one
 * at a time, or several at once by coir_any and coir_select; cancelled, under deadlines, with
 * memory that runs out.
 *
 * What must hold:
 * 1. The history of each object is linearizable; of a wait for several, the one that happened has
 *    taken effect, and no other. A call that was interrupted has not.
 * 2. Every item that was sent is received or released, once.
 * 3. Nobody waits for something that is there: looked at when nothing has moved for longer than any
 *    pause. When everything is closed, set and given back, no task is left after a short time.
 * 4. Nobody is inside of a lock beside a writer. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/models.h"
#include "sim/must.h"

enum { OBJECTS = 6, TASKS_MOST = 7, STEPS_MOST = 40, MEMBERS_MOST = 10, SENDS_MOST = 90 };

enum type { CHANNEL, REGISTER, SEMAPHORE, LATEST, EVENT, TYPES };
enum lock { PLAIN, FAIR, SHARED, LOCKS };

struct object {
    enum type type;
    struct history history;
    struct channel_shape shape;
    coir_channel *channel;
    int sends, released;
    enum lock lock;
    coir_mutex mutex;
    coir_shared_mutex shared;
    int64_t value, readers, writers;
    int64_t units;
    coir_semaphore semaphore;
    int acquiring;
    coir_latest *latest;
    coir_event event;
};

struct member;
struct task {
    int number;
    int64_t held[OBJECTS];
    uint64_t seen[OBJECTS]; /* versions of latest values */
    coir_handle handle;
    const struct member *waits; /* for one of these */
    int wait_count;
};

/* One thing that may happen. */
struct member {
    struct object *object;
    int kind;
    int64_t arg;
    int64_t item; /* where a receive puts it */
    coir_wait_op op;
};

static struct {
    coir_sim *sim;
    struct object objects[OBJECTS];
    struct task tasks[TASKS_MOST];
    int object_count, count, ended, next_item, steps, moves;
    bool over;
} w;

static uint64_t below(uint64_t bound)
{
    return coir_sim_random(w.sim) % bound;
}

static int rest(void)
{
    return below(2) ? coir_yield()
                    : coir_sleep_for((coir_time)below(below(2) ? 3 : 2000) * COIR_US);
}

/* ---- making objects ---- */

static void release(void *item, void *arg)
{
    (void)arg;
    int64_t number = *(int64_t *)item;
    w.objects[number / 1000].released++;
}

static int make_channel(struct object *object)
{
    static const size_t capacities[] = {0, 0, 1, 1, 2, 3, 5, COIR_UNLIMITED};
    coir_channel_options options = COIR_CHANNEL_OPTIONS;
    options.item_size = sizeof(int64_t);
    options.capacity = capacities[below(8)];
    options.overflow = COIR_OVERFLOW_WAIT;
    if (options.capacity && below(3) == 0)
        options.overflow = (enum coir_overflow)below(COIR_OVERFLOW_CLOSE + 1);
    options.unref = release;
    object->shape = (struct channel_shape){options.capacity, options.overflow};
    history_init(&object->history, &channel_model, &object->shape, "a channel");
    return coir_channel_new_with(&options, &object->channel);
}

static int make(struct object *object)
{
    static const coir_mutex plain = COIR_MUTEX_INIT, fair = COIR_FAIR_MUTEX_INIT;
    int64_t zero = 0;
    memset(object, 0, offsetof(struct object, history));
    memset(&object->shape, 0, sizeof *object - offsetof(struct object, shape));
    object->type = (enum type)below(TYPES);
    switch (object->type) {
    case CHANNEL: return make_channel(object);
    case REGISTER:
        object->lock = (enum lock)below(LOCKS);
        object->mutex = object->lock == FAIR ? fair : plain;
        history_init(&object->history, &register_model, NULL, "a register under a lock");
        return 0;
    case SEMAPHORE:
        object->units = (int64_t)below(4);
        object->semaphore = (coir_semaphore)COIR_SEMAPHORE_INIT((uint64_t)object->units);
        history_init(&object->history, &semaphore_model, &object->units, "a semaphore");
        return 0;
    case LATEST:
        history_init(&object->history, &latest_model, NULL, "a latest value");
        return coir_latest_new(sizeof zero, &zero, &object->latest);
    case EVENT:
    case TYPES: history_init(&object->history, &event_model, NULL, "an event"); return 0;
    }
    return 0;
}

/* ---- one thing ---- */

static int number_of(const struct object *object)
{
    return (int)(object - w.objects);
}

/* Something of an object that may have to wait. False: it is full of history. */
static bool choose(struct task *task, struct member *member)
{
    struct object *object = &w.objects[below((uint64_t)w.object_count)];
    *member = (struct member){.object = object};
    switch (object->type) {
    case CHANNEL:
        member->kind = below(2) && object->sends < SENDS_MOST ? CHANNEL_SEND : CHANNEL_RECV;
        member->arg = member->kind == CHANNEL_SEND ? number_of(object) * 1000 + ++w.next_item : 0;
        break;
    case REGISTER:
        member->kind = below(3) ? REGISTER_ADD : REGISTER_READ;
        member->arg = member->kind == REGISTER_ADD ? 1 + (int64_t)below(9) : 0;
        break;
    case SEMAPHORE:
        member->kind = SEMAPHORE_ACQUIRE;
        member->arg = 1 + (int64_t)below(3);
        break;
    case LATEST:
        member->kind = LATEST_WAIT;
        member->arg = (int64_t)task->seen[number_of(object)];
        break;
    case EVENT:
    case TYPES: member->kind = EVENT_WAIT; break;
    }
    return history_room(&object->history, 4 * TASKS_MOST + CHANNEL_ITEMS_MOST);
}

static bool shares(const struct member *member)
{
    return member->object->lock == SHARED && member->kind == REGISTER_READ;
}

static coir_future *future_of(struct member *member)
{
    struct object *object = member->object;
    switch (object->type) {
    case CHANNEL:
        return member->kind == CHANNEL_SEND
                   ? coir_channel_send_op(&member->op, object->channel, &member->arg)
                   : coir_channel_recv_op(&member->op, object->channel, &member->item);
    case REGISTER:
        if (shares(member))
            return coir_shared_mutex_share_op(&member->op, &object->shared);
        return object->lock == SHARED ? coir_shared_mutex_lock_op(&member->op, &object->shared)
                                      : coir_mutex_lock_op(&member->op, &object->mutex);
    case SEMAPHORE:
        return coir_semaphore_acquire_op(&member->op, &object->semaphore, (uint64_t)member->arg);
    case LATEST: return coir_latest_wait_op(&member->op, object->latest, (uint64_t)member->arg);
    case EVENT:
    case TYPES: break;
    }
    return coir_event_wait_op(&member->op, &object->event);
}

static int call(struct member *member)
{
    struct object *object = member->object;
    switch (object->type) {
    case CHANNEL:
        return member->kind == CHANNEL_SEND ? coir_channel_send(object->channel, &member->arg)
                                            : coir_channel_recv(object->channel, &member->item);
    case REGISTER:
        if (shares(member))
            return coir_shared_mutex_share(&object->shared);
        return object->lock == SHARED ? coir_shared_mutex_lock(&object->shared)
                                      : coir_mutex_lock(&object->mutex);
    case SEMAPHORE: return coir_semaphore_acquire(&object->semaphore, (uint64_t)member->arg);
    case LATEST: return coir_latest_wait(object->latest, (uint64_t)member->arg);
    case EVENT:
    case TYPES: break;
    }
    return coir_event_wait(&object->event);
}

/* Its lock is held. What is done under it takes a while, and may be interrupted. */
static int64_t use_register(struct member *member)
{
    struct object *object = member->object;
    bool alone = !shares(member);
    MUST(!object->writers && (!alone || !object->readers));
    object->readers += !alone;
    object->writers += alone;
    int64_t before = object->value;
    if (below(2))
        rest();
    MUST(object->value == before);
    object->value = before + member->arg;
    object->readers -= !alone;
    object->writers -= alone;
    if (object->lock == SHARED)
        coir_shared_mutex_unlock(&object->shared);
    else
        coir_mutex_unlock(&object->mutex);
    return before;
}

/* It has happened, with this result. */
static void happened(struct task *task, struct member *member, int result, uint64_t invoked)
{
    struct object *object = member->object;
    int64_t ret = result;
    if (result == 0 && object->type == CHANNEL && member->kind == CHANNEL_RECV)
        ret = member->item;
    if (result == 0 && object->type == REGISTER)
        ret = use_register(member);
    if (result == 0 && object->type == SEMAPHORE)
        task->held[number_of(object)] += member->arg;
    object->sends += result == 0 && object->type == CHANNEL && member->kind == CHANNEL_SEND;
    history_add(&object->history, task->number, member->kind, member->arg, ret, invoked);
}

/* -EPIPE is an outcome; the others mean that nothing has happened. */
static bool is_outcome(int64_t result)
{
    MUST(result == 0 || result == -EPIPE || result == -ECANCELED || result == -ETIME ||
         result == -ENOMEM);
    return result == 0 || result == -EPIPE;
}

static void begin_wait(struct task *task, const struct member *members, int count)
{
    task->waits = members;
    task->wait_count = count;
    for (int i = 0; i < count; i++)
        members[i].object->acquiring += members[i].object->type == SEMAPHORE;
}

static void end_wait(struct task *task)
{
    for (int i = 0; i < task->wait_count; i++)
        task->waits[i].object->acquiring -= task->waits[i].object->type == SEMAPHORE;
    task->wait_count = 0;
    w.moves++;
}

static int do_one(struct task *task)
{
    struct member member;
    if (!choose(task, &member))
        return 0;
    uint64_t invoked = history_now();
    begin_wait(task, &member, 1);
    int rc = below(3) ? call(&member) : (int)coir_await(future_of(&member));
    end_wait(task);
    if (is_outcome(rc))
        happened(task, &member, rc, invoked);
    return rc == -ECANCELED || rc == -ETIME ? rc : 0;
}

/* Several at once, and time. */
static int do_any(struct task *task)
{
    struct member members[MEMBERS_MOST];
    coir_branch branches[MEMBERS_MOST + 1];
    coir_sleep_op sleep;
    int count = 1 + (int)below(below(3) ? 3 : MEMBERS_MOST);
    memset(branches, 0, sizeof branches);
    for (int i = 0; i < count; i++) {
        if (!choose(task, &members[i]))
            return 0;
        branches[i].future = future_of(&members[i]);
    }
    branches[count].future = coir_sleep_for_op(&sleep, (coir_time)below(3000) * COIR_US);
    uint64_t invoked = history_now();
    begin_wait(task, members, count);
    size_t all = (size_t)count + below(2);
    int rc = below(2) ? coir_any(branches, all) : coir_any_in_order(branches, all);
    end_wait(task);
    if (rc >= 0 && rc < count) {
        int result = (int)branches[rc].future->result;
        MUST(is_outcome(result) || result == -ENOMEM);
        if (result != -ENOMEM)
            happened(task, &members[rc], result, invoked);
    }
    return rc == -ECANCELED || rc == -ETIME ? rc : 0;
}

static bool case_of(struct member *member, coir_case *ret_case)
{
    struct object *object = member->object;
    if (object->type == CHANNEL && member->kind == CHANNEL_SEND)
        *ret_case = coir_case_send(object->channel, &member->arg);
    else if (object->type == CHANNEL)
        *ret_case = coir_case_recv(object->channel, &member->item);
    else if (object->type == LATEST)
        *ret_case = coir_case_latest(object->latest, (uint64_t)member->arg);
    else if (object->type == EVENT)
        *ret_case = coir_case_event(&object->event);
    else
        return false;
    return true;
}

static int do_select(struct task *task)
{
    struct member members[MEMBERS_MOST];
    coir_case cases[MEMBERS_MOST + 1];
    int count = 0, tries = 1 + (int)below(below(3) ? 4 : MEMBERS_MOST);
    for (int i = 0; i < tries; i++)
        count += choose(task, &members[count]) && case_of(&members[count], &cases[count]);
    cases[count] = coir_case_after((coir_time)below(3000) * COIR_US);
    uint64_t invoked = history_now();
    begin_wait(task, members, count);
    int rc = below(2) ? coir_select(cases, (size_t)count + 1)
                      : coir_select_in_order(cases, (size_t)count + 1);
    end_wait(task);
    if (rc >= 0 && rc < count && is_outcome(cases[rc].result))
        happened(task, &members[rc], (int)cases[rc].result, invoked);
    MUST(rc >= 0 || rc == -ECANCELED || rc == -ETIME || rc == -ENOMEM);
    return rc == -ECANCELED || rc == -ETIME ? rc : 0;
}

/* ---- what never waits ---- */

static void try_channel(struct task *task, struct object *object)
{
    uint64_t invoked = history_now();
    int64_t item = 0;
    int kind = CHANNEL_TRY_RECV, rc;
    if (below(2) && object->sends < SENDS_MOST) {
        item = number_of(object) * 1000 + ++w.next_item;
        kind = CHANNEL_TRY_SEND;
        rc = coir_channel_try_send(object->channel, &item);
        object->sends += rc == 0;
        if (rc != -ENOMEM)
            history_add(&object->history, task->number, kind, item, rc, invoked);
    } else {
        rc = coir_channel_try_recv(object->channel, &item);
        history_add(&object->history, task->number, kind, 0, rc == 0 ? item : rc, invoked);
    }
}

static void give_back(struct task *task, struct object *object, int64_t amount)
{
    uint64_t invoked = history_now();
    coir_semaphore_release(&object->semaphore, (uint64_t)amount);
    task->held[number_of(object)] -= amount;
    history_add(&object->history, task->number, SEMAPHORE_RELEASE, amount, 0, invoked);
}

static void try_semaphore(struct task *task, struct object *object)
{
    uint64_t invoked = history_now();
    int64_t amount = 1 + (int64_t)below(3), *held = &task->held[number_of(object)];
    if (*held && below(2)) {
        give_back(task, object, 1 + (int64_t)below((uint64_t)*held));
    } else if (below(3) == 0) {
        int64_t units = (int64_t)coir_semaphore_units(&object->semaphore);
        history_add(&object->history, task->number, SEMAPHORE_UNITS, 0, units, invoked);
    } else {
        int rc = coir_semaphore_try_acquire(&object->semaphore, (uint64_t)amount);
        *held += rc == 0 ? amount : 0;
        history_add(&object->history, task->number, SEMAPHORE_TRY,
                    object->acquiring ? -amount : amount, rc, invoked);
    }
}

static void use_latest(struct task *task, struct object *object)
{
    uint64_t invoked = history_now();
    int64_t value = (int64_t)below(1000);
    if (below(3) == 0) {
        coir_latest_set(object->latest, &value);
        history_add(&object->history, task->number, LATEST_SET, value, 0, invoked);
        return;
    }
    uint64_t version = coir_latest_get(object->latest, &value);
    task->seen[number_of(object)] = version;
    history_add(&object->history, task->number, LATEST_GET, 0, (int64_t)version * 1000 + value,
                invoked);
}

static void use_event(struct task *task, struct object *object)
{
    uint64_t invoked = history_now();
    int kind = (int)below(3), ret = 0;
    if (kind == 2)
        kind = EVENT_IS_SET;
    if (kind == EVENT_SET)
        coir_event_set(&object->event);
    else if (kind == EVENT_RESET)
        coir_event_reset(&object->event);
    else
        ret = coir_event_is_set(&object->event);
    history_add(&object->history, task->number, kind, 0, ret, invoked);
}

static void do_at_once(struct task *task)
{
    struct object *object = &w.objects[below((uint64_t)w.object_count)];
    if (!history_room(&object->history, 4 * TASKS_MOST + CHANNEL_ITEMS_MOST))
        return;
    switch (object->type) {
    case CHANNEL: try_channel(task, object); break;
    case REGISTER: break;
    case SEMAPHORE: try_semaphore(task, object); break;
    case LATEST: use_latest(task, object); break;
    case EVENT:
    case TYPES: use_event(task, object); break;
    }
}

/* ---- tasks ---- */

static int do_something(struct task *task)
{
    switch (below(8)) {
    case 0:
    case 1: do_at_once(task); return 0;
    case 2:
    case 3: return do_any(task);
    case 4: return do_select(task);
    case 5:
    case 6: {
        COIR_DEADLINE(coir_in((coir_time)below(below(2) ? 30 : 3000) * COIR_US));
        do_one(task);
        return 0;
    }
    default: return do_one(task);
    }
}

static void leave(struct task *task)
{
    for (int i = 0; i < w.object_count; i++)
        if (task->held[i])
            give_back(task, &w.objects[i], task->held[i]);
    w.ended++;
}

static int be_a_task(void *arg)
{
    struct task *task = arg;
    int rc = 0;
    for (int step = 0; rc == 0 && !w.over && step < w.steps; step++) {
        w.moves++;
        rc = do_something(task);
        if (rc == 0)
            rc = rest();
    }
    leave(task);
    w.moves++;
    return 0;
}

/* ---- nobody waits for what is there ---- */

struct waiting {
    int senders, receivers, both, lockers;
    int64_t most; /* units */
    bool due;
};

static void count_waits(const struct object *object, const struct task *task, struct waiting *sum)
{
    int senders = 0, receivers = 0;
    for (int i = 0; i < task->wait_count; i++) {
        const struct member *member = &task->waits[i];
        if (member->object != object)
            continue;
        senders += member->kind == CHANNEL_SEND;
        receivers += member->kind == CHANNEL_RECV;
        sum->lockers++;
        sum->most = member->arg > sum->most ? member->arg : sum->most;
        sum->due |= object->type == LATEST &&
                    member->arg != (int64_t)coir_latest_get(object->latest, &(int64_t){0});
    }
    sum->both += senders && receivers;
    sum->senders += senders > 0;
    sum->receivers += receivers > 0;
}

static void check_channel_waits(const struct object *object, const struct waiting *sum)
{
    size_t count = coir_channel_count(object->channel);
    if (object->shape.capacity) {
        MUST(!sum->senders || count == object->shape.capacity);
        MUST(!sum->receivers || !count);
    } else { /* one that waits for both does not meet itself */
        MUST(!sum->senders || !sum->receivers ||
             (sum->both == 1 && sum->senders == 1 && sum->receivers == 1));
    }
}

static void check_lock_waits(struct object *object)
{
    if (object->lock == SHARED)
        MUST_BE(coir_shared_mutex_try_lock(&object->shared), -EAGAIN);
    else
        MUST_BE(coir_mutex_try_lock(&object->mutex), -EAGAIN);
}

static void check_waits(void)
{
    for (int i = 0; i < w.object_count; i++) {
        struct object *object = &w.objects[i];
        struct waiting sum = {0};
        for (int t = 0; t < TASKS_MOST; t++)
            count_waits(object, &w.tasks[t], &sum);
        if (object->type == CHANNEL)
            check_channel_waits(object, &sum);
        else if (object->type == REGISTER && sum.lockers)
            check_lock_waits(object);
        else if (object->type == SEMAPHORE && sum.lockers)
            MUST(sum.most > (int64_t)coir_semaphore_units(&object->semaphore));
        else if (object->type == EVENT && sum.lockers)
            MUST(!coir_event_is_set(&object->event));
        MUST(!sum.due);
    }
}

/* What lets everybody who waits go on. */
static void open_all(void)
{
    w.over = true;
    for (int i = 0; i < w.object_count; i++) {
        struct object *object = &w.objects[i];
        uint64_t invoked = history_now();
        if (object->type == CHANNEL)
            coir_channel_close(object->channel);
        else if (object->type == LATEST)
            coir_latest_close(object->latest);
        else if (object->type == EVENT)
            coir_event_set(&object->event);
        else if (object->type == SEMAPHORE)
            coir_semaphore_release(&object->semaphore, 100);
        else
            continue;
        static const int kinds[] = {[CHANNEL] = CHANNEL_CLOSE,
                                    [LATEST] = LATEST_CLOSE,
                                    [EVENT] = EVENT_SET,
                                    [SEMAPHORE] = SEMAPHORE_RELEASE};
        history_add(&object->history, -1, kinds[object->type], 100, 0, invoked);
    }
}

/* ---- the end ---- */

static void drain(struct object *object)
{
    int64_t item;
    int rc;
    do {
        uint64_t invoked = history_now();
        rc = coir_channel_try_recv(object->channel, &item);
        history_add(&object->history, -1, CHANNEL_TRY_RECV, 0, rc == 0 ? item : rc, invoked);
    } while (rc == 0);
}

static int count_received(const struct history *history)
{
    int received = 0;
    for (size_t i = 0; i < history->count; i++) {
        int kind = history->ops[i].kind;
        received += (kind == CHANNEL_RECV || kind == CHANNEL_TRY_RECV) && history->ops[i].ret > 0;
    }
    return received;
}

static void check(struct object *object)
{
    if (object->type == CHANNEL) {
        drain(object);
        MUST(object->sends == count_received(&object->history) + object->released);
        MUST(object->shape.capacity || history_check_meetings(&object->history));
    }
    history_must_be_linearizable(&object->history);
}

static void free_all(void)
{
    for (int i = 0; i < w.object_count; i++) {
        if (w.objects[i].type == CHANNEL)
            coir_channel_free(w.objects[i].channel);
        if (w.objects[i].type == LATEST)
            coir_latest_free(w.objects[i].latest);
    }
}

static int spawn(coir_scope *scope, struct task *task)
{
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = &task->handle;
    int on = (int)below((uint64_t)coir_worker_count(coir_runtime_current()));
    options.place = below(5) ? COIR_ON_WORKER(on) : COIR_ANYWHERE;
    int rc = coir_go_with(scope, &options, be_a_task, task);
    w.count += rc == 0;
    return rc;
}

static void disturb(int tasks)
{
    for (uint64_t cancels = below(2) ? below(2 * TASKS_MOST) : 0; cancels && tasks; cancels--) {
        coir_sleep_for((coir_time)below(2000) * COIR_US);
        coir_cancel(&w.tasks[below((uint64_t)tasks)].handle);
    }
    for (int moves = -1; moves != w.moves;) {
        moves = w.moves;
        coir_sleep_for(10 * COIR_MS); /* longer than any pause or deadline of a task */
    }
    check_waits();
}

static int play(void *arg)
{
    (void)arg;
    w.object_count = 1 + (int)below(OBJECTS);
    w.steps = 1 + (int)below(STEPS_MOST);
    memset(w.tasks, 0, sizeof w.tasks);
    int made = 0, tasks = 2 + (int)below(TASKS_MOST - 1), rc = 0;
    for (; made < w.object_count; made++)
        MUST_BE(make(&w.objects[made]), 0);
    coir_sim_faults(w.sim, NULL, (coir_faults){.no_memory = below(4) ? 0 : 0.1});
    {
        COIR_SERVING_SCOPE(scope);
        for (int i = 0; i < tasks; i++) {
            w.tasks[i] = (struct task){.number = i};
            rc = spawn(scope, &w.tasks[i]);
            MUST_BE(rc == -ENOMEM ? 0 : rc, 0);
        }
        disturb(tasks);
        open_all();
        COIR_DEADLINE(coir_in(COIR_S));
        MUST_BE(coir_scope_wait(scope), 0); /* nobody waits for what is there */
        MUST_BE(w.ended + (int)coir_scope_errors(scope), w.count); /* errors: there was no stack */
    }
    for (int i = 0; i < tasks; i++)
        coir_handle_done(&w.tasks[i].handle);
    return 0;
}

static int scenario(coir_sim *sim, void *arg)
{
    (void)arg;
    w.sim = sim;
    w.count = w.ended = w.next_item = 0;
    w.over = false;
    int rc = coir_sim_host_main(sim, "host", play, NULL);
    for (int i = 0; i < w.object_count; i++) /* not in a fiber: the search is deep */
        check(&w.objects[i]);
    free_all();
    return rc;
}

int main(int argc, char **argv)
{
    return coir_sim_main(argc, argv, scenario, NULL);
}
