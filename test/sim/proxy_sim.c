/* A proxy between clients and a server that sends everything back. For each connection it peeks at
 * the first bytes, may release the streams and adopt them again, and copies both ways: in two tasks
 * or in one, straight from socket to socket or through a duplex in between, which takes little at a
 * time. Sometimes it is too late and gives up in the middle.
 *
 * What must hold:
 * 1. A client gets back what it sent, in order; all of it, unless the proxy gave up.
 * 2. What was peeked at is what is read afterwards; what was read ahead goes along with a release.
 * 3. A copy tells how many bytes it has moved; the copies of both directions move as many.
 * 4. A copy that is cancelled, or times out, leaves nothing open (the audit at the end of the
 *    world), and every conversation ends within `patience`. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/bytes.h"
#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { CLIENTS = 3, VISITS = 4, LEN_MOST = 60000, AHEAD_MOST = 256 * 1024 };
static const coir_time patience = 30 * COIR_S;

static struct {
    coir_host *proxy, *origin;
    int gave_up; /* conversations */
} w;

/* ---- the server ---- */

static int answer(coir_stream *stream, void *arg)
{
    (void)arg;
    char buf[5000];
    return chaos_echo(stream, buf, sizeof buf);
}

static int serve(void *arg)
{
    (void)arg;
    return coir_serve_tcp("0.0.0.0:80", answer, NULL);
}

/* ---- the proxy ---- */

struct way {
    coir_stream *to, *from;
    size_t done;
    int64_t result;
};

struct ways {
    struct way out, back; /* to the server, and from it */
};

static int copy_way(void *arg)
{
    struct way *way = arg;
    way->result = coir_stream_copy(way->to, way->from, COIR_UNLIMITED, &way->done);
    MUST(way->result < 0 || (size_t)way->result == way->done);
    return way->result < 0 ? (int)way->result : coir_shutdown_write(way->to);
}

static int copy_in_two_tasks(struct ways *ways)
{
    COIR_SCOPE(scope);
    int rc = coir_go(scope, copy_way, &ways->out);
    if (rc == 0)
        rc = coir_go(scope, copy_way, &ways->back);
    int ended = coir_scope_wait(scope);
    return rc ? rc : ended;
}

/* Out, piece by piece, until the client has ended, and then back; or both at once, of which the way
 * back is given up when the other one has ended, and then goes on. */
static int copy_in_one_task(struct ways *ways)
{
    struct way *out = &ways->out, *back = &ways->back;
    coir_copy_op op;
    size_t piece;
    int64_t n = 1;
    while (n > 0) {
        n = coir_await(coir_stream_copy_op(&op, out->to, out->from, 1 + below(9000), &piece));
        MUST(n < 0 || (size_t)n == piece);
        out->done += piece;
        for (size_t got = 0; n > 0 && got < piece; got += (size_t)n) {
            n = coir_stream_copy(back->to, back->from, piece - got, NULL);
            back->done += n > 0 ? (size_t)n : 0;
        }
    }
    int rc = n < 0 ? (int)n : coir_shutdown_write(out->to);
    if (rc < 0)
        return rc;
    n = coir_stream_copy(back->to, back->from, COIR_UNLIMITED, &piece);
    back->done += piece;
    return n < 0 ? (int)n : coir_shutdown_write(back->to);
}

/* Nothing but the descriptor is left of the stream; what coir had read ahead is written on. */
static int release_and_adopt(coir_stream **stream, coir_stream *to, size_t *ret_moved)
{
    char *ahead = malloc(AHEAD_MOST);
    size_t len = 0;
    coir_fd fd;
    int rc = coir_stream_release(*stream, ahead, AHEAD_MOST, &len, &fd);
    if (rc == 0) {
        MUST_BE(coir_stream_adopt(fd, stream), 0);
        *ret_moved = len;
        rc = len ? coir_write_all(to, ahead, len) : 0;
    }
    free(ahead);
    return rc;
}

static int converse(struct ways *ways)
{
    char first[100], again[100];
    coir_stream *client = ways->out.from;
    ssize_t n = coir_peek(client, first, sizeof first);
    if (n <= 0)
        return (int)n;
    if (below(2)) { /* 2 */
        ssize_t got = coir_read_full(client, again, (size_t)n, NULL);
        MUST(got < 0 || (got == n && memcmp(first, again, (size_t)n) == 0));
        if (got < 0 || (got = coir_write_all(ways->out.to, again, (size_t)n)) < 0)
            return (int)got;
        ways->out.done = (size_t)n;
    }
    return 0;
}

static void limit(coir_stream *stream)
{
    if (below(2))
        MUST_BE(coir_stream_set_timeout(stream, COIR_READ | COIR_WRITE,
                                        (coir_time)(1 + below(20000)) * COIR_MS, below(100)),
                0);
}

/* The bytes that were moved before the copies begin count as moved by the way out. */
static int relay(struct ways *ways)
{
    size_t before = 0, ahead = 0;
    int rc = converse(ways);
    before = ways->out.done;
    if (rc == 0 && below(2)) {
        rc = release_and_adopt(&ways->out.from, ways->out.to, &ahead);
        ways->back.to = ways->out.from;
        before += ahead;
    }
    if (rc < 0)
        return rc;
    ways->out.done = 0;
    limit(ways->out.from);
    limit(ways->out.to);
    rc = below(2) && before == 0 ? copy_in_one_task(ways) : copy_in_two_tasks(ways);
    if (rc == 0)
        MUST_BE(ways->back.done, ways->out.done + before); /* 3 */
    return rc;
}

