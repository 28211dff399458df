#include "sys/stack.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"

#if defined(__has_include)
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#endif
#endif
#ifndef VALGRIND_STACK_REGISTER
#define VALGRIND_STACK_REGISTER(start, end) ((void)(start), (void)(end))
#endif

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

enum {
    MAPPING_STACKS_FIRST = 64,
    MAPPING_STACKS_MOST = 1024,
    STAGGER_LINES = 16,      /* how many different tops there are */
    MPROTECTED_MOST = 24000, /* two mappings each, of the 65,530 that Linux allows a process by default */
    PATTERN_BYTES = 256,
};

struct ci_stack_mapping {
    struct ci_stack_mapping *next;
    char *start, *used_end;
    size_t size;
};

/* Whether the kernel really guards what it says it does: qemu-user accepts the call and does nothing. */
static bool markers_work(void)
{
    size_t size = CI_STACK_GUARD;
    char *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return false;
    int ends[2];
    bool works = false;
    if (madvise(page, size, MADV_GUARD_INSTALL) == 0 && pipe(ends) == 0) {
        works = write(ends[1], page, 1) < 0 && errno == EFAULT;
        close(ends[0]);
        close(ends[1]);
    }
    munmap(page, size);
    return works;
}

void ci_stacks_init(struct ci_stacks *stacks, const coir_allocator *allocator, size_t size, size_t record_size)
{
    size_t power = 2 * CI_STACK_GUARD;
    while (power < size)
        power *= 2;
    ci_check(record_size + CI_STACK_GUARD < power);
    *stacks = (struct ci_stacks){
        .size = power,
        .record_size = (record_size + 63) & ~(size_t)63,
        .guard = markers_work() ? CI_GUARD_MARKERS : CI_GUARD_MPROTECT,
        .allocator = allocator,
    };
}

static char *record_of(const struct ci_stacks *stacks, char *bottom)
{
    size_t stagger = ((uintptr_t)bottom / stacks->size) % STAGGER_LINES * 64;
    return bottom + stacks->size - stagger - stacks->record_size;
}

void ci_stacks_done(struct ci_stacks *stacks)
{
    while (stacks->mappings) {
        struct ci_stack_mapping *mapping = stacks->mappings;
        stacks->mappings = mapping->next;
        if (stacks->on_drop)
            for (char *at = mapping->start; at < mapping->used_end; at += stacks->size)
                stacks->on_drop(record_of(stacks, at));
        munmap(mapping->start, mapping->size);
        ci_free(stacks->allocator, mapping, sizeof *mapping);
    }
    stacks->free = NULL;
}

static char *map_aligned(size_t size, size_t alignment)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK;
    char *start = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (start == MAP_FAILED)
        return NULL;
    if (((uintptr_t)start & (alignment - 1)) == 0)
        return start;
    munmap(start, size);
    start = mmap(NULL, size + alignment, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (start == MAP_FAILED)
        return NULL;
    char *aligned = (char *)(((uintptr_t)start + alignment - 1) & ~(uintptr_t)(alignment - 1));
    if (aligned > start)
        munmap(start, (size_t)(aligned - start));
    size_t behind = (size_t)(start + alignment - aligned);
    if (behind)
        munmap(aligned + size, behind);
    return aligned;
}

static CI_NOINLINE bool add_mapping(struct ci_stacks *stacks)
{
    size_t count = MAPPING_STACKS_FIRST;
    for (size_t i = 0; i < stacks->mapping_count && count < MAPPING_STACKS_MOST; i++)
        count *= 2;
    struct ci_stack_mapping *mapping = ci_alloc(stacks->allocator, sizeof *mapping);
    if (!mapping)
        return false;
    char *start = map_aligned(count * stacks->size, stacks->size);
    if (!start) {
        ci_free(stacks->allocator, mapping, sizeof *mapping);
        return false;
    }
    madvise(start, count * stacks->size, MADV_NOHUGEPAGE);
    *mapping = (struct ci_stack_mapping){stacks->mappings, start, start, count * stacks->size};
    stacks->mappings = mapping;
    stacks->mapping_count++;
    stacks->fresh = start;
    stacks->fresh_end = start + mapping->size;
    return true;
}

static void guard(struct ci_stacks *stacks, char *bottom)
{
    if (stacks->guard == CI_GUARD_MARKERS && madvise(bottom, CI_STACK_GUARD, MADV_GUARD_INSTALL) < 0)
        stacks->guard = CI_GUARD_MPROTECT; /* mlockall(MCL_FUTURE) came in between */
    if (stacks->guard == CI_GUARD_MPROTECT) {
        if (stacks->mprotected < MPROTECTED_MOST && mprotect(bottom, CI_STACK_GUARD, PROT_NONE) == 0)
            stacks->mprotected++;
        else
            stacks->guard = CI_GUARD_PATTERN;
    }
    if (stacks->guard == CI_GUARD_PATTERN)
        memset(bottom, 0x5a, PATTERN_BYTES);
}

static CI_NOINLINE void *take_fresh(struct ci_stacks *stacks)
{
    if (stacks->fresh == stacks->fresh_end && !add_mapping(stacks))
        return NULL;
    char *bottom = stacks->fresh;
    stacks->fresh += stacks->size;
    stacks->mappings->used_end = stacks->fresh;
    guard(stacks, bottom);
    char *record = record_of(stacks, bottom);
    VALGRIND_STACK_REGISTER(bottom, record);
    if (stacks->on_fresh)
        stacks->on_fresh(record);
    stacks->live++;
    return record;
}

void *ci_stacks_take(struct ci_stacks *stacks)
{
    struct ci_stack_free *record = stacks->free;
    if (ci_unlikely(!record))
        return take_fresh(stacks);
    stacks->free = record->next;
    stacks->cached--;
    stacks->live++;
    return record;
}

static void check_pattern(const struct ci_stacks *stacks, const void *record)
{
    const unsigned char *bottom = ci_stack_bottom(stacks, record);
    for (int i = 0; i < PATTERN_BYTES; i++)
        ci_check(bottom[i] == 0x5a); /* a fiber's stack overflowed */
}

void ci_stacks_give(struct ci_stacks *stacks, void *record)
{
    if (ci_unlikely(stacks->guard == CI_GUARD_PATTERN) && *(unsigned char *)ci_stack_bottom(stacks, record) == 0x5a)
        check_pattern(stacks, record);
    struct ci_stack_free *free = record;
    free->next = stacks->free;
    stacks->free = free;
    stacks->cached++;
    stacks->live--;
}

void ci_stacks_trim(struct ci_stacks *stacks, size_t keep)
{
    struct ci_stack_free *free = stacks->free;
    for (; free && keep; keep--)
        free = free->next;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (; free; free = free->next) {
        char *from = (char *)ci_stack_bottom(stacks, free) + CI_STACK_GUARD;
        char *to = (char *)((uintptr_t)free & ~(uintptr_t)(page - 1));
        if (to > from)
            madvise(from, (size_t)(to - from), MADV_DONTNEED);
    }
}

bool ci_stack_in_guard(const struct ci_stacks *stacks, const void *record, const void *address)
{
    const char *bottom = ci_stack_bottom(stacks, record);
    return (const char *)address >= bottom && (const char *)address < bottom + CI_STACK_GUARD;
}
