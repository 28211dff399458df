/* Lazy writes: a driver may delay their completion, but never while their stream has something to
 * read, and never when the write could not be carried out in full. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "env.h"

static struct ci_op lazy_write(coir_fd fd, const void *data, size_t len)
{
    return (struct ci_op){.fd = fd, .kind = CI_OP_WRITE, .lazy = true, .data = data, .len = len};
}

/* What the server's stream has gone through before the lazy write. Each way leaves it readable. */
static void never_read(void)
{
    write_all(env.client, 1);
}

static void read_once(void)
{
    write_all(env.client, 1);
    read_all(env.server, 1);
    write_all(env.client, 1);
}

static void read_cancelled(void)
{
    cancel_a_read(env.server);
    write_all(env.client, 1);
}

static void known_to_be_readable(void)
{
    write_all(env.client, 1);
    CHECK(wait_events(env.server, COIR_READ) & COIR_READ);
}

/* As much as a driver reads ahead, so that it stops reading; once, and again and again. */
static void uploaded(int times)
{
    enum { LEN = 8000 };
    cancel_a_read(env.server);
    for (int i = 0; i < times; i++) {
        write_all(env.client, LEN);
        for (int j = 0; j < 3; j++)
            pass();
        read_all(env.server, LEN);
    }
    write_all(env.client, 1);
}

static void uploaded_once(void)
{
    uploaded(1);
}

static void uploaded_often(void)
{
    uploaded(10);
}

static void ended(void)
{
    cancel_a_read(env.server);
    CHECK_EQ(env.driver->kind->shutdown_write(env.driver, env.client), 0);
}

static void (*const states[])(void) = {
    never_read,    read_once,      read_cancelled, known_to_be_readable,
    uploaded_once, uploaded_often, ended,
};

CONFORM(a_lazy_write_completes_when_its_stream_has_something_to_read)
{
    for (size_t i = 0; i < ci_countof(states); i++) {
        char buf[8];
        struct counted writing;
        states[i]();
        bool at_once = start(&writing, lazy_write(env.server, "answer", 6));
        CHECK(at_once || completes_soon(&writing));
        CHECK_EQ(writing.op.result, 6);
        CHECK_EQ(read_some(env.client, buf, sizeof buf), 6);
        close_pair();
        make_pair();
    }
    close_pair();
}

CONFORM(a_lazy_write_completes_when_something_comes_to_read)
{
    char buf[8];
    for (int i = 0; i < 3; i++) {
        struct counted writing;
        cancel_a_read(env.server);
        bool at_once = start(&writing, lazy_write(env.server, "answer", 6));
        CHECK_EQ(write_some(env.client, "next", 4), 4);
        CHECK(at_once || completes_soon(&writing));
        CHECK_EQ(writing.op.result, 6);
        CHECK_EQ(read_some(env.server, buf, sizeof buf), 4);
        CHECK_EQ(read_some(env.client, buf, sizeof buf), 6);
    }
    close_pair();
}

CONFORM(a_lazy_write_completes_where_nothing_else_happens)
{
    struct counted writing;
    cancel_a_read(env.server);
    bool at_once = start(&writing, lazy_write(env.server, "answer", 6));
    for (int i = 0; i < 2 && !at_once && !writing.done; i++)
        env.driver->kind->wait(env.driver, env.world ? 0 : COIR_NEVER);
    CHECK(at_once || writing.done);
    CHECK_EQ(writing.op.result, 6);
    close_pair();
}

/* More of them at once than a ring has entries. */
static void crowd_body(void)
{
    enum { CROWD = 260 };
    static struct counted writing[CROWD];
    static coir_fd crowd[CROWD][2];
    for (int i = 0; i < CROWD; i++) {
        crowd[i][0] = env.client;
        crowd[i][1] = env.server;
        cancel_a_read(env.server);
        make_pair();
    }
    for (int i = 0; i < CROWD; i++)
        if (start(&writing[i], lazy_write(crowd[i][1], "answer", 6)))
            writing[i].done = 1;
    write_all(crowd[CROWD - 1][0], 1);
    CHECK(completes_soon(&writing[CROWD - 1]));
    for (int i = 0; i < CROWD; i++) {
        char buf[8];
        CHECK(writing[i].done); /* one event is enough for all */
        CHECK_EQ(writing[i].op.result, 6);
        CHECK_EQ(recv(crowd[i][0], buf, sizeof buf, MSG_DONTWAIT), 6);
        close_fd(crowd[i][0]);
        close_fd(crowd[i][1]);
    }
    close_pair();
}

