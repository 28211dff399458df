/* Jobs that outlive their requests: handlers, on whichever worker, spawn into a scope that was
 * opened in the first task, and into the background; the server is stopped while they do. Every
 * order that was accepted has a job, every job ends, and none after what it is in; one that fails
 * ends nothing else. Worth running with --workers 3. */
#include <coir.h>
#include <coir/sim.h>
#include <coir/web.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "sim/chance.h"
#include "sim/scenario.h"

enum { CLIENTS = 4, ORDERS = 20 };

enum kind { SCOPED, BACKGROUND, KINDS };

static struct {
    coir_sim *sim;
    coir_host *server;
    coir_scope *scope;
    int accepted[KINDS], spawned[KINDS], ended[KINDS];
    bool scope_open;
    coir_time stopped;
} w;

static void must(bool holds)
{
    if (!holds)
        __builtin_trap();
}

/* ---- the server ---- */

static int spawn(enum kind kind);

/* Some take longer than a stopped server waits; some leave jobs of their own behind. */
static int job(void *arg)
{
    enum kind kind = *(const enum kind *)arg;
    must(kind == BACKGROUND || w.scope_open);
    int rc = coir_sleep_for((coir_time)below(below(4) == 0 ? 100 * COIR_S : 3 * COIR_S));
    must(kind == BACKGROUND || w.scope_open);
    must(rc == 0 || rc == -ECANCELED);
    for (uint64_t more = below(3); rc == 0 && more > 0; more--)
        rc = spawn(kind);
    w.ended[kind]++;
    return rc == 0 && below(4) == 0 ? -EBADMSG : rc;
}

static int spawn(enum kind kind)
{
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = "job";
    options.copy_size = sizeof kind;
    options.place = below(3) == 0 ? COIR_ANYWHERE : COIR_HERE;
    int rc = coir_go_with(kind == SCOPED ? w.scope : NULL, &options, job, &kind);
    must(rc == 0 || rc == -ECANCELED);
    w.spawned[kind] += rc == 0;
    return rc;
}

static int order(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    enum kind kind = strcmp(coir_request_param(req, "kind"), "scoped") == 0 ? SCOPED : BACKGROUND;
    coir_sleep_for((coir_time)below(100 * COIR_MS));
    int rc = spawn(kind);
    if (rc < 0)
        return rc;
    return coir_respond_text(res, 202, "accepted");
}

static int serve(void *arg)
{
    coir_router *router;
    (void)arg;
    int rc = coir_router_new(&router);
    if (rc < 0)
        return rc;
    {
        COIR_SERVING_SCOPE(scope);
        w.scope = scope;
        w.scope_open = true;
        if ((rc = coir_route(router, "POST", "/{kind}", order, NULL)) == 0)
            rc = coir_serve_http("0.0.0.0:80", router);
    }
    w.scope_open = false;
    must(w.ended[SCOPED] == w.spawned[SCOPED]);
    must(coir_now() - w.stopped <
         2 * COIR_S); /* requests are short, and the scope cancels its jobs */
    coir_router_free(router);
    return rc;
}

/* ---- the clients ---- */

static int place_order(coir_stream *stream, enum kind kind)
{
    char line[200], answer[1000] = "";
    int len = snprintf(line, sizeof line,
                       "POST /%s HTTP/1.1\r\nHost: server\r\nContent-Length: 0\r\n\r\n",
                       kind == SCOPED ? "scoped" : "other");
    int rc = coir_write_all(stream, line, (size_t)len);
    for (size_t at = 0; rc == 0 && !strstr(answer, "accepted");) {
        ssize_t n = coir_read(stream, answer + at, sizeof answer - 1 - at);
        if (n <= 0)
            return n < 0 ? (int)n : -COIR_EEND;
        at += (size_t)n;
        if (strncmp(answer, "HTTP/1.1 202", at < 12 ? at : 12) != 0)
            return -COIR_EPROTOCOL;
    }
    if (rc == 0)
        w.accepted[kind]++;
    return rc;
}

static int be_client(void *arg)
{
    coir_stream *stream;
    (void)arg;
    if (coir_tcp_connect("server:80", &stream) < 0)
        return 0; /* it has been stopped already */
    for (int i = 0; i < ORDERS && place_order(stream, (enum kind)below(KINDS)) == 0; i++)
        coir_sleep_for((coir_time)below(200 * COIR_MS));
    coir_close(stream);
    return 0;
}

static int be_fate(void *arg)
{
    (void)arg;
    COIR_SCOPE(clients);
    coir_sleep_for(COIR_S); /* until the server listens */
    for (int i = 0; i < CLIENTS; i++)
        coir_go(clients, be_client, NULL);
    coir_sleep_for((coir_time)below(5 * COIR_S));
    w.stopped = coir_now();
    coir_sim_stop(w.sim, w.server);
    if (below(4) == 0) {
        coir_sleep_for((coir_time)below(2 * COIR_S));
        coir_sim_stop(w.sim, w.server);
    }
    int rc = coir_scope_wait(clients);
    while (!coir_host_is_down(w.server))
        coir_sleep_for(COIR_S);
    must(coir_now() - w.stopped < 15 * COIR_S); /* background jobs have 10 s */
    for (int kind = 0; kind < KINDS; kind++) {
        must(w.accepted[kind] <= w.spawned[kind]);
        must(w.ended[kind] == w.spawned[kind]);
    }
    return rc;
}

int scenario(coir_sim *sim)
{
    memset(&w, 0, sizeof w);
    w.sim = sim;
    if (!(w.server = coir_sim_host(sim, "server", serve, NULL)))
        return -ENOMEM;
    return coir_sim_host_main(sim, "fate", be_fate, NULL);
}
