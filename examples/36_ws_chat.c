/* A chat over WebSocket: every message goes to all clients. One task for each client waits for its
 * connection, the room and the time at once. Usage: 36_ws_chat [ADDRESS], then 37_ws_client. */
#include <coir.h>
#include <coir/ws.h>
#include <errno.h>
#include <stdio.h>

static coir_topic *room; /* of messages, each of which is encoded once for all clients */

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

static int done_with(coir_ws_message *message, int rc)
{
    coir_ws_message_unref(message);
    return rc;
}

static int chat(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_ws *ws;
    coir_channel *news;
    coir_ws_message *said, *heard;
    int rc = coir_ws_accept(req, res, &ws);
    if (rc < 0)
        return rc;
    /* who is too slow misses the oldest messages */
    if ((rc = coir_subscribe(room, 64, COIR_OVERFLOW_DROP_OLDEST, &news)) < 0)
        return rc;
    for (bool open = true; open && rc >= 0;) {
        coir_case waits[] = {coir_case_ws_recv(ws, &said), coir_case_recv(news, &heard),
                             coir_case_after(30 * COIR_S)};
        switch (coir_select(waits, 3)) {
        case 0:
            open = waits[0].result > 0; /* 0: the client has closed */
            rc = open ? done_with(said, coir_publish(room, &said)) : (int)waits[0].result;
            break;
        case 1: rc = done_with(heard, coir_ws_send(ws, heard)); break;
        case 2: rc = coir_ws_ping(ws); break;
        default: rc = -ECANCELED;
        }
    }
    coir_channel_free(news);
    return rc == -COIR_EEND ? 0 : rc; /* it went without closing */
}

static int start(void *address)
{
    coir_router *router = NULL;
    coir_topic_options options = COIR_TOPIC_OPTIONS;
    options.item_size = sizeof(coir_ws_message *);
    options.ref = ref;
    options.unref = unref;
    int rc = coir_topic_new_with(&options, &room);
    if (rc == 0 && (rc = coir_router_new(&router)) == 0 &&
        (rc = coir_route(router, "GET", "/chat", chat, NULL)) == 0) {
        printf("chatting on ws://%s/chat\n", (const char *)address);
        rc = coir_serve_http(address, router);
    }
    coir_router_free(router);
    coir_topic_free(room);
    return rc;
}

int main(int argc, char **argv)
{
    return coir_main(start, argc > 1 ? argv[1] : "127.0.0.1:7790");
}
