/* Each operation, cancelled before it is looked at, while it waits, and while it completes:
 * thousands of times, in ways that a seed chooses. It completes exactly once (env.c), nothing is
 * lost or doubled, and nothing is written to memory that has been given back. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/random.h"
#include "env.h"
#include "open_files.h"

static struct ci_random choice;

static int rounds(void)
{
    const char *given = getenv("RACES");
    return given ? atoi(given) : env.world ? 2000 : RACES;
}

static void moment(void)
{
    if (env.world)
        pass();
    else
        env.driver->kind->wait(env.driver, 0);
}

/* Starts the operation, lets `event` happen or not, cancels. Its result; *ret_happened says whether
 * the event was made. */
static int race(struct counted *counted, struct ci_op op, void (*event)(void), bool *ret_happened)
{
    uint64_t way = ci_random_below(&choice, 8);
    *ret_happened = way >= 3 && event;
    if (start(counted, op)) {
        if (*ret_happened)
            event();
        return counted->op.result;
    }
    if (way & 1)
        moment();
    if (*ret_happened)
        event();
    if (way & 2)
        moment();
    return stop(counted);
}

/* By the kernel's own calls, so that it happens now and not when the driver is asked. */
static void send_now(coir_fd fd, const void *data, size_t len)
{
    if (env.world)
        CHECK_EQ(write_some(fd, data, len), (int)len);
    else
        CHECK_EQ(send(fd, data, len, MSG_NOSIGNAL), (ssize_t)len);
}

/* ---- reading ---- */

enum { KEPT = 64, SIZE = 16 };
/* of the last reads: what is not theirs any more stays as it was left */
static unsigned char memory[KEPT][SIZE];
static uint8_t sent, received;

static void send_one(void)
{
    send_now(env.client, &sent, 1);
    sent++;
}

static unsigned char *memory_for(int i)
{
    unsigned char *at = memory[i % KEPT];
    for (int j = 0; i >= KEPT && j < SIZE; j++)
        CHECK_EQ(at[j], 0xee);
    return at;
}

static void read_in_races(bool vector)
{
    sent = received = 0;
    for (int i = 0; i < rounds(); i++) {
        struct counted reading;
        unsigned char *to = memory_for(i);
        struct iovec iov[2] = {{to, 1}, {to + 1, SIZE - 1}};
        struct ci_op op = {.fd = env.server, .kind = CI_OP_READ, .buf = to, .len = SIZE};
        if (vector)
            op = (struct ci_op){.fd = env.server, .kind = CI_OP_READV, .iov = iov, .count = 2};
        bool happened;
        int got = race(&reading, op, send_one, &happened);
        CHECK(got > 0 || got == -ECANCELED);
        for (int j = 0; j < got; j++)
            CHECK_EQ(to[j], received++);
        memset(to, 0xee, SIZE);
    }
    while (received != sent) {
        uint8_t byte;
        CHECK_EQ(read_some(env.server, &byte, 1), 1);
        CHECK_EQ(byte, received++);
    }
    close_pair();
}

CONFORM(reads_cancelled_in_races)
{
    read_in_races(false);
}

CONFORM(vectored_reads_cancelled_in_races)
{
    read_in_races(true);
}

/* The same where the driver has no buffers left: what reads then has the kernel write to its own
 * memory. */
static void starved_reads_body(void)
{
    crowd_in();
    read_in_races(false);
    crowd_out();
}

ON_REAL(reads_without_buffers_cancelled_in_races, starved_reads_body)

CONFORM(polls_cancelled_in_races)
{
    sent = received = 0;
    for (int i = 0; i < rounds(); i++) {
        struct counted polling;
        bool happened;
        int got = race(&polling,
                       (struct ci_op){.fd = env.server, .kind = CI_OP_POLL, .events = COIR_READ},
                       send_one, &happened);
        CHECK(got == COIR_READ || got == -ECANCELED);
        CHECK(happened || got == -ECANCELED);
        if (happened) {
            uint8_t byte;
            CHECK_EQ(read_some(env.server, &byte, 1), 1);
            CHECK_EQ(byte, received++);
        }
    }
    CHECK_EQ(sent, received);
    close_pair();
}

