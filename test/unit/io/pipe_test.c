/* An end of a pipe as a stream: what every stream does, and how pipes end. */
#include <coir.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"
#include "io/pipe.h"
#include "mask.h"
#include "sys/process.h"

/* The stream of our end, and the descriptor of the other one. */
struct ends {
    coir_stream *own;
    coir_fd other;
};

static void open_ends(struct ends *ends, bool writes)
{
    coir_fd own;
    CHECK_EQ(ci_sys_pipe_to_child(!writes, &own, &ends->other), 0);
    CHECK_EQ(
        ci_pipe_open(ci_worker_current, own, writes ? CI_PIPE_WRITES : CI_PIPE_READS, &ends->own),
        0);
}

static void close_ends(struct ends *ends)
{
    coir_close(ends->own);
    CHECK(!ends->own);
    close(ends->other);
}

static int write_soon(void *arg)
{
    const struct ends *ends = arg;
    return write(ends->other, "abc", 3) == 3 ? 0 : -errno;
}

TEST_REAL(a_reader_waits_for_what_comes)
{
    struct ends ends;
    char buf[8], more[8];
    open_ends(&ends, false);
    CHECK_EQ(coir_try_read(ends.own, buf, sizeof buf), -EAGAIN);
    CHECK_EQ(coir_read(ends.own, buf, 0), 0);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, write_soon, &ends), 0);
    CHECK_EQ(coir_stream_wait(ends.own, COIR_READ), COIR_READ);
    CHECK_EQ(coir_peek(ends.own, buf, sizeof buf), -EOPNOTSUPP); /* it takes nothing */
    CHECK_EQ(coir_try_read(ends.own, buf, 1), 1);
    struct iovec iov[] = {{buf, 1}, {more, sizeof more}};
    CHECK_EQ(coir_readv(ends.own, iov, 2), 2);
    CHECK(buf[0] == 'b' && more[0] == 'c');
    CHECK_EQ(coir_go(scope, write_soon, &ends), 0);
    CHECK_EQ(coir_readv(ends.own, iov, 2), 3); /* it waits */
    close(ends.other);
    CHECK_EQ(coir_read(ends.own, buf, sizeof buf), 0);
    CHECK_EQ(coir_read(ends.own, buf, sizeof buf), 0);
    CHECK(coir_stream_wait(ends.own, COIR_READ) & COIR_HANGUP);
    CHECK_EQ(coir_shutdown_write(ends.own), -EOPNOTSUPP);
    ends.other = -1;
    close_ends(&ends);
}

static int wait_for_hang_up(void *arg)
{
    return coir_stream_wait(arg, 0) == COIR_HANGUP ? 0 : -EINVAL;
}

/* As on a socket: any number of tasks, beside one that reads. */
TEST_REAL(a_wait_for_a_hang_up_is_no_read)
{
    struct ends ends;
    char buf[8];
    open_ends(&ends, false);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, wait_for_hang_up, ends.own), 0);
    CHECK_EQ(coir_go(scope, wait_for_hang_up, ends.own), 0);
    CHECK_EQ(coir_go(scope, write_soon, &ends), 0);
    CHECK_EQ(coir_yield(), 0);
    CHECK_EQ(coir_read(ends.own, buf, sizeof buf), 3);
    CHECK_EQ(coir_scope_live(scope), 2);
    close(ends.other);
    CHECK_EQ(coir_scope_wait(scope), 0);
    ends.other = -1;
    close_ends(&ends);
}

static int expect_cancel(void *arg)
{
    return coir_stream_wait(arg, 0) == -ECANCELED ? 0 : -EINVAL;
}

TEST_REAL(a_close_ends_the_waits_for_a_hang_up)
{
    struct ends ends;
    open_ends(&ends, true);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, expect_cancel, ends.own), 0);
    CHECK_EQ(coir_go(scope, expect_cancel, ends.own), 0);
    CHECK_EQ(coir_yield(), 0);
    close_ends(&ends);
    CHECK_EQ(coir_scope_wait(scope), 0);
}

static int drain(void *arg)
{
    const struct ends *ends = arg;
    static char buf[64 * 1024];
    int64_t total = 0;
    CHECK(fcntl(ends->other, F_SETFL, O_NONBLOCK) == 0);
    while (total < 4 * 300 * 1000) {
        ssize_t n = coir_fd_read(ends->other, buf, sizeof buf);
        CHECK(n > 0);
        for (ssize_t i = 0; i < n; i++)
            CHECK_EQ((unsigned char)buf[i], (unsigned char)(total + i));
        total += n;
    }
    return 0;
}

