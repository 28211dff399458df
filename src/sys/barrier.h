/* A memory barrier that one thread makes for all threads of the process, so that the others need
 * none (membarrier(2)).
 *
 * A thread that stores A, and then looks at B, without a fence between the two, and one that stores
 * B, has this barrier, and then looks at A: at least one of them sees what the other has stored.
 *
 * 1. Once the process is prepared the barrier does not fail: a sandbox must not take membarrier(2)
 * away then. */
#ifndef CI_SYS_BARRIER_H
#define CI_SYS_BARRIER_H

#include <stdbool.h>

/* Prepares the process for it; later calls cost nothing. False: there is none here. */
bool ci_barrier_prepare(void);

/* False once the process has had CI_BARRIERS_MAX: each interrupts the processors that run its
 * threads, so what needs many should do without. */
enum { CI_BARRIERS_MAX = 1000 };
bool ci_barrier_pays(void);

/* Returns when every other thread has had a barrier, too. Only where ci_barrier_prepare has
 * returned true. */
void ci_barrier_everywhere(void);

#endif
