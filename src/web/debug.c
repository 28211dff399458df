/* Routes for a person who looks into the server, guarded: see coir/debug.h. */
#include "coir/debug.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coir/deadline.h"
#include "coir/dump.h"
#include "coir/fiber.h"
#include "coir/file.h"
#include "coir/metrics.h"
#include "coir/offload.h"
#include "coir/select.h"
#include "coir/sse.h"
#include "coir/trace.h"
#include "web/exchange.h"

enum { TRACE_MS = 1000, TRACE_MS_MOST = 10 * 1000, PIECE = 4096, PREFIX_MOST = 200 };
static const coir_time period = 500 * COIR_MS;
static const char page_policy[] = "default-src 'self' 'unsafe-inline' data: blob:; "
                                  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/* ---- who may look ---- */

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool is_local(const coir_request *req)
{
    char peer[200];
    if (coir_stream_peer(req->exchange->in.stream, peer, sizeof peer) < 0)
        return false;
    return begins(peer, "127.") || begins(peer, "[::1]:") || begins(peer, "[::ffff:127.") ||
           begins(peer, "unix:");
}

/* Whether a host, with or without a port, is localhost or a number: no name server can make it mean
 * another machine. */
static bool is_number(const char *host)
{
    size_t len = strcspn(host, ":");
    if (*host == '[')
        return true;
    if (len == strlen("localhost") && begins(host, "localhost"))
        return true;
    return len > 0 && strspn(host, "0123456789.") == len;
}

/* A browser says where the page is from that sends a POST. */
static bool is_own_page(const coir_request *req)
{
    const char *origin = coir_request_header(req, "origin");
    const char *host = origin ? strstr(origin, "://") : NULL;
    return !origin || (host && strcmp(host + 3, coir_request_host(req)) == 0);
}

static bool may_look(const coir_request *req)
{
    return is_local(req) && is_number(coir_request_host(req));
}

static int refuse(coir_response *res)
{
    return coir_respond_text(res, 403, "403 Forbidden: for clients on this machine\n");
}

/* ---- the page and the metrics ---- */

static int show_page(coir_request *req, coir_response *res, void *page)
{
    if (!may_look(req))
        return refuse(res);
    int rc = coir_response_add_header(res, "Content-Security-Policy", page_policy);
    return rc < 0 ? rc : coir_respond(res, 200, "text/html; charset=utf-8", page, strlen(page));
}

static size_t put_http(char *text, size_t size)
{
    coir_http_counters http = COIR_HTTP_COUNTERS;
    coir_http_counters_get(&http);
    const struct {
        const char *name, *type, *help;
        uint64_t value;
    } counters[] = {
        {"connections_total", "counter", "Connections that were accepted.", http.connections},
        {"connections_live", "gauge", "Connections that have not ended.", http.connections_live},
        {"requests_total", "counter", "Requests whose head was complete.", http.requests},
        {"errors_total", "counter", "Answers that the server gave by itself.", http.errors_sent},
        {"refused_total", "counter", "Connections and requests beyond a limit.", http.refused},
    };
    size_t len = 0;
    for (size_t i = 0; i < ci_countof(counters); i++)
        len +=
            (size_t)snprintf(text + len, size - len,
                             "# HELP coir_http_%s %s\n# TYPE coir_http_%s %s\ncoir_http_%s %llu\n",
                             counters[i].name, counters[i].help, counters[i].name, counters[i].type,
                             counters[i].name, (unsigned long long)counters[i].value);
    return len;
}

/* Room for what is added until the second call. */
enum { HTTP_SIZE = 2048, GROWTH = 8192 };

/* The metrics, to be freed by free_metrics. */
struct metrics {
    char *text;
    size_t size, len;
};

static const coir_allocator *allocator(void)
{
    return &ci_worker_current->runtime->allocator;
}

static void free_metrics(struct metrics *metrics)
{
    ci_free(allocator(), metrics->text, metrics->size);
}

/* Again, if other workers have added more than there was room for. */
static int make_metrics(struct metrics *metrics)
{
    coir_runtime *runtime = coir_runtime_current();
    int64_t len = coir_metrics_text(runtime, NULL, 0), room = 0;
    while (len >= room) {
        free_metrics(metrics);
        metrics->size = (size_t)len + GROWTH + HTTP_SIZE;
        if (!(metrics->text = ci_alloc(allocator(), metrics->size)))
            return -ENOMEM;
        metrics->len = put_http(metrics->text, HTTP_SIZE);
        room = (int64_t)(metrics->size - metrics->len);
        len = coir_metrics_text(runtime, metrics->text + metrics->len, (size_t)room);
    }
    if (len < 0)
        return (int)len;
    metrics->len += (size_t)len;
    return 0;
}

static int respond_metrics(coir_response *res)
{
    struct metrics metrics = {.text = NULL};
    int rc = make_metrics(&metrics);
    if (rc == 0)
        rc = coir_respond(res, 200, "text/plain; version=0.0.4", metrics.text, metrics.len);
    free_metrics(&metrics);
    return rc;
}

static int show_metrics(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    return may_look(req) ? respond_metrics(res) : refuse(res);
}

static int show_metrics_to_all(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    return respond_metrics(res);
}

