/* Datagrams, several in one call and one by one, with and without peers, in every way to wait for
 * them, by IPv4 and IPv6; calls that are given up, buffers that are too short, networks that lose,
 * double and reorder.
 *
 * What must hold:
 * 1. A datagram comes as it was sent, and from whom; of one that has no room, the rest is cut, and
 *    that is told. None comes that was not sent, or that a send did not count.
 * 2. None comes twice, where the network doubles none.
 * 3. An address that is written as text and read again is the same.
 * 4. Where the network loses and reorders none, all come, in the order of their sender. */
#include <coir/udp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { SENDERS = 3, DATAGRAMS = 60, BATCH_MOST = 8, LEN_MOST = 900, TEXT_MOST = 64 };
enum { VAIN_SOME = 64, VAIN_MOST = 6 * VAIN_SOME - 1 }; /* receives */
static const coir_time patience = 60 * COIR_S;

enum fate { UNSENT, SENT, REFUSED };

struct message {
    uint16_t sender, number, len; /* of all */
    char bytes[LEN_MOST];
};
enum { HEAD = offsetof(struct message, bytes) };

static struct {
    coir_sim *sim;
    coir_host *receiver;
    bool calm; /* the network loses, doubles and reorders none */
    bool doubles, listens, over;
    bool both_families;            /* the receiver's socket */
    bool six[SENDERS];             /* of the socket that a sender has now */
    char from[SENDERS][TEXT_MOST]; /* of the socket that a sender has now */
    uint8_t fate[SENDERS][DATAGRAMS], came[SENDERS][DATAGRAMS];
    int next[SENDERS]; /* that is to come */
    int senders_left;
    int vain; /* receives since the last datagram */
} w;

static coir_time some_time(void)
{
    return (coir_time)below((uint64_t)(5 * COIR_MS) >> below(10));
}

/* What may fail, and is tried again. */
static ssize_t passing(ssize_t n)
{
    bool shortage = n == -ENOBUFS || n == -ENOMEM || n == -EMFILE || n == -ENFILE;
    MUST(n >= 0 || n == -ETIME || (!w.calm && (shortage || n == -ECONNREFUSED)));
    return n;
}

static coir_udp *open_socket(const char *address, const char *peer)
{
    coir_udp *udp;
    coir_udp_options options = COIR_UDP_OPTIONS;
    options.address = address;
    options.peer = peer;
    options.ttl = (unsigned)below(256);
    options.send_buffer = below(2) ? 0 : 65536;
    options.receive_buffer = below(2) ? 0 : 65536;
    options.tell_local = below(2);
    options.tell_ecn = below(2);
    options.broadcast = below(10) == 0;
    int rc;
    while ((rc = coir_udp_open_with(&options, &udp)) < 0) {
        if (rc == -EOPNOTSUPP) /* what the simulated world has not */
            options.tell_local = options.tell_ecn = options.broadcast = false;
        else
            passing(rc);
        MUST_BE(coir_sleep_for(COIR_MS), 0);
    }
    return udp;
}

/* ---- addresses ---- */

static void write_and_read_again(const char *text, bool is_shortest)
{
    coir_address address, again;
    char written[TEXT_MOST * 2], twice[TEXT_MOST * 2];
    MUST_BE(coir_address_parse(text, &address), 0);
    MUST(coir_address_format(&address, written, sizeof written) > 0);
    MUST(!is_shortest || strcmp(text, written) == 0);
    MUST_BE(coir_address_parse(written, &again), 0);
    MUST(coir_address_format(&again, twice, sizeof twice) > 0 && strcmp(written, twice) == 0);
}

static void check_addresses(void)
{
    static const char *const texts[] = {"[::1]:80",  "127.0.0.1:65535", "unix:/run/a",
                                        "unix:@a b", "[fe80::1%3]:9",   "0.0.0.0:0"};
    static const char *const wrong[] = {"[::1:80", "1.2.3.4.5:80", "a:b",   "[::g]:1",
                                        "1.2.3.4", "[::1]80",      "unix:", "1.2.3.4:65536"};
    coir_address address;
    char text[TEXT_MOST];
    write_and_read_again(texts[below(sizeof texts / sizeof *texts)], true);
    snprintf(text, sizeof text, "[%x:%x::%x]:%u", (unsigned)below(65536), (unsigned)below(9),
             (unsigned)below(65536), (unsigned)below(65536));
    write_and_read_again(text, false);
    int rc = coir_address_parse(wrong[below(sizeof wrong / sizeof *wrong)], &address);
    MUST(rc <= -4096);
}

/* ---- sending ---- */

struct sender {
    coir_udp *udp;
    coir_address to;
    bool has_peer;
    uint16_t sender;
    int number; /* that is next */
    struct message messages[BATCH_MOST];
    coir_datagram datagrams[BATCH_MOST];
};

