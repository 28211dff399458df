/* The event: a flag, and the queue of tasks that wait for it.
 *
 * 1. No waiter is queued while it is set.
 */
#include "coir/event.h"

#include <errno.h>

#include "sync/wait.h"
#include "task/completed.h"

struct event {
    struct ci_lock lock;
    uint32_t set;
    struct ci_list waiters;
};
CI_LEAVES_SPARE_WORDS(struct event, coir_event);

static struct event *event_of(coir_event *event)
{
    return (struct event *)(void *)event;
}

static void lock(struct event *event)
{
    ci_lock_take(&event->lock);
    ci_wait_open(&event->waiters);
    ci_check(!event->set || ci_list_empty(&event->waiters), "sync/event.c 1");
}

/* Who sets it may hold the lock still, and the event be released when this has returned true. */
static bool is_set(struct event *event)
{
    if (!ci_load_relaxed(&event->set))
        return false;
    lock(event);
    bool is_set = event->set;
    ci_lock_give(&event->lock);
    return is_set;
}

static bool start(struct ci_worker *worker, struct ci_wait *wait)
{
    struct event *event = wait->object;
    lock(event);
    bool complete = event->set;
    wait->future.result = 0;
    if (!complete)
        ci_wait_queue(worker, wait, &event->waiters);
    ci_lock_give(&event->lock);
    return complete;
}

static const struct ci_wait_kind event_kind = CI_WAIT_KIND("an event", start, ci_wait_cancel, NULL);

static struct ci_wait_for wait_for(coir_event *event)
{
    return (struct ci_wait_for){
        .kind = &event_kind, .lock = &event_of(event)->lock, .object = event_of(event)};
}

coir_future *coir_event_wait_op(coir_wait_op *op, coir_event *event)
{
    return op && event ? ci_wait_op(op, wait_for(event))
                       : ci_completed_op(op, CI_MISUSE(-EINVAL, "op or event is NULL"));
}

int coir_event_wait(coir_event *event)
{
    return event ? (int)ci_wait_in_fiber(wait_for(event)) : CI_MISUSE(-EINVAL, "event is NULL");
}

static coir_future *make_wait(const coir_case *self, void *op)
{
    return coir_event_wait_op(op, self->object);
}

static bool try_wait(coir_case *self)
{
    self->result = 0;
    return is_set(event_of(self->object));
}

coir_case coir_case_event(coir_event *event)
{
    if (!event)
        return ci_completed_case(CI_MISUSE(-EINVAL, "event is NULL"));
    return (coir_case){.make = make_wait, .object = event, .try_now = try_wait};
}

void coir_event_set(coir_event *opaque)
{
    if (ci_forked() || (!opaque && CI_MISUSE(-EINVAL, "event is NULL")))
        return;
    struct event *event = event_of(opaque);
    struct ci_list granted;
    ci_list_init(&granted);
    lock(event);
    ci_store_relaxed(&event->set, 1);
    ci_wait_grant_all(&event->waiters, 0, &granted);
    ci_lock_give(&event->lock);
    ci_wait_wake_all(&granted);
}

void coir_event_reset(coir_event *opaque)
{
    if (ci_forked() || (!opaque && CI_MISUSE(-EINVAL, "event is NULL")))
        return;
    struct event *event = event_of(opaque);
    lock(event);
    ci_store_relaxed(&event->set, 0);
    ci_lock_give(&event->lock);
}

bool coir_event_is_set(const coir_event *event)
{
    if (!event && CI_MISUSE(-EINVAL, "event is NULL"))
        return false;
    return is_set(event_of((coir_event *)(uintptr_t)event)); /* only its lock is changed */
}
