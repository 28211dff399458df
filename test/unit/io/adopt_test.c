/* Descriptors that come from the program and go back to it: nothing that was read ahead is lost. */
#include <coir.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"
#include "pair.h"
#include "plain.h"

enum { MUCH = 40000 };

static struct {
    coir_stream *far, *near;
    char out[MUCH], in[MUCH];
} t;

static void open_pair(void)
{
    connect_pair(&t.far, &t.near);
    for (int i = 0; i < MUCH; i++)
        t.out[i] = (char)(i * 7 + (i >> 8));
}

/* One byte is read, and many are there: io_uring has read some of them ahead. */
static void send_much(void)
{
    CHECK_EQ(coir_write_all(t.far, t.out, MUCH), 0);
    CHECK_EQ(coir_read(t.near, t.in, 1), 1);
    CHECK_EQ(coir_sleep_for(5 * COIR_MS), 0);
}

TEST_REAL(what_was_read_ahead_comes_with_the_descriptor)
{
    coir_fd fd;
    size_t len;
    open_pair();
    send_much();
    CHECK_EQ(coir_stream_release(t.near, t.in + 1, MUCH - 1, &len, &fd), 0);
    coir_close(t.far);
    CHECK_EQ(fcntl(fd, F_SETFL, 0), 0); /* the program reads it with a blocking read */
    for (size_t at = 1 + len; at < MUCH;) {
        ssize_t n = read(fd, t.in + at, MUCH - at);
        CHECK(n > 0);
        at += (size_t)n;
    }
    CHECK(memcmp(t.in, t.out, MUCH) == 0);
    CHECK_EQ(read(fd, t.in, 1), 0);
    CHECK_EQ(close(fd), 0);
}

TEST_REAL(a_release_that_has_no_room_for_what_was_read_ahead_leaves_all_in_place)
{
    coir_fd fd;
    size_t len = 0;
    open_pair();
    send_much();
    int rc = coir_stream_release(t.near, NULL, 0, &len, &fd);
    if (rc == -EMSGSIZE) {
        size_t needed = len;
        CHECK(needed > 0 && needed < MUCH);
        CHECK_EQ(coir_stream_release(t.near, t.in + 1, needed - 1, &len, &fd), -EMSGSIZE);
        CHECK_EQ(len, needed);
        CHECK_EQ(coir_read_full(t.near, t.in + 1, MUCH - 1, NULL), MUCH - 1);
        CHECK(memcmp(t.in, t.out, MUCH) == 0);
        rc = coir_stream_release(t.near, t.in, MUCH, &len, &fd);
    }
    CHECK_EQ(rc, 0);
    CHECK_EQ(len, 0);
    CHECK_EQ(close(fd), 0);
    coir_close(t.far);
}

static int read_one(void *arg)
{
    char byte;
    return (int)coir_read(arg, &byte, 1);
}

TEST_REAL(only_an_idle_socket_is_released)
{
    coir_fd fd;
    size_t len;
    coir_write_queue *queue;
    coir_stream *a, *b;
    open_pair();
    CHECK_EQ(coir_duplex(0, &a, &b), 0);
    CHECK_EQ(coir_stream_release(a, NULL, 0, &len, &fd), -EOPNOTSUPP);
    coir_close(a);
    coir_close(b);
    CHECK_EQ(coir_write_queue_new(t.near, &queue), 0);
    CHECK_EQ(coir_stream_release(t.near, NULL, 0, &len, &fd), -EBUSY);
    coir_write_queue_free(queue);
    COIR_SERVING_SCOPE(scope);
    CHECK_EQ(coir_go(scope, read_one, t.near), 0);
    coir_yield();
    CHECK_EQ(coir_stream_release(t.near, NULL, 0, &len, &fd), -EBUSY);
    coir_close(t.near);
    coir_close(t.far);
}

TEST_REAL(a_connected_socket_becomes_a_stream)
{
    int fds[2], pipes[2];
    coir_stream *stream;
    char byte = 0;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    CHECK_EQ(coir_stream_adopt(fds[0], &stream), 0);
    CHECK(fcntl(fds[0], F_GETFL) & O_NONBLOCK);
    CHECK_EQ(write(fds[1], "x", 1), 1);
    CHECK_EQ(coir_read(stream, &byte, 1), 1);
    CHECK_EQ(byte, 'x');
    CHECK_EQ(close(fds[1]), 0);
    CHECK_EQ(coir_read(stream, &byte, 1), 0);
    coir_close(stream);
    CHECK_EQ(coir_stream_adopt(fds[0], &stream), -COIR_EPASSED); /* closed */
    CHECK_EQ(pipe(pipes), 0);
    CHECK_EQ(coir_stream_adopt(pipes[0], &stream), -COIR_EPASSED);
    CHECK(!(fcntl(pipes[0], F_GETFL) & O_NONBLOCK));
    close(pipes[0]);
    close(pipes[1]);
}

/* The descriptor is released and adopted again and again: every byte arrives once, in order. */
TEST_REAL(a_stream_that_is_released_can_be_adopted_again)
{
    size_t at = 0, len;
    open_pair();
    CHECK_EQ(coir_write_all(t.far, t.out, MUCH), 0);
    while (at < MUCH) {
        coir_fd fd;
        ssize_t n = coir_read(t.near, t.in + at, at + 500 < MUCH ? 500 : MUCH - at);
        CHECK(n > 0);
        at += (size_t)n;
        CHECK_EQ(coir_stream_release(t.near, t.in + at, MUCH - at, &len, &fd), 0);
        at += len;
        CHECK_EQ(coir_stream_adopt(fd, &t.near), 0);
    }
    CHECK(memcmp(t.in, t.out, MUCH) == 0);
    coir_close(t.near);
    coir_close(t.far);
}
