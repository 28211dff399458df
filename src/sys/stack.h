/* Stacks for fibers: equal, aligned pieces of large mappings, guarded at their low end, recycled
 * last-in-first-out by one thread. A stack is named by its record: `record_size` bytes at its top
 * that belong to the user; the frames grow below it. The tops are staggered by a few cache lines:
 * otherwise the hot words of all fibers would share the same cache sets.
 *
 * 1. A stack is larger than its guard and its record.
 * 2. Stacks are aligned to their size, so any address inside of one leads to its bottom.
 * 3. A record's bytes are zero when its stack is first taken.
 * 4. A stack whose guard is a pattern was not written to its end when it is given back.
 *
 * A stack that is taken again has what its last user left in the record.
 */
#ifndef CI_SYS_STACK_H
#define CI_SYS_STACK_H

#include <stdbool.h>

#include "base/atomic.h"
#include "base/memory.h"
#include "base/trim.h"
#include "sys/stack_guard.h"

struct ci_stack_free {
    struct ci_stack_free *next;
};

struct ci_stacks {
    struct ci_stack_free *free;  /* lies in the record of a free stack */
    struct ci_stack_free *aside; /* free too, and not used since the last trim */
    struct ci_stack_free *cold;  /* free, and of their pages only the record's are left */
    bool *grown;   /* if not NULL: set when there is more than one mapping, so a trim may find
                      something */
    bool reserved; /* a trim gives nothing back */
    size_t live, cached;
    size_t size, record_size;
    char *fresh, *fresh_end; /* the part of the newest mapping that was never used */
    struct ci_stack_mapping *mappings;
    size_t mapping_count;
    size_t patterned;          /* mappings whose stacks have a pattern */
    enum ci_stack_guard guard; /* the best that works */
    const coir_allocator *allocator;
    /* when a stack is used first, and when its mapping goes */
    void (*on_fresh)(void *record), (*on_drop)(void *record);
};

/* `size` is rounded up to a power of two. */
void ci_stacks_init(struct ci_stacks *stacks, const coir_allocator *allocator, size_t size,
                    size_t record_size);
void ci_stacks_done(struct ci_stacks *stacks);

/* Has `count` stacks beside those in use, with all of their pages, which no trim gives back. False:
 * out of memory. */
bool ci_stacks_reserve(struct ci_stacks *stacks, size_t count);

/* A stack that was never used, or NULL if memory is out. */
void *ci_stacks_take_fresh(struct ci_stacks *stacks);

/* If the stack's guard is a pattern: checks that it is whole. */
void ci_stacks_check(const struct ci_stacks *stacks, const void *record);

/* The record of a stack, or NULL when memory is out. */
static inline void *ci_stacks_take(struct ci_stacks *stacks)
{
    struct ci_stack_free *record = stacks->free;
    if (ci_unlikely(!record))
        return ci_stacks_take_fresh(stacks);
    stacks->free = record->next;
    ci_drop(&stacks->cached);
    ci_bump(&stacks->live);
    return record;
}

static inline void ci_stacks_give(struct ci_stacks *stacks, void *record)
{
    if (ci_unlikely(stacks->patterned != 0))
        ci_stacks_check(stacks, record);
    struct ci_stack_free *free = record;
    free->next = stacks->free;
    stacks->free = free;
    ci_bump(&stacks->cached);
    ci_drop(&stacks->live);
}

/* After a burst: returns mappings (except the first) and pages that were not used since the last
 * trim to the system. To be called from time to time, until it returns CI_TRIM_DONE. Its cost grows
 * with the number of free stacks. */
enum ci_trim ci_stacks_trim(struct ci_stacks *stacks);

static inline void *ci_stack_bottom(const struct ci_stacks *stacks, const void *inside)
{
    return (void *)((uintptr_t)inside & ~(uintptr_t)(stacks->size - 1));
}

/* The bytes of a stack, from its top to the lowest one that is not zero: what was used of it since
 * it was new, or cleared. Without its guard. The caller may be on it. */
size_t ci_stack_used(const struct ci_stacks *stacks, const void *record);

/* Zeroes what was used below the caller's frame, which is on this stack. */
void ci_stack_clear(const struct ci_stacks *stacks, const void *record);

/* Whether `address` lies in the guard of the stack whose record is given; in its frames, between
 * the two. */
bool ci_stack_in_guard(const struct ci_stacks *stacks, const void *record, const void *address);
bool ci_stack_holds(const struct ci_stacks *stacks, const void *record, const void *address);

#endif
