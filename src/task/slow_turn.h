/* Reports of workers that do not look at their events for long: coir_config.slow_turn. */
#ifndef CI_TASK_SLOW_TURN_H
#define CI_TASK_SLOW_TURN_H

#include "task/runtime.h"

/* Around the threads of a run: 0 or a negative error. */
int ci_slow_turn_begin(coir_runtime *runtime);
void ci_slow_turn_end(coir_runtime *runtime);

/* By the thread of a worker. */
void ci_slow_turn_enter(struct ci_worker *worker);
void ci_slow_turn_leave(struct ci_worker *worker);

#endif
