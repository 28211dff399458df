/* No task of objects_sim.c waits for something that is there: what each object offers is compared
 * with what the tasks wait for. Called when nothing has moved for longer than any pause of a
 * task. */
#include <errno.h>

#include "sim/must.h"
#include "sim/objects.h"

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
    } else { /* a task that waits for both is not matched with itself */
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

void check_waits(void)
{
    for (int i = 0; i < run.object_count; i++) {
        struct object *object = &run.objects[i];
        struct waiting sum = {0};
        for (int t = 0; t < TASKS_MOST; t++)
            count_waits(object, &run.tasks[t], &sum);
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
