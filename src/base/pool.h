/* Objects of one size, carved from slabs, given back last-in-first-out. Belongs to one thread.
 *
 * Taking and giving are O(1) and make no system call while the pool has free objects. An object may
 * be given to another pool of the same object size than it came from; slabs are freed with their
 * pool, so pools that exchange objects end together.
 *
 * After a burst, slabs that were not used between one trim and the next go back to the allocator.
 * This costs nothing when objects are taken: a trim puts the free objects aside, and they come back
 * one at a time, as the pool runs out.
 *
 * 1. An object has room for the link of the free list.
 * 2. A free object is not given back again.
 * 3. The bytes of an object that is handed out for the first time are zero.
 *
 * Fresh slabs hand out ascending addresses. A reused object is as it was given back, except for its
 * first word: fields that are constant need not be set again.
 */
#ifndef CI_BASE_POOL_H
#define CI_BASE_POOL_H

#include "base/atomic.h"
#include "base/check.h"
#include "base/memory.h"
#include "base/trim.h"

struct ci_pool_free {
    struct ci_pool_free *next;
};

struct ci_pool {
    struct ci_pool_free *free;
    char *fresh, *fresh_end; /* the part of the newest slab that was never handed out */
    size_t object_size;
    size_t live;                /* objects that are in use */
    size_t live_max;            /* 0: no limit */
    struct ci_pool_free *aside; /* free too, and not used since the last trim */
    bool *grown;                /* set as the pool grows beyond its first slab, or NULL */
    bool reserved;              /* a trim gives nothing back */
    struct ci_pool_slab *slabs;
    const coir_allocator *allocator;
};

void ci_pool_init(struct ci_pool *pool, const coir_allocator *allocator, size_t object_size,
                  size_t live_max);
void ci_pool_done(struct ci_pool *pool);

/* Has memory for `count` objects beside those in use, with all of its pages, which no trim gives
 * back. False: out of memory. */
bool ci_pool_reserve(struct ci_pool *pool, size_t count);

/* Gives back memory that was not used since the last call. To be called now and then, until it
 * returns CI_TRIM_DONE. Its cost grows with the number of free objects. */
enum ci_trim ci_pool_trim(struct ci_pool *pool);

#if CI_ASAN
void __asan_poison_memory_region(void const volatile *start, size_t size);
void __asan_unpoison_memory_region(void const volatile *start, size_t size);
#define ci_pool_poison(p, n) __asan_poison_memory_region((p), (n))
#define ci_pool_unpoison(p, n) __asan_unpoison_memory_region((p), (n))
#else
#define ci_pool_poison(p, n) ((void)(p), (void)(n))
#define ci_pool_unpoison(p, n) ((void)(p), (void)(n))
#endif

/* ci_pool_take where there is a limit, or no object on the free list. */
void *ci_pool_take_limited(struct ci_pool *pool);

/* NULL where ci_pool_take_limited may have one. */
static inline void *ci_pool_take_free(struct ci_pool *pool)
{
    struct ci_pool_free *object = pool->free;
    if (ci_unlikely(!object || pool->live_max))
        return NULL;
    ci_pool_unpoison(object, pool->object_size);
    pool->free = object->next;
    ci_bump(&pool->live);
    return object;
}

/* NULL at the limit or when memory is out. */
static inline void *ci_pool_take(struct ci_pool *pool)
{
    void *object = ci_pool_take_free(pool);
    return ci_likely(object != NULL) ? object : ci_pool_take_limited(pool);
}

static inline void ci_pool_give(struct ci_pool *pool, void *object)
{
    ci_debug_check(object != pool->free, "pool.h 2");
    ((struct ci_pool_free *)object)->next = pool->free;
    pool->free = object;
    ci_drop(&pool->live);
    ci_pool_poison(object, pool->object_size);
}

#endif
