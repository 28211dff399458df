/* The items that lie in a channel: a ring buffer, made at its full size or grown by doubling. The
 * channel's lock guards it.
 *
 * 1. `count` items lie in as many slots from `head` on, with slot 0 behind the last one; there are
 * never more items than slots, nor more slots than the capacity.
 */
#ifndef CI_SYNC_ITEM_RING_H
#define CI_SYNC_ITEM_RING_H

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/memory.h"

/* The slots of a ring that has begun to grow. */
enum { CI_ITEM_RING_FIRST = 16 };

struct ci_item_ring {
    size_t count; /* shown (ci_glance) */
    size_t head;
    size_t slots; /* < capacity: it may grow */
    char *items;
    size_t item_size, capacity;
    const coir_allocator *allocator;
};

/* A ring with all its slots; without any if the capacity is COIR_UNLIMITED. -ENOMEM. */
int ci_item_ring_init(struct ci_item_ring *ring, const coir_allocator *allocator, size_t item_size,
                      size_t capacity);
void ci_item_ring_done(struct ci_item_ring *ring);

/* Doubles the slots. -ENOMEM, with the ring as it was. */
int ci_item_ring_grow(struct ci_item_ring *ring);

/* Most items are one word; those of other usual sizes are copied in place, too. False: the size is
 * not one of them. */
CI_INLINE bool ci_item_copy_usual(void *to, const void *from, size_t size)
{
    if (ci_likely(size == 8))
        memcpy(to, from, 8);
    else if (size == 16)
        memcpy(to, from, 16);
    else if (size == 4)
        memcpy(to, from, 4);
    else if (size == 1)
        memcpy(to, from, 1);
    else
        return false;
    return true;
}

CI_INLINE void ci_item_copy(void *to, const void *from, size_t size)
{
    if (ci_unlikely(!ci_item_copy_usual(to, from, size)))
        memcpy(to, from, size);
}

/* The slot `offset` behind the first one in use. */
static inline char *ci_item_ring_slot(const struct ci_item_ring *ring, size_t offset)
{
    size_t index = ring->head + offset;
    return ring->items + (index < ring->slots ? index : index - ring->slots) * ring->item_size;
}

/* Adds a copy of an item. -ENOMEM when it would have to grow, and cannot. */
CI_INLINE int ci_item_ring_put(struct ci_item_ring *ring, const void *item)
{
    if (ci_unlikely(ring->count == ring->slots) && ci_item_ring_grow(ring) < 0)
        return -ENOMEM;
    ci_debug_check(ring->count < ring->slots && ring->slots <= ring->capacity, "item_ring.h 1");
    ci_item_copy(ci_item_ring_slot(ring, ring->count), item, ring->item_size);
    ci_show(&ring->count, ring->count + 1);
    return 0;
}

/* Drops the oldest item. */
CI_INLINE void ci_item_ring_drop(struct ci_item_ring *ring)
{
    ci_debug_check(ring->count > 0 && ring->count <= ring->slots, "item_ring.h 1");
    if (++ring->head == ring->slots)
        ring->head = 0;
    ci_show(&ring->count, ring->count - 1);
}

/* Of a full ring, with items of a usual size: moves the oldest item out, and adds a copy of
 * another, which is its slot's then. */
CI_INLINE bool ci_item_ring_exchange(struct ci_item_ring *ring, void *oldest, const void *item)
{
    char *slot = ci_item_ring_slot(ring, 0);
    ci_check(ring->count == ring->slots, "item_ring.h 1");
    if (!ci_item_copy_usual(oldest, slot, ring->item_size))
        return false;
    ci_item_copy_usual(slot, item, ring->item_size);
    if (++ring->head == ring->slots)
        ring->head = 0;
    return true;
}

/* Moves the oldest item out. */
CI_INLINE void ci_item_ring_take(struct ci_item_ring *ring, void *item)
{
    ci_debug_check(ring->count > 0, "item_ring.h 1");
    ci_item_copy(item, ci_item_ring_slot(ring, 0), ring->item_size);
    ci_item_ring_drop(ring);
}

#endif
