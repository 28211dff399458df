#include "sys/stack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/sanitizer.h"
#include "sys/valgrind.h"

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

enum {
    MAPPING_STACKS_FIRST = 64,
    MAPPING_STACKS_MOST = 1024,
    STAGGER_LINES = 16,       /* how many different tops there are */
    MAPPINGS_DEFAULT = 65530, /* vm.max_map_count, where it cannot be read */
    MAPPINGS_OF_A_GUARD = 2,  /* the guard, and what is above it up to the next one */
    KEPT = 16,                /* free stacks that a trim leaves where they are */
    PATTERN = 0x5a,
    PATTERN_BYTES = 256,
};

struct ci_stack_mapping {
    struct ci_stack_mapping *next;
    char *start, *used_end;
    size_t size;
    enum ci_stack_guard guard;
    size_t mprotected; /* stacks whose guards are mappings */
    size_t unused;     /* while trimming */
    bool goes;
};

/* ---- the budget of mappings ---- */

static enum ci_stack_guard best_guard = CI_GUARD_MARKERS;
static size_t guards_used, guards_max; /* mappings; guards_max is 0 until it is asked for */

void ci_stack_guards_limit(enum ci_stack_guard best, size_t mappings_max)
{
    best_guard = best;
    ci_store_relaxed(&guards_max, mappings_max);
}

size_t ci_stack_guards_used(void)
{
    return ci_load_relaxed(&guards_used);
}

static size_t budget(void)
{
    size_t most = ci_load_relaxed(&guards_max);
    if (most)
        return most;
    unsigned long limit = 0;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
    if (!file || fscanf(file, "%lu", &limit) != 1 || !limit)
        limit = MAPPINGS_DEFAULT;
    if (file)
        fclose(file);
    most = limit / 2 ? limit / 2 : 1;
    ci_store_relaxed(&guards_max, most);
    return most;
}

static bool budget_has(size_t mappings)
{
    size_t used = ci_stack_guards_used();
    return used <= budget() && mappings <= budget() - used;
}

static void give_to_budget(size_t guards)
{
    ci_fetch_sub(&guards_used, guards * MAPPINGS_OF_A_GUARD);
}

static bool take_from_budget(void)
{
    if (ci_fetch_add(&guards_used, MAPPINGS_OF_A_GUARD) + MAPPINGS_OF_A_GUARD <= budget())
        return true;
    give_to_budget(1);
    return false;
}

/* ---- mappings ---- */

/* Whether the kernel really guards what it says it does: qemu-user accepts the call and does
 * nothing. */
static bool try_markers(void)
{
    size_t size = CI_STACK_GUARD;
    char *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return false;
    int ends[2];
    bool works = false;
    if (madvise(page, size, MADV_GUARD_INSTALL) == 0 && pipe2(ends, O_CLOEXEC) == 0) {
        works = write(ends[1], page, 1) < 0 && errno == EFAULT;
        close(ends[0]);
        close(ends[1]);
    }
    munmap(page, size);
    return works;
}

/* Asked once a process. Two threads that ask at the same time get the same answer. */
static bool markers_work(void)
{
    static int32_t known; /* 1: yes, -1: no */
    int32_t answer = ci_load_relaxed(&known);
    if (!answer) {
        answer = try_markers() ? 1 : -1;
        ci_store_relaxed(&known, answer);
    }
    return answer > 0;
}

void ci_stacks_init(struct ci_stacks *stacks, const coir_allocator *allocator, size_t size,
                    size_t record_size)
{
    size_t power = 2 * CI_STACK_GUARD;
    while (power < size)
        power *= 2;
    ci_check(record_size + CI_STACK_GUARD < power);
    *stacks = (struct ci_stacks){
        .size = power,
        .record_size = (record_size + 63) & ~(size_t)63,
        .guard = best_guard == CI_GUARD_MARKERS && !markers_work() ? CI_GUARD_MPROTECT : best_guard,
        .allocator = allocator,
    };
}

static char *record_of(const struct ci_stacks *stacks, char *bottom)
{
    size_t stagger = ((uintptr_t)bottom / stacks->size) % STAGGER_LINES * 64;
    return bottom + stacks->size - stagger - stacks->record_size;
}

static void unmap(struct ci_stacks *stacks, struct ci_stack_mapping *mapping)
{
    if (stacks->on_drop)
        for (char *at = mapping->start; at < mapping->used_end; at += stacks->size)
            stacks->on_drop(record_of(stacks, at));
    ci_note_unmap(mapping->start, mapping->size);
    munmap(mapping->start, mapping->size);
    give_to_budget(mapping->mprotected);
    stacks->patterned -= mapping->guard == CI_GUARD_PATTERN;
    ci_free(stacks->allocator, mapping, sizeof *mapping);
}

