/* Unix sockets: streams that carry records with descriptors, and datagrams, among the tasks of one
 * host, while the machine runs out of descriptors and buffers, and the listener is opened anew.
 * Only over the simulated kernel: the simulator's own driver passes no descriptors.
 *
 * In some seeds the server takes no descriptors: they are dropped with the reads that end at them.
 *
 * What must hold:
 * 1. A record's bytes come in order, with its descriptors and no others, or with none.
 * 2. A descriptor that was sent is used once, or closed: the pipe whose last writing end it is
 *    ends.
 * 3. A datagram whose send succeeded comes once, in the order of its sender, with its sender's
 *    address; one whose send failed does not come.
 *    Of two that are sent at once, one that asks for what Unix sockets do not have is not sent, nor
 *    is what is behind it.
 * 4. Each end of a connection knows the process at the other one, whoever's it is by then.
 * 5. A send that waits for room ends with -ECANCELED, soon, when its socket is closed.
 * 6. In the end, when nothing fails any more, everybody is served, and nothing is left open, nor
 *    is the file of a socket that was closed. */
#include <coir.h>
#include <coir/sim.h>
#include <coir/unix.h>
#include <errno.h>
#include <string.h>

#include "sim/bytes.h"
#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum {
    CLIENTS = 3,
    VISITS = 3,
    RECORDS_MOST = 4,
    BYTES_MOST = 5000,
    FDS_MOST = 3,
    SENDERS = 2,
    DATAGRAMS = 25,
    ADDRESS_MOST = 64
};
static const coir_time patience = 60 * COIR_S;

static struct {
    coir_sim *sim;
    const char *path, *sink;
    bool apart;      /* heads of records are written and read apart, without descriptors */
    bool takes_none; /* of the descriptors, the server: they are dropped */
    bool fails;      /* something may: the machine is bad, or the listener goes */
    bool calm;       /* it is not to be opened anew any more */
    bool listens;    /* it has begun to */
    int clients_end; /* of clients and senders, how many have ended */
    int sent[SENDERS], heard[SENDERS];
    char from[SENDERS][ADDRESS_MOST]; /* where each sends from */
} w;

/* Sometimes so long that a worker that does not sleep meanwhile is noticed. */
static coir_time some_time(void)
{
    coir_time most = below(50) ? 5 * COIR_MS : COIR_S;
    return (coir_time)below((uint64_t)most >> below(8));
}

static void rest(void)
{
    MUST_BE(coir_sleep_for(some_time()), 0);
}

/* An error that is to be expected while things fail. */
static int explain(ssize_t rc)
{
    switch (rc) {
    case -EMFILE:
    case -ENFILE:
    case -ENOBUFS:
    case -ENOENT: /* the listener */
    case -ECONNREFUSED:
    case -ECONNRESET:
    case -EPIPE:
    case -COIR_EEND: MUST_BE(w.fails ? 0 : rc, 0); break;
    default: MUST_BE(rc < 0 ? rc : 0, 0);
    }
    return (int)rc;
}

/* ---- records ---- */

struct record {
    uint32_t len, number, fd_count, client;
};

static unsigned name_of(const struct record *record)
{
    return record->number * CLIENTS + record->client;
}

/* ---- the server ---- */

/* Bytes of a record, and all descriptors that come with them, unless it takes none. */
static int read_record(coir_stream *stream, void *to, size_t len, coir_fd *fds, size_t *count)
{
    size_t got = 0, more;
    while (got < len) {
        ssize_t n = w.takes_none ? coir_read(stream, (char *)to + got, len - got)
                                 : coir_unix_recv_fds(stream, (char *)to + got, len - got,
                                                      fds + *count, FDS_MOST - *count, &more);
        if (n <= 0)
            return n < 0 ? (int)n : got ? -COIR_EEND : 1;
        got += (size_t)n;
        *count += w.takes_none ? 0 : more;
    }
    return 0;
}

