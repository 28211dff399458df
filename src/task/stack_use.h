/* How much of their stacks fibers use, by the names of their tasks: with coir_config.stack_use.
 * What a stack was not written to since it was cleared is zero; so its mark is found by a look at
 * its pages whenever its fiber parks, and at the end of each of its calls, which also clears it. */
#ifndef CI_TASK_STACK_USE_H
#define CI_TASK_STACK_USE_H

#include "task/worker.h"

struct ci_fiber;

/* The oldest thing that is deferred by a fiber whose stack is measured, so that the end of a call
 * has one thing to look at. It is not run, and is no object of the pool. */
extern struct ci_deferred ci_deferred_of_measured;

/* -ENOMEM */
int ci_stack_use_init(struct ci_worker *worker);

/* A new stack's fiber. */
void ci_stack_use_watch(struct ci_fiber *fiber);

/* On the fiber's stack, when a call of it has ended. */
CI_COLD void ci_stack_use_end(struct ci_worker *worker, struct ci_fiber *fiber);

/* A stack_size that has room for twice `used` bytes, and the guard. */
size_t ci_stack_use_suggest(size_t used);

#endif
