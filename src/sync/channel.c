/* Channels: making, closing and freeing them, and their policies for an item that is pushed. */
#include "sync/channel.h"

#include <errno.h>

#include "base/check.h"
#include "sync/allocator.h"

/* ---- leases ---- */

void ci_channel_begin_leases(coir_channel *channel)
{
    const struct ci_item_ring *ring = &channel->ring;
    channel->lease.slots = ring->slots;
    channel->lease.item_size = ring->item_size;
    channel->lease.items = ring->items;
    channel->lease.calm = 0;
    ci_show(&channel->lease.ever, true);
    ci_show(&channel->lease.begun, true);
}

void ci_channel_settle(coir_channel *channel)
{
    struct ci_channel_lease *lease = &channel->lease;
    struct ci_item_ring *ring = &channel->ring;
    size_t taken = lease->taken;
    ci_check(lease->left + taken <= ring->count, "sync/channel.h 3");
    /* a child of fork has what was stored before: never more in the lease than in the ring */
    ci_store_relaxed(&lease->left, 0);
    ci_store_relaxed(&lease->taken, 0);
    ring->head += taken;
    if (ring->head >= ring->slots)
        ring->head -= ring->slots;
    ci_store_release(&ring->count, ring->count - taken); /* after the two above */
}

void ci_channel_settle_to_receive(coir_channel *channel, bool was_free)
{
    ci_channel_settle(channel);
    channel->lease.calm = was_free ? channel->lease.calm + 1 : 0;
    if (channel->lease.calm >= CI_CHANNEL_CALM)
        ci_show(&channel->lease.begun, false);
}

void ci_channel_lock_settled(coir_channel *channel)
{
    ci_lock_take(&channel->lease.lock);
    ci_own_lock_take(channel->lock);
    ci_channel_settle(channel); /* no lease begins until the channel's lock is given back */
    ci_lock_give(&channel->lease.lock);
}

/* ---- policies ---- */

static void drop_oldest(coir_channel *channel)
{
    if (channel->unref)
        channel->unref(ci_item_ring_slot(&channel->ring, 0), channel->arg);
    ci_item_ring_drop(&channel->ring);
}

static void lose_oldest(coir_channel *channel)
{
    channel->lost++;
    drop_oldest(channel);
}

int ci_channel_push(coir_channel *channel, const void *item, struct ci_list *granted)
{
    if (channel->closed)
        return -EPIPE;
    if (channel->ring.count == 0) {
        struct ci_wait *receiver = ci_wait_grant(&channel->receivers);
        if (receiver) {
            ci_channel_hand_over(channel, receiver, item);
            ci_list_push(granted, &receiver->link);
            return 1;
        }
    }
    ci_check(ci_list_empty(&channel->receivers), "channel.h 1");
    if (ci_unlikely(channel->ring.count == channel->ring.capacity)) {
        switch ((enum coir_overflow)channel->overflow) {
        case COIR_OVERFLOW_WAIT: return -EAGAIN;
        case COIR_OVERFLOW_DROP_NEWEST: channel->lost++; return 0;
        case COIR_OVERFLOW_DROP_OLDEST: lose_oldest(channel); break;
        case COIR_OVERFLOW_KEEP_LATEST:
            while (channel->ring.count)
                lose_oldest(channel);
            break;
        case COIR_OVERFLOW_CLOSE: ci_channel_close(channel, granted); return -EPIPE;
        }
    }
    int rc = ci_item_ring_put(&channel->ring, item);
    return rc < 0 ? rc : 1;
}

void ci_channel_close(coir_channel *channel, struct ci_list *granted)
{
    ci_show(&channel->closed, true);
    ci_wait_grant_all(&channel->receivers, -EPIPE, granted);
    ci_wait_grant_all(&channel->senders, -EPIPE, granted);
    if (channel->observer)
        channel->observer->on_room(channel->observer, granted);
}

