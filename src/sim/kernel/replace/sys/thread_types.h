/* In place of sys/thread_types.h, over the simulated kernel. */
#ifndef CI_SYS_THREAD_TYPES_H
#define CI_SYS_THREAD_TYPES_H

#include <stdbool.h>

#include "base/list.h"

struct ci_thread {
    struct ci_kthread *kthread;
};

struct ci_mutex {
    bool held;
};

struct ci_condition {
    struct ci_list waiters;
};

#endif
