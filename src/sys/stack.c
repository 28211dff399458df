#include "sys/stack.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/sanitizer.h"
#include "sys/mapping_keep.h"
#include "sys/valgrind.h"

enum {
    MAPPING_STACKS_FIRST = 64,
    MAPPING_STACKS_MOST = 1024,
    STAGGER_LINES = 16,     /* how many different tops there are */
    KEPT = 16,              /* free stacks that a trim does not put aside */
    CLEARED_AT_ONCE = 1024, /* pages */
};

struct ci_stack_mapping {
    struct ci_stack_mapping *next;
    char *start, *used_end;
    char *guarded_end; /* of a mapping that was kept: up to there the guards are made */
    size_t size;
    enum ci_stack_guard guard;
    size_t mprotected; /* stacks whose guards are mappings */
    size_t unused;     /* while trimming */
    bool goes;
};

/* ---- mappings ---- */

void ci_stacks_init(struct ci_stacks *stacks, const coir_allocator *allocator, size_t size,
                    size_t record_size)
{
    size_t power = 2 * CI_STACK_GUARD;
    while (power < size)
        power *= 2;
    ci_check(record_size + CI_STACK_GUARD < power, "stack.h 1");
    *stacks = (struct ci_stacks){
        .size = power,
        .record_size = (record_size + 63) & ~(size_t)63,
        .guard = ci_stack_guard_best(),
        .allocator = allocator,
    };
}

static char *record_of(const struct ci_stacks *stacks, char *bottom)
{
    size_t stagger = ((uintptr_t)bottom / stacks->size) % STAGGER_LINES * 64;
    return bottom + stacks->size - stagger - stacks->record_size;
}

/* Zeroes what was written to in `count` pages of a mapping, from `from` on; of those that are
 * swapped out only what may hold a record. False: it is not known which pages there are. */
static bool clear_pages(const struct ci_stacks *stacks, char *from, size_t count, size_t page)
{
    unsigned char resident[CLEARED_AT_ONCE];
    if (mincore(from, count * page, resident) < 0)
        return false;
    for (size_t i = 0; i < count; i++) {
        char *at = from + i * page;
        size_t offset = (uintptr_t)at & (stacks->size - 1), above = stacks->size - offset - page;
        bool holds_record = above < STAGGER_LINES * 64 + stacks->record_size;
        if (offset >= CI_STACK_GUARD && (resident[i] & 1 || holds_record))
            memset(at, 0, page);
    }
    return true;
}

static bool clear(const struct ci_stacks *stacks, const struct ci_stack_mapping *mapping)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), count;
    for (char *at = mapping->start; at < mapping->used_end; at += count * page) {
        count = (size_t)(mapping->used_end - at) / page;
        if (count > CLEARED_AT_ONCE)
            count = CLEARED_AT_ONCE;
        if (!clear_pages(stacks, at, count, page))
            return false;
    }
    return true;
}

/* As new, but for the guards. */
static bool keep(const struct ci_stacks *stacks, const struct ci_stack_mapping *mapping)
{
    char *end = mapping->used_end > mapping->guarded_end ? mapping->used_end : mapping->guarded_end;
    const struct ci_kept_mapping kept = {mapping->start, mapping->size, stacks->size,
                                         (size_t)(end - mapping->start)};
    return ci_mapping_is_kept() && mapping->guard == CI_GUARD_MARKERS && clear(stacks, mapping) &&
           ci_mapping_give(&kept);
}

