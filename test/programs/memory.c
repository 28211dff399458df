/* The allocator of the programs' runtimes: counts what is live, and can fail one allocation. */
#include <stdlib.h>

#include "program.h"

static int64_t live;
static unsigned fail_in;
static bool failed;

static void *take(size_t size, void *context)
{
    (void)context;
    unsigned left = __atomic_load_n(&fail_in, __ATOMIC_RELAXED);
    if (left && __atomic_sub_fetch(&fail_in, 1, __ATOMIC_RELAXED) == 0) {
        __atomic_store_n(&failed, true, __ATOMIC_RELAXED);
        return NULL;
    }
    void *memory = aligned_alloc(64, (size + 63) & ~(size_t)63);
    if (memory)
        __atomic_add_fetch(&live, (int64_t)size, __ATOMIC_RELAXED);
    return memory;
}

static void give(void *memory, size_t size, void *context)
{
    (void)context;
    if (memory)
        __atomic_sub_fetch(&live, (int64_t)size, __ATOMIC_RELAXED);
    free(memory);
}

const coir_allocator memory_allocator = COIR_ALLOCATOR(take, give, NULL);

void memory_fail_at(unsigned number)
{
    if (number)
        __atomic_store_n(&failed, false, __ATOMIC_RELAXED);
    __atomic_store_n(&fail_in, number, __ATOMIC_RELAXED);
}

bool memory_failed(void)
{
    return __atomic_load_n(&failed, __ATOMIC_RELAXED);
}

int64_t memory_live(void)
{
    return __atomic_load_n(&live, __ATOMIC_RELAXED);
}
