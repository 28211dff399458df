/* A server in fixed memory: see fixed.h. */
#include "web/fixed.h"

#include <errno.h>

#include "io/listener.h"
#include "sys/residence.h"
#include "task/log.h"
#include "web/connection.h"
#include "web/partial.h"
#include "web/refusal.h"

/* For the server's own tasks and streams, and what the program has beside it. */
enum { SPARE = 8, SPARE_DESCRIPTORS = 128 };

/* The places for connections of a worker. */
static size_t places(const coir_serve_http_options *options)
{
    size_t places = ci_http_places(options);
    return (places ? places : options->connections_max) + SPARE;
}

/* Descriptors are numbers of the process, which all workers share. */
static int reserve_descriptors(const struct ci_http_server *server)
{
    struct ci_worker *worker = server->http->worker;
    struct ci_driver *driver = worker->loop.driver;
    size_t all = (size_t)worker->runtime->worker_count * places(server->options);
    return driver->kind->reserve ? driver->kind->reserve(driver, all + SPARE_DESCRIPTORS) : 0;
}

static int reserve(struct ci_http_server *server)
{
    const coir_serve_http_options *options = server->options;
    struct ci_http_worker *http = server->http;
    struct ci_worker *worker = http->worker;
    struct ci_io *io = ci_io_of(worker);
    size_t connections = places(options), requests = options->requests_max;
    bool there = io && ci_pool_reserve(&io->streams, connections) &&
                 ci_pool_reserve(&worker->tasks, connections) &&
                 ci_pool_reserve(&http->connections, connections) &&
                 ci_pool_reserve(&http->buffers, 2 * requests) &&
                 ci_pool_reserve(&server->fixed.arenas, requests) &&
                 ci_pool_reserve(&server->fixed.partials, requests) &&
                 ci_stacks_reserve(&worker->stacks, requests + SPARE) &&
                 ci_pool_reserve(&http->sockets, 0) && ci_pool_reserve(&http->awakes, 0);
    http->messages.reserved = true;
    return there ? reserve_descriptors(server) : -ENOMEM;
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
