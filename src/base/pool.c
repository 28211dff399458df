#include "base/pool.h"

#include <stdlib.h>

enum {
    SLAB_BYTES = 64 * 1024,
    SLAB_HEAD = 64,
    KEPT = 16 /* free objects that a trim leaves where they are */
};

struct ci_pool_slab {
    struct ci_pool_slab *next;
    size_t size;
};

void ci_pool_init(struct ci_pool *pool, const coir_allocator *allocator, size_t object_size,
                  size_t live_max)
{
    ci_check(object_size >= sizeof(struct ci_pool_free), "pool.h 1");
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
    pool->free = pool->aside = NULL;
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
    if (pool->slabs && pool->grown)
        *pool->grown = true;
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
    struct ci_pool_free **list = object ? &pool->free : &pool->aside;
    if ((object = *list)) {
        ci_pool_unpoison(object, pool->object_size);
        *list = object->next;
    } else {
        if (pool->fresh == pool->fresh_end && !add_slab(pool))
            return NULL;
        object = (struct ci_pool_free *)(void *)pool->fresh;
        pool->fresh += pool->object_size;
        ci_pool_unpoison(object, pool->object_size);
        ci_check(CI_DEBUG ? ci_is_zero(object, pool->object_size) : !object->next, "pool.h 3");
    }
    ci_bump(&pool->live);
    return object;
}

/* ---- trimming ---- */

struct tally {
    struct ci_pool_slab *slab;
    size_t aside, free; /* how many of its objects lie in these lists */
    bool goes;
};

static struct ci_pool_free *next_of(struct ci_pool_free *object)
{
    ci_pool_unpoison(object, sizeof *object);
    struct ci_pool_free *next = object->next;
    ci_pool_poison(object, sizeof *object);
    return next;
}

static void set_next(struct ci_pool_free *object, struct ci_pool_free *next)
{
    ci_pool_unpoison(object, sizeof *object);
    object->next = next;
    ci_pool_poison(object, sizeof *object);
}

static int by_address(const void *a, const void *b)
{
    const struct tally *x = a, *y = b;
    return (x->slab > y->slab) - (x->slab < y->slab);
}

/* The slab that an object lies in; NULL: it is another pool's. */
static struct tally *find(struct tally *tallies, size_t count, const void *object)
{
    size_t low = 0, high = count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if ((const char *)tallies[middle].slab <= (const char *)object)
            low = middle;
        else
            high = middle;
    }
    const char *start = (const char *)tallies[low].slab;
    return (const char *)object > start && (const char *)object < start + tallies[low].slab->size
               ? &tallies[low]
               : NULL;
}

/* The objects of a free list whose slabs stay, in their order. */
static struct ci_pool_free *filter(struct ci_pool_free *list, struct tally *tallies, size_t count)
{
    struct ci_pool_free *first = NULL, *last = NULL;
    for (struct ci_pool_free *next; list; list = next) {
        next = next_of(list);
        const struct tally *tally = find(tallies, count, list);
        if (tally && tally->goes)
            continue;
        set_next(list, NULL);
        if (last)
            set_next(last, list);
        else
            first = list;
        last = list;
    }
    return first;
}

static void drop_slabs(struct ci_pool *pool, struct tally *tallies, size_t count)
{
    for (struct ci_pool_slab **at = &pool->slabs, *slab; (slab = *at);) {
        if (!find(tallies, count, (const char *)slab + 1)->goes) {
            at = &slab->next;
            continue;
        }
        *at = slab->next;
        ci_pool_unpoison(slab, slab->size);
        ci_free(pool->allocator, slab, slab->size);
    }
}

static size_t capacity(const struct ci_pool *pool, const struct tally *tally)
{
    return (tally->slab->size - SLAB_HEAD) / pool->object_size;
}

