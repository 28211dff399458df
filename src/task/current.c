/* The worker of the calling thread; none in a child after fork(). */
#include "task/current.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "sys/call.h"
#include "task/worker.h"

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

int ci_misused_elsewhere(const struct ci_worker *owner, const char *call, const void *place)
{
    const struct ci_worker *here = ci_worker_current;
    char what[128], from[32] = "a thread that is no worker";
    if (ci_forked())
        return -COIR_EFORKED;
    if (!owner)
        return ci_misused(here ? -EBADF : -ESRCH, "", call, place);
    if (here && here->runtime != owner->runtime)
        snprintf(from, sizeof from, "another runtime");
    else if (here)
        snprintf(from, sizeof from, "worker %d", here->index);
    snprintf(what, sizeof what,
             "it belongs to worker %d, and this is %s; make the call there (coir_go_on)",
             owner->index, from);
    return ci_misused_in(owner->runtime, here ? -EXDEV : -ESRCH, what, call, place);
}

uint64_t ci_random_here(void)
{
    struct ci_driver *driver = ci_worker_current ? ci_worker_current->loop.driver : NULL;
    return driver ? driver->kind->random(driver) : ci_sys_random();
}

void ci_exit_child(int rc)
{
    _exit(rc < 0);
}
