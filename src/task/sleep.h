/* The record of a sleep, for those that embed one. */
#ifndef CI_TASK_SLEEP_H
#define CI_TASK_SLEEP_H

#include "loop/timer_wheel.h"
#include "task/runnable.h"

struct ci_sleep_op {
    coir_future future;
    struct ci_runnable *runnable;
    struct ci_timer timer;
};

#endif
