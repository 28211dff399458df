/* Reports stack overflows. */
#ifndef CI_TASK_OVERFLOW_H
#define CI_TASK_OVERFLOW_H

struct ci_worker;

/* Watches the calling worker's thread for overflows of its tasks' stacks. -ENOMEM. */
int ci_overflow_watch(struct ci_worker *worker);
void ci_overflow_unwatch(struct ci_worker *worker);

#endif
