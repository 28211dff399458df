/* For test/e2e/websocket: an echo server over WebSocket, in both forms, or a client that sends many
 * messages and gets them back. Usage: websocket serve | websocket client URL COMPRESSION */
#include <coir.h>
#include <coir/ws.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static coir_ws_options options = COIR_WS_OPTIONS;

static int echo(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_ws *ws;
    coir_ws_message *message;
    int rc = coir_ws_accept_with(req, res, &options, &ws);
    while (rc >= 0 && (rc = coir_ws_recv(ws, &message)) > 0) {
        rc = coir_ws_send(ws, message);
        coir_ws_message_unref(message);
    }
    return rc;
}

static int on_message(coir_ws *ws, coir_ws_message *message, void *arg)
{
    (void)arg;
    return message ? coir_ws_send(ws, message) : 0;
}

static int echo_without(coir_request *req, coir_response *res, void *arg)
{
    coir_ws *ws;
    return coir_ws_handle_with(req, res, &options, on_message, arg, &ws);
}

static int serve(void *arg)
{
    (void)arg;
    coir_router *router;
    coir_listener *listener;
    char address[64];
    coir_serve_http_options how = COIR_SERVE_HTTP_OPTIONS;
    options.message_max = 8 << 20;
    options.bytes_max = 16 << 20;
    options.compression = COIR_WS_COMPRESS_STREAM;
    if (coir_router_new(&router) < 0 || coir_route(router, "GET", "/echo", echo, NULL) < 0 ||
        coir_route(router, "GET", "/without", echo_without, NULL) < 0 ||
        coir_tcp_listen("127.0.0.1:0", &listener) < 0)
        return -ENOMEM;
    coir_listener_local(listener, address, sizeof address);
    printf("%s\n", address);
    fflush(stdout);
    how.listener = listener;
    return coir_serve_http_with(&how, router);
}

static int ask(void *arg)
{
    char **argv = arg;
    coir_ws *ws;
    static char data[1 << 20];
    options.compression = (enum coir_ws_compression)atoi(argv[1]);
    int rc = coir_ws_connect_with(argv[0], &options, &ws);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * i / 3);
    for (size_t len = 0; rc == 0 && len < sizeof data; len = 2 * len + 1) {
        coir_ws_message *message;
        if ((rc = coir_ws_send_binary(ws, data, len)) < 0 || (rc = coir_ws_recv(ws, &message)) <= 0)
            break;
        rc = coir_ws_message_len(message) == len &&
                     memcmp(coir_ws_message_data(message), data, len) == 0
                 ? 0
                 : -EIO;
        coir_ws_message_unref(message);
    }
    if (rc == 0 && (rc = coir_ws_close(ws, 1000, "done")) == 0)
        rc = coir_ws_close_code(ws) == 1000 ? 0 : -EIO;
    if (rc == 0)
        printf("ok\n");
    return rc;
}

int main(int argc, char **argv)
{
    return argc > 3 ? coir_main(ask, argv + 2) : coir_main(serve, NULL);
}