static void unmap(struct ci_stacks *stacks, struct ci_stack_mapping *mapping)
{
    if (stacks->on_drop)
        for (char *at = mapping->start; at < mapping->used_end; at += stacks->size)
            stacks->on_drop(record_of(stacks, at));
    ci_note_unmap(mapping->start, mapping->size);
    if (!keep(stacks, mapping))
        munmap(mapping->start, mapping->size);
    ci_stack_guards_give(mapping->mprotected);
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

static char *map(const struct ci_stacks *stacks, size_t size, enum ci_stack_guard guard,
                 char **ret_guarded_end)
{
    struct ci_kept_mapping kept = {.size = size, .stack_size = stacks->size};
    if (guard == CI_GUARD_MARKERS && ci_mapping_take(&kept)) {
        *ret_guarded_end = (char *)kept.start + kept.guarded;
        return kept.start;
    }
    char *start = *ret_guarded_end = map_aligned(size, stacks->size);
    if (start)
        madvise(start, size, MADV_NOHUGEPAGE);
    return start;
}

/* Adds a mapping whose stacks have this kind of guard, or a pattern if the budget does not suffice
 * for all of them. */
static CI_NOINLINE bool add_mapping(struct ci_stacks *stacks, enum ci_stack_guard guard)
{
    if (stacks->mappings && stacks->grown)
        *stacks->grown = true;
    size_t count = MAPPING_STACKS_FIRST;
    for (size_t i = 0; i < stacks->mapping_count && count < MAPPING_STACKS_MOST; i++)
        count *= 2;
    if (guard == CI_GUARD_MPROTECT && !ci_stack_guards_fit(count))
        guard = CI_GUARD_PATTERN;
    struct ci_stack_mapping *mapping = ci_alloc(stacks->allocator, sizeof *mapping);
    if (!mapping)
        return false;
    char *guarded_end, *start = map(stacks, count * stacks->size, guard, &guarded_end);
    if (!start) {
        ci_free(stacks->allocator, mapping, sizeof *mapping);
        return false;
    }
    *mapping = (struct ci_stack_mapping){
        .next = stacks->mappings,
        .start = start,
        .used_end = start,
        .guarded_end = guarded_end,
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

/* False: there is no guard, and the rest of the newest mapping must not be used. */
static bool guard(struct ci_stacks *stacks, char *bottom)
{
    struct ci_stack_mapping *mapping = stacks->mappings;
    if (bottom < mapping->guarded_end)
        return true;
    bool markers = mapping->guard == CI_GUARD_MARKERS;
    bool guarded = ci_stack_guard_make(&mapping->guard, bottom);
    if (markers && mapping->guard != CI_GUARD_MARKERS)
        stacks->guard = mapping->guard;
    mapping->mprotected += guarded && mapping->guard == CI_GUARD_MPROTECT;
    return guarded;
}

/* Takes a free stack that a trim has put aside. */
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
    ci_check(ci_stack_bottom(stacks, record) == bottom, "stack.h 2");
    ci_debug_check(ci_is_zero(record, stacks->record_size), "stack.h 3");
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
    ci_check(mapping->guard != CI_GUARD_PATTERN ||
                 ci_stack_pattern_is_whole(ci_stack_bottom(stacks, record)),
             "stack.h 4"); /* a fiber's stack overflowed */
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
        return; /* the next trim tries again */
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

/* Writes to every page between the guard and the record. What lies there stays. */
static CI_UNINSTRUMENTED void touch(const struct ci_stacks *stacks, const void *record)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *bottom = (char *)ci_stack_bottom(stacks, record) + CI_STACK_GUARD;
    for (volatile char *at = bottom; at < (const volatile char *)record; at += page)
        *at = *at; /* volatile: a read alone would map the page of zeroes */
}

bool ci_stacks_reserve(struct ci_stacks *stacks, size_t count)
{
    struct ci_stack_free *taken = NULL, *next;
    size_t have = 0;
    stacks->reserved = true;
    for (; have < count && (next = ci_stacks_take(stacks)); have++) {
        touch(stacks, next);
        next->next = taken;
        taken = next;
    }
    for (; taken; taken = next) {
        next = taken->next;
        ci_stacks_give(stacks, taken);
    }
    return have == count;
}

enum ci_trim ci_stacks_trim(struct ci_stacks *stacks)
{
    if (stacks->reserved)
        return CI_TRIM_DONE;
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

/* ---- use ---- */

enum { PAGES_A_LOOK = 64 };

/* The lowest word in [from, to) that is not zero, or `to`. */
static CI_UNINSTRUMENTED const uint64_t *find_used(const uint64_t *from, const uint64_t *to)
{
    while (from < to && !*from)
        from++;
    return from;
}

static const uint64_t *lowest_used(const struct ci_stacks *stacks, const void *record)
{
    unsigned char resident[PAGES_A_LOOK];
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const char *at = (const char *)ci_stack_bottom(stacks, record) + CI_STACK_GUARD, *end = record;
    while (at < end) {
        size_t pages = ((size_t)(end - at) + page - 1) / page;
        if (pages > PAGES_A_LOOK)
            pages = PAGES_A_LOOK;
        if (mincore((void *)(uintptr_t)at, pages * page, resident) < 0)
            return record;
        for (size_t i = 0; i < pages; i++, at += page) {
            const char *to = at + page < end ? at + page : end;
            const uint64_t *first = (const uint64_t *)(const void *)at,
                           *last = (const uint64_t *)(const void *)to;
            const uint64_t *used = resident[i] & 1 ? find_used(first, last) : last;
            if (used < last)
                return used;
        }
    }
    return record;
}

size_t ci_stack_used(const struct ci_stacks *stacks, const void *record)
{
    const char *top = (const char *)ci_stack_bottom(stacks, record) + stacks->size;
    return (size_t)(top - (const char *)lowest_used(stacks, record));
}

CI_UNINSTRUMENTED void ci_stack_clear(const struct ci_stacks *stacks, const void *record)
{
    enum { OWN_FRAME = 512 };
    const char *end = (const char *)__builtin_frame_address(0) - OWN_FRAME;
    volatile uint64_t *at = (uint64_t *)(uintptr_t)lowest_used(stacks, record);
    for (; (const volatile char *)at < end; at++)
        *at = 0; /* volatile: no call of memset, which sanitizers would check */
}
