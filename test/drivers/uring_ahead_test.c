/* What a driver does on a stream by itself: it reads ahead no more than it may, and nothing of what
 * it lent the kernel is touched when the stream is closed. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "env.h"

/* Sends until neither the kernel nor the driver takes any more: how much they took. */
static size_t send_until_refused(void)
{
    static const char data[4000];
    size_t taken = 0;
    for (int refusals = 0; refusals < 10;) {
        ssize_t n = send(env.client, data, sizeof data, MSG_DONTWAIT); /* between any two waits */
        refusals = n < 0 ? refusals + 1 : 0;
        taken += n > 0 ? (size_t)n : 0;
        env.driver->kind->wait(env.driver, 0);
    }
    return taken;
}

static void small_sockets(void)
{
    int size = 1 << 14;
    CHECK_EQ(setsockopt(env.server, SOL_SOCKET, SO_RCVBUF, &size, sizeof size), 0);
    CHECK_EQ(setsockopt(env.client, SOL_SOCKET, SO_SNDBUF, &size, sizeof size), 0);
}

/* A peer whose stream is not read has to wait: two buffers of the driver are filled, and the
 * sockets' own. */
static void pressure_body(void)
{
    for (int i = 0; i < 3; i++) {
        struct counted polling = {0};
        small_sockets();
        cancel_a_read(env.server);
        if (i == 1) {
            write_all(env.client, 8000);
            read_all(env.server, 8000); /* the receive has been stopped once */
            cancel_a_read(env.server);
        }
        if (i == 2)
            CHECK(!start(&polling, (struct ci_op){.fd = env.server, .kind = CI_OP_POLL}));
        CHECK(send_until_refused() < 300000);
        close_pair();
        CHECK(i != 2 || polling.done);
        make_pair();
    }
    close_pair();
}

ON_REAL(a_peer_that_nobody_reads_has_to_wait, pressure_body)

/* The same number, then another stream: nothing is written to where the first one's reader was. */
static void memory_body(void)
{
    static unsigned char in[1 << 14];
    struct counted reading;
    crowd_in(); /* reads into the reader's own memory */
    for (int i = 0; i < 30; i++) {
        memset(in, 0xee, sizeof in);
        CHECK(!start(
            &reading,
            (struct ci_op){.fd = env.server, .kind = CI_OP_READ, .buf = in, .len = sizeof in}));
        if (i % 3 > 0)
            env.driver->kind->wait(env.driver, 0);
        if (i % 3 > 1)
            CHECK_EQ(send(env.client, "late", 4, 0), 4);
        if (i & 1)
            env.driver->kind->forget(env.driver, env.server);
        else
            close_fd(env.server);
        CHECK_EQ(reading.done, 1);
        CHECK(reading.op.result == -ECANCELED || reading.op.result == 4);
        memset(in, 0xee, sizeof in);
        send(env.client, "more", 4, MSG_NOSIGNAL);
        for (int j = 0; j < 3; j++)
            env.driver->kind->wait(env.driver, 0);
        for (size_t j = 0; j < sizeof in; j++)
            CHECK_EQ(in[j], 0xee);
        if (i & 1)
            close_fd(env.server);
        close_fd(env.client);
        make_pair();
    }
    crowd_out();
    close_pair();
}

ON_REAL(memory_is_given_back_before_close_returns, memory_body)

/* A forgotten stream is not read from. */
static void forget_body(void)
{
    char buf[16];
    for (int i = 0; i < 20; i++) {
        cancel_a_read(env.server);
        if (i & 2)
            env.driver->kind->wait(env.driver, 0);
        if (i & 1)
            CHECK_EQ(send(env.client, "lost", 4, 0), 4); /* while the kernel is about to receive */
        env.driver->kind->forget(env.driver, env.server);
        CHECK_EQ(send(env.client, "kept", 4, 0), 4);
        env.driver->kind->wait(env.driver, 0);
        ssize_t n = recv(env.server, buf, sizeof buf, MSG_DONTWAIT);
        CHECK(n >= 4 && memcmp(buf + n - 4, "kept", 4) == 0);
    }
    close_pair();
}

ON_REAL(a_forgotten_stream_is_not_read, forget_body)

