/* Sockets that are closed while calls of several operations wait on them (src/io/udp.h 1), and the
 * number of their descriptor is another socket's when those calls run. */
#include <coir.h>
#include <errno.h>
#include <string.h>

#include "every_driver.h"
#include "harness.h"
#include "io/udp.h"

static coir_udp *open_at(const char *address, coir_address *ret_address)
{
    char text[128];
    coir_udp *udp;
    CHECK_EQ(coir_udp_open(address, NULL, &udp), 0);
    CHECK(coir_udp_local(udp, text, sizeof text) > 0);
    CHECK_EQ(coir_address_parse(text, ret_address), 0);
    return udp;
}

static void everywhere(void (*body)(void))
{
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    run_on_every_driver(config, body);
}

enum { LATE = 4 };

/* ---- a receive, between its wait and its next attempt ---- */

static struct {
    coir_udp *first, *second; /* the second takes the number of the first */
    coir_udp *signal;         /* a datagram here: close the first */
    coir_address second_address;
    char got[16];
    bool op, reused, begun;
    char name[128]; /* of the first */
} sockets;

static int receive(void *arg)
{
    coir_datagram in = COIR_DATAGRAM;
    coir_udp_op op;
    (void)arg;
    in.data = sockets.got;
    in.room = sizeof sockets.got;
    return (int)(sockets.op ? coir_await(coir_udp_recv_many_op(&op, sockets.first, &in, 1))
                            : coir_udp_recv_many(sockets.first, &in, 1));
}

static int close_when_told(void *arg)
{
    char byte;
    coir_fd fd = sockets.first->fd;
    (void)arg;
    CHECK_EQ(coir_udp_recv(sockets.signal, &byte, 1, NULL), 1);
    coir_udp_close(sockets.first);
    sockets.second = open_at("127.0.0.1:0", &sockets.second_address);
    sockets.reused = sockets.second->fd == fd;
    CHECK_EQ(coir_udp_send_to(sockets.second, "other", 5, &sockets.second_address), 5);
    return 0;
}

/* Whether the receive was found waiting. Both tasks are woken in one turn of the worker: which is
 * first depends on the driver. */
static bool close_under_a_receive(bool op, bool close_first)
{
    coir_address first, signal;
    COIR_HANDLE(receiver);
    char got[16];
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = receiver;
    sockets.op = op;
    sockets.first = open_at("127.0.0.1:0", &first);
    sockets.signal = open_at("127.0.0.1:0", &signal);
    coir_udp *sender = open_at("127.0.0.1:0", &(coir_address){{0}});
    COIR_SERVING_SCOPE(scope);
    if (close_first)
        CHECK_EQ(coir_go(scope, close_when_told, NULL), 0);
    CHECK_EQ(coir_go_with(scope, &options, receive, NULL), 0);
    if (!close_first)
        CHECK_EQ(coir_go(scope, close_when_told, NULL), 0);
    for (int i = 0; i < 10; i++)
        coir_yield();
    coir_datagram out[2] = {COIR_DATAGRAM};
    for (int i = 0; i < 2; i++) {
        out[i].data = "mine";
        out[i].len = 4;
        out[i].peer = (i == 0) == close_first ? signal : first;
    }
    CHECK_EQ(coir_udp_send_many(sender, out, 2), 2); /* no task runs between them */
    int rc = coir_join(receiver);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK(rc == -ECANCELED || (rc == 1 && memcmp(sockets.got, "mine", 4) == 0));
    CHECK(sockets.reused);
    CHECK_EQ(coir_udp_recv(sockets.second, got, sizeof got, NULL), 5); /* the other's has stayed */
    coir_udp_close(sockets.second);
    coir_udp_close(sockets.signal);
    coir_udp_close(sender);
    return rc == -ECANCELED;
}

static void close_under_receives(void)
{
    int waiting = 0;
    for (int i = 0; i < 8; i++)
        waiting += close_under_a_receive(i & 1, i & 2);
    CHECK(waiting > 0);
}

TEST(a_receive_takes_nothing_of_another_socket)
{
    everywhere(close_under_receives);
}

/* ---- a receive, between its first attempt and its wait ---- */

/* The fiber's turn ends with one of these operations, which may be the attempt. */
static int receive_late(void *arg)
{
    coir_datagram in = COIR_DATAGRAM;
    coir_udp_op op;
    in.data = sockets.got;
    in.room = sizeof sockets.got;
    coir_yield();
    for (int left = *(int *)arg; left < LATE; left++)
        coir_udp_send_to(sockets.signal, "x", 1, &sockets.second_address);
    sockets.begun = true;
    return (int)coir_await(coir_udp_recv_many_op(&op, sockets.first, &in, 1));
}

static void close_before_the_wait(int left)
{
    COIR_HANDLE(receiver);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = receiver;
    sockets.signal = open_at("127.0.0.1:0", &sockets.second_address);
    sockets.first = open_at("127.0.0.1:0", &(coir_address){{0}});
    coir_fd fd = sockets.first->fd;
    COIR_SERVING_SCOPE(scope);
    CHECK_EQ(coir_go_with(scope, &options, receive_late, &left), 0);
    for (sockets.begun = false; !sockets.begun;)
        coir_yield();
    coir_udp_close(sockets.first);
    sockets.second = open_at("127.0.0.1:0", &(coir_address){{0}});
    CHECK_EQ(sockets.second->fd, fd);
    COIR_DEADLINE(coir_in(10 * COIR_S));
    CHECK_EQ(coir_join(receiver), -ECANCELED);
    coir_udp_close(sockets.second);
    coir_udp_close(sockets.signal);
}

