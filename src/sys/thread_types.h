/* What threads, mutexes and conditions are made of. The simulated kernel of the tests puts a file
 * of its own in this one's place. */
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
