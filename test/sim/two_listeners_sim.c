/* A server with two listeners: tasks on all workers wait for both in one select, beside a task for
 * each listener that accepts all the time, and may tell them that it does, whereupon they rest.
 * Clients connect to both at the same moment, so that a select often has both connections and keeps
 * one. At last the listeners are closed while clients come.
 *
 * What must hold:
 * 1. Each connection is served once, and soon, though no other comes: one that a select did not
 *    keep, or that was meant for a task that rests now, goes to an accept that waits.
 * 2. A connection that comes while the listeners are closed is served, or closed; nothing of it is
 *    left (the audit at the end of the world). */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <string.h>

#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { LISTENERS = 2, SELECTORS = 3, VISITS = 16, KNOCKS = 8, LIMIT = 8 };
static const coir_time patience = 60 * COIR_S, soon = COIR_S;
static const char *const addresses[] = {"server:80", "server:81"};

static struct {
    coir_host *server;
    coir_listener *listeners[LISTENERS];
    coir_event enough; /* those that select are to rest */
    bool tells, listens, all_served, ends, over, closed;
} w;

static void rest(coir_time most)
{
    coir_sleep_for((coir_time)below((uint64_t)most >> below(8)));
}

/* ---- the server ---- */

/* An error is one of the end. */
static int serve_one(void *arg)
{
    coir_stream *stream = arg;
    char byte;
    ssize_t n = coir_read(stream, &byte, 1);
    if (n == 1)
        n = coir_write_all(stream, &byte, 1);
    if (n == 0)
        n = coir_read(stream, &byte, 1);
    MUST(n == 0 || w.over);
    coir_close(stream);
    return 0;
}

static void serve(coir_scope *scope, coir_stream *stream)
{
    if (coir_go(scope, serve_one, stream) < 0) {
        MUST(w.over);
        coir_close(stream);
    }
}

static int accept_all(void *arg)
{
    coir_listener *listener = arg;
    coir_stream *stream;
    COIR_SERVING_SCOPE(scope);
    int rc;
    while ((rc = coir_accept(listener, &stream)) == 0) {
        if (w.tells)
            coir_event_set(&w.enough);
        serve(scope, stream);
    }
    MUST(w.over);
    return coir_scope_wait(scope);
}

/* Waits for both, or until it is told to rest, or for the end of a short time. 1: got nothing. */
static int select_one(coir_scope *scope, int *ret_won)
{
    coir_stream *streams[LISTENERS];
    coir_case cases[] = {coir_case_accept(w.listeners[0], &streams[0]),
                         coir_case_accept(w.listeners[1], &streams[1]), coir_case_event(&w.enough),
                         coir_case_after((coir_time)below(COIR_S))};
    int won = coir_select(cases, below(2) ? 3 : 4);
    *ret_won = won;
    if (won < 0 || won >= LISTENERS)
        return won < 0 ? won : 1;
    if (cases[won].result == 0)
        serve(scope, streams[won]);
    return (int)cases[won].result;
}

/* Rests now and then: meanwhile it does not accept, and what its worker is woken for goes to those
 * that do. */
static int accept_of_both(void *arg)
{
    (void)arg;
    int rc = 0, won;
    COIR_SERVING_SCOPE(scope);
    while (rc >= 0 && !w.over) {
        rc = select_one(scope, &won);
        if (rc >= 0 && (won == LISTENERS || below(2)))
            coir_sleep_for((coir_time)below(3 * (uint64_t)soon)); /* often for longer than `soon` */
        coir_event_reset(&w.enough);
    }
    MUST(rc >= 0 || w.over);
    return coir_scope_wait(scope);
}

/* On the worker that closes the listeners, so that none begins afterwards. */
static int accept_until_closed(void *arg)
{
    (void)arg;
    int rc = 0, won;
    COIR_SERVING_SCOPE(scope);
    while (rc >= 0 && !w.closed)
        rc = select_one(scope, &won);
    MUST(rc >= 0 || w.closed);
    return coir_scope_wait(scope);
}

