/* The objects of objects_sim.c: made by lot, opened at the end so that no task waits any longer,
 * and checked against their models. */
#include "sim/objects.h"

#include <string.h>

#include "sim/must.h"

struct objects_run run;

int number_of(const struct object *object)
{
    return (int)(object - run.objects);
}

bool has_room(const struct object *object)
{
    return history_room(&object->history, 4 * TASKS_MOST + CHANNEL_ITEMS_MOST);
}

static void release(void *item, void *arg)
{
    (void)arg;
    int64_t number = *(int64_t *)item;
    run.objects[number / 1000].released++;
}

static int make_channel(struct object *object)
{
    static const size_t capacities[] = {0, 0, 1, 1, 2, 3, 5, COIR_UNLIMITED};
    coir_channel_options options = COIR_CHANNEL_OPTIONS;
    options.item_size = sizeof(int64_t);
    options.capacity = capacities[below(8)];
    options.overflow = COIR_OVERFLOW_WAIT;
    if (options.capacity && below(3) == 0)
        options.overflow = (enum coir_overflow)below(COIR_OVERFLOW_KEEP_LATEST + 1);
    options.unref = release;
    object->shape = (struct channel_shape){options.capacity, options.overflow};
    history_init(&object->history, &channel_model, &object->shape, "a channel");
    return coir_channel_new_with(&options, &object->channel);
}

int object_make(struct object *object)
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

/* Closes, sets and releases everything, so that every waiting task can go on. */
void objects_open(void)
{
    run.over = true;
    for (int i = 0; i < run.object_count; i++) {
        struct object *object = &run.objects[i];
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

void object_check(struct object *object)
{
    if (object->type == CHANNEL) {
        drain(object);
        MUST(object->sends == count_received(&object->history) + object->released);
        MUST(object->shape.capacity || history_check_meetings(&object->history));
    }
    history_must_be_linearizable(&object->history);
}

void objects_free(void)
{
    for (int i = 0; i < run.object_count; i++) {
        if (run.objects[i].type == CHANNEL)
            coir_channel_free(run.objects[i].channel);
        if (run.objects[i].type == LATEST)
            coir_latest_free(run.objects[i].latest);
    }
}
