/* Closing a process: SIGTERM, then SIGKILL, then waiting for its end. */
#include <errno.h>

#include "base/check.h"
#include "coir/deadline.h"
#include "coir/fiber.h"
#include "coir/offload.h"
#include "io/process.h"
#include "task/log.h"

/* How long to wait after SIGKILL. It takes effect at once, unless a system call of the child hangs
 * in the kernel. */
static const coir_time killed_wait = 5 * COIR_S;

/* The kernel reports no event for the end of a process group: it is polled for, with pauses that
 * double. */
static const coir_time pause_first = COIR_MS, pause_max = 64 * COIR_MS;

static coir_time next_pause(coir_time pause)
{
    return 2 * pause < pause_max ? 2 * pause : pause_max;
}

static bool has_ended(struct ci_process *process)
{
    if (ci_process_status(process) == -EAGAIN)
        return false;
    if (ci_process_group_ended(process))
        return true;
    ci_sys_reap_group(process->pid);
    return ci_process_group_ended(process);
}

/* On a thread of the pool, as there may be many processes to look at. */
static int look_for_group(void *group)
{
    return ci_sys_group_runs((pid_t)(intptr_t)group);
}

/* The child has ended, and its group has members. True: they are zombies, which whoever adopted
 * them has not waited for yet. */
static bool are_zombies(struct ci_process *process)
{
    if (process->status == -EAGAIN ||
        coir_offload(look_for_group, (void *)(intptr_t)process->pid) != 0)
        return false;
    ci_sys_reap_group(process->pid); /* it may be this process */
    return true;
}

/* False: it has not ended before the deadline. */
static bool wait_for_end(struct ci_process *process, coir_time deadline)
{
    COIR_DEADLINE_AS(limit, deadline);
    for (coir_time pause = pause_first; !has_ended(process) && !are_zombies(process);) {
        int rc = process->status == -EAGAIN ? coir_process_wait((coir_process *)(void *)process)
                                            : -ESRCH;
        if (rc < 0 && !coir_deadline_passed(limit)) { /* there is nothing to wait for */
            coir_sleep_for(pause);
            pause = next_pause(pause);
        }
        if (coir_deadline_passed(limit))
            return has_ended(process);
    }
    return true;
}

/* The group may have other members then. */
static bool has_left_group(const struct ci_process *process)
{
    return process->own_group && process->status == -EAGAIN &&
           !ci_sys_is_in_own_group(process->pid);
}

/* On a stopped process SIGTERM has no effect before SIGCONT. */
static void ask_to_end(const struct ci_process *process)
{
    ci_process_kill_all(process, SIGTERM);
    if (process->own_session) /* a shell ignores SIGTERM, and passes SIGHUP on to its jobs */
        ci_process_kill_all(process, SIGHUP);
    ci_process_kill_all(process, SIGCONT);
    if (has_left_group(process)) {
        ci_sys_kill(process->pidfd, SIGTERM);
        ci_sys_kill(process->pidfd, SIGCONT);
    }
}

static void make_end(const struct ci_process *process)
{
    ci_process_kill_all(process, SIGKILL);
    ci_sys_kill(process->pidfd, SIGKILL);
}

static void end(struct ci_process *process)
{
    COIR_SHIELD;
    ask_to_end(process);
    if (wait_for_end(process, coir_in(process->grace)))
        return;
    make_end(process);
    if (!wait_for_end(process, coir_in(killed_wait)))
        ci_log(process->worker->runtime, COIR_LOG_WARNING,
               "process %ld: some of its group have not ended 5 s after SIGKILL, and are left: "
               "look with ps for state D or Z",
               (long)process->pid);
}

static void close_process(struct ci_process *process)
{
    struct ci_driver *driver = process->worker->loop.driver;
    ci_check(process->pidfd >= 0 && process->pid > 0, "io/process.h 1");
    process->closing = true;
    ci_process_close_streams(process);
    if (process->waiter)
        *process->waiter = NULL;
    process->waiter = NULL;
    driver->kind->forget(driver, process->pidfd); /* wakes the tasks that wait for it */
    if (!has_ended(process))
        end(process);
    ci_driver_close(driver, process->pidfd);
    process->pidfd = -1;
    process->worker = NULL;
    for (; process->closers; process->closers = process->closers->next)
        process->closers->process = NULL;
    process->closing = false;
}

/* Until the task that closes the process already has done so. */
static void wait_for_close(struct ci_process *process)
{
    COIR_SHIELD;
    struct ci_process_closer self = {process, process->closers};
    process->closers = &self;
    for (coir_time pause = pause_first; self.process; pause = next_pause(pause))
        coir_sleep_for(pause);
}

void coir_process_close(coir_process *opaque)
{
    struct ci_process *process = (struct ci_process *)(void *)opaque;
    if (ci_forked() || !process || !process->worker)
        return;
    struct ci_worker *worker = ci_worker_current;
    if (CI_ELSEWHERE(process->worker) ||
        CI_REFUSED_AS(-ESRCH, !worker->fiber, "a process is closed in a fiber"))
        return;
    if (process->closing)
        wait_for_close(process);
    else
        close_process(process);
}
