/* What a driver learns from the results of calls and from events: which direction is ready, that
 * the stream has ended, and that it was hung up. Every driver must agree. */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "env.h"

CONFORM(data_and_end_in_one_edge_are_both_seen)
{
    char buf[100];
    struct counted reading;
    CHECK(!start(
        &reading,
        (struct ci_op){.fd = env.server, .kind = CI_OP_READ, .buf = buf, .len = sizeof buf}));
    CHECK_EQ(write_some(env.client, "last", 4), 4);
    close_fd(env.client);
    CHECK_EQ(finish(&reading), 4);
    CHECK_EQ(read_some(env.server, buf, sizeof buf), 0);
    close_fd(env.server);
}

CONFORM(readable_never_wakes_a_writer)
{
    char byte;
    struct counted writing;
    fill_up(env.client);
    write_until_full(env.client, &writing);
    CHECK_EQ(write_some(env.server, "x", 1), 1);
    CHECK_EQ(read_some(env.client, &byte, 1), 1);
    CHECK(!writing.done);
    CHECK_EQ(stop(&writing), -ECANCELED);
    close_fd(env.client);
    close_fd(env.server);
}

CONFORM(a_reset_wakes_reader_and_watcher)
{
    char buf[16];
    struct counted reading, watching;
    CHECK_EQ(write_some(env.server, "unread", 6), 6);
    CHECK(wait_events(env.client, COIR_READ) & COIR_READ);
    CHECK(!start(
        &reading,
        (struct ci_op){.fd = env.server, .kind = CI_OP_READ, .buf = buf, .len = sizeof buf}));
    CHECK(!start(&watching, (struct ci_op){.fd = env.server, .kind = CI_OP_POLL}));
    close_fd(env.client); /* with unread data: a reset */
    CHECK_EQ(finish(&reading), -ECONNRESET);
    CHECK(finish(&watching) & COIR_HANGUP);
    CHECK(write_some(env.server, "x", 1) < 0);
    close_fd(env.server);
}

CONFORM(the_peers_end_is_no_hangup)
{
    struct counted watching;
    CHECK(!start(&watching, (struct ci_op){.fd = env.server, .kind = CI_OP_POLL}));
    CHECK_EQ(env.driver->kind->shutdown_write(env.driver, env.client), 0);
    for (int i = 0; i < 5; i++)
        pass();
    CHECK(!watching.done);
    CHECK_EQ(write_some(env.server, "unread", 6), 6);
    CHECK(wait_events(env.client, COIR_READ) & COIR_READ);
    CHECK(!watching.done);
    close_fd(env.client); /* a reset */
    CHECK(finish(&watching) & COIR_HANGUP);
    close_fd(env.server);
}

CONFORM(the_peers_end_is_told_to_those_who_ask)
{
    struct counted watching;
    CHECK(!start(&watching,
                 (struct ci_op){.fd = env.server, .kind = CI_OP_POLL, .events = CI_EVENT_END}));
    CHECK_EQ(write_some(env.client, "unread", 6), 6); /* is no end */
    CHECK(wait_events(env.server, COIR_READ) & COIR_READ);
    for (int i = 0; i < 5; i++)
        pass();
    CHECK(!watching.done);
    CHECK_EQ(env.driver->kind->shutdown_write(env.driver, env.client), 0);
    CHECK(finish(&watching) & CI_EVENT_END); /* though bytes before it are still unread */
    bool at_once = start(
        &watching, (struct ci_op){.fd = env.server, .kind = CI_OP_POLL, .events = CI_EVENT_END});
    CHECK((at_once ? watching.op.result : finish(&watching)) & CI_EVENT_END);
    char buf[16];
    CHECK_EQ(read_some(env.server, buf, sizeof buf), 6);
    CHECK_EQ(read_some(env.server, buf, sizeof buf), 0);
    close_fd(env.client);
    close_fd(env.server);
}

