/* What a child after fork() may do with coir. Where the parent had a runtime, a loop, a poller
 * or a simulation, it shares their descriptors and rings but has none of their threads: it may
 * only exec or exit. One rule, for every public call:
 *
 * - A call that can fail answers -COIR_EFORKED, one that makes something and returns it NULL.
 * - A call that returns nothing has no effect outside of the child's memory: no system call on
 *    what the parent has, no wake-up.
 * - What only computes, or looks at one object, still does.
 *
 * A child of a parent that had nothing of the kind is a process like any other. */
#ifndef CI_SYS_FORK_H
#define CI_SYS_FORK_H

#include <stdbool.h>

#include "base/compiler.h"

extern bool ci_forked_child;

static inline bool ci_forked(void)
{
    return ci_unlikely(ci_forked_child);
}

/* Around the life of what a child must not use. */
void ci_fork_forbid(void);
void ci_fork_allow(void);

#endif
