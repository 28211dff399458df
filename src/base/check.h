/* Invariants, asserted while the program runs. A failed check names the invariant and aborts.
 *
 * The second argument cites the numbered invariant that would be broken, by the file whose header
 * comment states it: ci_check(!task->runnable.blocks, "task.h 3"). A check costs O(1). */
#ifndef CI_BASE_CHECK_H
#define CI_BASE_CHECK_H

#include "base/compiler.h"

CI_COLD CI_NORETURN void ci_check_failed(const char *expr, const char *invariant, const char *file,
                                         int line);

#define ci_check(expr, ...) \
    (ci_likely(expr) ? (void)0 : ci_check_failed(#expr, "" __VA_ARGS__, __FILE__, __LINE__))

/* The same for debug builds only: for checks that cost more than a test of a word in the cache. */
#define ci_debug_check(expr, ...) (CI_DEBUG ? ci_check(expr, __VA_ARGS__) : (void)0)

#endif
