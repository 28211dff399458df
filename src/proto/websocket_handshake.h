/* The opening handshake of WebSocket (RFC 6455, 4): what a server checks, what a client does, and
 * the key that ties an answer to its request. */
#ifndef CI_PROTO_WEBSOCKET_HANDSHAKE_H
#define CI_PROTO_WEBSOCKET_HANDSHAKE_H

#include "proto/http1.h"
#include "proto/websocket_deflate.h"

enum {
    CI_WS_NONCE = 16,     /* random bytes that a client chooses */
    CI_WS_KEY_LEN = 24,   /* the same in Base64 */
    CI_WS_ACCEPT_LEN = 28 /* Sec-WebSocket-Accept */
};

/* Sec-WebSocket-Accept for a Sec-WebSocket-Key of CI_WS_KEY_LEN characters; with a NUL. */
void ci_ws_accept_for(const char *key, char accept[CI_WS_ACCEPT_LEN + 1]);

/* Checks a request (4.2.1). 0, and the key; or the status to answer with: 426 it is no request for
 * a WebSocket, or for another version than 13; 400 it is a bad one. */
int ci_ws_check_request(const struct ci_http1_head *head, const char *bytes,
                        struct ci_span *ret_key);

/* The next element of the fields of that name (in lower case), which are one comma-separated list.
 * `at` is what was returned for the last one, or an empty span. False: there are no more. */
struct ci_ws_list {
    uint32_t field;
    uint32_t from; /* in the value of that field */
};
bool ci_ws_next_element(const struct ci_http1_head *head, const char *bytes, const char *name,
                        struct ci_ws_list *list, struct ci_span *ret_element);

/* The subprotocol: the first of the client's that is in `ours`, a comma-separated list; len 0:
 * none. */
struct ci_span ci_ws_choose_protocol(const struct ci_http1_head *head, const char *bytes,
                                     const char *ours);

/* The extension that a server agrees to, from the client's offers: 0, or 400 for what has not the
 * form of an offer. */
int ci_ws_choose_deflate(const struct ci_http1_head *head, const char *bytes,
                         const struct ci_ws_deflate *ours, struct ci_ws_deflate *ret_agreed);

/* What a client has asked for. */
struct ci_ws_asked {
    const char *key;                     /* CI_WS_KEY_LEN characters */
    const char *protocols;               /* comma-separated, or NULL */
    const struct ci_ws_deflate *deflate; /* what was offered */
};

struct ci_ws_answer {
    int status;
    struct ci_span protocol;
    struct ci_ws_deflate deflate;
};

/* Checks the answer (4.1), of which `len` bytes have come. > 0: its length. 0: more is needed.
 * -1: it is refused; ret_answer->status is its status, or 0. */
int ci_ws_check_answer(const struct ci_ws_asked *asked, const char *bytes, size_t len,
                       struct ci_ws_answer *ret_answer);

/* Whether the element is in a comma-separated list. */
bool ci_ws_list_has(const char *list, const char *element, size_t len);

#endif
