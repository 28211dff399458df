#include "sync/item_ring.h"

int ci_item_ring_init(struct ci_item_ring *ring, const coir_allocator *allocator, size_t item_size,
                      size_t capacity)
{
    *ring =
        (struct ci_item_ring){.item_size = item_size, .capacity = capacity, .allocator = allocator};
    if (capacity == 0 || capacity == COIR_UNLIMITED)
        return 0;
    size_t size;
    if (__builtin_mul_overflow(capacity, item_size, &size) ||
        !(ring->items = ci_alloc(allocator, size)))
        return -ENOMEM;
    ring->slots = capacity;
    return 0;
}

void ci_item_ring_done(struct ci_item_ring *ring)
{
    ci_free(ring->allocator, ring->items, ring->slots * ring->item_size);
}

int ci_item_ring_grow(struct ci_item_ring *ring)
{
    size_t slots = ring->slots ? ring->slots * 2 : CI_ITEM_RING_FIRST;
    size_t size;
    if (__builtin_mul_overflow(slots, ring->item_size, &size))
        return -ENOMEM;
    char *items = ci_alloc(ring->allocator, size);
    if (!items)
        return -ENOMEM;
    for (size_t i = 0; i < ring->count; i++)
        memcpy(items + i * ring->item_size, ci_item_ring_slot(ring, i), ring->item_size);
    ci_free(ring->allocator, ring->items, ring->slots * ring->item_size);
    ring->items = items;
    ring->slots = slots;
    ring->head = 0;
    return 0;
}
