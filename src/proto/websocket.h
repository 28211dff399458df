/* WebSocket frames as bytes (RFC 6455, 5): heads in and out, masks, close codes. Without
 * descriptor, clock, memory or thread.
 *
 *     0               1               2 ...
 *    |F|R|R|R| opcode|M| length (7)  | length (0, 16 or 64 bits) | key (0 or 32 bits) | payload
 *
 * A head is parsed as its bytes come, and refused at the first byte that cannot be right. The
 * payload is the caller's. An error is minus the code that the connection is to be closed with.
 *
 * 1. have < CI_WS_HEAD_MAX between calls: the bytes of a head that is not complete.
 */
#ifndef CI_PROTO_WEBSOCKET_H
#define CI_PROTO_WEBSOCKET_H

#include "base/compiler.h"

enum ci_ws_opcode {
    CI_WS_CONTINUATION,
    CI_WS_TEXT,
    CI_WS_BINARY,
    CI_WS_CLOSE = 8,
    CI_WS_PING,
    CI_WS_PONG
};

enum { CI_WS_HEAD_MAX = 14, CI_WS_CONTROL_MAX = 125, CI_WS_KEY = 4 };

/* Why a connection is closed (RFC 6455, 7.4.1). */
enum ci_ws_code {
    CI_WS_NORMAL = 1000,
    CI_WS_GOING_AWAY = 1001,
    CI_WS_PROTOCOL_ERROR = 1002,
    CI_WS_NO_CODE = 1005,  /* never sent: the peer gave none */
    CI_WS_NO_CLOSE = 1006, /* never sent: the connection ended without a close frame */
    CI_WS_BAD_DATA = 1007,
    CI_WS_TOO_LARGE = 1009,
    CI_WS_FAILED = 1011
};

struct ci_ws_head {
    uint64_t len;
    uint8_t key[CI_WS_KEY];
    uint8_t opcode;
    bool fin, deflated; /* deflated: RSV1 (RFC 7692, 6) */
};

/* What a receiver knows of the frames before: initialised to zero but for the first two. */
struct ci_ws_frames {
    bool masked;     /* those of clients are, those of servers are not (5.1) */
    bool deflates;   /* permessage-deflate was agreed on */
    bool in_message; /* the last data frame was not the final one */
    uint8_t have;
    uint8_t bytes[CI_WS_HEAD_MAX];
    struct ci_ws_head head; /* once complete */
};

static inline bool ci_ws_is_control(int opcode)
{
    return opcode & 8;
}

/* Goes on parsing a head with `len` more bytes, of which *ret_used belong to it. 1: frames->head is
 * complete, the payload is next. 0: more is needed. < 0: minus the close code. */
int ci_ws_parse_head(struct ci_ws_frames *frames, const void *bytes, size_t len, size_t *ret_used);

/* Writes a head, with a key or NULL, to where there is room for CI_WS_HEAD_MAX bytes. Returns its
 * length, which is ci_ws_head_len's. */
size_t ci_ws_write_head(uint8_t *to, const struct ci_ws_head *head, bool masked);
size_t ci_ws_head_len(uint64_t len, bool masked);

/* Masks or unmasks (5.3) the part of a payload that begins at `offset`. `to` may be `from`. */
void ci_ws_mask(void *to, const void *from, size_t len, const uint8_t key[CI_WS_KEY],
                uint64_t offset);

/* Whether a peer may send the code in a close frame (7.4). */
bool ci_ws_code_is_valid(int code);

/* The payload of a close frame: the code, or CI_WS_NO_CODE; the reason is what lies behind 2 bytes.
 * < 0: minus the close code. */
int ci_ws_parse_close(const void *payload, size_t len);

#endif