CONFORM(polling_moves_no_data_and_sees_what_is_there)
{
    char buf[16];
    struct counted polling;
    CHECK(!start(&polling,
                 (struct ci_op){.fd = env.server, .kind = CI_OP_POLL, .events = COIR_READ}));
    CHECK(wait_events(env.server, COIR_WRITE) & COIR_WRITE);
    CHECK(!polling.done);
    CHECK_EQ(write_some(env.client, "abc", 3), 3);
    CHECK(finish(&polling) & COIR_READ);
    CHECK_EQ(read_some(env.server, buf, 16), 3);
    close_fd(env.client);
    CHECK(wait_events(env.server, COIR_READ) & COIR_READ); /* the end counts as readable */
    CHECK_EQ(read_some(env.server, buf, 16), 0);
    close_fd(env.server);
}

/* What the kernel has reported, but no wait has taken yet, is not lost: with several workers the
 * event is of one of them alone. */
static void accept_what_was_reported(bool no_wait)
{
    struct sockaddr_storage address = listener_address();
    struct ci_op accepting = {.fd = env.listener, .kind = CI_OP_ACCEPT, .len = serial};
    struct counted waiting, connecting;
    CHECK(!start(&waiting, accepting));
    pass();
    coir_fd client = env.driver->kind->socket(env.driver, AF_INET);
    bool at_once = start(&connecting, (struct ci_op){.fd = client,
                                                     .kind = CI_OP_CONNECT,
                                                     .address = (struct sockaddr *)&address,
                                                     .count = sizeof(struct sockaddr_in)});
    CHECK_EQ(stop(&waiting), -ECANCELED);
    accepting.no_wait = no_wait;
    CHECK(start(&waiting, accepting));
    coir_fd server = waiting.op.result;
    CHECK(server >= 0);
    CHECK_EQ(at_once ? connecting.op.result : finish(&connecting), 0);
    close_fd(server);
    close_fd(client);
}

static void attempt_to_accept(void)
{
    accept_what_was_reported(true);
    accept_what_was_reported(false);
    close_pair();
}
ON_SELECTORS(an_attempt_to_accept_asks_the_kernel, attempt_to_accept)

/* A write without an operation writes what a started one would, or leaves everything as it is. */
static void write_at_once(void)
{
    char byte = 'x', buf[64];
    size_t sent = 0;
    ssize_t n;
    struct counted waiting;
    CHECK_EQ(write_some(env.client, "abc", 3), 3);
    CHECK_EQ(ci_driver_write_now(env.driver, env.client, "defg", 4), 4);
    CHECK_EQ(ci_driver_write_now(env.driver, env.client, "", 0), -EAGAIN);
    CHECK_EQ(read_some(env.server, buf, sizeof buf), 7);
    CHECK(memcmp(buf, "abcdefg", 7) == 0);
    static char much[100000];
    while ((n = ci_driver_write_now(env.driver, env.client, much, sizeof much)) > 0)
        sent += (size_t)n;
    CHECK_EQ(n, -EAGAIN);
    CHECK(!start(&waiting,
                 (struct ci_op){.fd = env.client, .kind = CI_OP_WRITE, .data = &byte, .len = 1}));
    read_all(env.server, sent + 1);
    CHECK_EQ(waiting.done ? waiting.op.result : finish(&waiting), 1);
    CHECK_EQ(ci_driver_write_now(env.driver, env.client, "unread", 6), 6);
    CHECK_EQ(write_some(env.server, "x", 1), 1);
    CHECK(wait_events(env.server, COIR_READ) & COIR_READ);
    close_fd(env.server); /* with unread data: a reset */
    CHECK(wait_events(env.client, COIR_READ) & (COIR_READ | COIR_HANGUP));
    n = ci_driver_write_now(env.driver, env.client, "x", 1);
    CHECK(n == -ECONNRESET || n == -EPIPE);
    close_fd(env.client);
}
ON_SELECTORS(a_write_without_an_operation, write_at_once)

/* A number that is not a stream's has no such writes. */
static void write_elsewhere(void)
{
    CHECK_EQ(ci_driver_write_now(env.driver, -1, "x", 1), -EAGAIN);
    CHECK_EQ(ci_driver_write_now(env.driver, 100000, "x", 1), -EAGAIN);
    CHECK_EQ(ci_driver_write_now(env.driver, env.listener, "x", 1), -EAGAIN);
    close_fd(env.client);
    CHECK_EQ(ci_driver_write_now(env.driver, env.client, "x", 1), -EAGAIN);
    close_fd(env.server);
}
ON_SELECTORS(a_write_without_an_operation_elsewhere, write_elsewhere)
