/* Reading and writing descriptors that are not ours. */
#include <coir.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "harness.h"

TEST(outside_of_a_fiber_nothing_is_read_or_written)
{
    int ends[2];
    char byte = 'x';
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(coir_fd_write(ends[1], &byte, 1), -ESRCH);
    CHECK_EQ(write(ends[1], &byte, 1), 1);
    CHECK_EQ(coir_fd_read(ends[0], &byte, 1), -ESRCH);
    CHECK_EQ(coir_fd_wait(ends[0], COIR_READ), -ESRCH);
    CHECK_EQ(read(ends[0], &byte, 1), 1);
}

TEST_REAL(a_cancelled_reader_reads_nothing)
{
    int ends[2];
    char byte = 'x';
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(write(ends[1], &byte, 1), 1);
    {
        COIR_DEADLINE(coir_now() - 1);
        coir_yield();
        CHECK_EQ(coir_fd_read(ends[0], &byte, 1), -ETIME);
        CHECK_EQ(coir_fd_write(ends[1], &byte, 1), -ETIME);
    }
    CHECK_EQ(coir_fd_read(ends[0], &byte, 1), 1);
    close(ends[0]);
    close(ends[1]);
}

static int count_turns(void *arg)
{
    for (;;) {
        int rc = coir_yield();
        if (rc < 0)
            return rc;
        ++*(int *)arg;
    }
}

/* A descriptor that is always ready does not keep the worker. */
TEST_REAL(readers_and_writers_that_need_not_wait_let_others_run)
{
    int turns = 0, zero = open("/dev/zero", O_RDWR | O_CLOEXEC);
    char buf[16];
    CHECK(zero >= 0);
    COIR_SCOPE(scope);
    coir_go(scope, count_turns, &turns);
    for (int i = 0; i < 1000; i++)
        CHECK_EQ(coir_fd_read(zero, buf, sizeof buf), sizeof buf);
    CHECK(turns > 0);
    turns = 0;
    for (int i = 0; i < 1000; i++)
        CHECK_EQ(coir_fd_write(zero, buf, sizeof buf), sizeof buf);
    CHECK(turns > 0);
    coir_scope_cancel(scope);
    CHECK_EQ(coir_scope_wait(scope), 0);
    close(zero);
}

TEST_REAL(a_foreign_timerfd_is_waited_for)
{
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct itimerspec soon = {.it_value = {0, 2000000}};
    uint64_t count;
    coir_time start = coir_now();
    timerfd_settime(fd, 0, &soon, NULL);
    CHECK_EQ(coir_fd_wait(fd, COIR_READ), COIR_READ);
    CHECK(coir_now() - start >= 2 * COIR_MS);
    CHECK_EQ(coir_fd_read(fd, &count, sizeof count), sizeof count);
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(coir_fd_read(fd, &count, sizeof count), -ETIME);
    }
    timerfd_settime(fd, 0, &soon, NULL);
    /* a timeout does not damage anything */
    CHECK_EQ(coir_fd_read(fd, &count, sizeof count), sizeof count);
    close(fd);
    CHECK_EQ(coir_fd_wait(fd, COIR_READ), -EBADF);
}

static int write_pipe(void *arg)
{
    return (int)coir_fd_write(*(int *)arg, "ping", 4);
}

static int close_pipe(void *arg)
{
    return close(*(int *)arg);
}

/* A pipe without a reader is an error, not the end of the process. */
TEST_REAL(a_broken_pipe_is_an_error)
{
    int ends[2];
    CHECK_EQ(pipe2(ends, O_NONBLOCK), 0);
    signal(SIGPIPE, SIG_DFL);
    close(ends[0]);
    CHECK_EQ(coir_fd_write(ends[1], "x", 1), -EPIPE);
    close(ends[1]);
}

TEST_REAL(pipes_are_read_and_their_hangup_wakes_at_once)
{
    int ends[2];
    char buf[16];
    CHECK_EQ(pipe2(ends, O_NONBLOCK), 0);
    COIR_DEADLINE(coir_in(30 * COIR_S));
    COIR_SERVING_SCOPE(scope);
    coir_go(scope, write_pipe, &ends[1]);
    CHECK_EQ(coir_fd_read(ends[0], buf, sizeof buf), 4);
    coir_go(scope, close_pipe, &ends[1]);
    CHECK(coir_fd_wait(ends[0], COIR_READ) & COIR_HANGUP);
    CHECK_EQ(coir_fd_read(ends[0], buf, sizeof buf), 0);
    close(ends[0]);
}

/* A case of a select, and the same wait as a future. */
TEST_REAL(a_descriptor_is_waited_for_in_a_select)
{
    int ends[2];
    char byte;
    coir_io_op op;
    CHECK_EQ(pipe2(ends, O_NONBLOCK), 0);
    COIR_DEADLINE(coir_in(30 * COIR_S));
    COIR_SERVING_SCOPE(scope);
    coir_case cases[] = {coir_case_fd(ends[0], COIR_READ), coir_case_after(20 * COIR_S)};
    coir_go(scope, write_pipe, &ends[1]);
    CHECK_EQ(coir_select(cases, 2), 0);
    CHECK_EQ(cases[0].result, COIR_READ);
    CHECK_EQ(coir_await(coir_fd_wait_op(&op, ends[0], COIR_READ | COIR_WRITE)), COIR_READ);
    CHECK_EQ(coir_await(coir_fd_wait_op(&op, ends[1], COIR_WRITE)), COIR_WRITE);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(coir_fd_read(ends[0], &byte, 1), 1);
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(coir_await(coir_fd_wait_op(&op, ends[0], COIR_READ)), -ETIME);
    }
    close(ends[0]);
    close(ends[1]);
    CHECK_EQ(coir_await(coir_fd_wait_op(&op, ends[0], COIR_READ)), -EBADF);
}
