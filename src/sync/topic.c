/* Topics: a list of channels that share one lock.
 *
 * 1. An item is published to all subscribers under the lock, or to none yet: when a subscriber with
 *    COIR_OVERFLOW_WAIT has no room, the publisher is queued, and all later publishers behind it.
 *    So all subscribers get all items in the same order.
 * 2. While a publisher is queued, a subscriber with COIR_OVERFLOW_WAIT has no room.
 * 3. `blocker`, where it is not NULL, is a subscriber: the one that was found to have no room.
 * 4. A topic that is freed has no subscribers, and no publisher is in a call.
 */
#include <errno.h>
#include <stddef.h>

#include "base/check.h"
#include "coir/topic.h"
#include "sync/allocator.h"
#include "sync/channel.h"
#include "task/completed.h"

struct coir_topic {
    struct ci_channel_observer observer; /* of the subscribers' channels */
    struct ci_own_lock lock;
    size_t size; /* of this memory */
    size_t item_size, subscribers;
    struct ci_list subscriptions, publishers;
    bool closed;
    bool delivering; /* an item is being delivered: a subscriber that closes meanwhile must not
                        start the delivery of another one */
    void (*ref)(void *item, void *arg);
    void (*unref)(void *item, void *arg);
    void *arg;
    coir_allocator allocator;
    coir_channel *blocker;
    bool keeps_last, has_last;
    _Alignas(max_align_t) char last[]; /* the item that was published last, if topics keep that */
};

static coir_channel *channel_of(struct ci_list *node)
{
    return ci_container_of(node, coir_channel, subscription);
}

/* While publishers wait this is asked whenever a subscriber has room or leaves: the one that was
 * full before is the first to be asked again. */
static bool all_have_room(struct coir_topic *topic)
{
    if (topic->blocker && !ci_channel_has_room(topic->blocker))
        return false;
    topic->blocker = NULL;
    ci_list_for_each (node, &topic->subscriptions) {
        if (ci_channel_has_room(channel_of(node)))
            continue;
        topic->blocker = channel_of(node);
        return false;
    }
    return true;
}

static void keep(struct coir_topic *topic, void *item)
{
    if (topic->has_last && topic->unref)
        topic->unref(topic->last, topic->arg);
    if (topic->ref)
        topic->ref(item, topic->arg);
    ci_item_copy(topic->last, item, topic->item_size);
    topic->has_last = true;
}

static void lock(coir_topic *topic)
{
    ci_own_lock_take(&topic->lock);
    ci_debug_check(ci_list_empty(&topic->publishers) || !all_have_room(topic), "topic.c 2");
}

/* As ci_channel_push. */
static int deliver_to(struct coir_topic *topic, coir_channel *channel, void *item,
                      struct ci_list *granted)
{
    if (topic->ref)
        topic->ref(item, topic->arg);
    int rc = ci_channel_push(channel, item, granted);
    ci_check(rc != -EAGAIN, "topic.c 1");
    if (rc <= 0 && topic->unref)
        topic->unref(item, topic->arg);
    channel->lost += rc == -ENOMEM; /* the policy has counted all else */
    return rc;
}

static int deliver(struct coir_topic *topic, void *item, struct ci_list *granted)
{
    int count = 0;
    topic->delivering = true;
    ci_list_for_each (node, &topic->subscriptions)
        count += deliver_to(topic, channel_of(node), item, granted) > 0;
    if (topic->keeps_last)
        keep(topic, item);
    topic->delivering = false;
    return count;
}

/* A subscriber has room, or is gone: grants publishers that waited for that. */
static void on_room(struct ci_channel_observer *observer, struct ci_list *granted)
{
    struct coir_topic *topic = ci_container_of(observer, struct coir_topic, observer);
    while (!topic->delivering && !ci_list_empty(&topic->publishers) && all_have_room(topic)) {
        struct ci_wait *publisher = ci_wait_grant(&topic->publishers);
        if (!publisher)
            return;
        publisher->future.result = deliver(topic, publisher->item, granted);
        ci_list_push(granted, &publisher->link);
    }
}

static void on_free(struct ci_channel_observer *observer, coir_channel *channel,
                    struct ci_list *granted)
{
    struct coir_topic *topic = ci_container_of(observer, struct coir_topic, observer);
    ci_list_remove(&channel->subscription);
    topic->subscribers--;
    if (topic->blocker == channel)
        topic->blocker = NULL;
    ci_debug_check(!topic->blocker || topic->subscribers, "topic.c 3");
    on_room(observer, granted);
}

void coir_topic_close(coir_topic *topic)
{
    if (ci_forked() || (!topic && CI_MISUSE(-EINVAL, "topic is NULL")))
        return;
    struct ci_list granted;
    ci_list_init(&granted);
    lock(topic);
    if (!topic->closed) {
        topic->closed = true;
        ci_wait_grant_all(&topic->publishers, -EPIPE, &granted);
        ci_list_for_each (node, &topic->subscriptions)
            if (!channel_of(node)->closed)
                ci_channel_close(channel_of(node), &granted);
    }
    ci_own_lock_give(&topic->lock);
    ci_wait_wake_all(&granted);
}

/* ---- publishing ---- */

static bool start(struct ci_worker *worker, struct ci_wait *wait)
{
    coir_topic *topic = wait->object;
    struct ci_list granted;
    bool complete = true;
    ci_list_init(&granted);
    lock(topic);
    if (!topic->closed && (!ci_list_empty(&topic->publishers) || !all_have_room(topic))) {
        ci_wait_queue(worker, wait, &topic->publishers);
        complete = false;
    } else if (ci_claim(worker->runnable, &wait->future)) {
        wait->future.result = topic->closed ? -EPIPE : deliver(topic, wait->item, &granted);
    } else {
        wait->future.result = -ECANCELED;
    }
    ci_own_lock_give(&topic->lock);
    ci_wait_wake_all(&granted);
    return complete;
}

