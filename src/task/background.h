/* The background scope of a worker. */
#ifndef CI_TASK_BACKGROUND_H
#define CI_TASK_BACKGROUND_H

#include <stdbool.h>

struct ci_worker;

/* When the worker is made. */
void ci_background_init(struct ci_worker *worker);

/* At the begin of a run. */
void ci_background_begin(struct ci_worker *worker);

/* At a stop; `at_once`: the second, or one that does not wait for the background. */
void ci_background_stop(struct ci_worker *worker, bool at_once);

#endif
