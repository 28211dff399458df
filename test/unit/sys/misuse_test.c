/* What cannot be right ends a debug build with the call and the place; elsewhere it is an error. */
#include "sys/misuse.h"

#include <coir.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

static char said[1000];

/* Runs it as a debug build would: it must abort, and what it says is in `said`. */
static void expect_abort(int (*misuse)(void), int error, const char *call)
{
    int pipe_ends[2], status;
    CHECK_EQ(misuse(), error);
    if (!CI_DEBUG)
        return;
    CHECK_EQ(pipe(pipe_ends), 0);
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dup2(pipe_ends[1], STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        ci_misuse_aborts = true;
        misuse();
        _exit(0);
    }
    close(pipe_ends[1]);
    size_t len = 0;
    for (ssize_t n; (n = read(pipe_ends[0], said + len, sizeof said - 1 - len)) > 0;)
        len += (size_t)n;
    said[len] = '\0';
    close(pipe_ends[0]);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    char start[100];
    snprintf(start, sizeof start, "coir: misuse: %s: %s (called at 0x", call, coir_strerror(error));
    CHECK(strncmp(said, start, strlen(start)) == 0);
    CHECK(strstr(said, " of the program; addr2line"));
}

static int yield_outside(void)
{
    return coir_yield();
}

static int spawn_outside(void)
{
    return coir_go_on(NULL, 0, NULL, NULL);
}

static int lock_outside(void)
{
    coir_mutex mutex = COIR_MUTEX_INIT;
    return coir_mutex_lock(&mutex);
}

static int offload_outside(void)
{
    return coir_offload(NULL, NULL);
}

static int spawn_nothing(void)
{
    return coir_go(NULL, NULL, NULL);
}

static void on_readable(coir_loop *loop, coir_watch *watch, int events, void *arg)
{
    (void)loop, (void)watch, (void)events, (void)arg;
}

/* Returns what the second start says. */
static int start_twice(void)
{
    static coir_watch watch;
    coir_loop *loop;
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    memset(&watch, 0, sizeof watch);
    CHECK_EQ(coir_loop_new(&loop), 0);
    CHECK_EQ(coir_watch_start(loop, &watch, ends[0], COIR_READ, on_readable, NULL), 0);
    int rc = coir_watch_start(loop, &watch, ends[0], COIR_READ, on_readable, NULL);
    coir_loop_free(loop);
    close(ends[0]);
    close(ends[1]);
    return rc;
}

TEST(misuse_is_named)
{
    expect_abort(yield_outside, -ESRCH, "coir_yield");
    expect_abort(lock_outside, -ESRCH, "coir_mutex_lock");
    expect_abort(offload_outside, -ESRCH, "coir_offload");
    expect_abort(spawn_outside, -EINVAL, "coir_go_with");
    expect_abort(spawn_nothing, -EINVAL, "coir_go");
    expect_abort(start_twice, -EBUSY, "coir_watch_start");
}

/* In a fiber, a child may not use coir at all: here the errors alone are looked at. */
TEST_REAL(misuse_in_a_fiber_is_an_error)
{
    coir_scope closed;
    coir_handle unused;
    memset(&unused, 0, sizeof unused);
    coir_scope_open(&closed);
    coir_scope_close(&closed);
    CHECK_EQ(coir_go_on(&closed, 0, NULL, NULL), -EINVAL);
    CHECK_EQ(coir_go(&closed, (coir_task_fn *)(void *)1, NULL), -EBADF);
    CHECK_EQ(coir_join(&unused), -EINVAL);
}
