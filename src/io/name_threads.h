/* Threads that look up names by getaddrinfo(3). All of these functions are called with the lock of
 * the names held. */
#ifndef CI_IO_NAME_THREADS_H
#define CI_IO_NAME_THREADS_H

#include "io/name_cache.h"

/* Queues a question for a thread. -EAGAIN, -ENOMEM: there is no thread, and none can be started. */
int ci_name_threads_ask(struct ci_names *names, struct ci_question *question);

/* Takes a question out of the queue, because no task waits for it any more. Does nothing once a
 * thread has begun to ask it. */
void ci_name_threads_withdraw(struct ci_names *names, struct ci_question *question);

/* The runtime ends: idle threads end, and those inside of getaddrinfo(3) end when it returns. */
void ci_name_threads_close(struct ci_names *names);

#endif
