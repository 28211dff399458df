/* The server: an acceptor and its connections on every worker, and their graceful end. */
#include "web/server.h"

#include <errno.h>

#include "task/spawn.h"
#include "web/connection.h"
#include "web/refusal.h"
#include "web/ws.h"

/* ---- one worker ---- */

static struct ci_http_server *server_of(struct ci_serving_here *here)
{
    return ci_container_of(here, struct ci_http_server, here);
}

/* The idle connections read once more and end, and WebSocket connections are closed. Returns how
 * many requests are in progress. */
static size_t drain(struct ci_serving_here *here)
{
    struct ci_http_server *server = server_of(here);
    size_t live = coir_scope_live(here->connections), idle = 0;
    server->draining = true;
    coir_event_set(&server->drains);
    for (struct ci_list *node = server->idle.next, *next; node != &server->idle; node = next) {
        next = node->next; /* a connection that rests may end at once */
        ci_http_connection_drain(ci_container_of(node, struct ci_http_connection, idle));
        idle++;
    }
    ci_list_for_each (node, &server->sockets)
        ci_ws_drain(ci_container_of(node, struct coir_ws, link));
    return live - idle;
}

/* A worker's part: its own copy of the server, which its connections share without locks. */
static int serve_here(void *arg)
{
    struct ci_http_server server = *(const struct ci_http_server *)arg;
    if (!(server.http = ci_http_worker_of(ci_worker_current)))
        return -ENOMEM;
    ci_list_init(&server.idle);
    server.drains = (coir_event)COIR_EVENT_INIT;
    server.turns = (coir_semaphore)COIR_SEMAPHORE_INIT(server.options->requests_max);
    ci_list_init(&server.sockets);
    int rc = ci_http_fixed_init(&server);
    if (rc < 0)
        return rc;
    rc = ci_serve_here(&server.here);
    ci_http_fixed_done(&server);
    return rc;
}

/* ---- all workers ---- */

static int serve(coir_listener *listener, coir_router *router,
                 const coir_serve_http_options *options)
{
    struct ci_serving serving;
    ci_serving_init(&serving, listener, options->drain_timeout, "request");
    serving.layer = options->layer;
    serving.layer_arg = options->layer_arg;
    struct ci_http_refusal refusal;
    ci_http_refusal_init(&refusal, options);
    struct ci_http_server server = {
        .here = {.serving = &serving,
                 .connections_max = ci_http_places(options),
                 .start = ci_http_connection_start,
                 .drain = drain},
        .router = router,
        .options = options,
        .head_limits = {(uint32_t)options->line_max, (uint32_t)options->head_max},
        .refusal = &refusal,
    };
    COIR_SCOPE(workers);
    int rc = ci_go_on_every_worker(workers, "http server", serve_here, &server);
    return rc < 0 ? rc : coir_scope_wait(workers);
}

/* A listener of the program's is left to it; one of an address is closed. */
static int serve_with(const coir_serve_http_options *given, coir_router *router)
{
    coir_serve_http_options options;
    coir_ws_options websocket;
    int rc = ci_http_options_read(&options, &websocket, given);
    if (rc < 0)
        return rc;
    coir_listener *listener = options.listener;
    if (!listener && (rc = coir_tcp_listen(options.address, &listener)) < 0)
        return rc;
    rc = serve(listener, router, &options);
    if (!options.listener)
        coir_listener_close(listener);
    return rc;
}

int coir_serve_http(const char *address, coir_router *router)
{
    if (!ci_serving_may_begin())
        return ci_no_fiber();
    if (!address || !router)
        return CI_MISUSE(-EINVAL, "address or router is NULL");
    coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;
    options.address = address;
    return serve_with(&options, router);
}

int coir_serve_http_with(const coir_serve_http_options *options, coir_router *router)
{
    if (!ci_serving_may_begin())
        return ci_no_fiber();
    return router ? serve_with(options, router) : CI_MISUSE(-EINVAL, "router is NULL");
}