static void close_listeners(void)
{
    COIR_SERVING_SCOPE(scope);
    coir_event_reset(&w.enough);
    for (uint64_t i = below(SELECTORS); i; i--)
        MUST_BE(coir_go(scope, accept_until_closed, NULL), 0);
    rest(4 * COIR_MS);
    w.closed = true;
    for (int i = 0; i < LISTENERS; i++)
        coir_listener_close(w.listeners[i]);
    COIR_DEADLINE(coir_in(patience));
    MUST_BE(coir_scope_wait(scope), 0);
}

static int run_server(void *arg)
{
    (void)arg;
    uint64_t workers = (uint64_t)coir_worker_count(coir_runtime_current());
    coir_listen_options options = COIR_LISTEN_OPTIONS;
    w.tells = below(4);
    options.connections_max = below(2) ? 0 : LIMIT; /* so that it counts them */
    for (int i = 0; i < LISTENERS; i++)
        MUST_BE(coir_tcp_listen_with(i ? ":81" : ":80", &options, &w.listeners[i]), 0);
    w.listens = true;
    COIR_SERVING_SCOPE(scope);
    for (int i = 0; i < LISTENERS; i++)
        MUST_BE(coir_go_on(scope, (int)below(workers), accept_all, w.listeners[i]), 0);
    for (uint64_t i = 1 + below(SELECTORS); i; i--)
        MUST_BE(coir_go_on(scope, (int)below(workers), accept_of_both, arg), 0);
    for (coir_time pause = 0; !w.all_served;)
        MUST_BE(chaos_pause(&pause), 0);
    w.ends = true;
    while (!w.over)
        MUST_BE(coir_sleep_for((coir_time)below(COIR_MS)), 0);
    coir_scope_cancel(scope);
    MUST_BE(coir_scope_wait(scope), 0);
    close_listeners();
    return 0;
}

/* ---- clients ---- */

/* 1: served. 0, or an error: closed instead. */
static ssize_t talk(int to)
{
    coir_stream *stream;
    char byte = 'x';
    int rc = coir_tcp_connect(addresses[to], &stream);
    if (rc < 0)
        return rc;
    ssize_t n = coir_write_all(stream, &byte, 1);
    if (n == 0)
        n = coir_read(stream, &byte, 1);
    coir_close(stream);
    return n;
}

static int visit(void *arg)
{
    COIR_DEADLINE(coir_in(soon));
    MUST_BE(talk((int)(intptr_t)arg), 1);
    return 0;
}

static int knock(void *arg)
{
    COIR_DEADLINE(coir_in(patience));
    if (below(2))
        rest(8 * COIR_MS);
    ssize_t n = talk((int)(intptr_t)arg);
    MUST(n == 1 || n == 0 || chaos_explains((int)n) != -ETIME);
    return 0;
}

static void go_to_both(coir_task_fn *fn, uint64_t times)
{
    COIR_SCOPE(scope);
    for (; times; times--)
        for (intptr_t i = 0; i < LISTENERS; i++)
            MUST_BE(coir_go(scope, fn, (void *)i), 0);
    if (fn == knock) {
        rest(4 * COIR_MS);
        w.over = true;
    }
    MUST_BE(coir_scope_wait(scope), 0);
}

static int be_everybody(void *arg)
{
    (void)arg;
    while (!w.listens)
        MUST_BE(coir_sleep_for(COIR_MS), 0);
    for (uint64_t visits = below(VISITS); visits; visits--) {
        go_to_both(visit, 1 + below(3));
        rest(2 * soon);
    }
    w.all_served = true;
    for (coir_time pause = 0; !w.ends;)
        MUST_BE(chaos_pause(&pause), 0);
    go_to_both(knock, below(KNOCKS));
    chaos_await_end(w.server, patience);
    return 0;
}

int scenario(coir_sim *sim)
{
    memset(&w, 0, sizeof w);
    MUST_BE(chaos_configure(sim), 0);
    if (!(w.server = coir_sim_host(sim, "server", run_server, NULL)))
        return -ENOMEM;
    coir_sim_link(sim, NULL, NULL,
                  (coir_link){.latency = (coir_time)below(2 * COIR_MS),
                              .jitter = below(2) ? 0 : (coir_time)below(COIR_MS)});
    coir_sim_faults(sim, NULL, (coir_faults){.late = some(0.5)});
    return coir_sim_host_main(sim, "clients", be_everybody, NULL);
}
