/* Objects of one size, carved from slabs, given back last-in-first-out. Belongs to one thread.
 *
 * 1. Taking and giving are O(1) and make no system call while the pool has free objects.
 * 2. An object may be given to another pool of the same object size than it came from; slabs go when their pool goes,
 *    so pools that exchange objects end together.
 * 3. Fresh slabs hand out ascending addresses.
 */
#ifndef CI_BASE_POOL_H
#define CI_BASE_POOL_H

#include "base/memory.h"

struct ci_pool_free {
    struct ci_pool_free *next;
};

struct ci_pool {
    struct ci_pool_free *free;
    char *fresh, *fresh_end; /* the part of the newest slab that was never handed out */
    size_t object_size;
    size_t live;
    size_t live_max; /* 0: no limit */
    struct ci_pool_slab *slabs;
    const coir_allocator *allocator;
};

void ci_pool_init(struct ci_pool *pool, const coir_allocator *allocator, size_t object_size, size_t live_max);
void ci_pool_done(struct ci_pool *pool);

/* NULL at the limit or when memory is out. The object's contents are undefined. */
void *ci_pool_take(struct ci_pool *pool);
void ci_pool_give(struct ci_pool *pool, void *object);

#endif
