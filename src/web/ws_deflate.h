/* permessage-deflate (RFC 7692) of a connection. The build picks ws_deflate.c, by zlib, or
 * ws_no_deflate.c, without. */
#ifndef CI_WEB_WS_DEFLATE_H
#define CI_WEB_WS_DEFLATE_H

#include "web/ws.h"

/* Whether there is compression in this build. */
extern const bool ci_ws_can_deflate;

/* Expands the next `len` bytes of the message in progress, behind what is in it. At most `max`
 * bytes (<= SIZE_MAX / 4): 0, -COIR_ETOOLARGE, -ENOMEM, or -COIR_EPROTOCOL. */
int ci_ws_inflate(coir_ws *ws, const void *data, size_t len, size_t max);

/* The message has ended, or the connection has. */
void ci_ws_inflate_end(coir_ws *ws);

/* The compressed form of a message: a reference; NULL: send it as it is. With the turn,
 * on the worker `here`. */
coir_ws_message *ci_ws_deflate(coir_ws *ws, struct ci_ws_sender *sender,
                               struct ci_http_worker *here, coir_ws_message *message);

/* A message was compressed and not sent, which no later one may refer to. With the turn. */
void ci_ws_deflate_forget(struct ci_ws_sender *sender);

/* In fixed memory: has what `connections` need at a time that compress each message by itself, and
 * keeps it. Returns the length that a message of `message_max` bytes has at most when it is
 * compressed; 0: out of memory. */
size_t ci_ws_deflate_reserve(struct ci_http_worker *http, size_t connections, size_t message_max);

/* Free what a connection has kept (NULL: nothing), and what the worker has. */
void ci_ws_inflater_free(struct ci_http_worker *http, struct ci_ws_inflater *inflater);
void ci_ws_deflater_free(const struct ci_http_worker *http, struct ci_ws_deflater *deflater);
void ci_ws_deflate_free_shared(struct ci_http_worker *http);

#endif