static void make_message(struct message *message, int sender, int number)
{
    message->sender = (uint16_t)sender;
    message->number = (uint16_t)number;
    message->len = (uint16_t)(HEAD + (sender * 131 + number * 71) % LEN_MOST);
    for (int i = HEAD; i < message->len; i++)
        message->bytes[i - HEAD] = (char)(i * 7 + number * 3 + sender);
}

static size_t make_batch(struct sender *self)
{
    size_t count = 1 + below(BATCH_MOST);
    for (size_t i = 0; i < count && self->number + (int)i < DATAGRAMS; i++) {
        struct message *message = &self->messages[i];
        make_message(message, self->sender, self->number + (int)i);
        self->datagrams[i] = (coir_datagram)COIR_DATAGRAM;
        self->datagrams[i].data = message;
        self->datagrams[i].len = message->len;
        if (!self->has_peer || below(2))
            self->datagrams[i].peer = self->to;
    }
    size_t left = (size_t)(DATAGRAMS - self->number);
    return count < left ? count : left;
}

/* How many were sent. A deadline is often too short. */
static ssize_t send_batch(struct sender *self, size_t count)
{
    coir_udp_op op;
    const struct message *first = &self->messages[0];
    COIR_DEADLINE(below(2) ? COIR_NEVER : coir_in((coir_time)below(100 * COIR_US)));
    switch (below(4)) {
    case 0: return coir_udp_send_many(self->udp, self->datagrams, count);
    case 1: return coir_await(coir_udp_send_many_op(&op, self->udp, self->datagrams, count));
    case 2: {
        coir_case cases[] = {coir_case_udp(self->udp, COIR_WRITE), coir_case_after(some_time())};
        int won = coir_select(cases, 2);
        return won < 0    ? won
               : won == 1 ? -ETIME
                          : coir_udp_send_many(self->udp, self->datagrams, count);
    }
    default: {
        ssize_t n = self->has_peer ? coir_udp_send(self->udp, first, first->len)
                                   : coir_udp_send_to(self->udp, first, first->len, &self->to);
        return n < 0 ? n : 1;
    }
    }
}

/* In a calm world the receiver keeps pace. */
static void wait_for_receiver(const struct sender *self)
{
    COIR_DEADLINE(coir_in(patience));
    coir_time pause = 0;
    while (w.calm && w.next[self->sender] < self->number)
        MUST_BE(chaos_pause(&pause), 0);
}

static void open_sender(struct sender *self)
{
    bool six = w.six[self->sender] = w.both_families && below(2);
    const char *peer = six ? "[fd00::1]:9" : "receiver:9"; /* which is the first host */
    const char *own = below(2) ? ":0" : six ? "[::]:0" : "0.0.0.0:0";
    self->has_peer = below(2);
    MUST_BE(coir_address_parse(peer, &self->to), 0);
    self->udp = open_socket(own, self->has_peer ? peer : NULL);
    char *from = w.from[self->sender];
    MUST(coir_udp_local(self->udp, from, TEXT_MOST) > 0);
    MUST_BE(coir_udp_join(self->udp, &self->to, NULL), -EOPNOTSUPP);
    MUST_BE(coir_udp_leave(self->udp, &self->to, NULL), -EOPNOTSUPP);
}

static int be_a_sender(void *arg)
{
    struct sender *self = malloc(sizeof *self);
    MUST(self);
    *self = (struct sender){.sender = (uint16_t)(uintptr_t)arg};
    check_addresses();
    open_sender(self);
    while (self->number < DATAGRAMS) {
        size_t count = make_batch(self);
        memset(&w.fate[self->sender][self->number], SENT, count); /* it may come before the call
                                                                      returns */
        ssize_t n = passing(send_batch(self, count));
        MUST(n <= (ssize_t)count);
        for (size_t i = n > 0 ? (size_t)n : 0; i < count; i++)
            w.fate[self->sender][self->number + (int)i] = REFUSED;
        self->number += n > 0 ? (int)n : 0;
        wait_for_receiver(self);
        if (below(4) == 0)
            MUST_BE(coir_sleep_for(some_time()), 0);
    }
    coir_udp_close(self->udp);
    free(self);
    w.senders_left--;
    return 0;
}

/* ---- receiving ---- */

static void check(const void *data, size_t len, bool is_cut, const coir_address *from)
{
    struct message want, got;
    char text[TEXT_MOST];
    MUST(len >= HEAD);
    memcpy(&got, data, len);
    MUST(got.sender < SENDERS && got.number < DATAGRAMS);
    make_message(&want, got.sender, got.number);
    MUST(is_cut ? len < want.len : len == want.len);
    MUST(memcmp(&want, &got, len) == 0);
    MUST_BE(w.fate[got.sender][got.number], SENT);
    uint8_t times = ++w.came[got.sender][got.number];
    MUST(times == 1 || w.doubles);
    if (from) {
        coir_address_format(from, text, sizeof text);
        MUST(strcmp(strrchr(text, ':'), strrchr(w.from[got.sender], ':')) == 0);
        MUST_BE(text[0] == '[', w.six[got.sender]);
    }
    if (w.calm)
        MUST_BE(got.number, w.next[got.sender]);
    w.next[got.sender] = got.number + 1;
}

