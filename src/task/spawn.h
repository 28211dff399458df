/* Starting tasks on behalf of other parts of the library. */
#ifndef CI_TASK_SPAWN_H
#define CI_TASK_SPAWN_H

#include "coir/future.h"

struct ci_task;

/* Starts a task whose outermost future may free itself: the future stores its result in its caller
 * before. */
int ci_go_future(coir_scope *scope, const char *name, coir_future *root, struct ci_task **ret_task);

/* Starts `fn(arg)` on each worker of the runtime. */
int ci_go_on_every_worker(coir_scope *scope, const char *name, coir_task_fn *fn, void *arg);

/* COIR_ON_WORKER for any number: if no worker can have it, a placement that the spawn refuses. */
static inline int ci_placement_of(int index)
{
    return index >= 0 && index < COIR_FIRST_WORKER ? COIR_ON_WORKER(index) : INT32_MIN;
}

#endif
