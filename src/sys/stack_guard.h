/* Guards: what lies at the end of a stack, so that an overflow does not reach what is below it. */
#ifndef CI_SYS_STACK_GUARD_H
#define CI_SYS_STACK_GUARD_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes at the low end of a stack. A frame larger than this touches the guard all the same: it is
 * compiled with stack probes. */
enum { CI_STACK_GUARD = 16 * 1024 };

/* The best first: page-table markers (MADV_GUARD_INSTALL, Linux 6.13); mprotect; a pattern of
 * bytes, which is checked when the stack is given back. A guard by mprotect costs two mappings, of
 * which a process has few (vm.max_map_count): half of those are the budget of all stacks of the
 * process, the rest is the program's. A stack beyond the budget has a pattern. */
enum ci_stack_guard { CI_GUARD_MARKERS, CI_GUARD_MPROTECT, CI_GUARD_PATTERN };

/* The best kind that works here. */
enum ci_stack_guard ci_stack_guard_best(void);

/* Whether the budget has room for so many more stacks. */
bool ci_stack_guards_fit(size_t stacks);

/* Makes the guard of the stack that begins at `bottom`. If the kernel refuses a marker, which it
 * accepted before, *guard becomes CI_GUARD_MPROTECT. False: there is none, because the budget was
 * used up by other threads, or the program has used up the process's mappings. */
bool ci_stack_guard_make(enum ci_stack_guard *guard, void *bottom);

/* Gives so many guards by mprotect back to the budget: their stacks have been unmapped. */
void ci_stack_guards_give(size_t guards);

/* Whether a guard that is a pattern has not been written to. */
bool ci_stack_pattern_is_whole(const void *bottom);

/* For tests of what other kernels do, before a stack is made: no guard is better than `best`, and
 * the budget is so many mappings (0: half of the kernel's limit). */
void ci_stack_guards_limit(enum ci_stack_guard best, size_t mappings_max);

/* The mappings that guards use now, in the whole process. */
size_t ci_stack_guards_used(void);

#endif
