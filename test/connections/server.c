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
#include "connections/secure.h"
#include "io/listener.h"

static struct start {
    int ready, send_buffer;
    bool tls;
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

/* ---- the program ---- */

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

static int serve(void *arg)
{
    (void)arg;
    coir_router *router;
    coir_listener *listener;
    coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;
    options.head_max = limits.head_max;
    options.line_max = limits.line_max;
    options.body_max = limits.body_max;
    char address[80];
    int rc = coir_router_new(&router);
    rc = rc < 0 ? rc : coir_route(router, "GET", "/stats", stats, NULL);
    rc = rc < 0 ? rc : handlers_route(router);
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
    rc = start.tls ? secure_serve(listener, &options, router)
                   : coir_serve_http_with(&options, router);
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

void server_main(const struct server *server, int send_buffer, int ready)
{
    start = (struct start){ready, send_buffer, server->tls};
    coir_allocator allocator = COIR_ALLOCATOR(count_alloc, count_free, NULL);
    coir_config config = COIR_CONFIG;
    config.driver = server->driver;
    config.workers = server->workers;
    if (server->tls)
        config.stack_size = 128 * 1024; /* of handshakes, with sanitizers */
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
