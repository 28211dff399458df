/* Pools: what they hand out, take back, keep, and give back to the allocator. */
#include "base/pool.h"

#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "unit/base/bounded.h"

TEST(pool_reuses_last_given_first_and_stops_at_its_limit)
{
    struct ci_pool pool;
    ci_pool_init(&pool, &ci_system_allocator, 40, 3);
    char *a = ci_pool_take(&pool), *b = ci_pool_take(&pool), *c = ci_pool_take(&pool);
    CHECK(a && b && c && b > a && c > b);
    memset(a, 1, 40);
    CHECK(ci_pool_take(&pool) == NULL);
    ci_pool_give(&pool, a);
    ci_pool_give(&pool, c);
    CHECK(ci_pool_take(&pool) == c);
    CHECK(ci_pool_take(&pool) == a);
    ci_pool_done(&pool);
}

static size_t allocations, allocations_max;

static void *counted_alloc(size_t size, void *context)
{
    (void)context;
    return allocations < allocations_max ? allocations++, malloc(size) : NULL;
}

static void counted_free(void *memory, size_t size, void *context)
{
    (void)context;
    (void)size;
    free(memory);
}

TEST(pool_survives_a_failed_allocation)
{
    const coir_allocator allocator = COIR_ALLOCATOR(counted_alloc, counted_free, NULL);
    struct ci_pool pool;
    ci_pool_init(&pool, &allocator, 64, 0);
    CHECK(ci_pool_take(&pool) == NULL);
    allocations_max = 1;
    CHECK(ci_pool_take(&pool) != NULL);
    ci_pool_done(&pool);
}

/* Objects of every slab are zero at first, whole, apart from each other, and inside of memory that
 * is the pool's. */
static void grow_pool(size_t size, size_t count)
{
    struct ci_pool pool;
    char **objects = calloc(count, sizeof *objects);
    ci_pool_init(&pool, &bounded, size, 0);
    for (int round = 0; round < 2; round++) {
        size_t slabs = block_count;
        for (size_t i = 0; i < count; i++) {
            CHECK((objects[i] = ci_pool_take(&pool)));
            CHECK(in_a_block(objects[i], size) && ((uintptr_t)objects[i] & 15) == 0);
            for (size_t at = 0; round == 0 && at < size; at++)
                CHECK_EQ(objects[i][at], 0);
            memset(objects[i], (int)(i & 0x7f), size);
            CHECK_EQ(pool.live, i + 1);
        }
        for (size_t i = 0; i < count; i++)
            for (size_t at = 0; at < size; at++)
                CHECK_EQ(objects[i][at], i & 0x7f);
        for (size_t i = 0; i < count; i++)
            ci_pool_give(&pool, objects[i]);
        CHECK_EQ(pool.live, 0);
        /* the second round needs nothing new */
        CHECK(round == 0 ? block_count > 2 : block_count == slabs);
    }
    ci_pool_done(&pool);
    CHECK_EQ(block_count, 0);
    CHECK_EQ(bytes_live, 0);
    free(objects);
}

TEST(pool_grows_by_whole_objects_of_its_own)
{
    static const size_t sizes[] = {8, 16, 40, 96, 1000, 16 * 1024, 20000, 100000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        grow_pool(sizes[i], sizes[i] < 100 ? 3 * 65536 / sizes[i] : sizes[i] < 16384 ? 500 : 40);
}

static size_t slabs_live;

static void *count_alloc(size_t size, void *context)
{
    slabs_live++;
    return ci_system_allocator.alloc(size, context);
}

static void count_free(void *memory, size_t size, void *context)
{
    slabs_live--;
    ci_system_allocator.free(memory, size, context);
}

TEST(a_pool_gives_back_what_was_not_used_between_two_trims)
{
    enum { OBJECTS = 2000, SIZE = 1000 };
    static char *objects[OBJECTS];
    const coir_allocator counting = COIR_ALLOCATOR(count_alloc, count_free, NULL);
    struct ci_pool pool;
    bool grown = false;
    ci_pool_init(&pool, &counting, SIZE, 0);
    pool.grown = &grown;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < OBJECTS; i++) {
            CHECK((objects[i] = ci_pool_take(&pool)));
            memset(objects[i], i, SIZE);
        }
        size_t most = slabs_live;
        CHECK(grown && most > 20);
        CHECK_EQ(ci_pool_trim(&pool), CI_TRIM_LATER); /* all are in use: nothing can go yet */
        for (int i = 0; i < OBJECTS; i++)
            if (i != 1000 || round < 2)
                ci_pool_give(&pool, objects[i]);
        CHECK_EQ(ci_pool_trim(&pool), CI_TRIM_SOON); /* they were used since the last one */
        CHECK_EQ(slabs_live, most);
    }
    ci_pool_trim(&pool);
    /* that of the one in use, the newest, those of the few kept */
    CHECK(slabs_live <= 4);
    /* it may be more when the one in use is given back */
    CHECK_EQ(ci_pool_trim(&pool), CI_TRIM_LATER);
    for (int i = 0; i < SIZE; i++)
        CHECK_EQ(objects[1000][i], (char)1000);
    CHECK_EQ(pool.live, 1);
    ci_pool_done(&pool);
    CHECK_EQ(slabs_live, 0);
}

