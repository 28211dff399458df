/* For test/e2e/fixed: a server in fixed memory with WebSocket and PHP, which counts every call of
 * the C library's allocator from its start on, and a crowd of WebSocket clients.
 * Usage: fixed serve ADDRESS-OF-PHP ROOT | fixed crowd URL CLIENTS MESSAGES */
#include <coir.h>
#include <coir/fastcgi.h>
#include <coir/ws.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../counted_malloc.h"

/* ---- the server ---- */

enum { CONNECTIONS = 40, REQUESTS = 8 };

static int on_message(coir_ws *ws, coir_ws_message *message, void *arg)
{
    (void)arg;
    return message ? coir_ws_send(ws, message) : 0;
}

static int echo(coir_request *req, coir_response *res, void *arg)
{
    return coir_ws_handle(req, res, on_message, arg);
}

static int show_counts(coir_request *req, coir_response *res, void *arg)
{
    (void)req, (void)arg;
    coir_http_counters counters = COIR_HTTP_COUNTERS;
    coir_http_counters_get(&counters);
    return coir_respond_text(res, 200, "%ld %llu %llu\n", atomic_load(&allocations),
                             (unsigned long long)counters.refused,
                             (unsigned long long)counters.connections_live);
}

static int serve(char **argv)
{
    coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;
    coir_fastcgi_options php = COIR_FASTCGI_OPTIONS;
    coir_listener *listener;
    coir_router *router;
    coir_fastcgi *client;
    char address[64];
    php.address = argv[2];
    php.connections_max = REQUESTS;
    php.idle_timeout = COIR_NEVER;
    int rc = coir_tcp_listen("127.0.0.1:0", &listener);
    if (rc < 0 || (rc = coir_router_new(&router)) < 0 ||
        (rc = coir_fastcgi_new_with(&php, &client)) < 0 ||
        (rc = coir_route(router, "GET", "/ws", echo, NULL)) < 0 ||
        (rc = coir_route(router, "GET", "/counts", show_counts, NULL)) < 0 ||
        (rc = coir_route_fastcgi(router, "/php/{path...}", client, argv[3])) < 0)
        return rc;
    options.listener = listener;
    options.connections_max = CONNECTIONS;
    options.requests_max = REQUESTS;
    options.at_limit = COIR_LIMIT_ANSWERS;
    options.fixed_memory = true;
    coir_listener_local(listener, address, sizeof address);
    printf("serving on http://%s\n", address);
    fflush(stdout);
    rc = coir_serve_http_with(&options, router);
    coir_router_free(router);
    coir_fastcgi_free(client);
    coir_listener_close(listener);
    return rc;
}

/* ---- the crowd ---- */

static const char *url;
static int messages;
static long refused, echoed;

static int converse(coir_ws *ws)
{
    char text[32];
    int rc = 0;
    for (int i = 0; i < messages && rc == 0; i++) {
        coir_ws_message *message;
        snprintf(text, sizeof text, "message %d", i);
        if ((rc = coir_ws_send_text(ws, text)) < 0 || (rc = coir_ws_recv(ws, &message)) <= 0)
            return rc < 0 ? rc : -COIR_EEND;
        rc = coir_ws_message_len(message) == strlen(text) ? 0 : -EIO;
        coir_ws_message_unref(message);
        echoed += rc == 0;
    }
    return rc < 0 ? rc : coir_ws_close(ws, 1000, NULL);
}

/* Comes again until it is let in. */
static int visit(void *arg)
{
    (void)arg;
    coir_ws *ws = NULL;
    coir_ws_options options = COIR_WS_OPTIONS;
    int rc;
    options.connect_timeout = 120 * COIR_S;
    while ((rc = coir_ws_connect_with(url, &options, &ws)) == -ECONNREFUSED || rc == -ECONNRESET ||
           rc == -COIR_EEND) {
        refused++;
        if ((rc = coir_sleep_for(5 * COIR_MS)) < 0)
            return rc;
    }
    if (rc == 0)
        rc = converse(ws);
    coir_ws_free(ws);
    return rc;
}

static int crowd(char **argv)
{
    COIR_SCOPE(scope);
    url = argv[2];
    messages = atoi(argv[4]);
    int rc = 0;
    for (int i = 0; i < atoi(argv[3]) && rc == 0; i++)
        rc = coir_go(scope, visit, NULL);
    int ended = coir_scope_wait(scope);
    printf("%ld echoed, %ld refused\n", echoed, refused);
    return rc < 0 ? rc : ended;
}

static int start(void *arg)
{
    char **argv = arg;
    return strcmp(argv[1], "serve") == 0 ? serve(argv) : crowd(argv);
}

int main(int argc, char **argv)
{
    setenv("COIR_WORKERS", "1", 1);
    atomic_store(&counts, true);
    if (argc < 4 || (strcmp(argv[1], "serve") != 0 && argc < 5)) {
        fprintf(stderr, "usage: %s serve PHP ROOT | crowd URL CLIENTS MESSAGES\n", argv[0]);
        return 2;
    }
    return coir_main(start, argv);
}