void ci_stacks_done(struct ci_stacks *stacks)
{
    while (stacks->mappings) {
        struct ci_stack_mapping *mapping = stacks->mappings;
        stacks->mappings = mapping->next;
        unmap(stacks, mapping);
    }
    stacks->free = stacks->aside = stacks->cold = NULL;
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

/* One whose stacks are guarded so, or by a pattern where the budget does not last for all of them.
 */
static CI_NOINLINE bool add_mapping(struct ci_stacks *stacks, enum ci_stack_guard guard)
{
    if (stacks->mappings && stacks->grown)
        *stacks->grown = true;
    size_t count = MAPPING_STACKS_FIRST;
    for (size_t i = 0; i < stacks->mapping_count && count < MAPPING_STACKS_MOST; i++)
        count *= 2;
    if (guard == CI_GUARD_MPROTECT && !budget_has(count * MAPPINGS_OF_A_GUARD))
        guard = CI_GUARD_PATTERN;
    struct ci_stack_mapping *mapping = ci_alloc(stacks->allocator, sizeof *mapping);
    if (!mapping)
        return false;
    char *start = map_aligned(count * stacks->size, stacks->size);
    if (!start) {
        ci_free(stacks->allocator, mapping, sizeof *mapping);
        return false;
    }
    madvise(start, count * stacks->size, MADV_NOHUGEPAGE);
    *mapping = (struct ci_stack_mapping){
        .next = stacks->mappings,
        .start = start,
        .used_end = start,
        .size = count * stacks->size,
        .guard = guard,
    };
    stacks->patterned += guard == CI_GUARD_PATTERN;
    stacks->mappings = mapping;
    stacks->mapping_count++;
    stacks->fresh = start;
    stacks->fresh_end = start + mapping->size;
    return true;
}

/* False: the bottom has no guard, and the rest of its mapping is not to be used: other workers took
 * what was left of the budget, or the program has used its mappings up. */
static bool guard(struct ci_stacks *stacks, char *bottom)
{
    struct ci_stack_mapping *mapping = stacks->mappings;
    if (mapping->guard == CI_GUARD_MARKERS) {
        if (madvise(bottom, CI_STACK_GUARD, MADV_GUARD_INSTALL) == 0)
            return true;
        /* mlockall(MCL_FUTURE) came in between */
        stacks->guard = mapping->guard = CI_GUARD_MPROTECT;
    }
    if (mapping->guard == CI_GUARD_PATTERN) {
        memset(bottom, PATTERN, PATTERN_BYTES);
        return true;
    }
    if (!take_from_budget())
        return false;
    if (mprotect(bottom, CI_STACK_GUARD, PROT_NONE) < 0) {
        give_to_budget(1);
        return false;
    }
    mapping->mprotected++;
    return true;
}

/* A free stack that a trim has put away. */
static void *take_back(struct ci_stacks *stacks)
{
    struct ci_stack_free **list = stacks->aside ? &stacks->aside : &stacks->cold, *record = *list;
    *list = record->next;
    ci_drop(&stacks->cached);
    ci_bump(&stacks->live);
    return record;
}

void *ci_stacks_take_fresh(struct ci_stacks *stacks)
{
    if (stacks->aside || stacks->cold)
        return take_back(stacks);
    if (stacks->fresh == stacks->fresh_end && !add_mapping(stacks, stacks->guard))
        return NULL;
    if (!guard(stacks, stacks->fresh) &&
        (!add_mapping(stacks, CI_GUARD_PATTERN) || !guard(stacks, stacks->fresh)))
        return NULL;
    char *bottom = stacks->fresh;
    stacks->fresh += stacks->size;
    stacks->mappings->used_end = stacks->fresh;
    char *record = record_of(stacks, bottom);
    ci_valgrind_register_stack(bottom, record);
    if (stacks->on_fresh)
        stacks->on_fresh(record);
    ci_bump(&stacks->live);
    return record;
}

void ci_stacks_check(const struct ci_stacks *stacks, const void *record)
{
    const struct ci_stack_mapping *mapping = stacks->mappings;
    while ((const char *)record < mapping->start || (const char *)record >= mapping->used_end)
        mapping = mapping->next;
    const unsigned char *bottom = ci_stack_bottom(stacks, record);
    for (int i = 0; mapping->guard == CI_GUARD_PATTERN && i < PATTERN_BYTES; i++)
        ci_check(bottom[i] == PATTERN); /* a fiber's stack overflowed */
}

static int by_start(const void *a, const void *b)
{
    const struct ci_stack_mapping *const *x = a, *const *y = b;
    return ((*x)->start > (*y)->start) - ((*x)->start < (*y)->start);
}

static struct ci_stack_mapping *find(struct ci_stack_mapping **sorted, size_t count,
                                     const void *inside)
{
    size_t low = 0, high = count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (sorted[middle]->start <= (const char *)inside)
            low = middle;
        else
            high = middle;
    }
    return sorted[low];
}

