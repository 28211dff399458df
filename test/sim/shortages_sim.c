/* A server without descriptors, buffers or memory: it goes on by itself when the shortage is over,
 * has lost no client that was not accepted, and logs one line a minute at most. Clients that reset
 * before they are accepted, a few at a time, are no shortage. */
#include <errno.h>
#include <string.h>

#include "chance.h"
#include "chaos.h"
#include "must.h"
#include "scenario.h"

enum { CLIENTS = 4, ROUNDS = 3, LIMIT = 8, DEATHS_MOST = 7 /* in a row: 16 are a shortage */ };

/* After the shortage: a pause of 100 ms, and the way there and back. */
static const coir_time soon = 1 * COIR_S, minute = 60 * COIR_S;

static struct {
    coir_sim *sim;
    coir_host *server;
    coir_link link;
    bool listening;
    size_t workers; /* the server's */
    uint64_t lines; /* logged about accepts that failed */
    coir_time last_line;
} w;

static void hear_log(enum coir_log_level level, const char *line, void *arg)
{
    (void)arg;
    if (level != COIR_LOG_WARNING || !strstr(line, "cannot accept connections"))
        return;
    MUST(!w.lines++ || coir_now() - w.last_line >= minute);
    w.last_line = coir_now();
}

/* ---- the server ---- */

static int echo(coir_stream *stream, void *arg)
{
    char buf[16];
    (void)arg;
    return chaos_explains(chaos_echo(stream, buf, sizeof buf));
}

static int serve(void *arg)
{
    coir_serve_tcp_options options = COIR_SERVE_TCP_OPTIONS;
    coir_listen_options listens = COIR_LISTEN_OPTIONS;
    (void)arg;
    listens.connections_max = below(2) ? 0 : LIMIT; /* so that it counts them */
    MUST_BE(coir_tcp_listen_with("0.0.0.0:7777", &listens, &options.listener), 0);
    w.workers = coir_worker_count(coir_runtime_current());
    w.listening = true;
    int rc = coir_serve_tcp_with(&options, echo, NULL);
    MUST_BE(rc, -ECANCELED); /* no shortage ends it */
    coir_listener_close(options.listener);
    return 0;
}

/* ---- its clients ---- */

struct visit {
    coir_time patience;
    bool must_succeed;
};

static int visit(void *arg)
{
    const struct visit *self = arg;
    coir_stream *stream;
    char back = 0;
    COIR_DEADLINE(coir_in(self->patience));
    int rc = coir_tcp_connect("server:7777", &stream);
    if (rc == 0) {
        rc = coir_write_all(stream, "x", 1);
        if (rc == 0 && coir_read(stream, &back, 1) != 1)
            rc = -COIR_EEND;
        coir_close(stream);
    }
    if (self->must_succeed)
        MUST_BE(rc, 0);
    return 0;
}

/* Each shortage is on or off, at least one is on; `always` in every call. */
static coir_faults shortage(bool always)
{
    uint64_t which = 1 + below(7);
    double probability = always ? 1 : 0.5;
    return (coir_faults){.no_descriptor = which & 1 ? probability : 0,
                         .no_buffers = which & 2 ? probability : 0,
                         .no_memory = which & 4 ? probability : 0,
                         .late = some(0.5)};
}

/* Clients that come during the shortage wait; when it is over they are served, and others are.
 * Where the shortage is not total one of them may be accepted and fail then. */
static void go_through_a_shortage(void)
{
    bool always = below(3) != 0;
    coir_time duration = (coir_time)below(4 * minute) >> below(12);
    struct visit self = {duration + soon, always};
    uint64_t before = w.lines;
    COIR_SCOPE(scope);
    coir_faults faults = shortage(always);
    coir_sim_faults(w.sim, w.server, faults);
    for (uint64_t i = 1 + below(CLIENTS); i; i--)
        MUST_BE(coir_go(scope, visit, &self), 0);
    MUST_BE(coir_sleep_for(duration), 0);
    coir_sim_faults(w.sim, w.server, (coir_faults){0});
    /* poll(2) without memory finds no client */
    bool tries = always && faults.no_memory <= 0 && duration >= minute + soon;
    MUST(!tries || w.lines > before);
    MUST_BE(coir_scope_wait(scope), 0);
    MUST_BE(visit(&(struct visit){soon, true}), 0);
}

/* Many clients reset in all, but a client that is served comes after every few. Only on the driver
 * `sim` is a client lost in the backlog (ECONNABORTED; Linux accepts it), and each worker counts
 * those that it lost: one must have served all. */
static void lose_clients(void)
{
    coir_link deadly = w.link;
    deadly.reset = 1;
    MUST_BE(coir_sleep_for(minute), 0); /* since the last line: another one may be logged */
    uint64_t before = w.lines;
    for (int i = 0; i < 2 * ROUNDS; i++) {
        coir_sim_link(w.sim, NULL, NULL, deadly);
        for (uint64_t deaths = 3 + below(DEATHS_MOST - 2); deaths; deaths--)
            MUST_BE(visit(&(struct visit){20 * COIR_MS, false}), 0);
        MUST_BE(coir_sleep_for(20 * COIR_MS), 0); /* until they were accepted */
        coir_sim_link(w.sim, NULL, NULL, w.link);
        MUST_BE(visit(&(struct visit){soon, true}), 0);
    }
    MUST_BE(w.lines, before);
}

static int be_everybody(void *arg)
{
    (void)arg;
    while (!w.listening)
        MUST_BE(coir_sleep_for(COIR_MS), 0);
    MUST_BE(coir_sleep_for(soon), 0); /* until every worker accepts */
    for (int i = 0; i < ROUNDS; i++)
        go_through_a_shortage();
    if (w.workers == 1 && below(4) == 0)
        lose_clients();
    coir_sim_stop(w.sim, w.server);
    chaos_await_end(w.server, minute);
    return 0;
}

int scenario(coir_sim *sim)
{
    coir_config config = COIR_CONFIG;
    memset(&w, 0, sizeof w);
    w.sim = sim;
    config.log = hear_log;
    MUST_BE(coir_sim_configure(sim, &config), 0);
    if (!(w.server = coir_sim_host(sim, "server", serve, NULL)))
        return -ENOMEM;
    w.link = (coir_link){.latency = (coir_time)below(2000) * COIR_US,
                         .jitter = (coir_time)below(2000) * COIR_US};
    coir_sim_link(sim, NULL, NULL, w.link);
    return coir_sim_host_main(sim, "clients", be_everybody, NULL);
}
