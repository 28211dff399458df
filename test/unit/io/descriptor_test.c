/* Reading and writing descriptors that are not ours. */
#include <coir.h>
#include <errno.h>
#include <fcntl.h>
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
