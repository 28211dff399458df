/* Descriptors as numbers: what is closed, cancelled or forgotten leaves nothing behind at its
 * number, and there may be many at once. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "env.h"

/* ---- numbers that are no descriptors ---- */

static size_t largest;

static void *note_size(size_t size, void *context)
{
    (void)context;
    largest = size > largest ? size : largest;
    return size > (64 << 20) ? NULL : ci_system_allocator.alloc(size, NULL);
}

static void give_back(void *memory, size_t size, void *context)
{
    ci_system_allocator.free(memory, size, context);
}

/* They are told from descriptors before any table grows for them. */
static void no_descriptor_body(void)
{
    static const coir_fd numbers[] = {1000000, 50000000, INT32_MAX - 1, INT32_MAX};
    static const enum ci_op_kind kinds[] = {CI_OP_READ, CI_OP_WRITE, CI_OP_POLL, CI_OP_FOREIGN};
    const coir_allocator noting = COIR_ALLOCATOR(note_size, give_back, NULL);
    struct ci_driver *driver;
    char byte = 0;
    CHECK_EQ(ci_driver_open(env.name, &noting, &driver), 0);
    largest = 0;
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) {
            struct ci_op op = {.fd = numbers[i], .kind = (uint8_t)kinds[k], .events = COIR_READ};
            if (kinds[k] < CI_OP_POLL) {
                op.buf = &byte;
                op.len = 1;
            }
            CHECK(ci_driver_start(driver, &op));
            CHECK_EQ(op.result, -EBADF);
        }
    CHECK_EQ(largest, 0);
    CHECK_EQ(driver->pending, 0);
    driver->kind->free(driver);
    close_pair();
}

ON_REAL(a_number_that_is_no_descriptor_makes_no_table_grow, no_descriptor_body)

/* ---- closing ---- */

/* An accept, a receiver of datagrams, a reader, a writer and a poll: each has ended when the close
 * of its descriptor returns. */
CONFORM(closing_completes_every_kind_of_operation)
{
    struct counted accepting, receiving, reading, writing, polling;
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct ci_datagram datagram = {.address = (struct sockaddr *)&any, .address_len = sizeof any};
    coir_fd udp = env.driver->kind->datagram(env.driver, &datagram);
    char buf[16], vector[16];
    struct iovec iov = {buf, sizeof buf}, read_iov = {vector, sizeof vector};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    size_t before = env.driver->pending;
    for (int waits = 0; waits < 2; waits++) { /* at once, and when the kernel has them */
        CHECK(!start(&accepting,
                     (struct ci_op){.fd = env.listener, .kind = CI_OP_ACCEPT, .len = serial}));
        CHECK(!start(&receiving,
                     (struct ci_op){.fd = udp, .kind = CI_OP_RECEIVE, .message = &message}));
        CHECK(!start(
            &reading,
            (struct ci_op){.fd = env.server, .kind = CI_OP_READV, .iov = &read_iov, .count = 1}));
        CHECK(!start(&polling, (struct ci_op){.fd = env.server, .kind = CI_OP_POLL}));
        write_until_full(env.server, &writing);
        for (int i = 0; waits && i < 3; i++)
            pass();
        CHECK(!accepting.done && !receiving.done && !reading.done && !writing.done &&
              !polling.done);
        close_fd(env.listener);
        CHECK(accepting.done && accepting.op.result == -ECANCELED);
        close_fd(udp);
        CHECK(receiving.done && receiving.op.result == -ECANCELED);
        close_fd(env.server);
        CHECK(reading.done && reading.op.result == -ECANCELED);
        CHECK(writing.done && writing.op.result == -ECANCELED);
        CHECK(polling.done && polling.op.result == -ECANCELED);
        CHECK_EQ(env.driver->pending, before);
        close_fd(env.client);
        listen_anywhere();
        make_pair();
        udp = env.driver->kind->datagram(env.driver, &datagram);
        before = env.driver->pending;
    }
    close_fd(udp);
    close_pair();
}

/* Closing with bytes that nobody has read is a reset, also where some of them were read or read
 * ahead. */
CONFORM(closing_with_unread_bytes_resets)
{
    for (int read_first = 0; read_first < 3; read_first++) {
        char buf[16];
        CHECK_EQ(write_some(env.client, "0123456789", 10), 10);
        CHECK(wait_events(env.server, COIR_READ) & COIR_READ);
        for (int i = 0; i < read_first; i++)
            CHECK_EQ(read_some(env.server, buf, 1), 1);
        close_fd(env.server);
        CHECK_EQ(read_some(env.client, buf, sizeof buf), -ECONNRESET);
        close_fd(env.client);
        make_pair();
    }
    close_pair();
}

