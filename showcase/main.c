/* The showcase: one program, with its pages in it. Usage: coir-showcase [PORT]; TLS_PORT in the
 * environment serves the same over TLS (secure.h); FASTCGI names a FastCGI application, such as
 * unix:/run/php/php8.2-fpm.sock, which answers /php/... by the scripts below FASTCGI_ROOT; DEBUG=1
 * adds /debug/, where one sees what it does, for browsers on this machine. */
#include <coir.h>
#include <coir/debug.h>
#include <coir/fastcgi.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat.h"
#include "pages.h"
#include "secure.h"

static int hello(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    return coir_respond(res, 200, "text/plain", "Hello, World!", 13);
}

static int echo(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    char buf[8192];
    ssize_t n;
    const char *type = coir_request_header(req, "content-type");
    int rc = 0;
    if ((n = coir_request_read(req, buf, sizeof buf)) < 0)
        return (int)n;
    rc = coir_response_begin(res, 200, type ? type : "application/octet-stream",
                             coir_request_length(req));
    while (rc == 0 && n > 0) {
        rc = coir_response_write(res, buf, (size_t)n);
        if (rc == 0 && (n = coir_request_read(req, buf, sizeof buf)) < 0)
            rc = (int)n;
    }
    return rc;
}

/* A whole number between 0 and `most`, or -1. */
static int64_t number(const char *text, int64_t most)
{
    char *end;
    if (!text || *text < '0' || *text > '9')
        return -1;
    long long value = strtoll(text, &end, 10);
    return *end || value > most ? -1 : value;
}

static int stream(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    static const char line[] =
        "The quick brown fox jumps over the lazy dog, again and again.\r\n\r";
    char buf[8192];
    int64_t left = number(coir_request_param(req, "bytes"), (int64_t)1 << 40);
    if (left < 0)
        return coir_respond_text(res, 400,
                                 "BYTES in /stream/BYTES must be a number from 0 to 2^40\n");
    for (size_t i = 0; i < sizeof buf; i++)
        buf[i] = line[i % 64];
    int rc = coir_response_begin(res, 200, "text/plain", left);
    while (rc == 0 && left > 0) {
        size_t n = left < (int64_t)sizeof buf ? (size_t)left : sizeof buf;
        rc = coir_response_write(res, buf, n);
        left -= (int64_t)n;
    }
    return rc;
}

static int sleep_page(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    int64_t ms = number(coir_request_param(req, "ms"), 3600 * 1000);
    if (ms < 0)
        return coir_respond_text(res, 400, "MS in /sleep/MS must be a number from 0 to 3600000\n");
    coir_time start = coir_now();
    int rc = coir_sleep_for(ms * COIR_MS);
    if (rc < 0)
        return rc;
    return coir_respond_text(res, 200, "slept %.3f ms\n",
                             (double)(coir_now() - start) / (double)COIR_MS);
}

/* Sends every message back: for conformance suites, whose messages are up to 16 MiB. */
static int echo_message(coir_ws *ws, coir_ws_message *message, void *arg)
{
    (void)arg;
    int rc = message ? coir_ws_send(ws, message) : 0;
    return rc == -EPIPE ? 0 : rc; /* it has left */
}

static int ws_echo(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_ws_options options = COIR_WS_OPTIONS;
    coir_ws *ws;
    options.message_max = 16 << 20;
    options.bytes_max = 32 << 20;
    options.compression = COIR_WS_COMPRESS_MESSAGES;
    return coir_ws_handle_with(req, res, &options, echo_message, NULL, &ws);
}

static int route_all(coir_router *router, struct chat *chat)
{
    int rc;
    if ((rc = pages_route(router)) < 0 ||
        (rc = coir_route(router, "GET", "/chat/ws/{room}", chat_connect, chat)) < 0 ||
        (rc = coir_route(router, "GET", "/ws/echo", ws_echo, NULL)) < 0 ||
        (rc = coir_route(router, "GET", "/hello", hello, NULL)) < 0 ||
        (rc = coir_route(router, "POST", "/echo", echo, NULL)) < 0 ||
        (rc = coir_route(router, "GET", "/stream/{bytes}", stream, NULL)) < 0 ||
        (rc = coir_route(router, "GET", "/sleep/{ms}", sleep_page, NULL)) < 0 ||
        (rc = coir_route_metrics(router, "/metrics")) < 0)
        return rc;
    return 0;
}

/* A limit in milliseconds from the environment, for the tests; 0: the default. */
static coir_time limit(const char *name)
{
    int64_t ms = number(getenv(name), 3600 * 1000);
    return ms > 0 ? ms * COIR_MS : 0;
}

