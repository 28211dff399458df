/* Registrations of real drivers: an event that belongs to an earlier registration of the number is
 * dropped, and a watch is the only operation of its descriptor. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "driver/readiness.h"
#include "driver/selector.h"
#include "env.h"

/* Two pipes become readable at once. The first callback cancels the wait for the other, empties
 * that pipe, and waits for it again: the event in hand belongs to the wait before. */
static int pipes[2][2];
static struct ci_op waits[2];
static int told;

static void on_stale(struct ci_op *op)
{
    int other = op == &waits[0];
    char byte;
    struct pollfd now = {.fd = op->fd, .events = POLLIN};
    CHECK_EQ(poll(&now, 1, 0), 1); /* it holds */
    if (told++ || !waits[other].pending || !ci_driver_cancel(env.driver, &waits[other]))
        return; /* it has ended already: its `done` will be called */
    CHECK_EQ(read(pipes[other][0], &byte, 1), 1);
    CHECK(!ci_driver_start(env.driver, &waits[other]));
}

static void stale_body(enum ci_op_kind kind)
{
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(pipe(pipes[i]), 0);
        waits[i] = (struct ci_op){
            .fd = pipes[i][0], .kind = (uint8_t)kind, .events = COIR_READ, .done = on_stale};
    }
    for (int round = 0; round < 20; round++) {
        char byte;
        told = 0;
        for (int i = 0; i < 2; i++) {
            CHECK(!ci_driver_start(env.driver, &waits[i]));
            CHECK_EQ(write(pipes[i][1], "x", 1), 1);
        }
        while (!told)
            pass();
        env.driver->kind->wait(env.driver, 0);
        for (int i = 0; i < 2; i++) {
            struct pollfd now = {.fd = pipes[i][0], .events = POLLIN};
            if (waits[i].pending)
                CHECK(ci_driver_cancel(env.driver, &waits[i]));
            if (poll(&now, 1, 0) == 1)
                CHECK_EQ(read(pipes[i][0], &byte, 1), 1);
        }
    }
    for (int i = 0; i < 4; i++)
        close(pipes[i / 2][i % 2]);
    close_fd(env.client);
    close_fd(env.server);
}

static void stale_foreign_body(void)
{
    stale_body(CI_OP_FOREIGN);
}

static void stale_watch_body(void)
{
    stale_body(CI_OP_WATCH);
}

ON_REAL(a_foreign_wait_hears_nothing_of_the_one_before, stale_foreign_body)
ON_REAL(a_watch_hears_nothing_of_the_one_before, stale_watch_body)

/* Two pipes hang up at once. The first callback gives the other's number to a socket of ours: the
 * hang-up in hand is not the socket's. */
static struct counted reused;
static int reused_peer;

static void on_hangup(struct ci_op *op)
{
    int other = op == &waits[0], pair[2];
    if (told++ || !waits[other].pending || !ci_driver_cancel(env.driver, &waits[other]))
        return;
    coir_fd number = pipes[other][0];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    CHECK_EQ(dup2(pair[0], number), number);
    close(pair[0]);
    reused_peer = pair[1];
    CHECK(!start(&reused, (struct ci_op){.fd = number, .kind = CI_OP_POLL}));
}

static void stale_number_body(void)
{
    for (int round = 0; round < 20; round++) {
        told = 0;
        reused_peer = -1;
        for (int i = 0; i < 2; i++) {
            CHECK_EQ(pipe(pipes[i]), 0);
            waits[i] = (struct ci_op){
                .fd = pipes[i][0], .kind = CI_OP_FOREIGN, .events = COIR_READ, .done = on_hangup};
            CHECK(!ci_driver_start(env.driver, &waits[i]));
            close(pipes[i][1]);
        }
        while (!told || (reused_peer < 0 && told < 2))
            pass();
        if (reused_peer >= 0) {
            for (int i = 0; i < 3; i++)
                env.driver->kind->wait(env.driver, 0);
            CHECK(!reused.done);
            close(reused_peer);
            CHECK(finish(&reused) & COIR_HANGUP);
            close_fd(reused.op.fd);
        }
        for (int i = 0; i < 2; i++)
            if (reused_peer < 0 || pipes[i][0] != reused.op.fd)
                close(pipes[i][0]);
    }
    close_fd(env.client);
    close_fd(env.server);
}

ON_REAL(a_socket_hears_nothing_of_the_foreign_wait_before_it, stale_number_body)

static void watch_alone(void)
{
    struct counted first, second;
    struct ci_op watch = {.kind = CI_OP_WATCH, .fd = env.client, .events = COIR_READ};
    CHECK(!start(&first, watch));
    CHECK(start(&second, watch));
    CHECK_EQ(second.op.result, -EBUSY);
    watch.kind = CI_OP_FOREIGN;
    CHECK(start(&second, watch));
    CHECK_EQ(second.op.result, -EBUSY);
    CHECK(ci_driver_cancel(env.driver, &first.op));
    CHECK(!start(&second, watch));
    CHECK(ci_driver_cancel(env.driver, &second.op));
    close_pair();
}

