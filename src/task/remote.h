/* Remote tasks: those that run on another worker than the one that spawned them, or that belong to
 * a scope of another worker. See remote.c. */
#ifndef CI_TASK_REMOTE_H
#define CI_TASK_REMOTE_H

#include "base/inbox.h"
#include "task/task.h"

struct ci_remote_task {
    struct ci_task task;
    struct ci_worker *origin; /* the worker that spawned it */

    /* between the origin and the worker that runs it */
    struct ci_message cancel;
    bool cancel_sent; /* the origin's */
    bool cancel_seen; /* the runner's, until it has sent the end */
    bool ended;       /* the runner's */
    /* the origin's: the end has arrived, the cancel message is still in flight */
    bool awaits_answer;
    int32_t reason;

    /* between the origin and the home of its scope, where that is another worker */
    struct ci_message membership;
    bool away;            /* from the spawn until the home has released it */
    bool over;            /* the origin's: it has ended */
    int32_t scope_reason; /* the home's: the reason of its request to cancel */
};

/* Takes a record from the calling worker's pool. NULL: out of memory, or `tasks_max` is reached. */
struct ci_task *ci_remote_task_take(struct ci_worker *origin);

/* Adds the task to its scope and sends it to the worker that will run it. */
void ci_remote_task_start(struct ci_task *task, int placement);

/* Whether the task's runnable is in flight as a message, so that the task waits for no future. Only
 * while no task runs. */
bool ci_remote_task_in_transit(const struct ci_task *task);

/* Frees a task that will not be started. */
void ci_remote_task_drop(struct ci_task *task);

#endif
