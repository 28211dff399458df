/* Remote tasks: those that run on another worker than the one that spawned them, or that belong to
 * a scope of another worker. See remote.c. */
#ifndef CI_TASK_REMOTE_H
#define CI_TASK_REMOTE_H

#include "base/inbox.h"
#include "task/task.h"

struct ci_remote_task {
    struct ci_task task;
    struct ci_worker *origin; /* where it was spawned */

    /* between the origin and the worker that runs it */
    struct ci_message cancel;
    bool cancel_sent;   /* the origin's */
    bool cancel_seen;   /* the runner's, until it has sent the end */
    bool ended;         /* the runner's */
    bool awaits_answer; /* the origin's: the end has come, the cancel message is still on its way */
    int32_t reason;

    /* between the origin and the home of its scope, where that is another worker */
    struct ci_message membership;
    bool away;            /* from the spawn until the home has released it */
    bool over;            /* the origin's: it has ended */
    int32_t scope_reason; /* the home's: why it was asked to end */
};

/* A record of the calling worker's; NULL when there is none. */
struct ci_task *ci_remote_task_take(struct ci_worker *origin);

/* Puts it into its scope and sends it to the worker that is to run it. */
void ci_remote_task_start(struct ci_task *task, int placement);

/* Whether the task's runnable is on its way as a message, so that it waits for nothing. While no
 * task runs. */
bool ci_remote_task_in_transit(const struct ci_task *task);

/* Frees it instead. */
void ci_remote_task_drop(struct ci_task *task);

#endif