TEST_REAL(a_writer_waits_for_room)
{
    static unsigned char data[300 * 1000];
    struct ends ends;
    char byte;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)i;
    open_ends(&ends, true);
    {
        COIR_SCOPE(scope);
        CHECK(coir_write(ends.own, data, sizeof data) == 64 * 1024); /* what the pipe holds */
        CHECK_EQ(coir_try_write(ends.own, data, 1), -EAGAIN);
        CHECK_EQ(coir_go(scope, drain, &ends), 0);
        CHECK_EQ(coir_write_all(ends.own, data + 64 * 1024, sizeof data - 64 * 1024), 0);
        for (int i = 0; i < 3; i++) {
            struct iovec iov[] = {{data, 0}, {data, 256 * 1000}, {data + 256 * 1000, 44 * 1000}};
            for (size_t k = 0; k < sizeof data; k++)
                data[k] = (unsigned char)((size_t)(i + 1) * sizeof data + k);
            CHECK_EQ(coir_writev_all(ends.own, iov, 3), 0);
        }
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    CHECK_EQ(coir_shutdown_write(ends.own), 0);
    CHECK_EQ(coir_shutdown_write(ends.own), 0);
    CHECK_EQ(read(ends.other, &byte, 1), 0);
    CHECK_EQ(coir_write(ends.own, "x", 1), -EPIPE);
    close_ends(&ends);
    open_ends(&ends, true);
    close(ends.other);
    CHECK_EQ(coir_write(ends.own, "x", 1), -EPIPE);
    ends.other = -1;
    close_ends(&ends);
}

static int read_one(void *arg)
{
    char byte;
    return (int)coir_read(arg, &byte, 1);
}

TEST_REAL(a_close_ends_the_wait_of_a_reader)
{
    struct ends ends;
    char byte;
    COIR_HANDLE(handle);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    COIR_SERVING_SCOPE(scope);
    open_ends(&ends, false);
    CHECK_EQ(coir_go_with(scope, &options, read_one, ends.own), 0);
    coir_yield();
    CHECK_EQ(coir_read(ends.own, &byte, 1), -EBUSY);
    CHECK_EQ(coir_stream_wait(ends.own, COIR_READ), -EBUSY);
    CHECK_EQ(coir_stream_detach(ends.own), -EOPNOTSUPP);
    char text[32];
    CHECK_EQ(coir_stream_peer(ends.own, text, sizeof text), -EOPNOTSUPP);
    close_ends(&ends);
    CHECK_EQ(coir_join(handle), -ECANCELED);
}

static int wait_for_hangup(void *arg)
{
    return coir_stream_wait(arg, 0);
}

TEST_REAL(a_hangup_wakes)
{
    struct ends ends;
    COIR_HANDLE(handle);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    COIR_SCOPE(scope);
    open_ends(&ends, false);
    CHECK_EQ(coir_go_with(scope, &options, wait_for_hangup, ends.own), 0);
    coir_yield();
    close(ends.other);
    CHECK_EQ(coir_join(handle), COIR_HANGUP);
    ends.other = -1;
    close_ends(&ends);
}

/* What was cancelled has read nothing, also if data had come just before. */
TEST_REAL(a_reader_that_is_cancelled_loses_nothing)
{
    struct ends ends;
    char buf[8];
    open_ends(&ends, false);
    for (int i = 0; i < 200; i++) {
        COIR_HANDLE(handle);
        coir_go_options options = COIR_GO_OPTIONS;
        options.handle = handle;
        COIR_SCOPE(scope);
        CHECK_EQ(coir_go_with(scope, &options, read_one, ends.own), 0);
        coir_yield();
        CHECK(write(ends.other, "xy", 2) == 2);
        for (int turns = 0; turns < i % 4; turns++)
            coir_sleep_for(0);
        coir_cancel(handle);
        int rc = coir_join(handle);
        CHECK(rc == 1 || rc == -ECANCELED);
        CHECK_EQ(coir_read(ends.own, buf, sizeof buf), rc == 1 ? 1 : 2);
    }
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(coir_read(ends.own, buf, sizeof buf), -ETIME);
    }
    close_ends(&ends);
}

/* The winner of a select is the other case, after the pipe was found readable. */
TEST_REAL(a_select_takes_nothing_from_a_pipe)
{
    struct ends ends;
    char buf[8];
    open_ends(&ends, false);
    CHECK(write(ends.other, "abc", 3) == 3);
    for (int i = 0; i < 50; i++) {
        coir_case waits[] = {coir_case_stream(ends.own, COIR_READ), coir_case_after(0)};
        CHECK(coir_select(waits, 2) >= 0);
    }
    CHECK_EQ(coir_read(ends.own, buf, sizeof buf), 3);
    close_ends(&ends);
}

static int wait_for_both(void *stream)
{
    return coir_stream_wait(stream, COIR_READ | COIR_WRITE) == COIR_WRITE ? 0 : -EIO;
}

static int write_one(void *stream)
{
    return coir_write(stream, "x", 1) == 1 ? 0 : -EIO;
}

