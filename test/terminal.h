/* A terminal in tests: a pty, and processes whose terminal it is. */
#ifndef TEST_TERMINAL_H
#define TEST_TERMINAL_H

#include <errno.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "harness.h"
#include "sys/terminal.h"

struct test_terminal {
    coir_fd pty, fd;
};

static inline void open_test_terminal(struct test_terminal *t)
{
    CHECK((t->pty = ci_sys_pty_open()) >= 0);
    CHECK((t->fd = ci_sys_pty_open_terminal(t->pty)) >= 0);
}

static inline void close_test_terminal(struct test_terminal *t)
{
    close(t->fd);
    close(t->pty);
}

/* Makes it the controlling terminal of the calling process. */
static inline void control(coir_fd terminal)
{
    CHECK(setsid() >= 0);
    CHECK_EQ(ioctl(terminal, TIOCSCTTY, 0), 0);
}

/* How the terminal is, seen from its pty. */
static inline enum ci_terminal_mode mode_of(coir_fd pty)
{
    struct termios now;
    CHECK_EQ(tcgetattr(pty, &now), 0);
    return now.c_lflag & ICANON ? CI_TERMINAL_FOUND
           : now.c_lflag & ISIG ? CI_TERMINAL_CBREAK
                                : CI_TERMINAL_RAW;
}

/* A child that does not outlive the test. */
static inline pid_t fork_child(void)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        CHECK_EQ(prctl(PR_SET_PDEATHSIG, SIGKILL), 0);
    return child;
}

static inline int wait_for(pid_t pid, int flags)
{
    int status;
    pid_t which;
    do
        which = waitpid(pid, &status, flags);
    while (which < 0 && errno == EINTR);
    CHECK_EQ(which, pid);
    return status;
}

#endif
