/* Child processes: starting them, their exit, signals to them; pipes. A process is named by a
 * pidfd, which is readable once the process has ended, and never comes to mean another one. */
#ifndef CI_SYS_PROCESS_H
#define CI_SYS_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "coir/base.h"

/* What becomes a descriptor of the child, if it is no descriptor of the caller's. */
enum { CI_SPAWN_INHERIT = -1, CI_SPAWN_NULL = -2, CI_SPAWN_TERMINAL = -3 };

enum { CI_SPAWN_LIMITS_MAX = 16, CI_SPAWN_STACK_SIZE = 16 * 1024 };

struct ci_spawn_limit {
    int resource;
    uint64_t soft, hard;
};

struct ci_spawn {
    const char *file;
    const char *const *arguments, *const *environment; /* NULL: that of the process */
    const char *directory;                             /* NULL: that of the process */
    coir_fd stdio[3];
    bool own_group;
    bool own_session; /* instead, with the terminal of `pty` as its controlling one */
    coir_fd pty;
    struct ci_spawn_limit limits[CI_SPAWN_LIMITS_MAX];
    size_t limit_count;
    void *stack; /* CI_SPAWN_STACK_SIZE bytes, aligned to 16 */
};

/* Starts a program: a pidfd, with *ret_pid, or why the program could not be executed. */
coir_fd ci_sys_spawn(const struct ci_spawn *spawn, pid_t *ret_pid);

/* What ci_sys_exit_status adds to the number of a signal. */
enum { CI_EXIT_KILLED = 256 };

/* The exit code of a child, or CI_EXIT_KILLED + the signal that has killed it; afterwards it is no
 * zombie. -EAGAIN: it runs; -ECHILD: it has ended, and somebody else knows how. */
int ci_sys_exit_status(coir_fd pidfd);

/* Sends a signal to a process, or (0) looks whether it exists; the same for every member of the
 * group that it led or leads, whose number is `group`. -ESRCH: there is none. */
int ci_sys_kill(coir_fd pidfd, int number);
int ci_sys_kill_group(coir_fd pidfd, pid_t group, int number);

/* Whether a child that was not waited for is in the group that has its number. */
bool ci_sys_is_in_own_group(pid_t pid);

/* Whether a process of the group runs, as opposed to zombies that nobody has waited for yet. It
 * looks at every process there is; where /proc is missing they all run. */
bool ci_sys_group_runs(pid_t group);

/* Waits, without blocking, for the members of a group that have become children of the caller, as
 * orphans do where it is their reaper (process 1 of a container). */
void ci_sys_reap_group(pid_t group);

/* A pipe, of which the caller's end does not block, and the child's does. */
int ci_sys_pipe_to_child(bool child_writes, coir_fd *ret_own, coir_fd *ret_child);

#endif