/* A pair of sockets stands for a terminal. */
static void open_full(struct ends *ends)
{
    static const char data[4096];
    int fds[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    CHECK_EQ(ci_pipe_open(ci_worker_current, fds[0], CI_PIPE_TERMINAL, &ends->own), 0);
    while (coir_try_write(ends->own, data, sizeof data) > 0)
        continue;
    ends->other = fds[1];
}

TEST_REAL(to_wait_for_both_directions_is_to_read_and_to_write)
{
    static char data[4096];
    struct ends ends;
    for (int i = 0; i < 2; i++) {
        open_full(&ends);
        COIR_SCOPE(scope);
        CHECK_EQ(coir_go(scope, i ? write_one : wait_for_both, ends.own), 0);
        CHECK_EQ(coir_yield(), 0);
        if (i)
            CHECK_EQ(coir_stream_wait(ends.own, COIR_READ | COIR_WRITE), -EBUSY);
        else
            CHECK_EQ(coir_write(ends.own, "x", 1), -EBUSY);
        while (read(ends.other, data, sizeof data) > 0)
            continue;
        CHECK_EQ(coir_scope_wait(scope), 0);
        close_ends(&ends);
    }
}

/* ---- below a filter ---- */

enum { ABOVE = 300 * 1000 };

/* What is written above: after that the peer answers. */
static int take_all_and_answer(void *arg)
{
    const struct ends *ends = arg;
    unsigned char buf[4096], answer = 'y' ^ MASK;
    for (size_t total = 0; total < ABOVE;) {
        ssize_t n = coir_fd_read(ends->other, buf, sizeof buf);
        CHECK(n > 0);
        for (ssize_t i = 0; i < n; i++)
            CHECK_EQ(buf[i], 'x' ^ MASK);
        total += (size_t)n;
    }
    return coir_fd_write(ends->other, &answer, 1) == 1 ? 0 : -EIO;
}

static int read_answer(void *over)
{
    char byte = 0;
    CHECK_EQ(coir_read(over, &byte, 1), 1);
    CHECK_EQ(byte, 'y');
    return 0;
}

/* A filter tries to read and to write while it waits for both. A pair of sockets stands for a
 * terminal that changes no byte. */
TEST_REAL(a_filter_may_stand_on_it)
{
    static const coir_filter_kind mask_kind =
        COIR_FILTER_KIND(mask_read, mask_write, mask_flush, mask_readable, mask_end, mask_free);
    static char data[ABOVE];
    struct mask mask = {.ahead = -1};
    struct ends ends;
    coir_stream *over;
    size_t done = 0;
    ssize_t n;
    int fds[2];
    memset(data, 'x', sizeof data);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    ends.other = fds[1];
    CHECK_EQ(ci_pipe_open(ci_worker_current, fds[0], CI_PIPE_TERMINAL, &ends.own), 0);
    mask.transport = ends.own;
    CHECK_EQ(coir_filter_new(&mask_kind, &mask, ends.own, &over), 0);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, read_answer, over), 0);
    CHECK_EQ(coir_yield(), 0);
    while ((n = coir_try_write(over, data, sizeof data - done)) > 0)
        done += (size_t)n;
    CHECK_EQ(n, -EAGAIN);
    CHECK_EQ(coir_try_write(over, data, 1), -EAGAIN);
    CHECK_EQ(coir_go(scope, take_all_and_answer, &ends), 0);
    CHECK_EQ(coir_write_all(over, data, sizeof data - done), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    coir_close(over);
    CHECK(!ends.own);
    close(ends.other);
}

/* What it keeps is sent all the same, without another call. */
TEST_REAL(a_filter_that_cannot_be_detached_goes_on)
{
    static const coir_filter_kind mask_kind =
        COIR_FILTER_KIND(mask_read, mask_write, mask_flush, mask_readable, mask_end, mask_free);
    static char data[4096];
    struct mask mask = {.ahead = -1};
    struct ends ends;
    coir_stream *over;
    size_t done = 0, come = 0;
    ssize_t n;
    open_ends(&ends, true);
    CHECK(fcntl(ends.other, F_SETFL, O_NONBLOCK) == 0);
    mask.transport = ends.own;
    CHECK_EQ(coir_filter_new(&mask_kind, &mask, ends.own, &over), 0);
    while ((n = coir_try_write(over, data, sizeof data)) > 0)
        done += (size_t)n;
    CHECK(mask.kept_len > 0);
    CHECK_EQ(coir_stream_detach(over), -EOPNOTSUPP);
    COIR_DEADLINE(coir_in(10 * COIR_S));
    for (; come < done; come += (size_t)n) {
        n = coir_fd_read(ends.other, data, sizeof data);
        CHECK(n > 0);
    }
    coir_close(over);
    close(ends.other);
}
