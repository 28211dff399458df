/* Tasks that any worker of the runtime may run, in a queue that all of them share. */
#ifndef CI_TASK_ANYWHERE_H
#define CI_TASK_ANYWHERE_H

#include <stdbool.h>

struct ci_task;
struct ci_worker;

/* Queues a task that has not started, and wakes a worker if one sleeps. */
void ci_share_task(struct ci_worker *worker, struct ci_task *task);

/* Moves the oldest shared task to the run queue of the calling worker. False: there is none. */
bool ci_take_shared_task(struct ci_worker *worker);

/* Requests the cancellation of a task that may still be in the queue. If it is, the worker that
 * takes it applies the request, and NULL is returned; otherwise returns the worker that has the
 * task. */
struct ci_worker *ci_cancel_shared_task(struct ci_worker *origin, struct ci_task *task, int reason);

#endif
