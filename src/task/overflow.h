/* The report of overflowed stacks. */
#ifndef CI_TASK_OVERFLOW_H
#define CI_TASK_OVERFLOW_H

struct ci_worker;

/* Installs it for the calling worker's thread. -ENOMEM. */
int ci_overflow_watch(struct ci_worker *worker);
void ci_overflow_unwatch(struct ci_worker *worker);

#endif