static int send_metrics(coir_response *res)
{
    struct metrics metrics = {.text = NULL};
    int rc = make_metrics(&metrics);
    if (rc == 0)
        rc = coir_sse_send_text(res, metrics.text);
    free_metrics(&metrics);
    return rc < 0 ? rc : 0;
}

static int follow_metrics(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    if (!may_look(req))
        return refuse(res);
    int rc = coir_sse_begin(req, res);
    while (rc == 0 && (rc = send_metrics(res)) == 0) {
        coir_case waits[] = {coir_case_after(period), coir_case_drain(req)};
        int which = coir_select(waits, 2);
        if (which != 0)
            return which < 0 ? which : 0;
    }
    return rc;
}

/* ---- tasks, and a trace: what is written to a descriptor ---- */

static int open_temporary(coir_file **ret_file)
{
    coir_file *dir;
    int rc = coir_file_open("/tmp", O_RDONLY | O_DIRECTORY, 0, &dir);
    if (rc < 0)
        return rc;
    rc = coir_file_open_temporary(dir, 0600, ret_file);
    coir_file_close(dir);
    return rc;
}

static int send_file(coir_response *res, coir_file *file, const char *type)
{
    char piece[PIECE];
    int64_t size, at = 0;
    int rc = coir_file_size(file, &size);
    if (rc == 0)
        rc = coir_response_begin(res, 200, type, size);
    while (rc == 0 && at < size) {
        ssize_t n = coir_file_read(file, piece, sizeof piece, at);
        if (n <= 0)
            return n < 0 ? (int)n : -EIO;
        at += n;
        rc = coir_response_write(res, piece, (size_t)n);
    }
    return rc;
}

/* On threads of the pool: the worker answers the dump as all others do. */
static int dump(void *file)
{
    return coir_dump(ci_file_fd(file), COIR_DUMP_JSON);
}

static int dump_text(void *file)
{
    return coir_dump(ci_file_fd(file), COIR_DUMP_TEXT);
}

static int show_tasks(coir_request *req, coir_response *res, void *arg)
{
    coir_file *file;
    (void)arg;
    if (!may_look(req))
        return refuse(res);
    const char *format = coir_request_query_value(req, "format");
    bool is_text = format && strcmp(format, "text") == 0;
    int rc = open_temporary(&file);
    if (rc < 0)
        return rc;
    rc = coir_offload(is_text ? dump_text : dump, file);
    if (rc == 0)
        rc = send_file(res, file, is_text ? "text/plain; charset=utf-8" : "application/json");
    coir_file_close(file);
    return rc;
}

/* Traces for a while, unless the flight recorder does so all the time; the trace goes to `file`. */
static int record(coir_file *file, coir_time duration)
{
    int begun = coir_trace_start(0), rc = begun;
    bool recorded = begun == -EBUSY && ci_load(&ci_worker_current->runtime->recorder);
    if (begun == 0)
        rc = coir_sleep_for(duration);
    if (rc == 0 || recorded)
        rc = coir_trace_write(ci_file_fd(file));
    COIR_SHIELD;
    if (begun == 0)
        coir_trace_stop();
    return rc;
}

static int send_trace(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    if (!may_look(req) || !is_own_page(req))
        return refuse(res);
    const char *wanted = coir_request_query_value(req, "ms");
    long ms = wanted ? strtol(wanted, NULL, 10) : TRACE_MS;
    if (ms <= 0 || ms > TRACE_MS_MOST)
        return coir_respond_text(res, 400, "ms is a number from 1 to %d\n", TRACE_MS_MOST);
    coir_file *file;
    int rc = open_temporary(&file);
    if (rc < 0)
        return rc;
    rc = record(file, ms * COIR_MS);
    if (rc == -EBUSY)
        rc = coir_respond_text(res, 409, "the workers are traced already\n");
    else if (rc == 0)
        rc = send_file(res, file, "application/json");
    coir_file_close(file);
    return rc;
}

/* ---- the routes ---- */

static int route(coir_router *router, const char *method, const char *prefix, const char *name,
                 coir_handler_fn *handler, const void *arg)
{
    char pattern[PREFIX_MOST + 20];
    snprintf(pattern, sizeof pattern, "%s%s", prefix, name);
    return coir_route(router, method, pattern, handler, (void *)(uintptr_t)arg);
}

int coir_route_metrics(coir_router *router, const char *path)
{
    return router && path ? coir_route(router, "GET", path, show_metrics_to_all, NULL)
                          : CI_MISUSE(-EINVAL, "router or path is NULL");
}

int coir_route_debug(coir_router *router, const char *prefix, const char *page, bool traces)
{
    size_t len = prefix ? strlen(prefix) : 0;
    if (!router || !len || prefix[0] != '/' || prefix[len - 1] != '/' || len > PREFIX_MOST)
        return CI_MISUSE(
            -EINVAL, "router is NULL, or prefix does not begin and end with / (page may be NULL)");
    int rc = route(router, "GET", prefix, "metrics", show_metrics, NULL);
    if (rc == 0)
        rc = route(router, "GET", prefix, "events", follow_metrics, NULL);
    if (rc == 0)
        rc = route(router, "GET", prefix, "tasks", show_tasks, NULL);
    if (rc == 0 && page)
        rc = route(router, "GET", prefix, "", show_page, page);
    if (rc == 0 && traces)
        rc = route(router, "POST", prefix, "trace", send_trace, NULL);
    return rc;
}
