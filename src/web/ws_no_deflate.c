/* Without zlib no compression is agreed on. */
#include <errno.h>

#include "web/ws_deflate.h"

const bool ci_ws_can_deflate = false;

int ci_ws_inflate(coir_ws *ws, const void *data, size_t len, size_t max)
{
    (void)ws, (void)data, (void)len, (void)max;
    return -COIR_EPROTOCOL;
}

void ci_ws_inflate_end(coir_ws *ws)
{
    (void)ws;
}

coir_ws_message *ci_ws_deflate(coir_ws *ws, struct ci_ws_sender *sender,
                               struct ci_http_worker *here, coir_ws_message *message)
{
    (void)ws, (void)sender, (void)here, (void)message;
    return NULL;
}

void ci_ws_deflate_forget(struct ci_ws_sender *sender)
{
    (void)sender;
}

size_t ci_ws_deflate_reserve(struct ci_http_worker *http, size_t connections, size_t message_max)
{
    (void)http, (void)connections;
    return message_max;
}

void ci_ws_inflater_free(struct ci_http_worker *http, struct ci_ws_inflater *inflater)
{
    (void)http, (void)inflater;
}

void ci_ws_deflater_free(const struct ci_http_worker *http, struct ci_ws_deflater *deflater)
{
    (void)http, (void)deflater;
}

void ci_ws_deflate_free_shared(struct ci_http_worker *http)
{
    (void)http;
}