static ssize_t receive_many(coir_udp *udp, char (*rooms)[sizeof(struct message)])
{
    coir_datagram datagrams[BATCH_MOST + 1];
    coir_udp_op op;
    size_t count = 1 + below(BATCH_MOST + 1);
    for (size_t i = 0; i < count; i++) {
        datagrams[i] = (coir_datagram)COIR_DATAGRAM;
        datagrams[i].data = rooms[i];
        datagrams[i].room = HEAD + below(below(3) ? 1 : LEN_MOST);
        if (below(2))
            datagrams[i].room = sizeof rooms[i];
    }
    ssize_t n = below(2) ? coir_udp_recv_many(udp, datagrams, count)
                         : coir_await(coir_udp_recv_many_op(&op, udp, datagrams, count));
    MUST(n <= (ssize_t)count);
    for (ssize_t i = 0; i < n; i++) {
        MUST(datagrams[i].len <= datagrams[i].room);
        check(rooms[i], datagrams[i].len, datagrams[i].cut, &datagrams[i].peer);
    }
    return n;
}

static ssize_t receive_one(coir_udp *udp, char *room)
{
    coir_udp_op op;
    coir_address from;
    size_t len = sizeof(struct message);
    ssize_t n = below(2) ? coir_udp_recv(udp, room, len, &from)
                         : coir_await(coir_udp_recv_op(&op, udp, room, len, &from));
    if (n >= 0)
        check(room, (size_t)n, false, &from);
    return n;
}

static ssize_t receive_somehow(coir_udp *udp)
{
    static char rooms[BATCH_MOST + 1][sizeof(struct message)];
    /* longer when nothing has come for a while */
    COIR_DEADLINE(coir_in(some_time() << w.vain / VAIN_SOME));
    if (below(3) == 0) {
        coir_case cases[] = {coir_case_udp(udp, COIR_READ), coir_case_after(some_time())};
        int won = coir_select(cases, 2);
        if (won != 0)
            return won < 0 ? won : -ETIME;
    }
    return below(3) ? receive_many(udp, rooms) : receive_one(udp, rooms[0]);
}

static int receive_all(void *arg)
{
    (void)arg;
    coir_udp *udp = open_socket(w.both_families ? ":9" : "0.0.0.0:9", NULL);
    w.listens = true;
    while (!w.over) {
        bool vain = passing(receive_somehow(udp)) == -ETIME;
        w.vain = !vain ? 0 : w.vain < VAIN_MOST ? w.vain + 1 : VAIN_MOST;
        if (!w.calm && below(20) == 0)
            MUST_BE(coir_sleep_for(some_time()), 0); /* its queue may overflow */
    }
    coir_udp_close(udp);
    return 0;
}

/* ---- the world ---- */

static int be_everybody(void *arg)
{
    (void)arg;
    while (!w.listens)
        MUST_BE(coir_sleep_for(COIR_MS), 0);
    {
        COIR_SCOPE(scope);
        COIR_DEADLINE(coir_in(patience));
        for (intptr_t i = 0; i < SENDERS; i++)
            MUST_BE(coir_go_anywhere(scope, be_a_sender, (void *)i), 0);
        MUST_BE(coir_scope_wait(scope), 0);
    }
    for (int i = 0; w.calm && i < SENDERS; i++)
        MUST_BE(w.next[i], DATAGRAMS);
    MUST_BE(coir_sleep_for(COIR_S), 0); /* the last come */
    w.over = true;
    chaos_await_end(w.receiver, patience);
    return 0;
}

int scenario(coir_sim *sim)
{
    memset(&w, 0, sizeof w);
    w.sim = sim;
    w.calm = below(2);
    w.doubles = !w.calm && below(2);
    w.senders_left = SENDERS;
    w.both_families = below(2);
    MUST_BE(chaos_configure(sim), 0);
    if (!(w.receiver = coir_sim_host(sim, "receiver", receive_all, NULL)))
        return -ENOMEM;
    coir_sim_link(sim, NULL, NULL,
                  (coir_link){.latency = some_time(),
                              .jitter = w.calm ? 0 : some_time(),
                              .loss = w.calm ? 0 : some(0.3),
                              .duplicate = w.doubles ? 0.3 : 0});
    double shortage = w.calm ? 0 : some(0.2);
    coir_sim_faults(
        sim, NULL,
        (coir_faults){.late = some(0.5), .no_buffers = shortage, .no_descriptor = shortage});
    return coir_sim_host_main(sim, "senders", be_everybody, NULL);
}
