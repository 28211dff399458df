/* Channels: queues of items of one size, between tasks. Many may send and many receive, from any
 * worker; plain threads use the forms that never suspend. Items are copied in and out. */
#ifndef COIR_CHANNEL_H
#define COIR_CHANNEL_H

#include <coir/select.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A channel. It is made by coir_channel_new, or by coir_subscribe as a topic's subscription. */
typedef struct coir_channel coir_channel;

/* What a send does when the channel is full, or a push into a write queue (coir/write_queue.h). */
enum coir_overflow {
    COIR_OVERFLOW_WAIT,        /* waits for room */
    COIR_OVERFLOW_DROP_OLDEST, /* the oldest item goes */
    COIR_OVERFLOW_DROP_NEWEST, /* the new item is not queued */
    COIR_OVERFLOW_CLOSE, /* the channel is closed: its receivers get what is in it, then -EPIPE */
    COIR_OVERFLOW_KEEP_LATEST /* all items go but the new one */
};

/* Options of a channel: what it holds, how much of it, and what a send does when it is full. */
typedef struct coir_channel_options {
    size_t size;      /* sizeof(coir_channel_options), set by COIR_CHANNEL_OPTIONS */
    size_t item_size; /* bytes of an item */
    /* [0: a send waits for its receive] items; COIR_UNLIMITED: it grows as needed */
    size_t capacity;
    enum coir_overflow overflow; /* [COIR_OVERFLOW_WAIT] */
    /* [none] called for items that will not be received; must not suspend, or use the channel */
    void (*unref)(void *item, void *arg);
    void *arg; /* given to it */
} coir_channel_options;

#define COIR_CHANNEL_OPTIONS                                         \
    {                                                                \
        sizeof(coir_channel_options), 0, 0, COIR_OVERFLOW_WAIT, 0, 0 \
    }

/* Makes a channel of items of `item_size` bytes. It holds `capacity` of them: with 0, a send waits
 * for its receive; with COIR_UNLIMITED, the channel grows as needed. A send to a full channel waits
 * for room. Its memory is that of the calling worker's runtime, which it must not outlive then, or
 * of malloc, on a plain thread.
 * Suspends: no.  Threads: any.  Owns: *ret_channel is the caller's to free.
 * Errors: -ENOMEM; -EINVAL an item of no size. */
COIR_API int coir_channel_new(size_t item_size, size_t capacity, coir_channel **ret_channel);

/* Makes a channel as its options say. As coir_channel_new.
 * Errors also: -EINVAL an unknown policy, or capacity 0 with another policy than to wait;
 * -COIR_EUNSIZED; -COIR_ENEWER. */
COIR_API int coir_channel_new_with(const coir_channel_options *options, coir_channel **ret_channel);

/* Frees a channel and the items in it. No task or thread may use it or wait for it any more. If it
 * is a subscription, that ends. Takes NULL.
 * Suspends: no.  Threads: any. */
COIR_API void coir_channel_free(coir_channel *channel);

/* Sends a copy of an item.
 * Suspends: yes, while there is no room.  Threads: worker.
 * Errors: -EPIPE it is closed; -ENOMEM it is unbounded and cannot grow.
 * Cancel safety: an error means that the item was not sent. */
COIR_SUSPENDS int coir_channel_send(coir_channel *channel, const void *item);
COIR_API coir_future *coir_channel_send_op(coir_wait_op *op, coir_channel *channel,
                                           const void *item);

/* A send to a channel, as a case of coir_select. As coir_channel_send. */
COIR_API coir_case coir_case_send(coir_channel *channel, const void *item);

/* Receives the oldest item, into `item`.
 * Suspends: yes, while there is none.  Threads: worker.
 * Errors: -EPIPE it is closed, and empty.
 * Cancel safety: an error means that nothing was taken. */
COIR_SUSPENDS int coir_channel_recv(coir_channel *channel, void *item);
COIR_API coir_future *coir_channel_recv_op(coir_wait_op *op, coir_channel *channel, void *item);

/* A receive from a channel, as a case of coir_select. As coir_channel_recv. */
COIR_API coir_case coir_case_recv(coir_channel *channel, void *item);

/* Receives as many items as there are, at least 1 and at most `items_max`, and returns how many. Of
 * a channel whose capacity is 0 that is 1. Where `items_max` is 0 it returns 0 at once.
 * Suspends: yes, while there is none.  Threads: worker.
 * Errors: -EPIPE it is closed, and empty.
 * Cancel safety: an error means that nothing was taken. */
COIR_SUSPENDS ssize_t coir_channel_recv_many(coir_channel *channel, void *items, size_t items_max);
COIR_API coir_future *coir_channel_recv_many_op(coir_wait_op *op, coir_channel *channel,
                                                void *items, size_t items_max);

/* Sends a copy of an item if there is room now.
 * Suspends: no.  Threads: any.
 * Errors: -EAGAIN there is no room; -EPIPE it is closed; -ENOMEM it is unbounded and cannot
 * grow. */
COIR_API int coir_channel_try_send(coir_channel *channel, const void *item);

/* Receives the oldest item if there is one now.
 * Suspends: no.  Threads: any.
 * Errors: -EAGAIN there is none; -EPIPE it is closed, and empty. */
COIR_API int coir_channel_try_recv(coir_channel *channel, void *item);

/* Closes a channel: sends fail with -EPIPE from now on, also those that wait; receivers get what
 * is in it, then -EPIPE. Closing twice does nothing.
 * Suspends: no.  Threads: any. */
COIR_API void coir_channel_close(coir_channel *channel);

/* How many items are in the channel now.
 * Suspends: no.  Threads: any. */
COIR_API size_t coir_channel_count(const coir_channel *channel);

/* How many items the channel's policy has dropped: those that a subscriber was too slow for, if it
 * is a subscription.
 * Suspends: no.  Threads: any. */
COIR_API uint64_t coir_channel_lost(const coir_channel *channel);

/* Whether the channel has been closed.
 * Suspends: no.  Threads: any. */
COIR_API bool coir_channel_is_closed(const coir_channel *channel);

#ifdef __cplusplus
}
#endif

#endif
