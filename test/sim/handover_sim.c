/* A server that accepts in a select and hands each connection to another worker, which may hand it
 * on in the middle of the conversation; clients whose connects are cancelled or too slow.
 *
 * What must hold:
 * 1. A client gets back what it sent, in order, whichever task has its stream at the time.
 * 2. Every connection that a client has was accepted once, is served to its end, and closed.
 * 3. Of a connect that was cancelled, and of an accept that lost its select, nothing is left: the
 *    connection is the next accept's, or closed (the audit at the end of the world).
 * 4. Every conversation ends within `patience`.
 * 5. A client that falls silent is cut off when the timeout of its stream has passed, which was set
 *    once, by whom accepted it, and not before: whichever worker has the stream then. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <string.h>

#include "sim/bytes.h"
#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { CLIENTS = 4, VISITS = 5, LEN_MOST = 4000, QUEUE = 4, VAIN_MOST = 63 };
static const coir_time patience = 20 * COIR_S;

struct passing {
    coir_stream *stream; /* NULL: there will be no more */
    int hops;
};

static struct {
    coir_host *server;
    coir_channel *queues[4]; /* of each worker */
    int workers, open, served;
    coir_time timeout; /* of each stream the server reads from */
    int vain;          /* timeouts since the last connection */
    bool over;
} w;

/* ---- the server ---- */

/* To any worker, also this one. */
static int hand_on(struct passing *passing)
{
    int rc = coir_stream_detach(passing->stream);
    if (rc < 0)
        return rc;
    passing->hops--;
    return coir_channel_send(w.queues[below((uint64_t)w.workers)], passing);
}

/* Echoes, a while or to the end. 1: it has been handed on. */
static int talk(struct passing *passing)
{
    char buf[700];
    for (;;) {
        ssize_t n = coir_read(passing->stream, buf, 1 + below(sizeof buf));
        if (n == -ETIMEDOUT)
            return 0; /* 5: the client measures */
        int rc = n > 0 ? coir_write_all(passing->stream, buf, (size_t)n) : (int)n;
        if (rc < 0 || n == 0)
            return chaos_explains(rc);
        if (passing->hops && below(3) == 0 && (rc = hand_on(passing)) == 0)
            return 1;
        MUST(rc == 0 || rc == -ENOMEM || rc == -ECANCELED);
    }
}

static int serve_one(void *arg)
{
    struct passing passing = *(struct passing *)arg;
    if (talk(&passing) > 0)
        return 0;
    coir_close(passing.stream);
    w.open--;
    w.served++;
    return 0;
}

static int serve_here(void *arg)
{
    coir_channel *queue = arg;
    struct passing passing;
    coir_go_options options = COIR_GO_OPTIONS;
    options.copy_size = sizeof passing;
    COIR_SERVING_SCOPE(scope);
    while (coir_channel_recv(queue, &passing) == 0 && passing.stream)
        MUST_BE(coir_go_with(scope, &options, serve_one, &passing), 0);
    return coir_scope_wait(scope);
}

/* Accepts the next connection, in a select with a timeout. It is longer when nobody has come for a
 * while, for a seed with a silent client would do little else. */
static int accept_one(coir_listener *listener)
{
    struct passing passing = {NULL, (int)below(4)};
    coir_case cases[] = {coir_case_accept(listener, &passing.stream),
                         coir_case_after((coir_time)below(3000) * COIR_US << w.vain / 8)};
    int which = coir_select(cases, 2);
    w.vain = which != 1 ? 0 : w.vain < VAIN_MOST ? w.vain + 1 : VAIN_MOST;
    int rc = which == 0 ? (int)cases[0].result : which < 0 ? which : -EAGAIN;
    if (rc == -EAGAIN || rc == -EMFILE || rc == -ENFILE || rc == -ECONNABORTED)
        return rc == -EAGAIN ? 0 : coir_sleep_for(COIR_MS);
    MUST(rc == 0);
    w.open++;
    MUST_BE(coir_stream_set_timeout(passing.stream, COIR_READ, w.timeout, 0), 0);
    MUST_BE(hand_on(&passing), 0);
    return 0;
}

