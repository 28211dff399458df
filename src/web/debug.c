/* Routes for a person who looks into the server, guarded: see coir/debug.h. */
#include "coir/debug.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coir/deadline.h"
#include "coir/fiber.h"
#include "coir/file.h"
#include "coir/metrics.h"
#include "coir/select.h"
#include "coir/sse.h"
#include "coir/trace.h"
#include "web/exchange.h"

enum { TRACE_MS = 1000, TRACE_MS_MOST = 10 * 1000, PIECE = 4096, PREFIX_MOST = 200 };
static const coir_time period = 500 * COIR_MS;

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
    return may_look(req) ? coir_respond(res, 200, "text/html; charset=utf-8", page, strlen(page))
                         : refuse(res);
}

static size_t put_http(char *text, size_t size)
{
    coir_http_counters http = COIR_HTTP_COUNTERS;
    coir_http_counters_get(&http);
    int len =
        snprintf(text, size,
                 "# HELP coir_http_connections_total Connections that were accepted.\n"
                 "# TYPE coir_http_connections_total counter\n"
                 "coir_http_connections_total %llu\n"
                 "# HELP coir_http_connections_live Connections that have not ended.\n"
                 "# TYPE coir_http_connections_live gauge\n"
                 "coir_http_connections_live %llu\n"
                 "# HELP coir_http_requests_total Requests whose head was complete.\n"
                 "# TYPE coir_http_requests_total counter\n"
                 "coir_http_requests_total %llu\n"
                 "# HELP coir_http_errors_total Answers that the server gave by itself.\n"
                 "# TYPE coir_http_errors_total counter\n"
                 "coir_http_errors_total %llu\n",
                 (unsigned long long)http.connections, (unsigned long long)http.connections_live,
                 (unsigned long long)http.requests, (unsigned long long)http.errors_sent);
    return len > 0 ? (size_t)len : 0;
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

static int make_metrics(struct metrics *metrics)
{
    coir_runtime *runtime = coir_runtime_current();
    int64_t len = coir_metrics_text(runtime, NULL, 0);
    if (len < 0)
        return (int)len;
    metrics->size = (size_t)len + GROWTH + HTTP_SIZE;
    if (!(metrics->text = ci_alloc(allocator(), metrics->size)))
        return -ENOMEM;
    metrics->len = put_http(metrics->text, HTTP_SIZE);
    len = coir_metrics_text(runtime, metrics->text + metrics->len, metrics->size - metrics->len);
    metrics->len += len < 0 ? 0 : strlen(metrics->text + metrics->len);
    return len < 0 ? (int)len : 0;
}

static void free_metrics(struct metrics *metrics)
{
    ci_free(allocator(), metrics->text, metrics->size);
}

static int show_metrics(coir_request *req, coir_response *res, void *arg)
{
    struct metrics metrics = {.text = NULL};
    (void)arg;
    if (!may_look(req))
        return refuse(res);
    int rc = make_metrics(&metrics);
    if (rc == 0)
        rc = coir_respond(res, 200, "text/plain; version=0.0.4", metrics.text, metrics.len);
    free_metrics(&metrics);
    return rc;
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

/* ---- a trace ---- */

static int send_file(coir_response *res, coir_file *file)
{
    char piece[PIECE];
    int64_t size, at = 0;
    int rc = coir_file_size(file, &size);
    if (rc == 0)
        rc = coir_response_begin(res, 200, "application/json", size);
    while (rc == 0 && at < size) {
        ssize_t n = coir_file_read(file, piece, sizeof piece, at);
        if (n <= 0)
            return n < 0 ? (int)n : -EIO;
        at += n;
        rc = coir_response_write(res, piece, (size_t)n);
    }
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
    coir_file *dir, *file;
    int rc = coir_file_open("/tmp", O_RDONLY | O_DIRECTORY, 0, &dir);
    if (rc == 0) {
        rc = coir_file_open_temporary(dir, 0600, &file);
        coir_file_close(dir);
    }
    if (rc < 0)
        return rc;
    rc = record(file, ms * COIR_MS);
    if (rc == -EBUSY)
        rc = coir_respond_text(res, 409, "the workers are traced already\n");
    else if (rc == 0)
        rc = send_file(res, file);
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

int coir_route_debug(coir_router *router, const char *prefix, const char *page, bool traces)
{
    size_t len = prefix ? strlen(prefix) : 0;
    if (!router || !len || prefix[0] != '/' || prefix[len - 1] != '/' || len > PREFIX_MOST)
        return CI_MISUSE(
            -EINVAL, "router is NULL, or prefix does not begin and end with / (page may be NULL)");
    int rc = route(router, "GET", prefix, "metrics", show_metrics, NULL);
    if (rc == 0)
        rc = route(router, "GET", prefix, "events", follow_metrics, NULL);
    if (rc == 0 && page)
        rc = route(router, "GET", prefix, "", show_page, page);
    if (rc == 0 && traces)
        rc = route(router, "POST", prefix, "trace", send_trace, NULL);
    return rc;
}
