#include "base/pool.h"

#include "base/check.h"

enum { SLAB_BYTES = 64 * 1024, SLAB_HEAD = 64 };

struct ci_pool_slab {
    struct ci_pool_slab *next;
    size_t size;
};

void ci_pool_init(struct ci_pool *pool, const coir_allocator *allocator, size_t object_size, size_t live_max)
{
    ci_check(object_size >= sizeof(struct ci_pool_free));
    *pool = (struct ci_pool){
        .object_size = (object_size + 15) & ~(size_t)15,
        .live_max = live_max,
        .allocator = allocator,
    };
}

void ci_pool_done(struct ci_pool *pool)
{
    while (pool->slabs) {
        struct ci_pool_slab *slab = pool->slabs;
        pool->slabs = slab->next;
        ci_pool_unpoison(slab, slab->size);
        ci_free(pool->allocator, slab, slab->size);
    }
    pool->free = NULL;
    pool->fresh = pool->fresh_end = NULL;
}

static CI_NOINLINE bool add_slab(struct ci_pool *pool)
{
    size_t size = SLAB_BYTES;
    if (size < SLAB_HEAD + 4 * pool->object_size)
        size = SLAB_HEAD + 4 * pool->object_size;
    struct ci_pool_slab *slab = ci_alloc_zero(pool->allocator, size);
    if (!slab)
        return false;
    slab->next = pool->slabs;
    slab->size = size;
    pool->slabs = slab;
    size_t count = (size - SLAB_HEAD) / pool->object_size;
    pool->fresh = (char *)slab + SLAB_HEAD;
    pool->fresh_end = pool->fresh + count * pool->object_size;
    ci_pool_poison(pool->fresh, count * pool->object_size);
    return true;
}

void *ci_pool_take_limited(struct ci_pool *pool)
{
    if (pool->live_max && pool->live >= pool->live_max)
        return NULL;
    struct ci_pool_free *object = pool->free;
    if (object) {
        ci_pool_unpoison(object, pool->object_size);
        pool->free = object->next;
    } else {
        if (pool->fresh == pool->fresh_end && !add_slab(pool))
            return NULL;
        object = (struct ci_pool_free *)(void *)pool->fresh;
        pool->fresh += pool->object_size;
        ci_pool_unpoison(object, pool->object_size);
    }
    ci_bump(&pool->live);
    return object;
}
