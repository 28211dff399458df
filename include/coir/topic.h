/* Topics: everybody who subscribed gets every item. A subscription is a channel, with a capacity
 * and a policy for a subscriber that is too slow: the publisher waits for it, it loses items, or it
 * is closed. */
#ifndef COIR_TOPIC_H
#define COIR_TOPIC_H

#include <coir/channel.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct coir_topic coir_topic;

typedef struct coir_topic_options {
    size_t size;      /* sizeof(coir_topic_options), set by COIR_TOPIC_OPTIONS */
    size_t item_size; /* bytes of an item */
    /* [none] called for each copy that is queued: an item may be a pointer to something counted */
    void (*ref)(void *item, void *arg);
    /* [none] called for each copy that nobody will receive. Neither may suspend, or use the topic.
     */
    void (*unref)(void *item, void *arg);
    void *arg;
} coir_topic_options;

#define COIR_TOPIC_OPTIONS                     \
    {                                          \
        sizeof(coir_topic_options), 0, 0, 0, 0 \
    }

/* Suspends: no.  Threads: any.  Owns: *ret_topic is the caller's to free, after its
 * subscriptions.
 * Errors: -ENOMEM; -EINVAL. */
COIR_API int coir_topic_new(size_t item_size, coir_topic **ret_topic);
COIR_API int coir_topic_new_with(const coir_topic_options *options, coir_topic **ret_topic);
COIR_API void coir_topic_free(coir_topic *topic);

/* Gets what is published from now on; received like from any channel. coir_channel_free ends the
 * subscription.
 * Suspends: no.  Threads: any.  Owns: *ret_channel is the caller's to free.
 * Errors: -ENOMEM; -EINVAL a capacity of 0; -EPIPE it is closed. */
COIR_API int coir_subscribe(coir_topic *topic, size_t capacity, enum coir_overflow overflow,
                            coir_channel **ret_channel);

/* Sends a copy of the item to every subscriber, at once: all publishers' items come in the same
 * order everywhere. Waits while a subscriber with COIR_OVERFLOW_WAIT is full. Returns how many
 * subscriptions it was queued for.
 * Suspends: yes.  Threads: worker.
 * Errors: -EPIPE it is closed.
 * Cancel safety: an error means that nobody got it. */
COIR_SUSPENDS int coir_publish(coir_topic *topic, const void *item);
COIR_API coir_future *coir_publish_op(coir_wait_op *op, coir_topic *topic, const void *item);

/* Suspends: no.  Threads: any.
 * Errors: -EAGAIN it would have to wait; -EPIPE it is closed. */
COIR_API int coir_try_publish(coir_topic *topic, const void *item);

/* There will be no more items: publishing fails from now on, also for publishers that wait, and
 * subscribers get what is queued, then -EPIPE. Closing twice does nothing.
 * Suspends: no.  Threads: any. */
COIR_API void coir_topic_close(coir_topic *topic);

/* How many subscriptions there are.
 * Suspends: no.  Threads: any. */
COIR_API size_t coir_topic_subscribers(const coir_topic *topic);

#ifdef __cplusplus
}
#endif

#endif
