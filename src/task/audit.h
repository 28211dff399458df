/* Finds what a run has leaked. */
#ifndef CI_TASK_AUDIT_H
#define CI_TASK_AUDIT_H

#include "coir/runtime.h"

struct ci_worker;

/* Calls `leave` for each kind of object of which some are still in use after the last task. */
typedef void ci_leave_fn(void *arg, const char *what, size_t count);
void ci_runtime_audit(const coir_runtime *runtime, ci_leave_fn *leave, void *arg);

#endif
