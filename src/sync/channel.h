/* Channels, for the files that make them, send and receive through them, and publish into them.
 * Everything here is under the channel's lock.
 *
 * 1. While receivers are queued the ring is empty; while senders are queued it is full.
 * 2. No waiter is queued at a channel that is closed, or freed.
 * 3. A lease has no more items than the ring, and none while a waiter is queued.
 *
 * Two workers that stream through a channel would fetch the line of its lock from each other for
 * each item. So a receiver that finds several items takes a lease of the oldest ones: they are
 * received under the lease's own lock, from a line that senders do not touch, and stay in the ring
 * until the lease is settled. Meanwhile `ring.count` counts what was received as well. Whoever
 * needs the exact state settles the lease first, as ci_channel_lock does; a sender that finds room
 * need not. The lease's lock is taken before the channel's.
 *
 * Leases begin when a receiver finds the channel's lock taken and several items, and end when
 * CI_CHANNEL_CALM receives in a row have settled and found it free: no other worker uses the
 * channel then, and one that is alone pays for two locks in vain.
 */
#ifndef CI_SYNC_CHANNEL_H
#define CI_SYNC_CHANNEL_H

#include "coir/channel.h"
#include "sync/item_ring.h"
#include "sync/wait.h"

/* Told when a channel has room, and before it is freed: the topic that it subscribes to. Publishers
 * that waited for that are put on `granted`. */
struct ci_channel_observer {
    void (*on_room)(struct ci_channel_observer *observer, struct ci_list *granted);
    void (*on_free)(struct ci_channel_observer *observer, coir_channel *channel,
                    struct ci_list *granted);
};

enum { CI_CHANNEL_CALM = 1024 };

/* In a line of its own. `begun` is there, too, as each receive looks at it. */
struct ci_channel_lease {
    struct ci_lock lock;
    bool begun;    /* there may be leases; written under the channel's lock; shown */
    bool ever;     /* they have begun once: a count read without a lock may be too large; shown */
    size_t left;   /* items that can be received */
    size_t taken;  /* that were received, and are in the ring still */
    size_t slot;   /* of the first one that is left */
    uint32_t calm; /* how many settling receives have found the channel's lock free, in a row */
    /* of the ring, which does not grow any more */
    size_t slots, item_size;
    const char *items;
};

struct coir_channel {
    CI_CACHE_ALIGNED struct ci_own_lock *lock; /* its own, or its topic's */
    struct ci_own_lock own_lock;
    uint8_t overflow; /* enum coir_overflow */
    bool closed;      /* shown (ci_glance) */
    struct ci_list receivers;
    /* what each call writes ends with its first words, in the first line; what follows is read */
    struct ci_item_ring ring;
    struct ci_list senders;
    uint64_t lost; /* items that the policy has dropped */
    void (*unref)(void *item, void *arg);
    void *arg;
    struct ci_channel_observer *observer; /* NULL: a channel by itself */
    struct ci_list subscription;          /* in its topic's list */
    coir_allocator allocator;
    CI_CACHE_ALIGNED struct ci_channel_lease lease;
};

/* Hands an item over or queues it, by the channel's policy; puts a receiver to be woken on
 * `granted`. 1, 0 when the policy was to drop it, -EPIPE when the channel is closed or closes,
 * -EAGAIN when it is full and the policy is to wait. */
int ci_channel_push(coir_channel *channel, const void *item, struct ci_list *granted);

/* No more is sent to it; puts those who wait on `granted`. */
void ci_channel_close(coir_channel *channel, struct ci_list *granted);

/* With the lock held, which no worker owns, and a ring that does not grow. */
void ci_channel_begin_leases(coir_channel *channel);

/* With both locks held: what was received leaves the ring, what was not is the ring's again. */
void ci_channel_settle(coir_channel *channel);

/* The same, by a receiver, which has found the channel's lock free, or not. */
void ci_channel_settle_to_receive(coir_channel *channel, bool was_free);

/* Takes the lock of a channel that has leases, and settles. */
CI_COLD void ci_channel_lock_settled(coir_channel *channel);

/* Takes the lock, for all but the common cases. */
static inline void ci_channel_lock(const coir_channel *channel)
{
    if (!ci_glance(&channel->lease.begun)) {
        ci_own_lock_take(channel->lock);
        if (ci_unlikely(channel->lease.begun)) {
            ci_own_lock_give(channel->lock);
            ci_channel_lock_settled((coir_channel *)(uintptr_t)channel);
        }
    } else
        ci_channel_lock_settled((coir_channel *)(uintptr_t)channel);
    bool receivers = !ci_list_empty(&channel->receivers),
         senders = !ci_list_empty(&channel->senders);
    ci_debug_check(!receivers || channel->ring.count == 0, "channel.h 1");
    ci_debug_check(!senders || channel->ring.count == channel->ring.capacity, "channel.h 1");
    ci_debug_check(!channel->closed || !(receivers | senders), "channel.h 2");
}

/* Whether a push would not be -EAGAIN. */
static inline bool ci_channel_has_room(const coir_channel *channel)
{
    return channel->ring.count < channel->ring.capacity ||
           channel->overflow != COIR_OVERFLOW_WAIT || channel->closed;
}

/* Without the lock, whether a receive or a send might be done at once: of channels with a ring that
 * are empty or full it is certain that one could not, at this moment. */
CI_INLINE bool ci_channel_might_receive(const coir_channel *channel)
{
    return ci_glance(&channel->ring.count) || !channel->ring.capacity ||
           ci_glance(&channel->closed);
}

CI_INLINE bool ci_channel_might_send(const coir_channel *channel)
{
    return ci_glance(&channel->ring.count) < channel->ring.capacity || !channel->ring.capacity ||
           channel->overflow != COIR_OVERFLOW_WAIT || ci_glance(&channel->closed) ||
           ci_glance(&channel->lease.ever);
}

_Static_assert(offsetof(struct coir_channel, ring.items) == 64, "the first line ends before it");

/* Gives an item to a receiver that was taken off the queue. */
CI_INLINE void ci_channel_hand_over(const coir_channel *channel, struct ci_wait *receiver,
                                    const void *item)
{
    ci_item_copy(receiver->item, item, channel->ring.item_size);
    receiver->future.result = receiver->items_max ? 1 : 0;
}

#endif