CONFORM(a_vector_reads_the_end_of_a_stream)
{
    char a[4], b[4];
    struct iovec iov[2] = {{a, sizeof a}, {b, sizeof b}};
    struct ci_op op = {.fd = env.server, .kind = CI_OP_READV, .iov = iov, .count = 2};
    struct counted reading;
    CHECK_EQ(write_some(env.client, "12345", 5), 5);
    CHECK(wait_events(env.server, COIR_READ) & COIR_READ);
    CHECK_EQ(run(op), 5);
    CHECK(!start(&reading, op));
    CHECK_EQ(env.driver->kind->shutdown_write(env.driver, env.client), 0);
    CHECK_EQ(finish(&reading), 0); /* to one who waits */
    CHECK_EQ(run(op), 0);          /* and again */
    op.no_wait = true;
    CHECK_EQ(run(op), 0);
    close_pair();
    make_pair();
    CHECK_EQ(write_some(env.client, "123", 3), 3); /* data, and the end right behind it */
    CHECK_EQ(env.driver->kind->shutdown_write(env.driver, env.client), 0);
    op = (struct ci_op){.fd = env.server, .kind = CI_OP_READV, .iov = iov, .count = 2};
    CHECK_EQ(run(op), 3);
    CHECK_EQ(run(op), 0);
    close_pair();
}

/* ---- a listener that another process has, too; real drivers alone ---- */

static int connect_a_client(void)
{
    struct sockaddr_storage address = listener_address();
    int client = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_EQ(connect(client, (struct sockaddr *)&address, sizeof(struct sockaddr_in)), 0);
    return client;
}

static void start_accept(struct ci_driver *driver, struct counted *counted, bool shared)
{
    env.driver = driver;
    CHECK(!start(
        counted,
        (struct ci_op){.fd = env.listener, .kind = CI_OP_ACCEPT, .len = serial, .shared = shared}));
    driver->kind->wait(driver, 0); /* the kernel knows of it */
}

static void check_accepted(struct ci_driver *driver, const struct counted *counted, int client)
{
    env.driver = driver;
    CHECK(completes_soon(counted));
    CHECK(counted->op.result >= 0);
    close_fd(counted->op.result);
    close(client);
}

/* The successor is another driver here. The shared accept comes first in the kernel's list. It is
 * cancelled after the kernel has woken it, before its driver has seen that; or it finds that the
 * other one has the connection. */
static void shared_accept_body(void)
{
    struct ci_driver *old = env.driver, *successor;
    open_another(&successor);
    close_pair();
    for (int i = 0; i < 10; i++) {
        struct counted leaving, accepting;
        start_accept(old, &leaving, true);
        start_accept(successor, &accepting, false);
        int client = connect_a_client();
        env.driver = old;
        if (i % 2 == 0) {
            CHECK_EQ(stop(&leaving), -ECANCELED);
            check_accepted(successor, &accepting, client);
            continue;
        }
        check_accepted(successor, &accepting, client);
        old->kind->wait(old, 0);
        CHECK(!leaving.done);
        check_accepted(old, &leaving, connect_a_client());
    }
    successor->kind->forget(successor, env.listener);
    successor->kind->free(successor);
    env.driver = old;
}

ON_REAL(a_shared_accept_takes_no_wake_up_from_another, shared_accept_body)

/* ---- numbers that come back; real drivers alone ---- */

/* A second driver has accepted from a listener that the first closes, and learns of the next one at
 * the same number only by its serial. */
static void listener_reuse_body(void)
{
    struct ci_driver *first = env.driver, *second;
    open_another(&second);
    close_pair();
    for (int i = 0; i < 5; i++) {
        struct sockaddr_storage address = listener_address();
        struct ci_op accepting = {.fd = env.listener, .kind = CI_OP_ACCEPT, .len = serial};
        coir_fd number = env.listener;
        struct counted counted;
        env.driver = second;
        CHECK(!start(&counted, accepting)); /* it waits: registered there */
        int client = socket(AF_INET, SOCK_STREAM, 0);
        CHECK_EQ(connect(client, (struct sockaddr *)&address, sizeof(struct sockaddr_in)), 0);
        int server = finish(&counted);
        CHECK(server >= 0);
        close_fd(server);
        close(client);
        if (i % 2) {
            CHECK(!start(&counted, accepting));
            CHECK_EQ(stop(&counted), -ECANCELED);
        }
        env.driver = first;
        close_fd(env.listener);
        env.driver->kind->wait(env.driver, 0); /* io_uring closes later */
        env.driver->kind->wait(env.driver, 0);
        listen_anywhere();
        CHECK_EQ(env.listener, number);
    }
    second->kind->free(second);
    env.driver = first;
}

