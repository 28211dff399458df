/* WebSocket for the benchmarks, on one worker. /echo sends every message back; /room sends it to
 * all clients, each a connection without a fiber; /topic too, with a fiber and a subscription for
 * each. Usage: bench_websocket PORT */
#include <coir.h>
#include <coir/ws.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { CLIENTS_MAX = 20000, QUEUE = 1024 };

static coir_topic *topic;
static coir_ws *room[CLIENTS_MAX];
static size_t room_count;

static int hello(coir_request *req, coir_response *res, void *arg)
{
    (void)req, (void)arg;
    return coir_respond_text(res, 200, "Hello, World!");
}

static int on_echo(coir_ws *ws, coir_ws_message *message, void *arg)
{
    (void)arg;
    return message ? coir_ws_send(ws, message) : 0;
}

static int echo(coir_request *req, coir_response *res, void *arg)
{
    coir_ws *ws;
    coir_ws_options options = COIR_WS_OPTIONS;
    options.message_max = options.bytes_max = 8 << 20;
    options.ping_interval = COIR_NEVER;
    return coir_ws_handle_with(req, res, &options, on_echo, arg, &ws);
}

/* ---- a room without fibers ---- */

static void leave(const coir_ws *ws)
{
    size_t i = 0;
    while (room[i] != ws)
        i++;
    room[i] = room[--room_count];
}

static int on_room(coir_ws *ws, coir_ws_message *message, void *arg)
{
    (void)arg;
    if (!message)
        leave(ws);
    for (size_t i = 0; message && i < room_count; i++)
        coir_ws_try_send(room[i], message);
    return 0;
}

static int enter_room(coir_request *req, coir_response *res, void *arg)
{
    coir_ws_options options = COIR_WS_OPTIONS;
    options.ping_interval = COIR_NEVER; /* the load answers none */
    options.overflow = COIR_OVERFLOW_DROP_OLDEST;
    if (room_count == CLIENTS_MAX)
        return -EMFILE;
    int rc = coir_ws_handle_with(req, res, &options, on_room, arg, &room[room_count]);
    room_count += rc == 0;
    return rc;
}

/* ---- a topic, with a fiber for each client ---- */

static void ref(void *message, void *arg)
{
    (void)arg;
    coir_ws_message_ref(*(coir_ws_message **)message);
}

static void unref(void *message, void *arg)
{
    (void)arg;
    coir_ws_message_unref(*(coir_ws_message **)message);
}

static int serve(coir_ws *ws, coir_channel *news)
{
    coir_ws_message *message;
    int rc = 0;
    while (rc >= 0) {
        coir_case waits[] = {coir_case_ws_recv(ws, &message), coir_case_recv(news, &message)};
        int which = coir_select(waits, 2);
        if (which < 0 || (which == 0 && waits[0].result <= 0))
            return which < 0 ? which : (int)waits[0].result;
        rc = which == 0 ? coir_publish(topic, &message) : coir_ws_send(ws, message);
        coir_ws_message_unref(message);
    }
    return rc;
}

static int enter_topic(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_channel *news;
    coir_ws *ws;
    int rc = coir_subscribe(topic, QUEUE, COIR_OVERFLOW_DROP_OLDEST, &news);
    if (rc < 0)
        return rc;
    coir_ws_options options = COIR_WS_OPTIONS;
    options.ping_interval = COIR_NEVER;
    rc = coir_ws_accept_with(req, res, &options, &ws);
    if (rc == 0)
        rc = serve(ws, news);
    coir_channel_free(news);
    return rc == -COIR_EEND ? 0 : rc;
}

static int start(void *port)
{
    char address[64];
    coir_router *router = NULL;
    coir_topic_options options = COIR_TOPIC_OPTIONS;
    options.item_size = sizeof(coir_ws_message *);
    options.ref = ref;
    options.unref = unref;
    snprintf(address, sizeof address, "127.0.0.1:%s", (const char *)port);
    int rc = coir_topic_new_with(&options, &topic);
    if (rc == 0 && (rc = coir_router_new(&router)) == 0 &&
        (rc = coir_route(router, "GET", "/hello", hello, NULL)) == 0 &&
        (rc = coir_route(router, "GET", "/echo", echo, NULL)) == 0 &&
        (rc = coir_route(router, "GET", "/room", enter_room, NULL)) == 0 &&
        (rc = coir_route(router, "GET", "/topic", enter_topic, NULL)) == 0)
        rc = coir_serve_http(address, router);
    coir_router_free(router);
    coir_topic_free(topic);
    return rc;
}

int main(int argc, char **argv)
{
    return coir_main(start, argc > 1 ? argv[1] : "7791");
}