void coir_channel_close(coir_channel *channel)
{
    if (ci_forked() || (!channel && CI_MISUSE(-EINVAL, "channel is NULL")))
        return;
    struct ci_list granted;
    ci_list_init(&granted);
    ci_channel_lock(channel);
    if (!channel->closed)
        ci_channel_close(channel, &granted);
    ci_own_lock_give(channel->lock);
    ci_wait_wake_all(&granted);
}

size_t coir_channel_count(const coir_channel *channel)
{
    if (!channel && CI_MISUSE(-EINVAL, "channel is NULL"))
        return 0;
    ci_channel_lock(channel);
    size_t count = channel->ring.count;
    ci_own_lock_give(channel->lock);
    return count;
}

uint64_t coir_channel_lost(const coir_channel *channel)
{
    if (!channel && CI_MISUSE(-EINVAL, "channel is NULL"))
        return 0;
    ci_channel_lock(channel);
    uint64_t lost = channel->lost;
    ci_own_lock_give(channel->lock);
    return lost;
}

bool coir_channel_is_closed(const coir_channel *channel)
{
    if (!channel && CI_MISUSE(-EINVAL, "channel is NULL"))
        return false;
    ci_channel_lock(channel);
    bool closed = channel->closed;
    ci_own_lock_give(channel->lock);
    return closed;
}

/* ---- making and freeing ---- */

int coir_channel_new_with(const coir_channel_options *given, coir_channel **ret_channel)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!ret_channel)
        return CI_MISUSE(-EINVAL, "ret_channel is NULL");
    coir_channel_options options = COIR_CHANNEL_OPTIONS;
    int rc = ci_options_read(&options, sizeof options, given);
    if (rc < 0)
        return rc;
    if (!options.item_size || (unsigned)options.overflow > COIR_OVERFLOW_KEEP_LATEST ||
        (!options.capacity && options.overflow != COIR_OVERFLOW_WAIT))
        return -EINVAL;
    const coir_allocator *allocator = ci_allocator_here();
    coir_channel *channel = ci_alloc_zero(allocator, sizeof *channel);
    if (!channel)
        return -ENOMEM;
    channel->allocator = *allocator;
    channel->lock = &channel->own_lock;
    channel->overflow = (uint8_t)options.overflow;
    channel->unref = options.unref;
    channel->arg = options.arg;
    ci_list_init(&channel->receivers);
    ci_list_init(&channel->senders);
    ci_list_init(&channel->subscription);
    rc =
        ci_item_ring_init(&channel->ring, &channel->allocator, options.item_size, options.capacity);
    if (rc < 0) {
        ci_free(allocator, channel, sizeof *channel);
        return rc;
    }
    *ret_channel = channel;
    return 0;
}

int coir_channel_new(size_t item_size, size_t capacity, coir_channel **ret_channel)
{
    if (!ret_channel)
        return CI_MISUSE(-EINVAL, "ret_channel is NULL");
    coir_channel_options options = COIR_CHANNEL_OPTIONS;
    options.item_size = item_size;
    options.capacity = capacity;
    return coir_channel_new_with(&options, ret_channel);
}

static bool is_waited_for(coir_channel *channel)
{
    ci_channel_lock(channel);
    bool waits = !ci_list_empty(&channel->receivers) || !ci_list_empty(&channel->senders);
    ci_own_lock_give(channel->lock);
    return waits;
}

void coir_channel_free(coir_channel *channel)
{
    if (!channel || ci_forked() ||
        CI_REFUSED_AS(-EBUSY, is_waited_for(channel),
                      "tasks wait in it; close it, and free it when their calls have returned"))
        return;
    if (channel->observer) {
        struct ci_list granted;
        ci_list_init(&granted);
        ci_channel_lock(channel);
        channel->observer->on_free(channel->observer, channel, &granted);
        ci_own_lock_give(channel->lock);
        ci_wait_wake_all(&granted);
    }
    ci_check(ci_list_empty(&channel->receivers) && ci_list_empty(&channel->senders), "channel.h 2");
    while (channel->ring.count)
        drop_oldest(channel);
    coir_allocator allocator = channel->allocator;
    ci_item_ring_done(&channel->ring);
    ci_free(&allocator, channel, sizeof *channel);
}
