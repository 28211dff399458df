/* The worker of the calling thread; none in a child after fork(). */
#include "task/current.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

CI_THREAD_LOCAL struct ci_worker *ci_worker_current;

static void after_fork_in_child(void)
{
    ci_worker_current = NULL; /* see sys/fork.h */
}

__attribute__((constructor)) static void watch_for_fork(void)
{
    pthread_atfork(NULL, NULL, after_fork_in_child);
}

int ci_no_worker(void)
{
    return ci_forked() ? -COIR_EFORKED : -ESRCH;
}

int ci_no_fiber_in(const char *call, const void *place)
{
    return ci_forked() ? -COIR_EFORKED : ci_misused(-ESRCH, "", call, place);
}

void ci_exit_child(int rc)
{
    _exit(rc < 0);
}
