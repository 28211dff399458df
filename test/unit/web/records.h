/* The records of tasks, or of another pool, that a worker has, and how to leave it none. */
#ifndef TEST_WEB_RECORDS_H
#define TEST_WEB_RECORDS_H

#include "coir/fiber.h"
#include "harness.h"
#include "task/current.h"
#include "task/runtime.h"

enum { RECORDS_MAX = 10000 };

static inline void *no_memory(size_t size, void *context)
{
    (void)size, (void)context;
    return NULL;
}

static inline void free_nothing(void *memory, size_t size, void *context)
{
    (void)memory, (void)size, (void)context;
}

static const coir_allocator none = COIR_ALLOCATOR(no_memory, free_nothing, NULL);

static void *records[RECORDS_MAX];
static int record_count;
static const coir_allocator *allocator_before;
static struct ci_pool *records_of; /* NULL: tasks */

static inline struct ci_pool *records_pool(void)
{
    return records_of ? records_of : &ci_worker_current->tasks;
}

/* Takes all records that the worker has, so that there is no memory for another one. */
static inline int take_records(void)
{
    struct ci_pool *pool = records_pool();
    if (pool->allocator != &none) {
        allocator_before = pool->allocator;
        pool->allocator = &none;
    }
    for (; (records[record_count] = ci_pool_take(pool)); record_count++)
        CHECK(record_count + 1 < RECORDS_MAX);
    return record_count;
}

/* Takes those, too, that become free meanwhile. */
static inline void sleep_without_records(coir_time duration)
{
    for (coir_time end = coir_now() + duration; coir_now() < end;) {
        take_records();
        coir_sleep_for(5 * COIR_MS);
    }
}

static inline void give_records_back(void)
{
    struct ci_pool *pool = records_pool();
    while (record_count > 0)
        ci_pool_give(pool, records[--record_count]);
    pool->allocator = allocator_before;
}

/* How many records are free: those of a slab that were never used count, too. */
static inline int count_records(void)
{
    int count = take_records();
    give_records_back();
    return count;
}

#endif
