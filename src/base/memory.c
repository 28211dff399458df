#include "base/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void *system_alloc(size_t size, void *arg)
{
    (void)arg;
    void *memory = NULL;
    return posix_memalign(&memory, 64, size) == 0 ? memory : NULL;
}

static void system_free(void *memory, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    free(memory);
}

const coir_allocator ci_system_allocator = COIR_ALLOCATOR(system_alloc, system_free, NULL);

void *ci_alloc_zero(const coir_allocator *allocator, size_t size)
{
    void *memory = ci_alloc(allocator, size);
    return memory ? memset(memory, 0, size) : NULL;
}

/* A large array grows by less, because its end may stay unused for long. */
enum { LARGE = 4096 };

int ci_grow(const coir_allocator *allocator, void **array, size_t *capacity, size_t item_size,
            size_t want)
{
    if (want <= *capacity)
        return 0;
    size_t count = *capacity ? *capacity : 16;
    while (count < want)
        count += count < LARGE ? count : count / 2;
    char *grown = ci_alloc(allocator, count * item_size);
    if (!grown)
        return -ENOMEM;
    if (*array)
        memcpy(grown, *array, *capacity * item_size);
    memset(grown + *capacity * item_size, 0, (count - *capacity) * item_size);
    ci_free(allocator, *array, *capacity * item_size);
    *array = grown;
    *capacity = count;
    return 0;
}