/* What is read apart takes nothing of what is behind it. 1: the end. */
static int read_head(coir_stream *stream, struct record *record, coir_fd *fds, size_t *count)
{
    if (!w.apart)
        return read_record(stream, record, sizeof *record, fds, count);
    ssize_t n = coir_read_full(stream, record, sizeof *record, NULL);
    return n == (ssize_t)sizeof *record ? 0 : n == -COIR_EEND ? 1 : (int)n;
}

static int use_descriptors(const coir_fd *fds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char token = (char)('a' + i);
        MUST_BE(write(fds[i], &token, 1), 1);
        close(fds[i]);
    }
    return 0;
}

static int serve_record(coir_stream *stream)
{
    static unsigned char bytes[CLIENTS * 20][BYTES_MOST];
    static unsigned next;
    unsigned char *body = bytes[next++ % (CLIENTS * 20)];
    struct record record;
    coir_fd fds[FDS_MOST];
    size_t count = 0;
    int rc = read_head(stream, &record, fds, &count);
    if (rc == 0) {
        MUST(record.len <= BYTES_MOST);
        rc = read_record(stream, body, record.len, fds, &count);
        MUST(rc != 0 || bytes_are(body, name_of(&record), 0, record.len));
    }
    if (rc == 0)
        MUST_BE(count, w.takes_none ? 0 : record.fd_count);
    use_descriptors(fds, count);
    return rc == 0 ? coir_write_all(stream, "k", 1) : rc;
}

/* All are in one process. */
static void check_peer(coir_stream *stream)
{
    coir_credentials peer = COIR_CREDENTIALS;
    MUST_BE(coir_unix_peer(stream, &peer), 0);
    MUST(peer.pid == getpid() && peer.uid == geteuid() && peer.gid == getegid());
}

static int serve(void *arg)
{
    coir_stream *stream = arg;
    int rc;
    check_peer(stream);
    while ((rc = serve_record(stream)) == 0)
        if (below(4) == 0 && (rc = coir_sleep_for(some_time())) < 0) /* cancelled */
            break;
    coir_close(stream);
    if (rc < 0 && rc != -ECANCELED)
        explain(rc);
    return 0;
}

static int listen_here(coir_listener **ret_listener)
{
    int rc;
    while (explain(rc = coir_tcp_listen(w.path, ret_listener)) < 0)
        rest();
    return rc;
}

static int run_server(void *arg)
{
    coir_listener *listener;
    coir_stream *stream;
    int rc = 0;
    (void)arg;
    COIR_SCOPE(scope);
    listen_here(&listener);
    w.listens = true;
    while (rc != -ECANCELED) {
        if (!w.calm && w.fails && below(6) == 0) {
            coir_listener_close(listener);
            rest();
            listen_here(&listener);
        }
        {
            COIR_DEADLINE(coir_in(50 * COIR_MS));
            rc = coir_accept(listener, &stream);
        }
        if (rc == 0)
            MUST_BE(coir_go(scope, serve, stream), 0);
        else if (rc != -ETIME && rc != -ECANCELED)
            explain(rc);
        if (w.clients_end == CLIENTS + SENDERS)
            break;
    }
    coir_listener_close(listener);
    coir_scope_cancel(scope);
    return coir_scope_wait(scope);
}

/* ---- clients ---- */

struct pipes {
    int reads[FDS_MOST];
    coir_fd writes[FDS_MOST];
    size_t count;
};

static void open_pipes(struct pipes *pipes)
{
    pipes->count = below(FDS_MOST + 1);
    for (size_t i = 0; i < pipes->count; i++) {
        int ends[2];
        MUST_BE(pipe2(ends, O_NONBLOCK), 0);
        pipes->reads[i] = ends[0];
        pipes->writes[i] = ends[1];
    }
}

/* Each pipe has its token if the record was served, and ends in any case. */
static void close_pipes(const struct pipes *pipes, bool served)
{
    COIR_DEADLINE(coir_in(patience));
    for (size_t i = 0; i < pipes->count; i++) {
        char bytes[2];
        ssize_t n, all = 0;
        do {
            MUST(coir_fd_wait(pipes->reads[i], COIR_READ) > 0);
            n = read(pipes->reads[i], bytes + all, sizeof bytes - (size_t)all);
            all += n > 0 ? n : 0;
        } while (n != 0 && all < 2);
        MUST(all == 1 ? bytes[0] == (char)('a' + i) : all == 0 && !served);
        close(pipes->reads[i]);
    }
}

