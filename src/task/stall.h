/* Findings of dumps that are logged without being asked for: coir_config.report_stalls. */
#ifndef CI_TASK_STALL_H
#define CI_TASK_STALL_H

#include "task/runtime.h"

/* Around the threads of a run: 0 or a negative error. */
int ci_stall_begin(coir_runtime *runtime);
void ci_stall_end(coir_runtime *runtime);

#endif