ON_REAL(a_listeners_number_is_reused, listener_reuse_body)

/* A number is in turn a pipe of the program's and a socket of coir's. */
static void foreign_reuse_body(void)
{
    close_pair();
    for (int i = 0; i < 20; i++) {
        int ends[2];
        char byte;
        struct counted waiting;
        CHECK_EQ(pipe(ends), 0);
        struct ci_op op = {
            .fd = ends[0], .kind = i % 3 == 2 ? CI_OP_WATCH : CI_OP_FOREIGN, .events = COIR_READ};
        CHECK(!start(&waiting, op));
        if (i % 2) {
            CHECK_EQ(write(ends[1], "x", 1), 1);
            while (!waiting.done)
                pass();
        }
        if (!waiting.done || i % 3 == 2)
            CHECK(ci_driver_cancel(env.driver, &waiting.op));
        close(ends[0]);
        close(ends[1]);
        make_pair();
        CHECK(env.client == ends[0] || env.server == ends[0]);
        CHECK(!start(&waiting,
                     (struct ci_op){.fd = env.server, .kind = CI_OP_READ, .buf = &byte, .len = 1}));
        pass();
        CHECK(!waiting.done);
        CHECK_EQ(write_some(env.client, "y", 1), 1);
        CHECK_EQ(finish(&waiting), 1);
        CHECK_EQ(byte, 'y');
        close_pair();
        env.driver->kind->wait(env.driver, 0);
    }
}

ON_REAL(a_foreign_descriptors_number_is_reused, foreign_reuse_body)

/* ---- what is withdrawn is not asked about any more ---- */

static void never(struct ci_op *op)
{
    CHECK(!op);
}

/* How many of some waits until a time return before it. */
static int early_waits(void)
{
    int early = 0;
    for (int i = 0; i < 20; i++) {
        coir_time until = ci_driver_now(env.driver) + COIR_MS;
        env.driver->kind->wait(env.driver, until);
        early += ci_driver_now(env.driver) < until;
    }
    return early;
}

/* The pipe stays readable: a driver that still asked about it would return at once each time. */
static void unregistered_body(void)
{
    int ends[2];
    close_pair();
    CHECK_EQ(pipe(ends), 0);
    for (int kind = CI_OP_FOREIGN; kind <= CI_OP_WATCH; kind++) {
        struct ci_op op = {
            .fd = ends[0], .kind = (uint8_t)kind, .events = COIR_READ, .done = never};
        CHECK(!ci_driver_start(env.driver, &op));
        CHECK(ci_driver_cancel(env.driver, &op));
        CHECK_EQ(write(ends[1], "x", 1), 1);
        CHECK(early_waits() < 10); /* what was on its way may come */
        if (env.driver->kind->descriptor && env.driver->kind->descriptor(env.driver) >= 0) {
            struct pollfd ready = {.fd = env.driver->kind->descriptor(env.driver),
                                   .events = POLLIN};
            CHECK_EQ(poll(&ready, 1, 0), 0);
        }
    }
    close(ends[0]);
    close(ends[1]);
}

ON_REAL(a_cancelled_wait_is_not_asked_about_any_more, unregistered_body)

/* ---- more at once than any batch holds ---- */

enum { CROWD = 300 };
static struct counted crowd[CROWD];

static void crowd_body(void)
{
    static int ends[CROWD][2];
    char byte;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < CROWD; i++) {
            CHECK_EQ(pipe(ends[i]), 0);
            CHECK(!start(
                &crowd[i],
                (struct ci_op){.fd = ends[i][0], .kind = CI_OP_FOREIGN, .events = COIR_READ}));
        }
        for (int i = 0; i < CROWD; i++)
            CHECK_EQ(write(ends[i][1], "x", 1), 1);
        for (int i = 0; i < CROWD; i++)
            CHECK_EQ(finish(&crowd[i]), COIR_READ);
        for (int i = 0; i < CROWD; i++) /* all withdrawn at once */
            if (read(ends[i][0], &byte, 1) == 1)
                CHECK(!start(
                    &crowd[i],
                    (struct ci_op){.fd = ends[i][0], .kind = CI_OP_FOREIGN, .events = COIR_READ}));
        for (int i = 0; i < CROWD; i++)
            CHECK_EQ(stop(&crowd[i]), -ECANCELED);
        for (int i = 0; i < CROWD; i++) {
            close(ends[i][0]);
            close(ends[i][1]);
        }
    }
    close_pair();
}

ON_REAL(a_crowd_is_ready_at_once, crowd_body)
