/* Counts every call of the C library's allocator, by functions of the program's own, while `counts`
 * is set. Under a sanitizer its allocator stays, and nothing is counted. */
#ifndef TEST_COUNTED_MALLOC_H
#define TEST_COUNTED_MALLOC_H

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

static atomic_long allocations;
static atomic_bool counts;

#ifdef __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED /* their allocator stays */
#endif
#endif

#if defined(__GLIBC__) && !defined(SANITIZED)
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
int posix_memalign(void **ret_memory, size_t alignment, size_t size);

static void count_one(void)
{
    if (atomic_load(&counts))
        atomic_fetch_add(&allocations, 1);
}

void *malloc(size_t size)
{
    count_one();
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    count_one();
    return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    count_one();
    return __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    count_one();
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **ret_memory, size_t alignment, size_t size)
{
    count_one();
    *ret_memory = __libc_memalign(alignment, size);
    return *ret_memory ? 0 : ENOMEM;
}
#endif

#endif
