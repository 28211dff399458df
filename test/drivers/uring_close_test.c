/* Closing: the peer sees the end at once, whatever the driver was doing on the stream. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "env.h"

static char byte;
static struct counted pending[2];
static int pending_count;

static void start_pending(struct ci_op op)
{
    CHECK(!start(&pending[pending_count++], op));
}

static void untouched(void)
{
}

static void receive_armed(void)
{
    cancel_a_read(env.server);
}

static void read_pending(void)
{
    start_pending((struct ci_op){.fd = env.server, .kind = CI_OP_READ, .buf = &byte, .len = 1});
}

static void poll_pending(void)
{
    start_pending((struct ci_op){.fd = env.server, .kind = CI_OP_POLL});
}

static void both_pending(void)
{
    poll_pending();
    read_pending();
}

static void read_again_after_an_upload(void)
{
    cancel_a_read(env.server);
    write_all(env.client, 8000);
    for (int i = 0; i < 3; i++)
        pass();
    read_all(env.server, 8000);
    read_pending();
}

static void (*const states[])(void) = {
    untouched, receive_armed, read_pending, poll_pending, both_pending, read_again_after_an_upload,
};

static void close_body(void)
{
    for (size_t i = 0; i < 3 * ci_countof(states); i++) {
        char buf[16];
        pending_count = 0;
        states[i / 3]();
        if (i % 3 == 1)
            env.driver->kind->wait(env.driver, 0); /* the kernel has been asked */
        if (i % 3 == 2)
            CHECK_EQ(write_some(env.server, "last", 4), 4);
        close_fd(env.server);
        for (int j = 0; j < pending_count; j++)
            CHECK(pending[j].done == 1 && pending[j].op.result == -ECANCELED);
        struct pollfd ask = {.fd = env.client, .events = POLLRDHUP};
        CHECK_EQ(poll(&ask, 1, 1000), 1); /* without a wait of the driver */
        CHECK_EQ(recv(env.client, buf, sizeof buf, 0), i % 3 == 2 ? 4 : 0);
        close_fd(env.client);
        make_pair();
    }
    close_pair();
}

ON_REAL(a_closed_streams_peer_sees_the_end_at_once, close_body)

/* Many closes between two waits are not lost, and neither is the order: number after number. */
static void many_body(void)
{
    for (int i = 0; i < 600; i++) {
        cancel_a_read(env.server);
        start_pending((struct ci_op){.fd = env.client, .kind = CI_OP_READ, .buf = &byte, .len = 1});
        pending_count = 0;
        close_pair();
        make_pair();
    }
    close_pair();
}

ON_REAL(many_closes_between_two_waits, many_body)

/* A close that has to wait for the kernel, while the answer of another stream is under way: a write
 * that does not end, on the stream that is closed. */
CONFORM(a_close_that_waits_beside_a_lazy_write)
{
    static const char answer[] = "answer";
    coir_fd client = env.client, server = env.server;
    struct counted blocked, answering;
    cancel_a_read(server);
    make_pair();
    write_until_full(env.server, &blocked);
    pass();
    bool at_once = start(&answering, (struct ci_op){.fd = server,
                                                    .kind = CI_OP_WRITE,
                                                    .lazy = true,
                                                    .data = answer,
                                                    .len = sizeof answer - 1});
    close_fd(env.server);
    CHECK(blocked.done);
    CHECK_EQ(blocked.op.result, -ECANCELED);
    CHECK(at_once || completes_soon(&answering));
    CHECK_EQ(answering.op.result, sizeof answer - 1);
    close_fd(env.client);
    close_fd(client);
    close_fd(server);
}
