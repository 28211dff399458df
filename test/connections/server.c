/* The server that is fuzzed: a program of coir, in a process of its own. */
#include <coir.h>
#include <coir/web.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/atomic.h"
#include "connections/fuzz.h"
#include "io/listener.h"

static struct start {
    int ready, send_buffer;
} start;

/* ---- memory, counted ---- */

static long bytes_live;

static void *count_alloc(size_t size, void *context)
{
    (void)context;
    void *memory = aligned_alloc(64, (size + 63) & ~(size_t)63);
    if (memory)
        ci_fetch_add(&bytes_live, (long)size);
    return memory;
}

static void count_free(void *memory, size_t size, void *context)
{
    (void)context;
    ci_fetch_add(&bytes_live, -(long)size);
    free(memory);
}

/* ---- handlers ---- */

static unsigned number(coir_request *req, const char *name)
{
    const char *text = coir_request_param(req, name);
    return text ? (unsigned)strtoul(text, NULL, 10) : 0;
}

static int say_number(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    return coir_respond_text(res, 200, "%u", number(req, "n"));
}

static int say_late(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    int rc = coir_sleep_for((coir_time)number(req, "n") * COIR_MS);
    return rc < 0 ? rc : say_number(req, res, arg);
}

static int write_pattern(coir_response *res, unsigned seed, size_t len, size_t piece)
{
    char bytes[8192];
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < len;) {
        size_t n = len - at < piece ? len - at : piece;
        for (size_t i = 0; i < n; i++)
            bytes[i] = pattern(seed, at + i);
        rc = coir_response_write(res, bytes, n);
        at += n;
    }
    return rc;
}

static size_t piece_of(unsigned seed)
{
    static const size_t pieces[] = {8192, 997, 4096, 64, 5000};
    return pieces[seed % 5];
}

static int send_known(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    unsigned seed = number(req, "seed");
    size_t len = number(req, "n");
    int rc = coir_response_begin(res, 200, "text/plain", (int64_t)len);
    return rc < 0 ? rc : write_pattern(res, seed, len, piece_of(seed));
}

static int send_unknown(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    unsigned seed = number(req, "seed");
    int rc = coir_response_begin(res, 200, "text/plain", -1);
    return rc < 0 ? rc : write_pattern(res, seed, number(req, "n"), piece_of(seed));
}

/* Half of what was announced. */
static int send_half(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    unsigned seed = number(req, "seed");
    size_t len = number(req, "n");
    int rc = coir_response_begin(res, 200, "text/plain", (int64_t)len);
    rc = rc < 0 ? rc : write_pattern(res, seed, len / 2, piece_of(seed));
    return rc < 0 ? rc : -EIO;
}

static int send_nothing(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    return coir_response_begin(res, 204, NULL, 0);
}

static int give_up(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    (void)res;
    return -EIO;
}

static int take_body(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    char bytes[5000];
    uint64_t hash = HASH_BEGIN;
    size_t len = 0;
    ssize_t n;
    while ((n = coir_request_read(req, bytes, sizeof bytes)) > 0) {
        hash = hash_more(hash, bytes, (size_t)n);
        len += (size_t)n;
    }
    if (n < 0)
        return (int)n;
    return coir_respond_text(res, 200, "%zu %016llx", len, (unsigned long long)hash);
}

static int echo(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    char bytes[8192];
    ssize_t n = coir_request_read(req, bytes, sizeof bytes);
    int rc = n < 0 ? (int)n : coir_response_begin(res, 200, "text/plain", coir_request_length(req));
    while (rc == 0 && n > 0) {
        rc = coir_response_write(res, bytes, (size_t)n);
        if (rc == 0 && (n = coir_request_read(req, bytes, sizeof bytes)) < 0)
            rc = (int)n;
    }
    return rc;
}

static int stats(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    coir_counters now = COIR_COUNTERS;
    coir_http_counters http = COIR_HTTP_COUNTERS;
    coir_counters_get(coir_runtime_current(), &now);
    coir_http_counters_get(&http);
    return coir_respond_text(res, 200, "%ld %ld %ld %ld %ld\n", (long)now.tasks_live,
                             (long)now.stacks_live, (long)http.connections_live,
                             (long)http.requests, ci_load_relaxed(&bytes_live));
}

static int route_all(coir_router *router)
{
    static const struct {
        const char *method, *pattern;
        coir_handler_fn *handler;
    } routes[] = {
        {"GET", "/stats", stats},
        {"GET", "/n/{n}", say_number},
        {"GET", "/late/{n}", say_late},
        {"GET", "/known/{n}/{seed}", send_known},
        {"GET", "/unknown/{n}/{seed}", send_unknown},
        {"GET", "/half/{n}/{seed}", send_half},
        {"GET", "/nothing", send_nothing},
        {"GET", "/fail", give_up},
        {"POST", "/body", take_body},
        {"POST", "/echo", echo},
        {"POST", "/ignore/{n}", say_number},
    };
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof routes / sizeof *routes; i++)
        rc = coir_route(router, routes[i].method, routes[i].pattern, routes[i].handler, NULL);
    return rc;
}

/* ---- the program ---- */

static int serve(void *arg)
{
    (void)arg;
    coir_router *router;
    coir_listener *listener;
    coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;
    options.head_max = HEAD_MAX;
    options.line_max = LINE_MAX_;
    options.body_max = BODY_MAX;
    char address[80];
    int rc = coir_router_new(&router);
    rc = rc < 0 ? rc : route_all(router);
    rc = rc < 0 ? rc : coir_tcp_listen("127.0.0.1:0", &listener);
    if (rc < 0)
        return rc;
    coir_fd fd = listener->fd; /* the sockets that it accepts inherit its options */
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno",
               4); /* others pace, and small windows crawl */
    if (start.send_buffer)
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &start.send_buffer, sizeof start.send_buffer);
    int len = coir_listener_local(listener, address, sizeof address);
    if (len < 0 || write(start.ready, address, (size_t)len) != len)
        return -EIO;
    close(start.ready);
    options.listener = listener;
    rc = coir_serve_http_with(&options, router);
    coir_listener_close(listener);
    coir_router_free(router);
    return rc;
}

static void log_line(enum coir_log_level level, const char *line, void *context)
{
    (void)context;
    (void)level;
    fprintf(stderr, "coir: %s\n", line);
}

void server_main(const char *driver, unsigned workers, int send_buffer, int ready)
{
    start = (struct start){ready, send_buffer};
    coir_allocator allocator = COIR_ALLOCATOR(count_alloc, count_free, NULL);
    coir_config config = COIR_CONFIG;
    config.driver = driver;
    config.workers = workers;
    config.allocator = &allocator;
    config.stop_signals = 1;
    config.report_overflow = 1;
    config.log = log_line;
    unsetenv("COIR_DRIVER"); /* they would override what the command says */
    unsetenv("COIR_WORKERS");
    coir_runtime *runtime;
    int rc = coir_runtime_new(&config, &runtime);
    if (rc == 0) {
        rc = coir_runtime_run(runtime, serve, NULL);
        coir_runtime_free(runtime);
    }
    if (rc < 0 && rc != -ECANCELED)
        fprintf(stderr, "the server: %s\n", coir_strerror(rc));
    if (bytes_live)
        fprintf(stderr, "the server: %ld bytes were not freed\n", bytes_live);
    exit((rc < 0 && rc != -ECANCELED) || bytes_live);
}