static void close_before_waits(void)
{
    for (int left = 0; left < LATE; left++)
        close_before_the_wait(left);
}

TEST(a_receive_that_others_run_before_waits_for_no_other_socket)
{
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.budget = LATE;
    run_on_every_driver(config, close_before_waits);
}

/* ---- a receive that is complete at once ---- */

static void *get_memory(size_t bytes, void *arg)
{
    (void)arg;
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

/* What is used afterwards shows. A memset would be left out. */
static void spoil_memory(void *memory, size_t bytes, void *arg)
{
    (void)arg;
    for (size_t i = 0; i < bytes; i++)
        ((volatile char *)memory)[i] = 0x55;
    free(memory);
}

static const coir_allocator spoiling = COIR_ALLOCATOR(get_memory, spoil_memory, NULL);

static void open_telling(void)
{
    coir_udp_options options = COIR_UDP_OPTIONS;
    options.address = "127.0.0.1:0";
    options.tell_local = true;
    CHECK_EQ(coir_udp_open_with(&options, &sockets.first), 0);
    CHECK(coir_udp_local(sockets.first, sockets.name, sizeof sockets.name) > 0);
}

static void receive_one(void)
{
    coir_datagram in = COIR_DATAGRAM;
    char text[128];
    in.data = sockets.got;
    in.room = sizeof sockets.got;
    CHECK_EQ(coir_udp_recv_many(sockets.first, &in, 1), 1);
    CHECK(coir_address_format(&in.local, text, sizeof text) > 0);
    CHECK(strcmp(text, sockets.name) == 0);
}

static int receive_second(void *arg)
{
    coir_yield();
    for (int left = *(int *)arg; left < LATE; left++)
        coir_udp_send_to(sockets.signal, "x", 1, &sockets.second_address);
    sockets.begun = true;
    receive_one();
    return 0;
}

static void close_after_the_attempt(int left)
{
    coir_address first;
    sockets.signal = open_at("127.0.0.1:0", &sockets.second_address);
    open_telling();
    CHECK_EQ(coir_address_parse(sockets.name, &first), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(coir_udp_send_to(sockets.signal, "mine", 4, &first), 4);
    receive_one();
    COIR_SERVING_SCOPE(scope);
    CHECK_EQ(coir_go(scope, receive_second, &left), 0);
    for (sockets.begun = false; !sockets.begun;)
        coir_yield();
    coir_udp_close(sockets.first);
    CHECK_EQ(coir_scope_wait(scope), 0);
    coir_udp_close(sockets.signal);
}

static void close_after_attempts(void)
{
    for (int left = 0; left < LATE; left++)
        close_after_the_attempt(left);
}

TEST(a_datagram_tells_the_address_of_its_socket)
{
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.budget = LATE;
    config.allocator = &spoiling;
    run_on_every_driver(config, close_after_attempts);
}

/* ---- a send, between two attempts ---- */

struct send {
    coir_udp *udp;
    coir_address to;
    int form;
};

static int send_one(void *arg)
{
    struct send *send = arg;
    coir_datagram out = COIR_DATAGRAM;
    coir_udp_op op;
    out.data = "secret";
    out.len = 6;
    out.peer = send->to;
    switch (send->form) {
    case 0: return (int)coir_udp_send_to(send->udp, "secret", 6, &send->to);
    case 1: return (int)coir_udp_send_many(send->udp, &out, 1);
    case 2: return (int)coir_await(coir_udp_send_to_op(&op, send->udp, "secret", 6, &send->to));
    default: return (int)coir_await(coir_udp_send_many_op(&op, send->udp, &out, 1));
    }
}

/* Sends until the queue of the receiver is full. */
static void fill(coir_udp *udp, const coir_address *to)
{
    COIR_DEADLINE(coir_in(COIR_MS));
    while (coir_udp_send_to(udp, "x", 1, to) == 1)
        ;
}

static void drain(coir_udp *udp)
{
    char got[8];
    COIR_DEADLINE(coir_in(COIR_MS));
    for (ssize_t n; (n = coir_udp_recv(udp, got, sizeof got, NULL)) != -ETIME;)
        CHECK_EQ(n, 1);
}

static void close_under_a_send(int form)
{
    struct send send = {.form = form};
    COIR_HANDLE(sender);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = sender;
    coir_udp *receiver = open_at("unix:@", &send.to);
    coir_udp *other;
    send.udp = open_at("unix:@", &(coir_address){{0}});
    coir_fd fd = send.udp->fd;
    fill(send.udp, &send.to);
    COIR_SERVING_SCOPE(scope);
    CHECK_EQ(coir_go_with(scope, &options, send_one, &send), 0);
    coir_yield();
    coir_udp_close(send.udp);
    other = open_at("unix:@", &(coir_address){{0}});
    CHECK_EQ(other->fd, fd);
    drain(receiver);
    CHECK_EQ(coir_join(sender), -ECANCELED);
    drain(receiver);
    coir_udp_close(other);
    coir_udp_close(receiver);
}

static void close_under_sends(void)
{
    for (int form = 0; form < 4; form++)
        close_under_a_send(form);
}

TEST(a_send_goes_out_by_no_other_socket)
{
    everywhere(close_under_sends);
}
