/* Task-locals: an immutable chain, newest first, shared by a task and the children it spawned
 * since; each link is counted. */
#ifndef CI_TASK_LOCAL_H
#define CI_TASK_LOCAL_H

#include <stdint.h>

#include "base/compiler.h"

struct ci_worker;

struct ci_local {
    struct ci_local *next;
    const void *key;
    void *value;
    uint32_t refs; /* of tasks, posted calls and newer links */
};

/* While this thread runs an offloaded or posted call: the task-locals of the task that requested
 * the call. NULL otherwise. */
extern CI_THREAD_LOCAL struct ci_local *ci_carried_locals;

/* Adds a reference to the chain. */
struct ci_local *ci_local_inherit(struct ci_local *locals);

/* Drops a reference; `worker` is the calling one. `locals` may be NULL. */
void ci_local_drop(struct ci_worker *worker, struct ci_local *locals);

#endif
