/* The body of an HTTP/1.1 request: framing is consumed, data is left in place. Like the head's
 * parser, a function of the bytes alone.
 *
 * 1. The caller takes off only data that ci_http1_body_frame has found.
 */
#ifndef CI_PROTO_HTTP1_BODY_H
#define CI_PROTO_HTTP1_BODY_H

#include "proto/http1.h"

/* chunk     = chunk-size [ chunk-ext ] CRLF chunk-data CRLF (RFC 9112, 7.1)
 * chunk-ext = *( BWS ";" BWS token [ BWS "=" BWS ( token / quoted-string ) ] ) */
enum ci_http1_body_state {
    CI_BODY_DONE,
    CI_BODY_DATA,       /* `remaining` bytes of the body, or of the chunk */
    CI_BODY_SIZE,       /* in a chunk's size */
    CI_BODY_SPACE,      /* behind the size or a value: a semicolon must come */
    CI_BODY_NAME_START, /* behind a semicolon: a name must come */
    CI_BODY_NAME,
    CI_BODY_NAME_SPACE,  /* behind a name: "=" or a semicolon must come */
    CI_BODY_VALUE_START, /* behind "=": a value must come */
    CI_BODY_VALUE,
    CI_BODY_QUOTED,
    CI_BODY_ESCAPED,    /* behind a backslash in a quoted string */
    CI_BODY_QUOTED_END, /* behind the closing quote */
    CI_BODY_SIZE_LF,
    CI_BODY_DATA_CR,
    CI_BODY_DATA_LF,
    CI_BODY_TRAILER, /* at the start of a trailer line */
    CI_BODY_TRAILER_LINE,
    CI_BODY_TRAILER_LF,
    CI_BODY_END_LF,
};

/* Framing is bounded. A chunk size has at most 16 digits, leading zeros included. All bytes of
 * framing are counted; each chunk earns an allowance of 16 bytes and a sixteenth of its data. A
 * body whose count passes CI_HTTP1_FRAMING_MAX is refused with 400, or 431 in the trailers. */
enum { CI_HTTP1_SIZE_DIGITS = 16, CI_HTTP1_FRAMING_MAX = 8192 };

struct ci_http1_body {
    uint64_t remaining;
    uint32_t framing; /* bytes counted, less the allowance */
    uint8_t state, digits;
    bool chunked, in_name;
};

static inline bool ci_http1_has_body(const struct ci_http1_head *head)
{
    return head->chunked || head->content_length > 0;
}

static inline void ci_http1_body_init(struct ci_http1_body *body, const struct ci_http1_head *head)
{
    *body = (struct ci_http1_body){.state = CI_BODY_DONE};
    if (ci_likely(!ci_http1_has_body(head)))
        return;
    body->chunked = head->chunked;
    body->state = head->chunked ? CI_BODY_SIZE : CI_BODY_DATA;
    body->remaining = head->chunked ? 0 : (uint64_t)head->content_length;
}

/* Consumes framing at the front of `bytes` and returns its length. The next *ret_data bytes belong
 * to the body: report with ci_http1_body_took how many of them were taken. < 0: minus the status.
 * The body is complete when body->state is CI_BODY_DONE. */
int64_t ci_http1_body_frame(struct ci_http1_body *body, const char *bytes, size_t len,
                            size_t *ret_data);
void ci_http1_body_took(struct ci_http1_body *body, size_t len);

#endif
