/* A simulated process starts no other. */
#include "sys/process.h"

#include <errno.h>

coir_fd ci_sys_spawn(const struct ci_spawn *spawn, pid_t *ret_pid)
{
    (void)spawn, (void)ret_pid;
    return -ENOTSUP;
}

int ci_sys_exit_status(coir_fd pidfd)
{
    (void)pidfd;
    return -ENOTSUP;
}

int ci_sys_kill(coir_fd pidfd, int number)
{
    (void)pidfd, (void)number;
    return -ENOTSUP;
}

int ci_sys_kill_group(coir_fd pidfd, pid_t group, int number)
{
    (void)pidfd, (void)group, (void)number;
    return -ENOTSUP;
}

bool ci_sys_group_runs(pid_t group)
{
    (void)group;
    return false;
}

void ci_sys_reap_group(pid_t group)
{
    (void)group;
}

int ci_sys_pipe_to_child(bool child_writes, coir_fd *ret_own, coir_fd *ret_child)
{
    (void)child_writes, (void)ret_own, (void)ret_child;
    return -ENOTSUP;
}
