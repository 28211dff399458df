/* A server in fixed memory: see fixed.h. */
#include "web/fixed.h"

#include <errno.h>

#include "io/listener.h"
#include "sys/residence.h"
#include "task/log.h"
#include "task/offload.h"
#include "web/connection.h"
#include "web/partial.h"
#include "web/refusal.h"
#include "web/ws.h"

/* For the server's own tasks and streams, and what the program has beside it. */
enum { SPARE = 8, SPARE_DESCRIPTORS = 128 };

/* Those of a request that a script answers, and of every one. */
enum { SCRIPT_BUFFERS = 3, REQUEST_BUFFERS = 2 };

/* The places for connections of a worker. */
static size_t places(const coir_serve_http_options *options)
{
    size_t places = ci_http_places(options);
    return (places ? places : options->connections_max) + SPARE;
}

/* The connections that the FastCGI clients of the runtime may have, to be counted with each worker:
 * any of them may have them all. */
static size_t scripts(const struct ci_http_server *server)
{
    const coir_runtime *runtime = server->http->worker->runtime;
    size_t sum = 0;
    for (int i = 0; i < runtime->worker_count; i++) {
        struct ci_http_worker *http = ci_http_worker_if_any(&runtime->workers[i]);
        sum += http ? ci_load_relaxed(&http->fastcgi_max) : 0;
    }
    return sum;
}

/* Descriptors are numbers of the process, which all workers share. */
static int reserve_descriptors(const struct ci_http_server *server)
{
    struct ci_worker *worker = server->http->worker;
    struct ci_driver *driver = worker->loop.driver;
    size_t all = (size_t)worker->runtime->worker_count * places(server->options);
    all += scripts(server) + SPARE_DESCRIPTORS;
    return driver->kind->reserve ? driver->kind->reserve(driver, all) : 0;
}

/* Before a script is called, the file system is asked: where the driver cannot, a thread of the
 * pool does. */
static int reserve_threads(const struct ci_http_server *server)
{
    coir_runtime *runtime = server->http->worker->runtime;
    size_t all = (size_t)runtime->worker_count * server->options->requests_max;
    return scripts(server) ? ci_offload_reserve(runtime, all) : 0;
}

static int reserve(struct ci_http_server *server)
{
    const coir_serve_http_options *options = server->options;
    struct ci_http_worker *http = server->http;
    struct ci_worker *worker = http->worker;
    struct ci_io *io = ci_io_of(worker);
    size_t connections = places(options), requests = options->requests_max,
           websockets = options->websockets_max, script_connections = scripts(server);
    size_t of_request = REQUEST_BUFFERS + (script_connections ? SCRIPT_BUFFERS : 0);
    bool there = io && ci_pool_reserve(&io->streams, connections + script_connections) &&
                 ci_pool_reserve(&worker->tasks, connections) &&
                 ci_pool_reserve(&http->connections, connections) &&
                 ci_pool_reserve(&http->buffers, of_request * requests + websockets) &&
                 ci_pool_reserve(&server->fixed.arenas, requests) &&
                 ci_pool_reserve(&server->fixed.partials, requests) &&
                 ci_stacks_reserve(&worker->stacks, requests + websockets + SPARE);
    int rc = there ? reserve_descriptors(server) : -ENOMEM;
    if (rc == 0 && websockets)
        rc = ci_ws_reserve(http, options->websocket_options, websockets);
    return rc < 0 ? rc : reserve_threads(server);
}

static int lock(const struct ci_http_server *server)
{
    int rc = ci_memory_lock();
    if (rc < 0)
        ci_log(server->http->worker->runtime, COIR_LOG_ERROR,
               "coir_serve_http_options.lock_memory: the system refuses: %s; raise RLIMIT_MEMLOCK "
               "(ulimit -l)",
               coir_strerror(rc));
    return rc;
}

int ci_http_fixed_init(struct ci_http_server *server)
{
    const coir_serve_http_options *options = server->options;
    const coir_allocator *allocator = &server->http->worker->runtime->allocator;
    server->fixed.on = options->fixed_memory;
    if (!server->fixed.on)
        return 0;
    ci_pool_init(&server->fixed.arenas, allocator, options->arena_max, options->requests_max);
    ci_pool_init(&server->fixed.partials, allocator, ci_http_partial_size(options->head_max),
                 options->requests_max);
    int rc = reserve(server);
    ci_http_date_now(&server->http->date, server->http->worker); /* reads the time zone's file */
    if (rc == 0 && options->lock_memory)
        rc = lock(server);
    if (rc < 0)
        ci_http_fixed_done(server);
    return rc;
}

void ci_http_fixed_done(struct ci_http_server *server)
{
    if (!server->fixed.on)
        return;
    ci_pool_done(&server->fixed.arenas);
    ci_pool_done(&server->fixed.partials);
}