static int relay_first(void *arg)
{
    return relay(arg);
}

static int relay_second(void *arg)
{
    struct ways *ways = arg;
    int rc = copy_in_two_tasks(ways);
    if (rc == 0)
        MUST_BE(ways->back.done, ways->out.done); /* 3 */
    return rc;
}

/* No system call copies to or from a duplex. */
static int relay_through_memory(struct ways *ways)
{
    static const size_t capacities[] = {500, 3000, 20000, 0};
    coir_stream *origin = ways->out.to, *near, *far;
    int rc = coir_duplex(capacities[below(4)], &near, &far);
    if (rc < 0)
        return rc;
    struct ways second = {.out = {.to = origin, .from = far}, .back = {.to = far, .from = origin}};
    ways->out.to = ways->back.from = near;
    {
        COIR_SCOPE(scope);
        rc = coir_go(scope, relay_second, &second);
        rc = rc < 0 ? rc : coir_go(scope, relay_first, ways);
        int ended = coir_scope_wait(scope);
        rc = rc < 0 ? rc : ended;
    }
    ways->out.to = ways->back.from = origin;
    coir_close(near);
    coir_close(far);
    return rc;
}

static int serve_one(void *arg)
{
    struct ways ways = {.out = {.from = arg}};
    int rc = coir_tcp_connect("origin:80", &ways.out.to);
    ways.back = (struct way){.to = ways.out.from, .from = ways.out.to};
    if (rc == 0) {
        COIR_DEADLINE(below(4) ? coir_in(patience) : coir_in((coir_time)below(200) * COIR_MS));
        rc = below(8) ? relay(&ways) : relay_through_memory(&ways);
    }
    w.gave_up += rc != 0;
    coir_close(ways.out.to);
    coir_close(ways.out.from);
    return 0;
}

static int proxy(void *arg)
{
    (void)arg;
    coir_listener *listener;
    coir_stream *stream;
    MUST_BE(coir_tcp_listen("0.0.0.0:7777", &listener), 0);
    COIR_SERVING_SCOPE(scope);
    int rc = 0;
    while (rc != -ECANCELED) {
        rc = coir_accept(listener, &stream);
        if (rc == 0 && (rc = coir_go(scope, serve_one, stream)) < 0)
            coir_close(stream);
    }
    coir_listener_close(listener);
    return coir_scope_wait(scope);
}

/* ---- clients ---- */

struct talk {
    coir_stream *stream;
    int client, error;
    size_t len;
};

static int say(void *arg)
{
    struct talk *with = arg;
    char bytes[4000];
    int rc = 0;
    for (size_t at = 0, n; rc == 0 && at < with->len; at += n) {
        n = 1 + below(with->len - at < sizeof bytes ? with->len - at : sizeof bytes);
        bytes_make(bytes, (unsigned)with->client, at, n);
        rc = coir_write_all(with->stream, bytes, n);
    }
    if (rc == 0)
        rc = coir_shutdown_write(with->stream);
    with->error = with->error ? with->error : rc;
    return 0;
}

static int hear(void *arg)
{
    struct talk *with = arg;
    char bytes[500];
    size_t at = 0;
    ssize_t n;
    for (; (n = coir_read(with->stream, bytes, sizeof bytes)) > 0; at += (size_t)n)
        MUST((size_t)n <= with->len - at &&
             bytes_are(bytes, (unsigned)with->client, at, (size_t)n)); /* 1 */
    if (n == 0 && at < with->len)
        n = -COIR_EEND;
    with->error = with->error ? with->error : (int)n;
    return 0;
}

static int visit(int client)
{
    struct talk with = {.client = client, .len = 1 + below(LEN_MOST - 1)};
    int gave_up = w.gave_up;
    COIR_DEADLINE(coir_in(patience + 10 * COIR_S));
    int rc = coir_tcp_connect("proxy:7777", &with.stream);
    if (rc < 0)
        return chaos_explains(rc);
    MUST_BE(chaos_both(say, hear, &with), 0);
    coir_close(with.stream);
    MUST(with.error == 0 || w.gave_up > gave_up || with.error != -COIR_EEND); /* 1 */
    MUST(with.error != -ETIME);                                               /* 4 */
    return 0;
}

static int be_a_client(void *arg)
{
    for (uint64_t visits = 1 + below(VISITS); visits; visits--) {
        int rc = visit((int)(intptr_t)arg);
        if (rc < 0)
            return 0;
        coir_sleep_for((coir_time)below(3000) * COIR_US);
    }
    return 0;
}

static int be_everybody(void *arg)
{
    (void)arg;
    coir_sleep_for(COIR_MS);
    COIR_SCOPE(scope);
    for (intptr_t i = 0; i < CLIENTS; i++)
        MUST_BE(coir_go(scope, be_a_client, (void *)i), 0);
    return coir_scope_wait(scope);
}

int scenario(coir_sim *sim)
{
    memset(&w, 0, sizeof w);
    MUST_BE(chaos_configure(sim), 0);
    if (!(w.origin = coir_sim_host(sim, "origin", serve, NULL)) ||
        !(w.proxy = coir_sim_host(sim, "proxy", proxy, NULL)))
        return -ENOMEM;
    coir_sim_link(sim, NULL, NULL,
                  (coir_link){.latency = (coir_time)below(2000) * COIR_US,
                              .jitter = (coir_time)below(2000) * COIR_US,
                              .loss = some(0.1),
                              .short_io = some(0.7)});
    coir_sim_faults(sim, NULL, (coir_faults){.late = some(0.5)});
    return coir_sim_host_main(sim, "clients", be_everybody, NULL);
}
