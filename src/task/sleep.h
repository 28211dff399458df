/* Waiting for a point in time. */
#ifndef CI_TASK_SLEEP_H
#define CI_TASK_SLEEP_H

#include "task/task.h"

struct ci_sleep_op {
    coir_future future;
    struct ci_strand *strand;
    struct ci_timer timer;
};
CI_FIBER_OP_FITS(struct ci_sleep_op);
_Static_assert(sizeof(struct ci_sleep_op) <= sizeof(coir_sleep_op), "coir_sleep_op is too small");

coir_future *ci_sleep_init(struct ci_sleep_op *op, coir_time when);

#endif