ON_REAL(lazy_writes_to_a_crowd_complete, crowd_body)

/* ---- where the peer takes less than all ---- */

static size_t drained;

static unsigned char byte_at(size_t at)
{
    return (unsigned char)(at * 31 >> 3);
}

static const unsigned char *data_from(size_t at)
{
    static unsigned char data[1 << 20];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = byte_at(at + i);
    return data;
}

/* By the kernel's own call, so that nothing happens on the driver's side. False: nothing was
 * there. */
static bool drain(void)
{
    static unsigned char in[1 << 16];
    ssize_t n = recv(env.client, in, sizeof in, MSG_DONTWAIT);
    for (ssize_t i = 0; i < n; i++)
        CHECK_EQ(in[i], byte_at(drained + (size_t)i));
    drained += n > 0 ? (size_t)n : 0;
    return n > 0;
}

/* Fills the server's stream, which never has room for the 1 MiB that is written at a time. */
static size_t fill(void)
{
    size_t sent = 0;
    int n, size = 1 << 16;
    CHECK_EQ(setsockopt(env.server, SOL_SOCKET, SO_SNDBUF, &size, sizeof size), 0);
    drained = 0;
    do {
        struct ci_op op = {.fd = env.server,
                           .kind = CI_OP_WRITE,
                           .data = data_from(sent),
                           .len = 1 << 20,
                           .no_wait = true};
        n = run(op);
        sent += n > 0 ? (size_t)n : 0;
    } while (n > 0);
    CHECK_EQ(n, -EAGAIN);
    return sent;
}

/* Takes out of a full stream until the kernel would let the writer write. */
static void make_room(void)
{
    struct pollfd ask = {.fd = env.server, .events = POLLOUT};
    while (poll(&ask, 1, 0) == 0)
        drain();
}

static void short_body(void)
{
    cancel_a_read(env.server);
    size_t sent = fill();
    for (int i = 0; i < 50; i++) {
        struct counted writing;
        if (i % 2 == 0)
            make_room();
        bool at_once = start(&writing, lazy_write(env.server, data_from(sent), 1 << 20));
        if (i % 2 == 1) { /* the driver learns that there is no room, then there is */
            env.driver->kind->wait(env.driver, 0);
            make_room();
        }
        CHECK(at_once || completes_soon(&writing));
        CHECK(writing.op.result > 0);
        sent += (size_t)writing.op.result;
    }
    while (drained < sent)
        drain();
    CHECK(!drain());
    close_pair();
}

ON_REAL(a_lazy_write_that_is_short_or_has_to_wait_completes, short_body)

static void cancel_body(void)
{
    static const char data[1000];
    int cancelled = 0;
    for (int i = 0; i < 16; i++) {
        struct counted writing;
        cancel_a_read(env.server);
        for (int fills = 0; fills < 3; fills++)
            fill();
        CHECK(!start(&writing, lazy_write(env.server, data, sizeof data)));
        if (i & 1)
            env.driver->kind->wait(env.driver, 0);
        if (i & 2 && !writing.done && !ci_driver_cancel(env.driver, &writing.op))
            CHECK(completes_soon(&writing));
        close_fd(env.server);
        CHECK(i & 2 || writing.done == 1);
        CHECK(writing.op.result == -ECANCELED || writing.op.result == 1000);
        cancelled += writing.op.result == -ECANCELED;
        close_fd(env.client);
        make_pair();
    }
    CHECK(cancelled > 4); /* a full stream may yet take a little */
    close_pair();
}

ON_REAL(a_lazy_write_that_has_to_wait_can_be_cancelled_and_closed, cancel_body)
