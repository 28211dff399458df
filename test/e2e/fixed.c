/* For test/e2e/fixed: a server in fixed memory with pages, WebSocket and PHP, which counts every
 * call of the C library's allocator and says how many there were before it served; and a crowd of
 * WebSocket clients.
 * Usage: fixed serve ADDRESS-OF-PHP ROOT | fixed crowd URL CLIENTS MESSAGES: 0, until the server's
 * queue is full */
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

enum { CONNECTIONS = 40, REQUESTS = 8, WEBSOCKETS = 20, LONGEST = 3000 };

static int on_message(coir_ws *ws, coir_ws_message *message, void *arg)
{
    (void)arg;
    return message ? coir_ws_send(ws, message) : 0;
}

static int echo(coir_request *req, coir_response *res, void *arg)
{
    return coir_ws_handle(req, res, on_message, arg);
}

static int page(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    char *memory = coir_request_alloc(req, LONGEST);
    int rc = coir_yield();
    if (rc < 0 || !memory)
        return rc < 0 ? rc : -ENOMEM;
    memset(memory, 'p', LONGEST);
    return coir_respond(res, 200, "text/plain", memory, LONGEST);
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

/* The server has reserved what it needs when it waits for the first time: this timer, which was set
 * before, expires after that. */
static int announce(void *address)
{
    int rc = coir_sleep_for(10 * COIR_MS);
    printf("serving on http://%s after %ld allocations\n", (char *)address,
           atomic_load(&allocations));
    fflush(stdout);
    return rc;
}

static int serve(char **argv)
{
    coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;
    coir_ws_options websocket = COIR_WS_OPTIONS;
    coir_fastcgi_options php = COIR_FASTCGI_OPTIONS;
    coir_listener *listener;
    coir_router *router;
    coir_fastcgi *client;
    static char address[64], buffer[BUFSIZ];
    setvbuf(stdout, buffer, _IOLBF, sizeof buffer);
    php.address = argv[2];
    php.connections_max = REQUESTS;
    php.idle_timeout = COIR_NEVER;
    int rc = coir_tcp_listen("127.0.0.1:0", &listener);
    if (rc < 0 || (rc = coir_router_new(&router)) < 0 ||
        (rc = coir_fastcgi_new_with(&php, &client)) < 0 ||
        (rc = coir_route(router, "GET", "/ws", echo, NULL)) < 0 ||
        (rc = coir_route(router, "GET", "/page", page, NULL)) < 0 ||
        (rc = coir_route(router, "GET", "/counts", show_counts, NULL)) < 0 ||
        (rc = coir_route_fastcgi(router, "/php/{path...}", client, argv[3])) < 0)
        return rc;
    options.listener = listener;
    options.connections_max = CONNECTIONS;
    options.requests_max = REQUESTS;
    options.at_limit = COIR_LIMIT_ANSWERS;
    options.fixed_memory = true;
    options.websockets_max = WEBSOCKETS;
    options.websocket_options = &websocket;
    websocket.message_max = LONGEST;
    websocket.compression = COIR_WS_COMPRESS_MESSAGES;
    coir_listener_local(listener, address, sizeof address);
    if ((rc = coir_go(NULL, announce, address)) == 0)
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
    char text[LONGEST];
    int rc = 0;
    for (int i = 0; i < messages && rc == 0; i++) {
        coir_ws_message *message;
        memset(text, 'm', sizeof text);
        snprintf(text + i * (LONGEST - 32) / messages, 32, "message %d", i);
        if ((rc = coir_ws_send_text(ws, text)) < 0 || (rc = coir_ws_recv(ws, &message)) <= 0)
            return rc < 0 ? rc : -COIR_EEND;
        rc = coir_ws_message_len(message) == strlen(text) ? 0 : -EIO;
        coir_ws_message_unref(message);
        echoed += rc == 0;
    }
    return rc < 0 ? rc : coir_ws_close(ws, 1000, NULL);
}

/* Sends without receiving until the server takes no more: its queue is full. */
static int fill(coir_ws *ws, int *sent)
{
    static char longest[LONGEST]; /* which cannot be compressed */
    uint32_t number = 1;
    int rc = 0;
    for (size_t i = 0; i < sizeof longest; i++, number = number * 1664525 + 1013904223)
        longest[i] = (char)(number >> 24);
    while (rc == 0) {
        COIR_DEADLINE(coir_in(200 * COIR_MS));
        if ((rc = coir_ws_send_binary(ws, longest, sizeof longest)) == 0)
            ++*sent;
    }
    return rc == -ETIME ? 0 : rc;
}

static int hoard(coir_ws *ws)
{
    int sent = 0, rc = fill(ws, &sent);
    for (; rc == 0 && sent > 0; sent--) {
        coir_ws_message *message;
        if ((rc = coir_ws_recv(ws, &message)) <= 0)
            return rc < 0 ? rc : -COIR_EEND;
        rc = coir_ws_message_len(message) == LONGEST ? 0 : -EIO;
        coir_ws_message_unref(message);
        echoed++;
    }
    return rc < 0 ? rc : coir_ws_close(ws, 1000, NULL);
}

/* Comes again until it is let in. Some can compress. */
static int visit(void *arg)
{
    coir_ws *ws = NULL;
    coir_ws_options options = COIR_WS_OPTIONS;
    int rc;
    options.compression = arg ? COIR_WS_COMPRESS_MESSAGES : COIR_WS_NO_COMPRESSION;
    options.connect_timeout = 120 * COIR_S;
    while ((rc = coir_ws_connect_with(url, &options, &ws)) == -ECONNREFUSED || rc == -ECONNRESET ||
           rc == -COIR_EEND) {
        refused++;
        if ((rc = coir_sleep_for(5 * COIR_MS)) < 0)
            return rc;
    }
    if (rc == 0)
        rc = messages ? converse(ws) : hoard(ws);
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
        rc = coir_go(scope, visit, i % (messages ? 2 : 8) ? NULL : &url);
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
