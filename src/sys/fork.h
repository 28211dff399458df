/* What a child after fork() may do with coir. If the parent had a runtime, a loop, a poller or a
 * simulation, the child shares their descriptors and rings but has none of their threads: it may
 * only exec or exit. The rules for every public call (test/unit/task/fork_test.c has them all):
 *
 * - A call that can fail returns -COIR_EFORKED; one that returns what it makes returns NULL.
 * - A call that returns nothing has no effect outside of the child's memory: no system call on the
 *   parent's descriptors, no wake-up.
 * - A call that only computes, or reads one object, still works.
 *
 * A child of a parent without any of these is a process like any other. */
#ifndef CI_SYS_FORK_H
#define CI_SYS_FORK_H

#include <stdbool.h>

#include "base/compiler.h"

extern CI_HIDDEN bool ci_forked_child;

static inline bool ci_forked(void)
{
    return ci_unlikely(ci_forked_child);
}

/* While something exists that a child must not use; the calls nest. */
void ci_fork_forbid(void);
void ci_fork_allow(void);

#endif