static int send_record(coir_stream *stream, const struct record *record, struct pipes *pipes)
{
    static unsigned char bytes[CLIENTS][sizeof *record + BYTES_MOST];
    unsigned char *out = bytes[record->client];
    size_t len = sizeof *record + record->len;
    memcpy(out, record, sizeof *record);
    bytes_make(out + sizeof *record, name_of(record), 0, record->len);
    size_t apart = w.apart ? sizeof *record : 0;
    ssize_t n = apart ? coir_write_all(stream, out, apart) : 0;
    if (n == 0)
        n = coir_unix_send_fds(stream, out + apart, 1 + below(len - apart), pipes->writes,
                               pipes->count);
    for (size_t i = 0; i < pipes->count; i++)
        close(pipes->writes[i]);
    if (n < 0)
        return (int)n;
    apart += (size_t)n;
    return coir_write_all(stream, out + apart, len - apart);
}

static int talk(coir_stream *stream, uint32_t client)
{
    int rc = 0;
    for (uint32_t number = 0, count = 1 + (uint32_t)below(RECORDS_MOST); rc == 0 && number < count;
         number++) {
        struct pipes pipes;
        char answer;
        open_pipes(&pipes);
        struct record record = {.len = 1 + (uint32_t)below(BYTES_MOST >> below(8)),
                                .number = number,
                                .fd_count = (uint32_t)pipes.count,
                                .client = client};
        rc = send_record(stream, &record, &pipes);
        if (rc == 0 && (rc = (int)coir_read(stream, &answer, 1)) >= 0)
            rc = rc == 1 ? 0 : -COIR_EEND;
        if (rc < 0) /* what it has not read is closed with it */
            coir_shutdown_write(stream);
        if (rc == 0 && below(4) == 0)
            rest();
        close_pipes(&pipes, rc == 0 && !w.takes_none);
    }
    return rc;
}

static int visit(uint32_t client)
{
    coir_stream *stream;
    COIR_DEADLINE(coir_in(patience));
    int rc = coir_tcp_connect(w.path, &stream);
    if (rc < 0)
        return rc;
    check_peer(stream);
    coir_fd none = 0; /* without bytes no descriptor is sent, nor are too many */
    MUST_BE(coir_unix_send_fds(stream, "", 0, &none, 0), -EINVAL);
    MUST_BE(coir_unix_send_fds(stream, "x", 1, &none, COIR_UNIX_FDS_MAX + 1), -EINVAL);
    rc = talk(stream, client);
    coir_close(stream);
    return rc;
}

static int be_a_client(void *arg)
{
    uint32_t client = (uint32_t)(uintptr_t)arg;
    while (!w.listens)
        rest();
    for (int i = 0; i < VISITS; i++) {
        explain(visit(client));
        rest();
    }
    while (w.fails)
        MUST_BE(coir_sleep_for((coir_time)below(100 * COIR_MS)), 0);
    MUST_BE(visit(client), 0);
    w.clients_end++;
    return 0;
}

/* ---- datagrams ---- */

struct datagram {
    uint32_t sender, number;
    char rest[500];
};

static int open_udp(const char *address, const char *peer, coir_udp **ret_udp)
{
    int rc;
    while (explain(rc = coir_udp_open(address, peer, ret_udp)) < 0)
        rest();
    return rc;
}

/* A deadline that is often too short. */
static ssize_t send_one(coir_udp *udp, const struct datagram *datagram, const coir_address *to)
{
    size_t len = 8 + below(sizeof datagram->rest + 1);
    COIR_DEADLINE(coir_in((coir_time)below(below(3) ? 2 * COIR_S : 30 * COIR_US)));
    return to ? coir_udp_send_to(udp, datagram, len, to) : coir_udp_send(udp, datagram, len);
}

