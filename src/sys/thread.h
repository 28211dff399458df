/* Helper threads. */
#ifndef CI_SYS_THREAD_H
#define CI_SYS_THREAD_H

#include <pthread.h>

/* Starts a thread that takes no signals: those are the business of the threads that the program made. 0 or -errno. */
int ci_thread_start(pthread_t *thread, void *(*fn)(void *arg), void *arg);

#endif
