/* A server that writes as much as there is room for, and waits for both directions at once; clients
 * that send, and do not read. So the server is woken by what comes, while there is no room to
 * write; now and then it lets so much come that reading ahead ends.
 *
 * What must hold:
 * 1. All that a client has sent is read, in order, and soon, although the client reads nothing.
 * 2. When the client has gone, the server's wait ends. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <string.h>

#include "sim/bytes.h"
#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { CLIENTS = 3, TOTAL_MOST = 60000, PIECE_MOST = 9000 };
static const coir_time soon = 10 * COIR_S;

static struct {
    coir_host *server;
    size_t heard[CLIENTS];
} w;

static void rest(coir_time most)
{
    MUST_BE(coir_sleep_for((coir_time)below((uint64_t)most >> below(10))), 0);
}

/* ---- the server ---- */

static void fill(coir_stream *stream)
{
    static char bytes[5000];
    while (coir_try_write(stream, bytes, sizeof bytes) > 0)
        continue;
}

/* Reads what there is, perhaps not all of it. False: the client has gone. */
static bool hear_some(coir_stream *stream, unsigned client)
{
    char bytes[PIECE_MOST];
    ssize_t n;
    do {
        n = coir_try_read(stream, bytes, 1 + below(sizeof bytes));
        if (n > 0)
            MUST(bytes_are(bytes, client, w.heard[client], (size_t)n));
        w.heard[client] += n > 0 ? (size_t)n : 0;
    } while (n > 0 && below(8));
    MUST(n >= 0 || n == -EAGAIN || n == -ECONNRESET);
    return n > 0 || n == -EAGAIN;
}

static int serve_one(void *arg)
{
    coir_stream *stream = arg;
    unsigned char client;
    MUST_BE(coir_read(stream, &client, 1), 1);
    do {
        if (below(4) == 0)
            rest(5 * COIR_MS);
        fill(stream);
        COIR_DEADLINE(coir_in(soon));
        MUST(coir_stream_wait(stream, COIR_READ | COIR_WRITE) > 0);
    } while (hear_some(stream, client));
    coir_close(stream);
    return 0;
}

static int serve(void *arg)
{
    (void)arg;
    coir_listener *listener;
    MUST_BE(coir_tcp_listen("0.0.0.0:80", &listener), 0);
    {
        COIR_SCOPE(scope);
        for (int i = 0; i < CLIENTS; i++) {
            coir_stream *stream;
            MUST_BE(coir_accept(listener, &stream), 0);
            MUST_BE(coir_go(scope, serve_one, stream), 0);
        }
        MUST_BE(coir_scope_wait(scope), 0);
    }
    coir_listener_close(listener);
    return 0;
}

/* ---- clients ---- */

static int be_a_client(void *arg)
{
    unsigned char client = *(const unsigned char *)arg;
    char bytes[PIECE_MOST];
    coir_stream *stream;
    MUST_BE(coir_tcp_connect("server:80", &stream), 0);
    MUST_BE(coir_write_all(stream, &client, 1), 0);
    for (size_t sent = 0, total = below(TOTAL_MOST), n; sent < total; sent += n) {
        n = 1 + below(total - sent < sizeof bytes ? total - sent : sizeof bytes);
        bytes_make(bytes, client, sent, n);
        {
            COIR_DEADLINE(coir_in(soon));
            MUST_BE(coir_write_all(stream, bytes, n), 0);
        }
        if (below(3) == 0)
            rest(5 * COIR_MS);
        coir_time begun = coir_now();
        while (below(4) == 0 && w.heard[client] < sent + n) {
            MUST(coir_now() < begun + soon);
            rest(COIR_MS);
        }
    }
    coir_close(stream);
    return 0;
}

static int be_everybody(void *arg)
{
    static unsigned char numbers[CLIENTS];
    (void)arg;
    MUST_BE(coir_sleep_for(COIR_MS), 0);
    COIR_SCOPE(scope);
    for (unsigned char i = 0; i < CLIENTS; i++) {
        numbers[i] = i;
        MUST_BE(coir_go_anywhere(scope, be_a_client, &numbers[i]), 0);
    }
    MUST_BE(coir_scope_wait(scope), 0);
    chaos_await_end(w.server, soon);
    return 0;
}

int scenario(coir_sim *sim)
{
    memset(&w, 0, sizeof w);
    MUST_BE(chaos_configure(sim), 0);
    if (!(w.server = coir_sim_host(sim, "server", serve, NULL)))
        return -ENOMEM;
    coir_sim_link(sim, NULL, NULL,
                  (coir_link){.latency = (coir_time)below(2 * COIR_MS),
                              .jitter = (coir_time)below(COIR_MS),
                              .short_io = some(0.5)});
    coir_sim_faults(sim, NULL, (coir_faults){.late = some(0.5)});
    return coir_sim_host_main(sim, "clients", be_everybody, NULL);
}
