/* A cancel that comes when the kernel is about to try an operation again, in vain: it must not get
 * lost. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "env.h"

static char data[1 << 16];

static void fill(coir_fd fd)
{
    while (send(fd, data, sizeof data, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
        continue;
    while (send(fd, data, 1, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
        continue;
}

/* A write waits; there is room for a moment, and none any more. */
static void start_write(struct counted *writing)
{
    struct pollfd ask = {.fd = env.server, .events = POLLOUT};
    fill(env.server);
    CHECK(!start(writing,
                 (struct ci_op){.fd = env.server, .kind = CI_OP_WRITE, .data = data, .len = 24}));
    env.driver->kind->wait(env.driver, 0);
    while (poll(&ask, 1, 0) == 0)
        while (recv(env.client, data, sizeof data, MSG_DONTWAIT) > 0)
            continue;
    fill(env.server);
}

/* A read waits; there is a byte for a moment, and none any more. */
static void start_read(struct counted *reading)
{
    CHECK(!start(reading,
                 (struct ci_op){.fd = env.server, .kind = CI_OP_READ, .buf = data, .len = 24}));
    env.driver->kind->wait(env.driver, 0);
    CHECK_EQ(send(env.client, "x", 1, 0), 1);
    CHECK_EQ(recv(env.server, data, 1, MSG_DONTWAIT), 1);
}

static void cancel_all(void (*begin)(struct counted *))
{
    enum { CANCEL, CLOSE, FORGET, WAYS };
    for (int i = 0; i < 2 * WAYS; i++) {
        struct counted counted;
        begin(&counted);
        switch (i % WAYS) {
        case CANCEL:
            if (!ci_driver_cancel(env.driver, &counted.op))
                CHECK(completes_soon(&counted));
            break;
        case CLOSE: close_fd(env.server); break;
        case FORGET: env.driver->kind->forget(env.driver, env.server); break;
        default: break;
        }
        CHECK(i % WAYS == CANCEL || counted.done);
        CHECK_EQ(counted.op.result, -ECANCELED);
        if (i % WAYS != CLOSE)
            close_fd(env.server);
        close_fd(env.client);
        make_pair();
    }
}

static void vain_body(void)
{
    cancel_all(start_write);
    cancel_all(start_read);
    crowd_in(); /* reads into the reader's own memory */
    cancel_all(start_read);
    crowd_out();
    close_pair();
}

ON_REAL(a_cancel_is_not_lost_to_a_retry, vain_body)

/* The receive of a stream without a reader meets the same when the stream is handed on, or the
 * driver ends. */
static void receive_body(void)
{
    for (int i = 0; i < 4; i++) {
        struct ci_ahead *ahead;
        cancel_a_read(env.server);
        env.driver->kind->wait(env.driver, 0);
        CHECK_EQ(send(env.client, "x", 1, 0), 1);
        CHECK_EQ(recv(env.server, data, 1, MSG_DONTWAIT), 1);
        if (i < 3) {
            CHECK_EQ(ci_driver_detach(env.driver, env.server, &ahead), 0);
            CHECK(!ahead);
        } else if (env.driver->kind->end) {
            env.driver->kind->end(env.driver);
            CHECK_EQ(env.driver->kind->begin(env.driver), 0);
        }
    }
    close_pair();
}

ON_REAL(the_end_of_a_receive_is_not_lost_to_a_retry, receive_body)
