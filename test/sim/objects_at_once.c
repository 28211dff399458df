/* What a task of objects_sim.c may do to an object without waiting. */
#include <errno.h>

#include "sim/objects.h"

static void try_channel(struct task *task, struct object *object)
{
    uint64_t invoked = history_now();
    int64_t item = 0;
    int kind = CHANNEL_TRY_RECV, rc;
    if (below(80) == 0) {
        coir_channel_close(object->channel);
        history_add(&object->history, task->number, CHANNEL_CLOSE, 0, 0, invoked);
    } else if (below(2) && object->sends < SENDS_MOST) {
        item = number_of(object) * 1000 + ++run.next_item;
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

void give_back(struct task *task, struct object *object, int64_t amount)
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
    if (below(20) == 0) {
        coir_latest_close(object->latest);
        history_add(&object->history, task->number, LATEST_CLOSE, 0, 0, invoked);
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

void do_at_once(struct task *task)
{
    struct object *object = &run.objects[below((uint64_t)run.object_count)];
    if (!has_room(object))
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