/* ---- more at once than any batch or ring holds ---- */

enum { MANY = 300 };
static coir_fd many[MANY][2];
static struct counted reading[MANY], writing[MANY];
static struct iovec iovs[MANY];
static char bytes[MANY];

static void open_many(void)
{
    for (int i = 0; i < MANY; i++) {
        many[i][0] = env.client;
        many[i][1] = env.server;
        make_pair();
    }
}

static void close_many(void)
{
    for (int i = 0; i < MANY; i++) {
        close_fd(many[i][0]);
        close_fd(many[i][1]);
    }
}

/* Operations of all kinds are started, and all of them end, between two waits. */
static void many_body(void)
{
    open_many();
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MANY; i++) {
            CHECK(!start(
                &reading[i],
                (struct ci_op){.fd = many[i][1], .kind = CI_OP_READ, .buf = &bytes[i], .len = 1}));
            struct ci_op write = {
                .fd = many[i][0], .kind = CI_OP_WRITE, .data = &"ab"[i % 2], .len = 1};
            iovs[i] = (struct iovec){(void *)(uintptr_t)write.data, 1};
            if (i % 3 == 0)
                write = (struct ci_op){
                    .fd = many[i][0], .kind = CI_OP_WRITEV, .iov = &iovs[i], .count = 1};
            if (start(&writing[i], write))
                writing[i].done = 1;
        }
        for (int i = 0; i < MANY; i++) {
            if (!writing[i].done)
                finish(&writing[i]);
            CHECK_EQ(writing[i].op.result, 1);
            CHECK_EQ(finish(&reading[i]), 1);
            CHECK_EQ(bytes[i], "ab"[i % 2]);
        }
    }
    close_many();
    close_pair();
}

CONFORM(many_operations_between_two_waits)
{
    many_body();
}

/* Each is cancelled where all have ended and none has been told: what it brought is not lost, what
 * it did is not done again. */
static int ended;
static struct counted *cancelled;

static void cancel_the_others(struct ci_op *op)
{
    struct counted *self = ci_container_of(op, struct counted, op);
    CHECK(++self->done == 1);
    ended++;
    for (int i = 0; i < MANY; i++)
        if (!cancelled[i].done && ci_driver_cancel(env.driver, &cancelled[i].op)) {
            CHECK_EQ(cancelled[i].op.result, -ECANCELED);
            cancelled[i].done = 1; /* done is not called again */
        }
}

CONFORM(reads_that_have_ended_are_cancelled)
{
    cancelled = reading;
    open_many();
    for (int i = 0; i < MANY; i++) {
        CHECK(!start(
            &reading[i],
            (struct ci_op){.fd = many[i][1], .kind = CI_OP_READ, .buf = &bytes[i], .len = 1}));
        reading[i].op.done = cancel_the_others;
    }
    env.driver->kind->wait(env.driver, 0);
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(write_some(many[i][0], "x", 1), 1);
    for (int i = 0; i < MANY; i++) {
        while (!reading[i].done)
            pass();
        if (reading[i].op.result == -ECANCELED)
            CHECK_EQ(read_some(many[i][1], &bytes[i], 1), 1);
        else
            CHECK_EQ(reading[i].op.result, 1);
        CHECK_EQ(bytes[i], 'x');
    }
    CHECK(ended > 0);
    close_many();
    close_pair();
}

CONFORM(writes_that_have_ended_are_cancelled)
{
    cancelled = writing;
    open_many();
    for (int i = 0; i < MANY; i++) {
        struct ci_op write = {.fd = many[i][0], .kind = CI_OP_WRITE, .data = "x", .len = 1};
        if (start(&writing[i], write))
            writing[i].done = 1;
        else
            writing[i].op.done = cancel_the_others;
    }
    for (int i = 0; i < MANY; i++) {
        while (!writing[i].done)
            pass();
        CHECK_EQ(write_some(many[i][0], "y", 1), 1);
        CHECK_EQ(read_some(many[i][1], &bytes[i], 1), 1);
        CHECK_EQ(bytes[i], writing[i].op.result == 1 ? 'x' : 'y');
    }
    close_many();
    close_pair();
}