static const struct ci_wait_kind publish_kind =
    CI_WAIT_KIND("room at the subscribers of a topic", start, ci_wait_cancel_own, NULL);

static struct ci_wait_for to_publish(coir_topic *topic, const void *item)
{
    return (struct ci_wait_for){.kind = &publish_kind,
                                .own_lock = &topic->lock,
                                .object = topic,
                                .item = (void *)(uintptr_t)item};
}

coir_future *coir_publish_op(coir_wait_op *op, coir_topic *topic, const void *item)
{
    return op && topic && item
               ? ci_wait_op(op, to_publish(topic, item))
               : ci_completed_op(op, CI_MISUSE(-EINVAL, "op, topic or item is NULL"));
}

int coir_publish(coir_topic *topic, const void *item)
{
    return topic && item ? (int)ci_wait_in_fiber(to_publish(topic, item))
                         : CI_MISUSE(-EINVAL, "topic or item is NULL");
}

int coir_try_publish(coir_topic *topic, const void *item)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!topic || !item)
        return CI_MISUSE(-EINVAL, "topic or item is NULL");
    struct ci_list granted;
    int result = -EAGAIN;
    ci_list_init(&granted);
    lock(topic);
    if (topic->closed)
        result = -EPIPE;
    else if (ci_list_empty(&topic->publishers) && all_have_room(topic))
        result = deliver(topic, (void *)(uintptr_t)item, &granted);
    ci_own_lock_give(&topic->lock);
    ci_wait_wake_all(&granted);
    return result;
}

/* ---- making, subscribing ---- */

int coir_topic_new_with(const coir_topic_options *given, coir_topic **ret_topic)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!ret_topic)
        return CI_MISUSE(-EINVAL, "ret_topic is NULL");
    coir_topic_options options = COIR_TOPIC_OPTIONS;
    int rc = ci_options_read(&options, sizeof options, given);
    if (rc < 0)
        return rc;
    if (!options.item_size)
        return -EINVAL;
    const coir_allocator *allocator = ci_allocator_here();
    size_t size;
    coir_topic *topic =
        __builtin_add_overflow(sizeof *topic, options.keep_last ? options.item_size : 0, &size)
            ? NULL
            : ci_alloc_zero(allocator, size);
    if (!topic)
        return -ENOMEM;
    topic->allocator = *allocator;
    topic->size = size;
    topic->item_size = options.item_size;
    topic->ref = options.ref;
    topic->unref = options.unref;
    topic->arg = options.arg;
    topic->keeps_last = options.keep_last;
    topic->observer = (struct ci_channel_observer){on_room, on_free};
    ci_list_init(&topic->subscriptions);
    ci_list_init(&topic->publishers);
    *ret_topic = topic;
    return 0;
}

int coir_topic_new(size_t item_size, coir_topic **ret_topic)
{
    if (!ret_topic)
        return CI_MISUSE(-EINVAL, "ret_topic is NULL");
    coir_topic_options options = COIR_TOPIC_OPTIONS;
    options.item_size = item_size;
    return coir_topic_new_with(&options, ret_topic);
}

static bool is_used(coir_topic *topic)
{
    lock(topic);
    bool used = !ci_list_empty(&topic->subscriptions) || !ci_list_empty(&topic->publishers);
    ci_own_lock_give(&topic->lock);
    return used;
}

void coir_topic_free(coir_topic *topic)
{
    if (!topic || ci_forked() ||
        CI_REFUSED_AS(-EBUSY, is_used(topic),
                      "it has subscribers, or tasks publish; free their channels first"))
        return;
    ci_check(ci_list_empty(&topic->subscriptions) && ci_list_empty(&topic->publishers),
             "topic.c 4");
    coir_allocator allocator = topic->allocator;
    if (topic->has_last && topic->unref)
        topic->unref(topic->last, topic->arg);
    ci_free(&allocator, topic, topic->size);
}

int coir_subscribe(coir_topic *topic, size_t capacity, enum coir_overflow overflow,
                   coir_channel **ret_channel)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!topic || !ret_channel)
        return CI_MISUSE(-EINVAL, "topic or ret_channel is NULL");
    coir_channel_options options = COIR_CHANNEL_OPTIONS;
    options.item_size = topic->item_size;
    options.capacity = capacity;
    options.overflow = overflow;
    options.unref = topic->unref;
    options.arg = topic->arg;
    coir_channel *channel;
    int rc = capacity ? coir_channel_new_with(&options, &channel) : -EINVAL;
    if (rc < 0)
        return rc;
    channel->lock = &topic->lock;
    channel->observer = &topic->observer;
    struct ci_list granted; /* a new channel has no receiver */
    ci_list_init(&granted);
    lock(topic);
    rc = topic->closed     ? -EPIPE
         : topic->has_last ? deliver_to(topic, channel, topic->last, &granted)
                           : 0;
    if (rc >= 0) {
        ci_list_push(&topic->subscriptions, &channel->subscription);
        topic->subscribers++;
    }
    ci_own_lock_give(&topic->lock);
    if (rc < 0) {
        channel->observer = NULL;
        coir_channel_free(channel);
        return rc;
    }
    *ret_channel = channel;
    return 0;
}

size_t coir_topic_subscribers(const coir_topic *topic)
{
    if (!topic && CI_MISUSE(-EINVAL, "topic is NULL"))
        return 0;
    struct ci_own_lock *lock = (struct ci_own_lock *)(uintptr_t)&topic->lock;
    ci_own_lock_take(lock);
    size_t count = topic->subscribers;
    ci_own_lock_give(lock);
    return count;
}
