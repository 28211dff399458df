/* Stacks for fibers: equal, aligned pieces of large mappings, guarded at their low end, recycled
 * last-in-first-out by one thread.
 *
 * 1. A stack is named by its record: `record_size` bytes at its top that belong to the user, below
 * which the frames grow.
 * 2. Stacks are aligned to their size, so any address inside one leads to its bottom.
 * 3. The tops are staggered by a few cache lines, or every fiber's hot words would share the same
 * cache sets.
 * 4. A record's bytes are zero when its stack is first taken, and whatever its last user left
 * afterwards.
 */
#ifndef CI_SYS_STACK_H
#define CI_SYS_STACK_H

#include <stdbool.h>

#include "base/atomic.h"
#include "base/memory.h"
#include "base/trim.h"

enum { CI_STACK_GUARD = 16 * 1024 };

/* How the low end is guarded, the best first: by page-table markers (Linux 6.13), by mprotect, or
 * by a pattern that is looked at when the stack comes back. Guards by mprotect cost two mappings a
 * stack, of which a process has few (vm.max_map_count): half of those are the budget of all stacks
 * of the process, the rest is the program's. A stack beyond it has a pattern. */
enum ci_stack_guard { CI_GUARD_MARKERS, CI_GUARD_MPROTECT, CI_GUARD_PATTERN };

/* For tests of what other kernels do, before a stack is made: no guard is better than `best`, and
 * the budget is so many mappings (0: what the kernel's limit gives). */
void ci_stack_guards_limit(enum ci_stack_guard best, size_t mappings_max);

/* The mappings that guards take now, in the whole process. */
size_t ci_stack_guards_used(void);

struct ci_stack_free {
    struct ci_stack_free *next;
};

struct ci_stacks {
    struct ci_stack_free *free;  /* lies in the record of a free stack */
    struct ci_stack_free *aside; /* free too, and not used since the last trim */
    struct ci_stack_free *cold;  /* free, and of their pages only the record's are left */
    /* set as there are more mappings than one: there may be something to trim. NULL: nobody asks */
    bool *grown;
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

/* A stack that was never used, or NULL when memory is out. */
void *ci_stacks_take_fresh(struct ci_stacks *stacks);

/* Where the stack's guard is a pattern: looks whether it is whole. */
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

/* After a burst: gives back what was not used since the last trim, mappings (but for the first) and
 * pages. To be called now and then, until it says CI_TRIM_DONE. Its cost grows with what is free.
 */
enum ci_trim ci_stacks_trim(struct ci_stacks *stacks);

static inline void *ci_stack_bottom(const struct ci_stacks *stacks, const void *inside)
{
    return (void *)((uintptr_t)inside & ~(uintptr_t)(stacks->size - 1));
}

/* Whether `address` lies in the guard of the stack whose record is given; in its frames, between
 * the two. */
bool ci_stack_in_guard(const struct ci_stacks *stacks, const void *record, const void *address);
bool ci_stack_holds(const struct ci_stacks *stacks, const void *record, const void *address);

#endif
