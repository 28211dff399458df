/* Where memory comes from: the allocator that the program gave, or malloc. */
#ifndef CI_BASE_MEMORY_H
#define CI_BASE_MEMORY_H

#include "base/compiler.h"
#include "coir/base.h"

extern const coir_allocator ci_system_allocator;

static inline void *ci_alloc(const coir_allocator *allocator, size_t size)
{
    return allocator->alloc(size, allocator->arg);
}

/* Takes NULL. `size` is what was asked for. */
static inline void ci_free(const coir_allocator *allocator, void *memory, size_t size)
{
    if (memory)
        allocator->free(memory, size, allocator->arg);
}

static inline bool ci_is_zero(const void *memory, size_t size)
{
    for (const char *byte = memory, *end = byte + size; byte < end; byte++)
        if (*byte)
            return false;
    return true;
}

void *ci_alloc_zero(const coir_allocator *allocator, size_t size);

/* Grows an array to hold at least `want` items, by half of its size or more; new items are zeroed.
 * 0 or -ENOMEM, the array untouched. */
int ci_grow(const coir_allocator *allocator, void **array, size_t *capacity, size_t item_size,
            size_t want);

#endif
