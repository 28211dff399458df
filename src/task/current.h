/* The worker of the calling thread, and the errors of calls that need one. */
#ifndef CI_TASK_CURRENT_H
#define CI_TASK_CURRENT_H

#include "base/compiler.h"
#include "coir/base.h"
#include "sys/fork.h"
#include "sys/misuse.h"

struct ci_worker;

/* NULL on plain threads, and in a child after fork(). */
extern CI_THREAD_LOCAL struct ci_worker *ci_worker_current;

/* The error of a call that needs a worker. It is not reported as misuse: a posted call may be made
 * after its run has ended, on no worker. */
CI_COLD int ci_no_worker(void);

/* The error of a call that needs a fiber; a misuse. */
CI_COLD int ci_no_fiber_in(const char *call, const void *place);
#define ci_no_fiber() ci_no_fiber_in(CI_CALL, CI_PLACE)

/* 0, or the error of a call on an object of another worker, `owner`: -EXDEV, or -ESRCH on a plain
 * thread; a misuse, in the log of the owner's runtime. `owner` is NULL where the object was closed
 * or is nobody's. */
CI_COLD int ci_misused_elsewhere(const struct ci_worker *owner, const char *call,
                                 const void *place);
static inline int ci_elsewhere(const struct ci_worker *owner, const char *call, const void *place)
{
    return ci_likely(ci_worker_current == owner) ? 0 : ci_misused_elsewhere(owner, call, place);
}
#define CI_ELSEWHERE(owner) ci_elsewhere(owner, CI_CALL, CI_PLACE)

/* A random number: of the worker's driver, or of the system, on a plain thread. */
uint64_t ci_random_here(void);

/* Ends a child of fork() in which a function of the program has returned: its callers belong to the
 * parent's tasks, so nothing may run after it. */
CI_COLD CI_NORETURN void ci_exit_child(int rc);

#endif
