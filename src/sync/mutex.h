/* What conditions need of mutexes. */
#ifndef CI_SYNC_MUTEX_H
#define CI_SYNC_MUTEX_H

#include "coir/mutex.h"
#include "sync/wait.h"

/* The future that takes a mutex again after a wait for a condition; it cannot be cancelled. */
coir_future *ci_mutex_relock(struct ci_wait *wait, coir_mutex *mutex);

/* Whether a task has the mutex. */
bool ci_mutex_is_held(coir_mutex *mutex);

#endif