/* ---- writing ---- */

static size_t written, drained;
static unsigned char pattern[1 << 18];

static unsigned char byte_at(size_t at)
{
    return (unsigned char)(at * 31 >> 3);
}

static const unsigned char *data_from(size_t at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        pattern[i] = byte_at(at + i);
    return pattern;
}

static bool drain(void)
{
    static unsigned char in[1 << 16];
    int n = env.world ? run((struct ci_op){.fd = env.server,
                                           .kind = CI_OP_READ,
                                           .buf = in,
                                           .len = sizeof in,
                                           .no_wait = true})
                      : (int)recv(env.server, in, sizeof in, MSG_DONTWAIT);
    for (int i = 0; i < n; i++)
        CHECK_EQ(in[i], byte_at(drained + (size_t)i));
    drained += n > 0 ? (size_t)n : 0;
    return n > 0;
}

static void drain_some(void)
{
    while (drain() && ci_random_below(&choice, 8))
        continue;
}

/* They grow to megabytes otherwise, which each round would fill and check. */
static void make_buffers_small(void)
{
    int size = 16384;
    if (env.world)
        return;
    CHECK_EQ(setsockopt(env.client, SOL_SOCKET, SO_SNDBUF, &size, sizeof size), 0);
    CHECK_EQ(setsockopt(env.server, SOL_SOCKET, SO_RCVBUF, &size, sizeof size), 0);
}

static void write_in_races(bool vector)
{
    written = drained = 0;
    make_buffers_small();
    for (int i = 0, count = CI_TSAN ? rounds() / 16 : rounds(); i < count; i++) {
        /* each fills a buffer, byte by byte */
        int n;
        do { /* fill it up without waiting */
            const void *data = data_from(written, sizeof pattern);
            n = run((struct ci_op){.fd = env.client,
                                   .kind = CI_OP_WRITE,
                                   .data = data,
                                   .len = sizeof pattern,
                                   .no_wait = true});
            written += n > 0 ? (size_t)n : 0;
        } while (n > 0);
        CHECK_EQ(n, -EAGAIN);
        struct counted writing;
        unsigned char *data = pattern;
        data_from(written, 1000);
        struct iovec iov[2] = {{data, 10}, {data + 10, 990}};
        struct ci_op op = {.fd = env.client, .kind = CI_OP_WRITE, .data = data, .len = 1000};
        if (vector)
            op = (struct ci_op){.fd = env.client, .kind = CI_OP_WRITEV, .iov = iov, .count = 2};
        bool happened;
        n = race(&writing, op, drain_some, &happened);
        CHECK(n > 0 || n == -ECANCELED);
        written += n > 0 ? (size_t)n : 0;
        memset(pattern, 0xee, 1000);
    }
    while (drained < written)
        if (!drain())
            moment();
    CHECK(!drain());
    CHECK_EQ(drained, written);
    close_pair();
}

CONFORM(writes_cancelled_in_races)
{
    write_in_races(false);
}

CONFORM(vectored_writes_cancelled_in_races)
{
    write_in_races(true);
}

/* ---- connections ---- */

/* Closes so that no port is kept: there are not enough for all rounds. */
static void reset(coir_fd fd)
{
    struct linger linger = {.l_onoff = 1};
    if (!env.world)
        CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
    close_fd(fd);
}

enum { WAITING_MOST = 8 };
static struct {
    coir_fd fd; /* -1: none */
    struct counted connecting;
} clients[WAITING_MOST];
static int client_count;

static void connect_one(void)
{
    if (client_count == WAITING_MOST)
        return;
    struct sockaddr_storage address = listener_address();
    coir_fd fd = env.driver->kind->socket(env.driver, AF_INET);
    int i = 0;
    CHECK(fd >= 0);
    while (clients[i].fd >= 0)
        i++;
    clients[i].fd = fd;
    struct ci_op op = {.fd = fd,
                       .kind = CI_OP_CONNECT,
                       .address = (struct sockaddr *)&address,
                       .count = sizeof(struct sockaddr_in)};
    if (env.world)
        clients[i].connecting.done = start(&clients[i].connecting, op);
    else
        CHECK(connect(fd, (struct sockaddr *)&address, sizeof(struct sockaddr_in)) == 0 ||
              errno == EINPROGRESS);
    client_count++;
}

