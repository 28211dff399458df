/* The rows of deadline_test.c for calls on a WebSocket connection: a client's, whose server neither
 * reads nor writes, and whose queue is full. */
#ifndef TEST_DEADLINE_WEBSOCKET_ROWS_H
#define TEST_DEADLINE_WEBSOCKET_ROWS_H

#include <stdio.h>

static struct {
    coir_ws *it;
    coir_ws_message *message;
    bool last;
    char url[100];
} ws;

/* clang-format off */
/* Of a WebSocket connection. */
#define WS_ROWS(X)                                                                           \
    X(coir_ws_connect, ENDS, coir_ws_connect(ws.url, &made))                                \
    X(coir_ws_connect_with, ENDS, coir_ws_connect_with(ws.url, NULL, &made))                \
    X(coir_ws_recv, WAITS, coir_ws_recv(ws.it, &ws.message))                                   \
    X(coir_ws_recv_part, WAITS, coir_ws_recv_part(ws.it, &ws.message, &ws.last))                \
    X(coir_ws_send, WAITS, coir_ws_send(ws.it, ws.message))                                    \
    X(coir_ws_send_text, WAITS, coir_ws_send_text(ws.it, "a"))                                \
    X(coir_ws_send_binary, WAITS, coir_ws_send_binary(ws.it, "a", 1))                         \
    X(coir_ws_send_part, WAITS, coir_ws_send_part(ws.it, COIR_WS_TEXT, "a", 1, true))         \
    X(coir_ws_flush, WAITS, coir_ws_flush(ws.it))                                             \
    X(coir_ws_close, WAITS, coir_ws_close(ws.it, 1000, NULL))
/* clang-format on */

WS_ROWS(CALL)
static const struct row ws_rows[] = {WS_ROWS(ROW)};

/* Neither reads nor writes. */
static int accept_and_wait(coir_request *req, coir_response *res, void *arg)
{
    coir_ws *socket_of_it;
    int rc = coir_ws_accept(req, res, &socket_of_it);
    return rc < 0 ? rc : wait_never(arg);
}

static int serve_sockets(void *arg)
{
    coir_router *router = NULL;
    CHECK_EQ(coir_router_new(&router), 0);
    CHECK_EQ(coir_route(router, "GET", "/", accept_and_wait, NULL), 0);
    int rc = coir_serve_http_with(HTTP_ON(arg), router);
    coir_router_free(router);
    return rc;
}

/* Sends until the queue is full, and stays so. */
static void fill_socket(void)
{
    CHECK_EQ(coir_ws_message_new(COIR_WS_BINARY, bytes, sizeof bytes, &ws.message), 0);
    for (int rc = 0; rc == 0;) {
        COIR_DEADLINE(coir_in(100 * COIR_MS));
        CHECK((rc = coir_ws_send(ws.it, ws.message)) == 0 || rc == -ETIME);
    }
}

static void ask_about_sockets(void)
{
    coir_ws_options options = COIR_WS_OPTIONS;
    options.items_max = 1;
    options.close_timeout = 1000 * COIR_S;
    COIR_SERVING_SCOPE(scope);
    t.scope = scope;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &t.listener), 0);
    CHECK(coir_listener_local(t.listener, t.address, sizeof t.address) > 0);
    snprintf(ws.url, sizeof ws.url, "ws://%s/", t.address);
    CHECK_EQ(coir_go(scope, serve_sockets, t.listener), 0);
    CHECK_EQ(coir_ws_connect_with(ws.url, &options, &ws.it), 0);
    fill_socket();
    ask_all(ws_rows, sizeof ws_rows / sizeof ws_rows[0]);
    coir_ws_message_unref(ws.message);
    coir_ws_free(ws.it);
    coir_scope_cancel(scope);
    CHECK_EQ(coir_scope_wait(scope), 0);
    coir_listener_close(t.listener);
}

#endif