/* Keeps the free stacks of mappings that stay, in their order. */
static void filter_free(struct ci_stacks *stacks, struct ci_stack_free **at,
                        struct ci_stack_mapping **sorted)
{
    while (*at) {
        if (find(sorted, stacks->mapping_count, *at)->goes) {
            *at = (*at)->next;
            ci_drop(&stacks->cached);
        } else {
            at = &(*at)->next;
        }
    }
}

/* Of what stays free, the frames' pages go. */
static void cool_aside(struct ci_stacks *stacks)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    while (stacks->aside) {
        struct ci_stack_free *record = stacks->aside;
        stacks->aside = record->next;
        record->next = stacks->cold;
        stacks->cold = record;
        char *bottom = (char *)ci_stack_bottom(stacks, record) + CI_STACK_GUARD;
        madvise(bottom, (size_t)(((uintptr_t)record & ~(page - 1)) - (uintptr_t)bottom),
                MADV_DONTNEED);
    }
}

static void drop_mappings(struct ci_stacks *stacks)
{
    for (struct ci_stack_mapping **at = &stacks->mappings; *at;) {
        struct ci_stack_mapping *mapping = *at;
        if (!mapping->goes) {
            at = &mapping->next;
            continue;
        }
        *at = mapping->next;
        stacks->mapping_count--;
        unmap(stacks, mapping);
    }
}

static void drop_aside(struct ci_stacks *stacks)
{
    size_t count = 0;
    struct ci_stack_mapping **sorted =
        ci_alloc(stacks->allocator, (stacks->mapping_count + 1) * sizeof *sorted);
    if (!sorted)
        return; /* another time */
    for (struct ci_stack_mapping *mapping = stacks->mappings; mapping; mapping = mapping->next) {
        mapping->unused = 0;
        sorted[count++] = mapping;
    }
    size_t size = (count + 1) * sizeof *sorted;
    qsort(sorted, count, sizeof *sorted, by_start);
    for (struct ci_stack_free *free = stacks->aside; free; free = free->next)
        find(sorted, count, free)->unused++;
    for (struct ci_stack_free *free = stacks->cold; free; free = free->next)
        find(sorted, count, free)->unused++;
    for (struct ci_stack_mapping *mapping = stacks->mappings; mapping; mapping = mapping->next)
        mapping->goes =
            mapping->next && mapping->start + mapping->unused * stacks->size == mapping->used_end;
    if (stacks->mappings && stacks->mappings->goes)
        stacks->fresh = stacks->fresh_end = NULL;
    filter_free(stacks, &stacks->aside, sorted);
    filter_free(stacks, &stacks->cold, sorted);
    drop_mappings(stacks);
    ci_free(stacks->allocator, sorted, size);
    cool_aside(stacks);
}

enum ci_trim ci_stacks_trim(struct ci_stacks *stacks)
{
    if (stacks->aside)
        drop_aside(stacks);
    struct ci_stack_free *free = stacks->free;
    for (int kept = 1; free && kept < KEPT; kept++)
        free = free->next;
    if (!free || !free->next)
        return stacks->mapping_count > 1 ? CI_TRIM_LATER : CI_TRIM_DONE;
    struct ci_stack_free **end = &stacks->aside;
    while (*end)
        end = &(*end)->next;
    *end = free->next;
    free->next = NULL;
    return CI_TRIM_SOON;
}

bool ci_stack_in_guard(const struct ci_stacks *stacks, const void *record, const void *address)
{
    const char *bottom = ci_stack_bottom(stacks, record);
    return (const char *)address >= bottom && (const char *)address < bottom + CI_STACK_GUARD;
}

bool ci_stack_holds(const struct ci_stacks *stacks, const void *record, const void *address)
{
    const char *bottom = ci_stack_bottom(stacks, record);
    return (const char *)address >= bottom + CI_STACK_GUARD &&
           (const char *)address <= (const char *)record;
}