/* A server, over TLS or not. */
struct server {
    coir_serve_http_options options;
    coir_router *router;
    const char *port;
};

/* `variable` is what chooses another port. */
static int listen_on(struct server *server, const char *variable)
{
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%s", server->port);
    int rc = coir_tcp_listen(address, &server->options.listener);
    if (rc == -EADDRINUSE)
        fprintf(stderr,
                "coir-showcase: %s is in use; choose another by %s=, such as make run %s=8081\n",
                address, variable, variable);
    return rc;
}

static int serve(void *arg)
{
    struct server *server = arg;
    return coir_serve_http_with(&server->options, server->router);
}

static void announce(const struct server *server, const char *scheme)
{
    char actual[64];
    coir_listener_local(server->options.listener, actual, sizeof actual);
    printf("coir: serving on %s://%s (%zu workers)\n", scheme, actual,
           coir_worker_count(coir_runtime_current()));
}

static int serve_both(struct server *plain, struct server *secure, struct chat *chat)
{
    COIR_SCOPE(scope);
    chat->scope = scope;
    announce(plain, "http");
    if (secure->port)
        announce(secure, "https");
    fflush(stdout);
    int rc = coir_go(scope, chat_keep_presence, chat);
    if (rc == 0)
        rc = coir_go(scope, serve, plain);
    if (rc == 0 && secure->port)
        rc = coir_go(scope, serve, secure);
    return rc < 0 ? rc : coir_scope_wait(scope);
}

/* /php/..., where FASTCGI names an application. */
static int route_scripts(coir_router *router, coir_fastcgi **ret_client)
{
    const char *address = getenv("FASTCGI"), *root = getenv("FASTCGI_ROOT");
    if (!address || !*address)
        return 0;
    int rc = coir_fastcgi_new(address, ret_client);
    return rc < 0 ? rc
                  : coir_route_fastcgi(router, "/php/{path...}", *ret_client,
                                       root && *root ? root : "/var/www/html");
}

/* /debug/, where DEBUG asks for it. The flight recorder measures turns meanwhile. */
static int route_debug(coir_router *router)
{
    static char page[1 << 16];
    const char *wanted = getenv("DEBUG");
    if (!wanted || strcmp(wanted, "1") != 0)
        return 0;
    if (debug_pages[0].size >= sizeof page)
        return -COIR_ETOOLARGE;
    memcpy(page, debug_pages[0].bytes, debug_pages[0].size);
    int rc = coir_route_debug(router, "/debug/", page, true);
    return rc < 0 ? rc : coir_recorder_start();
}

static int start(void *arg)
{
    static struct chat chat;
    coir_fastcgi *scripts = NULL;
    struct server plain = {COIR_SERVE_HTTP_OPTIONS, NULL, arg}, secure;
    const char *tls_port = getenv("TLS_PORT");
    plain.options.header_timeout = limit("SHOWCASE_HEADER_MS");
    plain.options.idle_timeout = limit("SHOWCASE_IDLE_MS");
    plain.options.drain_timeout = limit("SHOWCASE_DRAIN_MS");
    int rc = coir_router_new(&plain.router);
    if (rc < 0)
        return rc;
    secure = plain;
    secure.port = tls_port && *tls_port ? tls_port : NULL;
    rc = chat_open(&chat);
    if (rc == 0)
        rc = route_all(plain.router, &chat);
    if (rc == 0)
        rc = route_scripts(plain.router, &scripts);
    if (rc == 0)
        rc = route_debug(plain.router);
    if (rc == 0 && secure.port)
        rc = secure_open(&secure.options.layer, &secure.options.layer_arg);
    if (rc == 0)
        rc = listen_on(&plain, "PORT");
    if (rc == 0 && secure.port)
        rc = listen_on(&secure, "TLS_PORT");
    if (rc == 0)
        rc = serve_both(&plain, &secure, &chat);
    coir_listener_close(plain.options.listener);
    coir_listener_close(secure.options.listener);
    if (secure.port)
        secure_close(secure.options.layer_arg);
    coir_router_free(plain.router);
    coir_fastcgi_free(scripts);
    chat_close(&chat);
    return rc;
}

int main(int argc, char **argv)
{
    const char *debug = getenv("DEBUG");
    if (debug && strcmp(debug, "1") == 0)
        setenv("COIR_STACK_USE", "1", 0);
    return coir_main(start, argc > 1 ? argv[1] : "8080");
}
