/* What channels and topics share: a topic pushes into its subscribers' channels under the one lock
 * that all of them use. */
#ifndef CI_SYNC_CHANNEL_H
#define CI_SYNC_CHANNEL_H

#include "coir/topic.h"
#include "sync/wait.h"

struct coir_channel {
    struct ci_lock *lock; /* its own, or its topic's */
    size_t item_size, capacity;
    size_t head, count, slots; /* of the ring; slots < capacity: it may grow */
    char *items;
    struct ci_list receivers, senders;
    uint8_t overflow;
    bool closed;
    struct ci_lock own_lock;
    void (*unref)(void *item, void *arg);
    void *arg;
    struct coir_topic *topic;
    struct ci_list member; /* of the topic */
    coir_allocator allocator;
};

/* The allocator of the calling worker's runtime, or the system's. */
const coir_allocator *ci_allocator_here(void);

/* With the lock held: hands an item over or queues it, by the channel's policy; puts a receiver to
 * be woken on `granted`. 1, 0 when the policy was to drop it, -EPIPE when the channel is closed or
 * closes, -EAGAIN when it is full and the policy is to wait. */
int ci_channel_push(coir_channel *channel, const void *item, struct ci_list *granted);

/* With the lock held: no more is sent to it; puts those who wait on `granted`. */
void ci_channel_close(coir_channel *channel, struct ci_list *granted);

/* Whether a push would not be -EAGAIN. */
static inline bool ci_channel_has_room(const coir_channel *channel)
{
    return channel->count < channel->capacity || channel->overflow != COIR_OVERFLOW_WAIT ||
           channel->closed;
}

/* With the lock held: a subscriber has room, or is gone: publishers that waited for that go on. */
void ci_topic_room(struct coir_topic *topic, struct ci_list *granted);

/* Leaves its topic, under the lock; puts publishers that waited for it on `granted`. */
void ci_topic_leave(coir_channel *channel, struct ci_list *granted);

#endif