/* Two at once. How many were sent. */
static ssize_t send_two(coir_udp *udp, const struct datagram *datagram, const coir_address *to)
{
    struct datagram both[2] = {*datagram, *datagram};
    coir_datagram datagrams[] = {COIR_DATAGRAM, COIR_DATAGRAM};
    uint64_t wrong = below(8); /* more: none is */
    coir_udp_op op;
    both[1].number++;
    for (size_t i = 0; i < 2; i++) {
        datagrams[i].data = &both[i];
        datagrams[i].len = 8 + below(sizeof both[i].rest + 1);
        if (to)
            datagrams[i].peer = *to;
        if (i == wrong)
            datagrams[i].segment_len = 1;
    }
    COIR_DEADLINE(coir_in((coir_time)below(below(3) ? 2 * COIR_S : 30 * COIR_US)));
    ssize_t n = below(2) ? coir_udp_send_many(udp, datagrams, 2)
                         : (ssize_t)coir_await(coir_udp_send_many_op(&op, udp, datagrams, 2));
    MUST(wrong != 1 || n <= 1);
    if (wrong != 0)
        return n;
    MUST(n == -EOPNOTSUPP || n == -ETIME);
    return 0;
}

static int be_a_sender(void *arg)
{
    struct datagram datagram = {.sender = (uint32_t)(uintptr_t)arg};
    bool is_connected = below(2);
    coir_address to;
    coir_udp *udp;
    MUST_BE(coir_address_parse(w.sink, &to), 0);
    open_udp("unix:@", is_connected ? w.sink : NULL, &udp);
    MUST(coir_udp_local(udp, w.from[datagram.sender], ADDRESS_MOST) > 0);
    while (w.sent[datagram.sender] < DATAGRAMS) {
        datagram.number = (uint32_t)w.sent[datagram.sender];
        bool two = below(3) == 0 && datagram.number + 1 < DATAGRAMS;
        const coir_address *given = is_connected ? NULL : &to;
        ssize_t n = two ? send_two(udp, &datagram, given) : send_one(udp, &datagram, given);
        if (n >= 0)
            w.sent[datagram.sender] += two ? (int)n : 1;
        else if (n != -ETIME)
            explain(n);
        if (below(10) == 0)
            rest();
    }
    coir_udp_close(udp);
    w.clients_end++;
    return 0;
}

static ssize_t receive_one(coir_udp *udp, struct datagram *datagram)
{
    coir_udp_op op;
    coir_address from;
    char text[ADDRESS_MOST];
    if (below(2))
        return coir_udp_recv(udp, datagram, sizeof *datagram, NULL);
    ssize_t n = below(2)
                    ? coir_udp_recv(udp, datagram, sizeof *datagram, &from)
                    : coir_await(coir_udp_recv_op(&op, udp, datagram, sizeof *datagram, &from));
    if (n > 0) {
        MUST(coir_address_format(&from, text, sizeof text) > 0 && datagram->sender < SENDERS);
        MUST_BE(strcmp(text, w.from[datagram->sender]), 0);
    }
    return n;
}

static int receive_all(void *arg)
{
    struct datagram datagram;
    coir_udp *udp = arg;
    for (int i = 0; i < SENDERS * DATAGRAMS;) {
        COIR_DEADLINE(coir_in(patience));
        ssize_t n = receive_one(udp, &datagram);
        MUST_BE(n < 0 ? n : 0, 0);
        MUST(n >= 8 && datagram.sender < SENDERS);
        MUST_BE(datagram.number, w.heard[datagram.sender]++);
        i++;
        if (below(5) == 0)
            rest();
    }
    coir_udp_close(udp);
    return 0;
}

/* ---- a close while a send waits ---- */

struct full {
    coir_udp *udp;
    coir_address to;
    bool many, begun;
};

static ssize_t send_to_full(struct full *full)
{
    char byte = 'x';
    coir_datagram one = COIR_DATAGRAM;
    one.data = &byte;
    one.len = 1;
    one.peer = full->to;
    return full->many ? coir_udp_send_many(full->udp, &one, 1)
                      : coir_udp_send_to(full->udp, &byte, 1, &full->to);
}