static int serve(void *arg)
{
    (void)arg;
    coir_listener *listener;
    w.workers = (int)coir_worker_count(coir_runtime_current());
    MUST_BE(coir_tcp_listen("0.0.0.0:7777", &listener), 0);
    {
        COIR_SERVING_SCOPE(scope);
        for (int i = 0; i < w.workers; i++) {
            MUST_BE(coir_channel_new(sizeof(struct passing), below(QUEUE), &w.queues[i]), 0);
            MUST_BE(coir_go_on(scope, i, serve_here, w.queues[i]), 0);
        }
        while (!w.over || w.open)
            MUST_BE(accept_one(listener), 0);
        struct passing last = {NULL, 0};
        for (int i = 0; i < w.workers; i++)
            MUST_BE(coir_channel_send(w.queues[i], &last), 0);
        MUST_BE(coir_scope_wait(scope), 0);
    }
    coir_listener_close(listener);
    for (int i = 0; i < w.workers; i++)
        coir_channel_free(w.queues[i]);
    return 0;
}

/* ---- clients ---- */

struct talk {
    coir_stream *stream;
    int client;
    size_t len;
};

static int say(void *arg)
{
    const struct talk *with = arg;
    char bytes[LEN_MOST];
    bytes_make(bytes, (unsigned)with->client, 0, with->len);
    int rc = 0;
    for (size_t at = 0, n; rc == 0 && at < with->len; at += n) {
        n = 1 + below(with->len - at);
        rc = coir_write_all(with->stream, bytes + at, n);
        if (rc == 0 && below(3) == 0)
            rc = coir_sleep_for((coir_time)below(3000) * COIR_US);
    }
    return rc < 0 ? rc : coir_shutdown_write(with->stream);
}

static int hear(void *arg)
{
    const struct talk *with = arg;
    char bytes[500];
    size_t at = 0;
    ssize_t n;
    for (; (n = coir_read(with->stream, bytes, sizeof bytes)) > 0; at += (size_t)n)
        MUST(bytes_are(bytes, (unsigned)with->client, at, (size_t)n));
    MUST_BE(n, 0);
    MUST_BE(at, with->len);
    return 0;
}

/* A few words, of which each is answered, and then none. */
static void fall_silent(coir_stream *stream)
{
    char byte = 'a';
    coir_time said = 0; /* before it came, and the time was counted anew */
    for (uint64_t words = 1 + below(4); words; words--) {
        said = coir_now();
        MUST_BE(coir_write_all(stream, &byte, 1), 0);
        MUST_BE(coir_read(stream, &byte, 1), 1);
    }
    MUST_BE(coir_read(stream, &byte, 1), 0);
    MUST(coir_now() >= said + w.timeout); /* 5 */
}

static int visit(int client)
{
    struct talk with = {.client = client, .len = 1 + below(LEN_MOST - 1)};
    int rc;
    {
        COIR_DEADLINE(below(3) ? coir_in(patience) : coir_in((coir_time)below(2000) * COIR_US));
        rc = coir_tcp_connect("server:7777", &with.stream);
    }
    MUST(rc == 0 || rc == -ETIME || rc == -EMFILE || rc == -ENFILE || rc == -ETIMEDOUT ||
         rc == -ECONNREFUSED);
    if (rc < 0)
        return rc;
    COIR_DEADLINE(coir_in(patience));
    if (below(8) == 0)
        fall_silent(with.stream);
    else
        MUST_BE(chaos_both(say, hear, &with), 0);
    coir_close(with.stream);
    return 0;
}

static int be_a_client(void *arg)
{
    for (uint64_t visits = 1 + below(VISITS); visits; visits--) {
        visit((int)(intptr_t)arg);
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
    MUST_BE(coir_scope_wait(scope), 0);
    w.over = true;
    chaos_await_end(w.server, patience);
    return 0;
}

int scenario(coir_sim *sim)
{
    memset(&w, 0, sizeof w);
    w.timeout = 5 * COIR_S + (coir_time)below(3 * COIR_S);
    MUST_BE(chaos_configure(sim), 0);
    if (!(w.server = coir_sim_host(sim, "server", serve, NULL)))
        return -ENOMEM;
    coir_sim_link(sim, NULL, NULL,
                  (coir_link){.latency = (coir_time)below(2000) * COIR_US,
                              .jitter = (coir_time)below(2000) * COIR_US,
                              .loss = some(0.1),
                              .short_io = some(0.7),
                              .no_answer = some(0.3)});
    coir_sim_faults(sim, NULL, (coir_faults){.late = some(0.5)});
    return coir_sim_host_main(sim, "clients", be_everybody, NULL);
}
