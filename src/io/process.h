/* A child process of a worker's.
 *
 * 1. A process is open while it has a `worker`; then its pidfd is open.
 * 2. Closing it clears the pointer of the task that waits for its exit: the task may run after the
 *    memory has gone, also if the exit had come before. So it is with those of tasks that close it,
 *    too: they wait until the first of them has closed it, as then its memory may go.
 *
 * The child is no zombie any more once `status` is known (not -EAGAIN).
 */
#ifndef CI_IO_PROCESS_H
#define CI_IO_PROCESS_H

#include <signal.h>

#include "coir/process.h"
#include "io/io.h"
#include "sys/process.h"

/* A task that closes a process which another one closes already. */
struct ci_process_closer {
    struct ci_process *process; /* NULL: it is closed (2) */
    struct ci_process_closer *next;
};

struct ci_process {
    struct ci_worker *worker;
    struct ci_process_closer *closers;
    coir_stream *streams[3];    /* to its input, from its output and error; NULL: none, or closed */
    struct ci_process **waiter; /* the pointer of the task that waits for the exit; or NULL (2) */
    coir_time grace;
    coir_fd pidfd;
    pid_t pid;
    int32_t status; /* as ci_sys_exit_status */
    bool own_group, own_session;
    bool group_ended; /* the child was waited for, and nothing else was in its group */
    bool closing;
};

/* A process that is open, on its worker: 0, or -EINVAL, -EBADF, -EXDEV, -ESRCH. */
int ci_process_find(const coir_process *opaque, struct ci_process **ret_process, const char *call,
                    const void *place);

/* How the child has ended, as ci_sys_exit_status. */
int ci_process_status(struct ci_process *process);

/* A signal to the child's group, or to the child alone where the group is not its own. */
int ci_process_kill_all(const struct ci_process *process, int number);

/* Whether nothing is left of the group of a child that was waited for. */
bool ci_process_group_ended(struct ci_process *process);

void ci_process_close_streams(struct ci_process *process);

#endif
