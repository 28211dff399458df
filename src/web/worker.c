/* What a worker keeps for HTTP: see worker.h. */
#include "web/worker.h"

#include <errno.h>

#include "base/arena.h"
#include "base/options.h"
#include "web/connection.h"
#include "web/ws.h"
#include "web/ws_deflate.h"

/* Its address is the key that the worker's extension is found by. */
static const char http_key;

static void free_http(struct ci_worker_extension *extension, const coir_allocator *allocator)
{
    struct ci_http_worker *http = ci_container_of(extension, struct ci_http_worker, extension);
    ci_pool_done(&http->connections);
    ci_pool_done(&http->buffers);
    ci_pool_done(&http->blocks);
    ci_pool_done(&http->sockets);
    ci_pool_done(&http->awakes);
    ci_ws_terms_done(http);
    ci_pool_done(&http->agreed);
    ci_ws_memory_done(&http->messages);
    ci_ws_deflate_free_shared(http);
    ci_free(allocator, http, sizeof *http);
}

/* After a burst: gives back slabs that have not been used for a while. */
static enum ci_trim trim_http(struct ci_worker_extension *extension)
{
    struct ci_http_worker *http = ci_container_of(extension, struct ci_http_worker, extension);
    enum ci_trim most = ci_pool_trim(&http->connections);
    most = ci_trim_most(most, ci_pool_trim(&http->buffers));
    most = ci_trim_most(most, ci_pool_trim(&http->blocks));
    most = ci_trim_most(most, ci_pool_trim(&http->sockets));
    most = ci_trim_most(most, ci_pool_trim(&http->awakes));
    most = ci_trim_most(most, ci_pool_trim(&http->agreed));
    return ci_trim_most(most, ci_ws_memory_trim(&http->messages));
}

static size_t live_http(const struct ci_worker_extension *extension)
{
    const struct ci_http_worker *http =
        ci_container_of(extension, struct ci_http_worker, extension);
    return http->connections.live + http->buffers.live + http->blocks.live + http->sockets.live +
           http->awakes.live + http->messages.live;
}

static size_t name_http(const struct ci_worker_extension *extension, struct ci_named_pool *pools)
{
    const struct ci_http_worker *http =
        ci_container_of(extension, const struct ci_http_worker, extension);
    pools[0] = (struct ci_named_pool){"http connections", &http->connections};
    pools[1] = (struct ci_named_pool){"http buffers", &http->buffers};
    pools[2] = (struct ci_named_pool){"http arena blocks", &http->blocks};
    pools[3] = (struct ci_named_pool){"websocket connections", &http->sockets};
    return 4;
}

struct ci_http_worker *ci_http_worker_of(struct ci_worker *worker)
{
    struct ci_worker_extension *found = ci_worker_find_extension(worker, &http_key);
    if (found)
        return ci_container_of(found, struct ci_http_worker, extension);
    const coir_allocator *allocator = &worker->runtime->allocator;
    struct ci_http_worker *http = ci_alloc_zero(allocator, sizeof *http);
    if (!http)
        return NULL;
    http->extension.key = &http_key;
    http->extension.free = free_http;
    http->extension.trim = trim_http;
    http->extension.live = live_http;
    http->extension.what = "HTTP and WebSocket connections, their buffers, arenas and messages";
    http->extension.pools = name_http;
    http->worker = worker;
    http->date.second = -1;
    /* the pools allocate slabs, of which `grown` tells the worker that there may be some to trim */
    ci_pool_init(&http->connections, allocator, sizeof(struct ci_http_connection), 0);
    ci_pool_init(&http->buffers, allocator, CI_HTTP_BUFFER, 0);
    ci_pool_init(&http->blocks, allocator, CI_ARENA_BLOCK, 0);
    ci_pool_init(&http->sockets, allocator, sizeof(struct coir_ws), 0);
    ci_pool_init(&http->awakes, allocator, sizeof(struct ci_ws_awake), 0);
    ci_pool_init(&http->agreed, allocator, CI_WS_TERMS_SIZE, 0);
    ci_list_init(&http->terms);
    ci_ws_memory_init(&http->messages, allocator, &worker->grown);
    http->connections.grown = http->buffers.grown = http->blocks.grown = &worker->grown;
    http->sockets.grown = http->awakes.grown = http->agreed.grown = &worker->grown;
    ci_worker_add_extension(worker, &http->extension);
    return http;
}

struct ci_http_worker *ci_http_worker_if_any(struct ci_worker *worker)
{
    /* pairs with the release in ci_worker_add_extension */
    struct ci_worker_extension *found = ci_load_acquire(&worker->extensions);
    while (found && found->key != &http_key)
        found = found->next;
    return found ? ci_container_of(found, struct ci_http_worker, extension) : NULL;
}

/* The other workers' counters are read while they change: each is right by itself, but they are not
 * of one moment. */
int coir_http_counters_get(coir_http_counters *ret_counters)
{
    coir_http_counters sum = COIR_HTTP_COUNTERS;
    if (!ret_counters)
        return CI_MISUSE(-EINVAL, "ret_counters is NULL");
    if (!ci_worker_current)
        return ci_no_worker();
    const coir_runtime *runtime = ci_worker_current->runtime;
    for (int i = 0; i < runtime->worker_count; i++) {
        const struct ci_http_worker *http = ci_http_worker_if_any(&runtime->workers[i]);
        if (!http)
            continue;
        sum.connections += ci_load_relaxed(&http->accepted);
        sum.connections_live += ci_load_relaxed(&http->live);
        sum.requests += ci_load_relaxed(&http->requests);
        sum.errors_sent += ci_load_relaxed(&http->errors_sent);
        sum.refused += ci_load_relaxed(&http->refused);
    }
    return ci_result_write(ret_counters, &sum, sizeof sum);
}
