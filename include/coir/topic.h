/* Topics: every subscriber gets every item. A subscription is a channel, with a capacity and a
 * policy for a subscriber that is too slow: the publisher waits for it, it loses items, or it is
 * closed. */
#ifndef COIR_TOPIC_H
#define COIR_TOPIC_H

#include <coir/channel.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A topic. It is made by coir_topic_new. */
typedef struct coir_topic coir_topic;

/* Options of a topic. */
typedef struct coir_topic_options {
    size_t size;      /* sizeof(coir_topic_options), set by COIR_TOPIC_OPTIONS */
    size_t item_size; /* bytes of an item */
    /* [none] called for each copy that is queued: an item may be a pointer to something counted */
    void (*ref)(void *item, void *arg);
    /* [none] called for each copy that will not be received. Neither may suspend, or use the
     * topic or its subscriptions. */
    void (*unref)(void *item, void *arg);
    void *arg;
    bool keep_last; /* [false] the last item is kept: a new subscription begins with it */
} coir_topic_options;

#define COIR_TOPIC_OPTIONS                            \
    {                                                 \
        sizeof(coir_topic_options), 0, 0, 0, 0, false \
    }

/* Makes a topic of items of `item_size` bytes.
 * Suspends: no.  Threads: any.  Owns: *ret_topic is the caller's to free, after its subscriptions.
 * Errors: -ENOMEM; -EINVAL an item of no size. */
COIR_API int coir_topic_new(size_t item_size, coir_topic **ret_topic);

/* Makes a topic as its options say. As coir_topic_new.
 * Errors also: -COIR_EUNSIZED; -COIR_ENEWER. */
COIR_API int coir_topic_new_with(const coir_topic_options *options, coir_topic **ret_topic);

/* Frees a topic, whose subscriptions have ended. No task or thread may use it any more. Takes NULL.
 * Suspends: no.  Threads: any. */
COIR_API void coir_topic_free(coir_topic *topic);

/* Subscribes to a topic: makes a channel that gets what is published from now on, behind the last
 * item if the topic keeps that. `overflow` says what happens when its `capacity` is used up;
 * coir_channel_lost counts what that has dropped, and, where the capacity is COIR_UNLIMITED, what
 * there was no memory for. coir_channel_free ends the subscription.
 * Suspends: no.  Threads: any.  Owns: *ret_channel is the caller's to free.
 * Errors: -ENOMEM; -EINVAL a capacity of 0; -EPIPE it is closed. */
COIR_API int coir_subscribe(coir_topic *topic, size_t capacity, enum coir_overflow overflow,
                            coir_channel **ret_channel);

/* Publishes an item: sends a copy of it to every subscriber of a topic at once. The items of all
 * publishers come in the same order everywhere. It waits while a subscriber with
 * COIR_OVERFLOW_WAIT is full, and returns how many subscriptions the item was queued for.
 * Suspends: yes.  Threads: worker.
 * Errors: -EPIPE it is closed.
 * Cancel safety: an error means that no subscriber got it. */
COIR_SUSPENDS int coir_publish(coir_topic *topic, const void *item);
COIR_API coir_future *coir_publish_op(coir_wait_op *op, coir_topic *topic, const void *item);

/* Publishes an item if no subscriber has to be waited for.
 * Suspends: no.  Threads: any.
 * Errors: -EAGAIN it would have to wait; -EPIPE it is closed. */
COIR_API int coir_try_publish(coir_topic *topic, const void *item);

/* Closes a topic: there will be no more items. Publishing fails with -EPIPE from now on, also for
 * publishers that wait; subscribers get what is queued, then -EPIPE. Closing twice does nothing.
 * Suspends: no.  Threads: any. */
COIR_API void coir_topic_close(coir_topic *topic);

/* How many subscriptions a topic has.
 * Suspends: no.  Threads: any. */
COIR_API size_t coir_topic_subscribers(const coir_topic *topic);

#ifdef __cplusplus
}
#endif

#endif
