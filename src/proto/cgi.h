/* The head of a CGI program's answer (RFC 3875, 6): header lines, up to an empty one. Incremental,
 * without memory; what HTTP forbids in a field is refused. Lines end with LF or CRLF. Spans are
 * offsets from the start of the head, so the caller may move its buffer between calls.
 *
 * 1. Bytes that were given to the parser are given again in each later call, with more behind them.
 * 2. Every span lies in the bytes of the head.
 */
#ifndef CI_PROTO_CGI_H
#define CI_PROTO_CGI_H

#include "proto/http1.h"

enum { CI_CGI_FIELDS = 64 };

struct ci_cgi_head {
    int status;             /* of the Status field; without one 302 with a Location, else 200 */
    int64_t content_length; /* -1: none given */
    bool has_status, has_location;

    uint32_t line; /* offset at which the line in progress begins */
    uint32_t field_count;
    struct ci_http1_field fields[CI_CGI_FIELDS]; /* not initialised past field_count */
};

static inline void ci_cgi_head_init(struct ci_cgi_head *head)
{
    memset(head, 0, offsetof(struct ci_cgi_head, fields));
    head->content_length = -1;
}

/* Goes on parsing a head of which the first `len` bytes have come. > 0: complete, its length. 0:
 * more is needed. < 0: this is no head. Status and Content-Length are not among the fields. */
int ci_cgi_parse(struct ci_cgi_head *head, const char *bytes, size_t len);

#endif
