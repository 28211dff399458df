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

void *ci_alloc_zero(const coir_allocator *allocator, size_t size);

/* What a pool says that was asked to give back what is not used; the most urgent counts. */
enum ci_trim {
    CI_TRIM_DONE, /* there is nothing to give back */
    /* there would be, but it is in use: look again once some of it may have been given back */
    CI_TRIM_LATER,
    CI_TRIM_SOON, /* some is free, and goes at the next look unless it is used until then */
};

static inline enum ci_trim ci_trim_most(enum ci_trim a, enum ci_trim b)
{
    return a > b ? a : b;
}

/* Grows an array to hold at least `want` items, doubling; new items are zeroed. 0 or -ENOMEM, the
 * array untouched. */
int ci_grow(const coir_allocator *allocator, void **array, size_t *capacity, size_t item_size,
            size_t want);

#endif