static in_port_t port_of(coir_fd fd, bool peer)
{
    struct sockaddr_storage address;
    socklen_t len;
    CHECK_EQ(env.driver->kind->address(env.driver, fd, peer, &address, &len), 0);
    return ((struct sockaddr_in *)(void *)&address)->sin_port;
}

/* Resets the connection that was accepted, and no other: on a busy machine another client's
 * handshake may not have ended, and one that is reset in it never comes. */
static void accepted(coir_fd fd)
{
    int i = 0;
    CHECK(fd >= 0 && client_count > 0);
    in_port_t port = port_of(fd, true);
    while (i < WAITING_MOST && (clients[i].fd < 0 || port_of(clients[i].fd, false) != port))
        i++;
    CHECK(i < WAITING_MOST);
    if (env.world && !clients[i].connecting.done)
        finish(&clients[i].connecting);
    reset(clients[i].fd);
    reset(fd);
    clients[i].fd = -1;
    client_count--;
}

CONFORM(accepts_cancelled_in_races)
{
    int before = open_files();
    client_count = 0;
    for (int i = 0; i < WAITING_MOST; i++)
        clients[i].fd = -1;
    for (int i = 0; i < rounds(); i++) {
        struct counted accepting;
        bool happened;
        int fd = race(&accepting,
                      (struct ci_op){.fd = env.listener, .kind = CI_OP_ACCEPT, .len = serial},
                      env.world && client_count ? NULL : connect_one, &happened);
        if (fd >= 0)
            accepted(fd);
        else
            CHECK_EQ(fd, -ECANCELED);
    }
    while (client_count)
        accepted(accept_one());
    moment(); /* closes may be under way */
    CHECK_EQ(open_files(), before);
    close_pair();
}

CONFORM(connects_cancelled_in_races)
{
    int before = open_files();
    for (int i = 0; i < rounds(); i++) {
        struct sockaddr_storage address = listener_address();
        struct counted counted;
        bool happened;
        coir_fd fd = env.driver->kind->socket(env.driver, AF_INET), other;
        CHECK(fd >= 0);
        struct ci_op op = {.fd = fd,
                           .kind = CI_OP_CONNECT,
                           .address = (struct sockaddr *)&address,
                           .count = sizeof(struct sockaddr_in)};
        int rc = race(&counted, op, NULL, &happened);
        memset(&address, 0xee, sizeof address);
        CHECK(rc == 0 || rc == -ECANCELED);
        if (rc == 0)
            reset(accept_one());
        reset(fd);
        while ((other = run((struct ci_op){
                    .fd = env.listener, .kind = CI_OP_ACCEPT, .len = serial, .no_wait = true})) >=
               0)
            reset(other);
    }
    moment();
    CHECK_EQ(open_files(), before);
    close_pair();
}

/* ---- datagrams ---- */

static coir_fd from, to;
static struct sockaddr_storage to_address;

static void open_datagrams(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len;
    struct ci_datagram datagram = {.address = (struct sockaddr *)&any, .address_len = sizeof any};
    from = env.driver->kind->datagram(env.driver, &datagram);
    to = env.driver->kind->datagram(env.driver, &datagram);
    CHECK(from >= 0 && to >= 0);
    CHECK_EQ(env.driver->kind->address(env.driver, to, false, &to_address, &len), 0);
    sent = received = 0;
}

static int datagram(struct counted *racing, enum ci_op_kind kind, coir_fd fd, uint8_t *byte,
                    void (*event)(void), bool *ret_happened)
{
    struct iovec iov = {byte, 1};
    struct sockaddr_storage peer = to_address;
    struct msghdr message = {.msg_name = &peer,
                             .msg_namelen = sizeof(struct sockaddr_in),
                             .msg_iov = &iov,
                             .msg_iovlen = 1};
    struct ci_op op = {.fd = fd, .kind = (uint8_t)kind, .message = &message};
    return racing ? race(racing, op, event, ret_happened) : run(op);
}

