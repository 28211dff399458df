/* Notices that nothing can ever run again. */
#ifndef CI_TASK_DEADLOCK_H
#define CI_TASK_DEADLOCK_H

#include <stdbool.h>

struct ci_worker;
struct coir_loop;

/* Whether the worker may sleep without end; for coir_loop.may_sleep. False: every other worker does
 * so already, and the deadlock has been reported. */
bool ci_deadlock_may_sleep(struct coir_loop *loop);

/* A worker that was stuck has been woken. */
void ci_deadlock_awake(struct ci_worker *worker);

/* Logs the worker's tasks and what they wait for; the last worker then ends the run, if the
 * configuration says so. */
void ci_deadlock_tell(struct ci_worker *worker);

#endif