ON_REAL(a_watch_is_alone_on_its_descriptor, watch_alone)

static void ignore(struct ci_op *op)
{
    (void)op;
}

static void check_nothing_is_reported(void)
{
    const struct ci_driver_kind *kind = env.driver->kind;
    coir_fd selector = kind->descriptor ? kind->descriptor(env.driver) : -ENOTSUP;
    if (selector >= 0)
        CHECK_EQ(poll(&(struct pollfd){.fd = selector, .events = POLLIN}, 1, 0), 0);
}

static void check_reader_is_not_told_of_room(coir_fd fd, coir_fd peer)
{
    char byte;
    struct ci_op read_op = {.kind = CI_OP_READ, .fd = fd, .buf = &byte, .len = 1, .done = ignore};
    CHECK(!ci_driver_start(env.driver, &read_op));
    check_nothing_is_reported();
    CHECK_EQ(env.driver->kind->wait(env.driver, 0), 0); /* io_uring: to the kernel */
    check_nothing_is_reported();
    CHECK_EQ(write(fd, "x", 1), 1);
    CHECK_EQ(poll(&(struct pollfd){.fd = peer, .events = POLLIN}, 1, -1), 1);
    CHECK_EQ(read(peer, &byte, 1), 1);
    check_nothing_is_reported();
    CHECK(read_op.pending);
    env.driver->kind->close(env.driver, fd);
    close(peer);
}

/* Neither end has been registered. */
static void fresh_tcp_pair(int fds[2])
{
    struct sockaddr_storage address = listener_address();
    fds[1] = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_EQ(connect(fds[1], (void *)&address, sizeof(struct sockaddr_in)), 0);
    fds[0] = accept_one();
    CHECK(fds[0] >= 0);
}

/* Each room of a Unix socket, and the first of TCP, would wake the worker in vain. */
static void quiet_writer_body(void)
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0)
        check_reader_is_not_told_of_room(fds[0], fds[1]);
    fresh_tcp_pair(fds);
    check_reader_is_not_told_of_room(fds[0], fds[1]);
    close_fd(env.client);
    close_fd(env.server);
}

ON_REAL(a_socket_whose_reader_waits_reports_no_room, quiet_writer_body)

/* ---- a registration that is lost when it cannot be changed, as those of kqueue(2) are ---- */

static int refusals;

static int lose(struct ci_selector *selector, coir_fd fd, uint32_t generation, unsigned events,
                enum ci_trigger trigger)
{
    if (refusals-- <= 0)
        return ci_epoll_selector.modify(selector, fd, generation, events, trigger);
    ci_epoll_selector.remove(selector, fd);
    return -ENOMEM;
}

static int refuse(struct ci_selector *selector, coir_fd fd, uint32_t generation, unsigned events,
                  enum ci_trigger trigger)
{
    return refusals-- > 0 ? -ENOMEM
                          : ci_epoll_selector.add(selector, fd, generation, events, trigger);
}

static struct ci_driver *open_losing(const struct ci_selector_kind *kind)
{
    struct ci_selector *selector;
    struct ci_driver *driver;
    CHECK_EQ(ci_selector_new(kind, &ci_system_allocator, &selector), 0);
    CHECK_EQ(ci_readiness_open(selector, &ci_system_allocator, &driver), 0);
    return driver;
}

static int write_until_refused(void)
{
    static char flood[1 << 16];
    int rc;
    do
        rc = run((struct ci_op){.fd = env.server,
                                .kind = CI_OP_WRITE,
                                .data = flood,
                                .len = sizeof flood,
                                .no_wait = true});
    while (rc > 0);
    return rc;
}

/* A reader waits; a writer is refused `count` times for want of memory. */
static void lose_registration(int count)
{
    struct ci_selector_kind kind = ci_epoll_selector;
    struct ci_driver *before = env.driver;
    struct counted reading;
    kind.modify = lose;
    kind.add = refuse;
    before->kind->forget(before, env.server);
    env.driver = open_losing(&kind);
    refusals = 0;
    struct ci_op readable = {.fd = env.server, .kind = CI_OP_POLL, .events = COIR_READ};
    CHECK(!start(&reading, readable));
    refusals = count;
    CHECK_EQ(write_until_refused(), -ENOMEM);
    refusals = 0;
    if (count > 1) /* what is registered next brings the reader back */
        CHECK_EQ(write_until_refused(), -EAGAIN);
    CHECK_EQ(send(env.client, "x", 1, 0), 1);
    CHECK(completes_soon(&reading));
    CHECK(reading.op.result & COIR_READ);
    close_fd(env.server);
    env.driver->kind->free(env.driver);
    env.driver = before;
    close_fd(env.client);
}

static void lose_body(void)
{
    lose_registration(1);
    make_pair();
    lose_registration(2);
}
ON(epoll, what_waits_outlives_a_registration_that_cannot_be_changed, lose_body)
