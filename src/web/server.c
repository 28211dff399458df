/* The server: an acceptor and its connections on every worker, and their graceful end. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "web/http.h"

/* ---- what a worker keeps ---- */

static const char http_key;

static void free_http(struct ci_worker_extension *extension, const coir_allocator *allocator)
{
    struct ci_http_worker *http = ci_container_of(extension, struct ci_http_worker, extension);
    ci_pool_done(&http->connections);
    ci_pool_done(&http->buffers);
    ci_pool_done(&http->blocks);
    ci_free(allocator, http, sizeof *http);
}

static enum ci_trim trim_http(struct ci_worker_extension *extension)
{
    struct ci_http_worker *http = ci_container_of(extension, struct ci_http_worker, extension);
    enum ci_trim most = ci_pool_trim(&http->connections);
    most = ci_trim_most(most, ci_pool_trim(&http->buffers));
    return ci_trim_most(most, ci_pool_trim(&http->blocks));
}

static size_t live_http(const struct ci_worker_extension *extension)
{
    const struct ci_http_worker *http =
        ci_container_of(extension, struct ci_http_worker, extension);
    return http->connections.live + http->buffers.live + http->blocks.live;
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
    http->extension.what = "HTTP connections, buffers and arenas";
    http->worker = worker;
    http->date_second = -1;
    ci_pool_init(&http->connections, allocator, sizeof(struct ci_http_connection), 0);
    ci_pool_init(&http->buffers, allocator, CI_HTTP_BUFFER, 0);
    ci_pool_init(&http->blocks, allocator, CI_ARENA_BLOCK, 0);
    http->connections.grown = http->buffers.grown = http->blocks.grown = &worker->grown;
    ci_worker_add_extension(worker, &http->extension);
    return http;
}

const char *ci_http_date(struct ci_http_worker *http)
{
    int64_t second = ci_worker_now(http->worker) / COIR_S;
    if (ci_likely(second == http->date_second))
        return http->date;
    http->date_second = second;
    time_t seconds = (time_t)(ci_worker_wall(http->worker) / COIR_S);
    struct tm tm;
    static const char days[] = "SunMonTueWedThuFriSat",
                      months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    gmtime_r(&seconds, &tm);
    snprintf(http->date, sizeof http->date, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT",
             days + 3 * tm.tm_wday, tm.tm_mday % 100, months + 3 * tm.tm_mon,
             (tm.tm_year + 1900) % 10000, tm.tm_hour % 100, tm.tm_min % 100, tm.tm_sec % 100);
    return http->date;
}

int coir_http_counters_get(coir_http_counters *ret_counters)
{
    coir_http_counters sum = COIR_HTTP_COUNTERS;
    coir_runtime *runtime = coir_runtime_current();
    for (int i = 0; runtime && i < runtime->worker_count; i++) {
        struct ci_worker_extension *found = ci_load_acquire(
            &runtime->workers[i]
                 .extensions) /* pairs with the release in ci_worker_add_extension */;
        while (found && found->key != &http_key)
            found = found->next;
        if (!found)
            continue;
        const struct ci_http_worker *http =
            ci_container_of(found, struct ci_http_worker, extension);
        sum.connections += ci_load_relaxed(&http->accepted);
        sum.connections_live += ci_load_relaxed(&http->live);
        sum.requests += ci_load_relaxed(&http->requests);
        sum.errors_sent += ci_load_relaxed(&http->errors_sent);
    }
    return ci_result_write(ret_counters, &sum, sizeof sum);
}

/* ---- one worker ---- */

static struct ci_http_server *server_of(struct ci_serving_here *here)
{
    return ci_container_of(here, struct ci_http_server, here);
}

static int start_connection(struct ci_serving_here *here, coir_stream *stream)
{
    return ci_http_connection_start(server_of(here), stream);
}

/* Connections that wait for a request look once more, and end. How many requests are in progress.
 */
static size_t drain(struct ci_serving_here *here)
{
    struct ci_http_server *server = server_of(here);
    size_t idle = 0;
    server->draining = true;
    ci_list_for_each (node, &server->idle) {
        ci_http_connection_drain(ci_container_of(node, struct ci_http_connection, idle));
        idle++;
    }
    return coir_scope_live(here->connections) - idle;
}

