/* What a task of objects_sim.c may wait for: by a call, by a future that it awaits, by coir_any or
 * by coir_select. What happened is added to the object's history. */
#include <errno.h>
#include <string.h>

#include "sim/must.h"
#include "sim/objects.h"

int rest(void)
{
    return below(2) ? coir_yield()
                    : coir_sleep_for((coir_time)below(below(2) ? 3 : 2000) * COIR_US);
}

/* Draws an operation that may have to wait. False: the history of its object is full. */
static bool choose(struct task *task, struct member *member)
{
    struct object *object = &run.objects[below((uint64_t)run.object_count)];
    *member = (struct member){.object = object};
    switch (object->type) {
    case CHANNEL:
        member->kind = below(2) && object->sends < SENDS_MOST ? CHANNEL_SEND : CHANNEL_RECV;
        member->arg = member->kind == CHANNEL_SEND ? number_of(object) * 1000 + ++run.next_item : 0;
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
    return has_room(object);
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

/* Adds to the register and unlocks it. The caller holds the lock. What is done under the lock takes
 * some time, and may be interrupted. */
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

/* Accounts for an operation that took effect, and adds it to the history. */
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

/* 0 and -EPIPE go into the history; the other errors mean that the operation had no effect. */
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
    run.moves++;
}

int wait_for_one(struct task *task)
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

/* Several operations at once, and sometimes a timeout. */
int wait_for_any(struct task *task)
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

int wait_for_select(struct task *task)
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