static void send_datagram(void)
{
    if (env.world)
        CHECK_EQ(datagram(NULL, CI_OP_SEND, from, &sent, NULL, NULL), 1);
    else
        CHECK_EQ(
            sendto(from, &sent, 1, 0, (struct sockaddr *)&to_address, sizeof(struct sockaddr_in)),
            1);
    sent++;
}

CONFORM(datagrams_received_in_races)
{
    open_datagrams();
    for (int i = 0; i < rounds(); i++) {
        struct counted racing;
        bool happened;
        uint8_t byte = 0xee;
        int n = datagram(&racing, CI_OP_RECEIVE, to, &byte,
                         (uint8_t)(sent - received) < 50 ? send_datagram : NULL, &happened);
        CHECK(n == 1 || n == -ECANCELED);
        CHECK_EQ(byte, n == 1 ? received++ : 0xee);
    }
    while (received != sent) {
        uint8_t byte;
        CHECK_EQ(datagram(NULL, CI_OP_RECEIVE, to, &byte, NULL, NULL), 1);
        CHECK_EQ(byte, received++);
    }
    close_fd(from);
    close_fd(to);
    close_pair();
}

CONFORM(datagrams_sent_in_races)
{
    open_datagrams();
    for (int i = 0; i < rounds(); i++) {
        struct counted racing;
        bool happened;
        uint8_t byte = sent, got;
        int n = datagram(&racing, CI_OP_SEND, from, &byte, NULL, &happened);
        byte = 0xee;
        CHECK(n == 1 || n == -ECANCELED);
        if (n < 0)
            continue;
        CHECK_EQ(datagram(NULL, CI_OP_RECEIVE, to, &got, NULL, NULL), 1);
        CHECK_EQ(got, sent++);
    }
    close_fd(from);
    close_fd(to);
    close_pair();
}

/* ---- what only real drivers have ---- */

static int ends[2];

static void write_pipe(void)
{
    CHECK_EQ(write(ends[1], "x", 1), 1);
}

static void foreign_races_body(void)
{
    CHECK_EQ(pipe(ends), 0);
    for (int i = 0; i < rounds(); i++) {
        struct counted waiting;
        bool happened;
        char byte;
        int got = race(&waiting,
                       (struct ci_op){.fd = ends[0], .kind = CI_OP_FOREIGN, .events = COIR_READ},
                       write_pipe, &happened);
        CHECK(got == COIR_READ || got == -ECANCELED);
        CHECK(happened || got == -ECANCELED);
        if (happened)
            CHECK_EQ(read(ends[0], &byte, 1), 1);
    }
    close(ends[0]);
    close(ends[1]);
    close_pair();
}

ON_REAL(foreign_waits_cancelled_in_races, foreign_races_body)

static int calls;
static bool over;

static void on_watch(struct ci_op *op)
{
    char byte;
    CHECK(!over);
    CHECK_EQ(op->result, COIR_READ);
    CHECK_EQ(read(ends[0], &byte, 1), 1);
    calls++;
}

static void watch_races_body(void)
{
    CHECK_EQ(pipe(ends), 0);
    int written_count = 0;
    calls = 0;
    for (int i = 0; i < rounds(); i++) {
        struct ci_op op = {
            .fd = ends[0], .kind = CI_OP_WATCH, .events = COIR_READ, .done = on_watch};
        uint64_t way = ci_random_below(&choice, 8);
        over = false;
        CHECK(!ci_driver_start(env.driver, &op));
        for (int j = 0; j < 3; j++) {
            if (way & 1)
                moment();
            if (way & 2) {
                write_pipe();
                written_count++;
            }
            if (way & 4)
                moment();
        }
        CHECK(ci_driver_cancel(env.driver, &op)); /* always withdrawn */
        over = true;
        memset(&op, 0xee, sizeof op);
        if (i % 100 == 99) {
            char bytes[1000];
            struct pollfd left = {.fd = ends[0], .events = POLLIN};
            if (poll(&left, 1, 0) == 1)
                calls += (int)read(ends[0], bytes, sizeof bytes);
            moment();
        }
    }
    CHECK_EQ(calls, written_count);
    close(ends[0]);
    close(ends[1]);
    close_pair();
}

ON_REAL(watches_cancelled_in_races, watch_races_body)