static int serve_here(void *arg)
{
    struct ci_http_server server = *(const struct ci_http_server *)arg;
    if (!(server.http = ci_http_worker_of(ci_worker_current)))
        return -ENOMEM;
    ci_list_init(&server.idle);
    return ci_serve_here(&server.here);
}

/* ---- all workers ---- */

static int check_times(const coir_serve_http_options *options)
{
    const struct {
        const char *name;
        coir_time value;
    } times[] = {
        {"header_timeout", options->header_timeout},
        {"idle_timeout", options->idle_timeout},
        {"body_timeout", options->body_timeout},
        {"write_timeout", options->write_timeout},
        {"drain_timeout", options->drain_timeout},
        {"body_total_timeout", options->body_total_timeout},
        {"linger_timeout", options->linger_timeout},
    };
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        if (times[i].value >= 0)
            continue;
        ci_log(ci_worker_current->runtime, COIR_LOG_ERROR,
               "coir_serve_http_options.%s is negative: %" PRId64 " ns", times[i].name,
               times[i].value);
        return -EINVAL;
    }
    return 0;
}

static int fill_in(coir_serve_http_options *options, const coir_serve_http_options *given)
{
    *options = (coir_serve_http_options)COIR_SERVE_HTTP_OPTIONS;
    int rc = ci_options_read(options, sizeof *options, given);
    if (rc == 0)
        rc = check_times(options);
    if (rc == 0 && !options->address == !options->listener)
        rc = -EINVAL;
    if (rc < 0)
        return rc;
#define DEFAULT(field, value) options->field = options->field ? options->field : (value)
    DEFAULT(header_timeout, 10 * COIR_S);
    DEFAULT(idle_timeout, 60 * COIR_S);
    DEFAULT(body_timeout, 30 * COIR_S);
    DEFAULT(write_timeout, 60 * COIR_S);
    DEFAULT(drain_timeout, 10 * COIR_S);
    DEFAULT(line_max, 8000);
    DEFAULT(head_max, 8192);
    DEFAULT(body_max, (uint64_t)1 << 30);
    DEFAULT(arena_max, 1 << 20);
    DEFAULT(body_total_timeout, 3600 * COIR_S);
    DEFAULT(rate_min, 100);
    DEFAULT(linger_timeout, 30 * COIR_S);
    DEFAULT(linger_max, 64 << 20);
    DEFAULT(connections_max, COIR_UNLIMITED);
#undef DEFAULT
    if (options->head_max == COIR_UNLIMITED)
        options->head_max = CI_HTTP_HEAD_MOST;
    if (options->line_max > options->head_max)
        options->line_max = options->head_max;
    bool valid_rate = options->rate_min <= CI_HTTP_RATE_MOST || options->rate_min == COIR_UNLIMITED;
    return options->head_max <= CI_HTTP_HEAD_MOST && valid_rate ? 0 : -EINVAL;
}

static int serve(coir_listener *listener, coir_router *router,
                 const coir_serve_http_options *options)
{
    struct ci_serving serving;
    ci_serving_init(&serving, listener, options->drain_timeout, "request");
    struct ci_http_server server = {
        .here = {.serving = &serving,
                 .connections_max = options->connections_max,
                 .start = start_connection,
                 .drain = drain},
        .router = router,
        .options = options,
    };
    COIR_SCOPE(workers);
    int rc = ci_go_on_every_worker(workers, "http server", serve_here, &server);
    return rc < 0 ? rc : coir_scope_wait(workers);
}

static int serve_with(const coir_serve_http_options *given, coir_router *router)
{
    coir_serve_http_options options;
    int rc = fill_in(&options, given);
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

static bool in_fiber(void)
{
    return ci_worker_current && ci_worker_current->fiber;
}

int coir_serve_http(const char *address, coir_router *router)
{
    if (!in_fiber())
        return ci_no_fiber();
    if (!router)
        return CI_MISUSE(-EINVAL);
    coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;
    options.address = address;
    return serve_with(&options, router);
}

int coir_serve_http_with(const coir_serve_http_options *options, coir_router *router)
{
    if (!in_fiber())
        return ci_no_fiber();
    return router ? serve_with(options, router) : CI_MISUSE(-EINVAL);
}