/* The few that a trim leaves on the free list lie in as many slabs then. */
TEST(a_pool_gives_back_what_comes_back_in_any_order)
{
    enum { OBJECTS = 2003, SIZE = 1000, STRIDE = 613 };
    static char *objects[OBJECTS];
    const coir_allocator counting = COIR_ALLOCATOR(count_alloc, count_free, NULL);
    struct ci_pool pool;
    ci_pool_init(&pool, &counting, SIZE, 0);
    for (int i = 0; i < OBJECTS; i++) {
        CHECK((objects[i] = ci_pool_take(&pool)));
        memset(objects[i], i, SIZE);
    }
    for (int i = 0; i < OBJECTS; i++)
        if (i * STRIDE % OBJECTS != 0)
            ci_pool_give(&pool, objects[i * STRIDE % OBJECTS]);
    CHECK_EQ(ci_pool_trim(&pool), CI_TRIM_SOON);
    CHECK(slabs_live > 20);
    CHECK_EQ(ci_pool_trim(&pool), CI_TRIM_LATER);
    CHECK_EQ(slabs_live, 2);       /* that of the one in use, and the newest */
    for (int i = 1; i < 60; i++) { /* those of the two are all there */
        CHECK((objects[i] = ci_pool_take(&pool)));
        memset(objects[i], i, SIZE);
    }
    CHECK_EQ(slabs_live, 2);
    for (int i = 0; i < 60; i++)
        for (int byte = 0; byte < SIZE; byte++)
            CHECK_EQ(objects[i][byte], (char)i);
    ci_pool_done(&pool);
    CHECK_EQ(slabs_live, 0);
}

/* As tasks' copies do that end on another worker than they were spawned on. */
TEST(a_pool_of_other_pools_objects_can_be_trimmed)
{
    enum { SIZE = 64, COUNT = 100 };
    struct ci_pool from, to;
    void *objects[COUNT];
    ci_pool_init(&from, &ci_system_allocator, SIZE, 0);
    ci_pool_init(&to, &ci_system_allocator, SIZE, 0);
    for (int i = 0; i < COUNT; i++)
        CHECK((objects[i] = ci_pool_take(&from)));
    for (int i = 0; i < COUNT; i++)
        ci_pool_give(&to, objects[i]);
    for (int i = 0; i < 4; i++)
        ci_pool_trim(&to);
    for (int i = 0; i < COUNT; i++)
        CHECK(ci_pool_take(&to));
    CHECK_EQ(to.live, 0); /* it counts what it gave less what it took */
    ci_pool_done(&to);
    ci_pool_done(&from);
}

TEST(what_was_reserved_is_there_and_stays)
{
    const coir_allocator allocator = COIR_ALLOCATOR(counted_alloc, counted_free, NULL);
    static char *taken[5000];
    struct ci_pool pool;
    ci_pool_init(&pool, &allocator, 100, 0);
    allocations = 0;
    allocations_max = 1000;
    for (int i = 0; i < 10; i++)
        taken[i] = ci_pool_take(&pool);
    ci_pool_give(&pool, taken[9]); /* part of a slab is in use, part free, part never used */
    CHECK(ci_pool_reserve(&pool, 5000));
    size_t before = allocations;
    CHECK(before > 5);
    CHECK(ci_pool_reserve(&pool, 5000));
    CHECK_EQ(ci_pool_trim(&pool), CI_TRIM_DONE);
    for (int i = 0; i < 5000; i++) {
        CHECK((taken[i] = ci_pool_take(&pool)));
        memset(taken[i], 1, 100);
    }
    CHECK_EQ(allocations, before);
    for (int i = 0; i < 5000; i++)
        ci_pool_give(&pool, taken[i]);
    CHECK_EQ(ci_pool_trim(&pool), CI_TRIM_DONE);
    CHECK_EQ(ci_pool_trim(&pool), CI_TRIM_DONE);
    allocations_max = allocations;
    CHECK(!ci_pool_reserve(&pool, 100000));
    CHECK(ci_pool_take(&pool) != NULL);
    ci_pool_done(&pool);
}