static int send_until_closed(void *arg)
{
    struct full *full = arg;
    full->begun = true;
    MUST_BE(send_to_full(full), -ECANCELED);
    return 0;
}

static void fill_queue(struct full *full)
{
    ssize_t n;
    do {
        COIR_DEADLINE(coir_in(COIR_MS));
        n = send_to_full(full);
    } while (n >= 0);
    MUST_BE(n, -ETIME);
}

static void close_full(void)
{
    coir_udp *sink;
    struct full full = {.many = below(2)};
    char name[ADDRESS_MOST];
    open_udp("unix:@", NULL, &sink);
    open_udp("unix:@", NULL, &full.udp);
    MUST(coir_udp_local(sink, name, sizeof name) > 0);
    MUST_BE(coir_address_parse(name, &full.to), 0);
    fill_queue(&full);
    COIR_SCOPE(scope);
    MUST_BE(coir_go(scope, send_until_closed, &full), 0);
    while (!full.begun || below(2))
        MUST_BE(coir_sleep_for((coir_time)below(COIR_MS)), 0);
    coir_udp_close(full.udp);
    COIR_DEADLINE(coir_in(COIR_S));
    MUST_BE(coir_scope_wait(scope), 0);
    coir_udp_close(sink);
}

/* The file goes with its socket, where a descriptor is to be had for that. */
static void close_named(void)
{
    coir_udp *udp;
    MUST_BE(coir_udp_open(w.sink, NULL, &udp), 0);
    coir_udp_close(udp);
    MUST_BE(coir_udp_open("unix:@", w.sink, &udp), w.sink[5] == '@' ? -ECONNREFUSED : -ENOENT);
}

/* ---- all of it ---- */

static double part_of(double most)
{
    static const double parts[] = {0, 0.1, 0.3, 1};
    return most * parts[below(4)];
}

static int befall(void *arg)
{
    (void)arg;
    for (uint64_t accidents = below(4); accidents; accidents--) {
        coir_sim_faults(w.sim, NULL,
                        (coir_faults){.no_descriptor = part_of(0.3),
                                      .no_buffers = part_of(0.1),
                                      .late = part_of(0.5)});
        MUST_BE(coir_sleep_for((coir_time)below((uint64_t)COIR_S)), 0);
    }
    coir_sim_faults(w.sim, NULL, (coir_faults){0});
    w.calm = true;
    MUST_BE(coir_sleep_for(10 * COIR_S), 0); /* a server may just have been about to open anew */
    w.fails = false;
    return 0;
}

static int play(void *arg)
{
    coir_udp *sink;
    (void)arg;
    open_udp(w.sink, NULL, &sink);
    COIR_SCOPE(scope);
    if (w.fails)
        MUST_BE(coir_go(scope, befall, NULL), 0);
    MUST_BE(coir_go(scope, receive_all, sink), 0);
    MUST_BE(coir_go_anywhere(scope, run_server, NULL), 0);
    rest();
    for (uintptr_t i = 0; i < CLIENTS; i++)
        MUST_BE(coir_go_anywhere(scope, be_a_client, (void *)i), 0);
    for (uintptr_t i = 0; i < SENDERS; i++)
        MUST_BE(coir_go_anywhere(scope, be_a_sender, (void *)i), 0);
    int rc = coir_scope_wait(scope);
    close_named();
    if (below(20) == 0)
        close_full();
    return rc;
}

int scenario(coir_sim *sim)
{
    if (!posix_has_kernel())
        return -ENOTSUP;
    memset(&w, 0, sizeof w);
    w.sim = sim;
    w.fails = below(3);
    w.apart = below(2);
    w.takes_none = below(3) == 0;
    w.path = below(2) ? "unix:/run/server" : "unix:@server";
    w.sink = below(2) ? "unix:/run/sink" : "unix:@sink";
    MUST_BE(chaos_configure(sim), 0);
    return coir_sim_host_main(sim, "host", play, NULL);
}
