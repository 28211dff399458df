/* HTTP/1.1 requests as bytes (RFC 9112): strict, incremental, without descriptor, clock, memory or
 * thread.
 *
 * The head is parsed line by line as its bytes come; each byte is looked at once, however the head
 * is cut. What a recipient may repair or reject, is rejected: no bare CR or LF, no folded lines, no
 * second Content-Length. An error is a status to answer with; the connection is to be closed after
 * it, for where the next request begins is unknown. Spans are offsets from the start of the head,
 * so the caller may move its buffer between calls.
 *
 * 1. Bytes that were given to the parser are given again in each later call, with more behind them.
 * 2. A head holds nothing of an earlier request, also after an error: what was not parsed is empty.
 * 3. Every span lies in the bytes of the head.
 */
#ifndef CI_PROTO_HTTP1_H
#define CI_PROTO_HTTP1_H

#include <string.h>

#include "base/compiler.h"

enum { CI_HTTP1_FIELDS = 64 };

struct ci_span {
    uint32_t at, len;
};

struct ci_http1_field {
    struct ci_span name, value;
};

enum ci_http1_target {
    CI_TARGET_ORIGIN,
    CI_TARGET_ABSOLUTE,
    CI_TARGET_AUTHORITY,
    CI_TARGET_ASTERISK
};

struct ci_http1_head {
    /* path and query are parts of the target; host may be one too */
    struct ci_span method, target, path, query, host;
    enum ci_http1_target form;
    int minor_version;      /* 0 or 1 */
    int64_t content_length; /* -1: none given */
    bool chunked, keep_alive, expects_continue, has_host;

    /* the parser's progress */
    uint32_t line;    /* offset at which the line in progress begins */
    uint32_t scanned; /* no line ends before this */
    bool has_request_line, has_te, says_close, says_keep_alive;

    uint32_t field_count;
    struct ci_http1_field fields[CI_HTTP1_FIELDS]; /* last: not initialised past field_count */
};

struct ci_http1_limits {
    uint32_t line_max; /* bytes of the request line, without its end */
    uint32_t head_max; /* bytes of everything */
};

/* Initialises every member but the fields, which field_count guards (invariant 2). */
static inline void ci_http1_head_init(struct ci_http1_head *head)
{
    memset(head, 0, offsetof(struct ci_http1_head, fields));
    head->content_length = -1;
    head->minor_version = 1; /* until the version is known */
}

/* Goes on parsing a head of which the first `len` bytes have come. > 0: complete, its length. 0:
 * more is needed. < 0: minus the status. */
int ci_http1_parse(struct ci_http1_head *head, const struct ci_http1_limits *limits,
                   const char *bytes, size_t len);

/* The first field of that name (in lower case), or NULL. */
const struct ci_http1_field *ci_http1_find(const struct ci_http1_head *head, const char *bytes,
                                           const char *name, size_t name_len);

/* Whether the text is a token (RFC 9110, 5.6.2), or may be a field's value (5.5). */
bool ci_http1_is_token(const char *text, size_t len);
bool ci_http1_is_value(const char *text, size_t len);

#endif
