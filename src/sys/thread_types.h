/* The structs of threads, mutexes and conditions. The simulated kernel replaces this file. */
#ifndef CI_SYS_THREAD_TYPES_H
#define CI_SYS_THREAD_TYPES_H

#include <pthread.h>

struct ci_thread {
    pthread_t handle;
};

struct ci_mutex {
    pthread_mutex_t handle;
};

struct ci_condition {
    pthread_cond_t handle;
};

#endif
