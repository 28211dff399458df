/* Futures that have their result when they are made, and cases that make them. */
#ifndef CI_TASK_COMPLETED_H
#define CI_TASK_COMPLETED_H

#include "coir/select.h"

/* A future that completes at its first poll, with `result`, in `op`, which begins with it. NULL for
 * NULL. */
coir_future *ci_completed_op(void *op, int64_t result);

/* A case whose arguments cannot be right: it completes at once with `error`. */
coir_case ci_completed_case(int error);

#endif
