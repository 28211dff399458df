/* The first process of a container: of a namespace of processes of its own. */
#ifndef TEST_CONTAINER_H
#define TEST_CONTAINER_H

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static inline int status_of_child(pid_t pid)
{
    int status;
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status)
                                                                           : -1;
}

/* The status with which it exits, which is fn's result if that returns; -1: by a signal. *ret_ran
 * is false where there are no such namespaces. A process between has the namespace for its
 * children, in which LeakSanitizer could not look at the test. */
static inline int run_as_first_process(int (*fn)(void), bool *ret_ran)
{
    enum { NONE = 77 };
    pid_t between = fork();
    if (between == 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWPID) < 0) {
            printf("left out: no namespace of processes: %s\n", strerror(errno));
            fflush(stdout);
            _exit(NONE);
        }
        pid_t first = fork();
        if (first == 0)
            _exit(fn());
        _exit(status_of_child(first));
    }
    int status = status_of_child(between);
    *ret_ran = status != NONE;
    return status;
}

#endif