static void count_objects(const struct ci_pool *pool, struct tally *tallies, size_t count)
{
    struct tally *tally;
    for (struct ci_pool_free *object = pool->aside; object; object = next_of(object))
        if ((tally = find(tallies, count, object)))
            tally->aside++;
    for (struct ci_pool_free *object = pool->free; object; object = next_of(object))
        if ((tally = find(tallies, count, object)))
            tally->free++;
}

/* Slabs whose objects have all lain aside since the last trim go. So do those of which a few are on
 * the free list, where a trim has left them, if slabs that stay have as many aside: objects come
 * back in any order, so those few lie in as many slabs. The newest slab stays, as part of it may
 * never have been handed out. */
static void choose(const struct ci_pool *pool, struct tally *tallies, size_t count)
{
    size_t spare = 0;
    for (struct tally *tally = tallies; tally < tallies + count; tally++) {
        size_t unused = tally->aside + tally->free;
        tally->goes = tally->slab != pool->slabs && unused == capacity(pool, tally);
        spare += tally->goes ? 0 : tally->aside;
    }
    if (spare > KEPT)
        spare = KEPT;
    /* not in the order of addresses, so that a simulation can be replayed */
    for (const struct ci_pool_slab *slab = pool->slabs; slab; slab = slab->next) {
        struct tally *tally = find(tallies, count, (const char *)slab + 1);
        if (!tally->goes)
            continue;
        tally->goes = tally->free <= spare;
        spare -= tally->goes ? tally->free : 0;
    }
}

static void drop_aside(struct ci_pool *pool)
{
    size_t count = 0, i = 0;
    for (const struct ci_pool_slab *slab = pool->slabs; slab; slab = slab->next)
        count++;
    struct tally *tallies = count ? ci_alloc(pool->allocator, count * sizeof *tallies) : NULL;
    if (!tallies)
        return; /* all objects are from other pools, or there is no memory: another time */
    for (struct ci_pool_slab *slab = pool->slabs; slab; slab = slab->next)
        tallies[i++] = (struct tally){.slab = slab};
    qsort(tallies, count, sizeof *tallies, by_address);
    count_objects(pool, tallies, count);
    choose(pool, tallies, count);
    pool->aside = filter(pool->aside, tallies, count);
    pool->free = filter(pool->free, tallies, count);
    drop_slabs(pool, tallies, count);
    ci_free(pool->allocator, tallies, count * sizeof *tallies);
}

/* ---- reserving ---- */

static size_t count_free(struct ci_pool_free *list)
{
    size_t count = 0;
    for (; list; list = next_of(list))
        count++;
    return count;
}

/* What is fresh becomes free, so that a slab can be added. */
static size_t free_fresh(struct ci_pool *pool)
{
    size_t count = 0;
    for (; pool->fresh < pool->fresh_end; pool->fresh += pool->object_size, count++) {
        struct ci_pool_free *object = (struct ci_pool_free *)(void *)pool->fresh;
        set_next(object, pool->free);
        pool->free = object;
    }
    return count;
}

bool ci_pool_reserve(struct ci_pool *pool, size_t count)
{
    pool->reserved = true;
    size_t have = count_free(pool->free) + count_free(pool->aside) + free_fresh(pool);
    while (have < count) {
        if (!add_slab(pool)) /* its memory was set to zero, so every page is there */
            return false;
        have += free_fresh(pool);
    }
    return true;
}

enum ci_trim ci_pool_trim(struct ci_pool *pool)
{
    if (pool->reserved)
        return CI_TRIM_DONE;
    if (pool->aside)
        drop_aside(pool);
    struct ci_pool_free *object = pool->free, *next;
    for (int kept = 1; object && kept < KEPT; kept++)
        object = next_of(object);
    if (!object || !(next = next_of(object)))
        return pool->slabs && pool->slabs->next ? CI_TRIM_LATER : CI_TRIM_DONE;
    set_next(object, NULL);
    for (; next; next = object) {
        object = next_of(next);
        set_next(next, pool->aside);
        pool->aside = next;
    }
    return CI_TRIM_SOON;
}
