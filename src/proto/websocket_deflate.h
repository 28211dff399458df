/* The negotiation of permessage-deflate (RFC 7692, 7). */
#ifndef CI_PROTO_WEBSOCKET_DEFLATE_H
#define CI_PROTO_WEBSOCKET_DEFLATE_H

#include "base/compiler.h"

/* zlib makes raw deflate with windows of 2^9 bytes and more; 2^8 it can only read. */
enum { CI_WS_BITS_MIN = 8, CI_WS_BITS_MADE_MIN = 9, CI_WS_BITS_MAX = 15 };

/* One side's wishes, an offer, or what was agreed on. */
struct ci_ws_deflate {
    bool on;
    bool server_resets, client_resets; /* no context takeover: each message is compressed alone */
    bool client_bits_known;            /* of an offer: client_max_window_bits stands in it */
    uint8_t server_bits, client_bits;  /* of windows; 0: not said, which means 15 */
};

/* Reads one element of a Sec-WebSocket-Extensions list, an offer or an answer. 1:
 * permessage-deflate with valid parameters. 0: another extension, or parameters that are to be
 * declined. -1: it has not the form of an extension (RFC 6455, 9.1). */
int ci_ws_parse_deflate(const char *text, size_t len, bool answer,
                        struct ci_ws_deflate *ret_deflate);

/* What a server with the wishes `ours` answers to an offer; false: it declines. */
bool ci_ws_agree_deflate(const struct ci_ws_deflate *ours, const struct ci_ws_deflate *offer,
                         struct ci_ws_deflate *ret_agreed);

/* Whether a client may take the answer to what it has offered (7.1); completes the answer. */
bool ci_ws_accept_deflate(const struct ci_ws_deflate *offered, struct ci_ws_deflate *answer);

/* The value of Sec-WebSocket-Extensions for an offer or an answer; with a NUL. Returns the
 * length. */
enum { CI_WS_DEFLATE_TEXT = 144 };
size_t ci_ws_write_deflate(const struct ci_ws_deflate *deflate, bool answer,
                           char text[CI_WS_DEFLATE_TEXT]);

#endif
