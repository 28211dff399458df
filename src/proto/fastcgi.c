/* See fastcgi.h. The numbers in comments are sections of the FastCGI specification 1.0. */
#include "proto/fastcgi.h"

#include <string.h>

#include "base/check.h"

enum { VERSION = 1, RESPONDER = 1, KEEP_CONNECTION = 1 };

/* ---- writing ---- */

unsigned char *ci_fcgi_put_header(unsigned char *at, enum ci_fcgi_type type, size_t len)
{
    ci_check(len <= CI_FCGI_CONTENT_MAX, "proto/fastcgi.h 2");
    const unsigned char header[CI_FCGI_HEADER] = {
        VERSION, (unsigned char)type, 0, CI_FCGI_ID, (unsigned char)(len >> 8), (unsigned char)len};
    memcpy(at, header, sizeof header);
    return at + sizeof header;
}

/* 5.1 */
unsigned char *ci_fcgi_put_begin(unsigned char *at, bool keep)
{
    const unsigned char body[CI_FCGI_BEGIN - CI_FCGI_HEADER] = {0, RESPONDER,
                                                                keep ? KEEP_CONNECTION : 0};
    at = ci_fcgi_put_header(at, CI_FCGI_BEGIN_REQUEST, sizeof body);
    memcpy(at, body, sizeof body);
    return at + sizeof body;
}

/* 3.4: up to 127 in one byte, else in four with the highest bit set. */
static unsigned char *put_length(unsigned char *at, size_t len)
{
    if (len >= 128) {
        *at++ = (unsigned char)(0x80 | len >> 24);
        *at++ = (unsigned char)(len >> 16);
        *at++ = (unsigned char)(len >> 8);
    }
    *at++ = (unsigned char)len;
    return at;
}

unsigned char *ci_fcgi_put_lengths(unsigned char *at, size_t name_len, size_t value_len)
{
    return put_length(put_length(at, name_len), value_len);
}

/* ---- reading ---- */

/* Gathers bytes in answer->small until there are 8. */
static size_t gather(struct ci_fcgi_answer *answer, const unsigned char *bytes, size_t len)
{
    size_t n = sizeof answer->small - answer->have;
    if (n > len)
        n = len;
    memcpy(answer->small + answer->have, bytes, n);
    answer->have = (uint8_t)(answer->have + n);
    return n;
}

static void skip(struct ci_fcgi_answer *answer, uint32_t len)
{
    answer->content = len;
    answer->state = CI_FCGI_IN_SKIPPED;
}

/* A header is complete. Only what a responder may send of request 1 is accepted; records that
 * belong to no request (4) are passed over: nothing was asked that they could answer. */
static int begin_record(struct ci_fcgi_answer *answer)
{
    const unsigned char *header = answer->small;
    unsigned id = (unsigned)header[2] << 8 | header[3];
    uint32_t len = (uint32_t)header[4] << 8 | header[5];
    answer->have = 0;
    answer->padding = header[6];
    answer->type = header[1];
    if (header[0] != VERSION || ++answer->empty > CI_FCGI_EMPTY_MAX)
        return -1;
    if (id == 0) {
        skip(answer, len + answer->padding);
        return 0;
    }
    if (id != CI_FCGI_ID)
        return -1;
    switch (answer->type) {
    case CI_FCGI_STDOUT:
        if (answer->out_ended && len) /* 3.3: the stream has ended */
            return -1;
        answer->out_ended |= len == 0;
        break;
    case CI_FCGI_STDERR: break;
    case CI_FCGI_END_REQUEST:
        answer->state = CI_FCGI_IN_END;
        answer->content = len;
        return len < sizeof answer->small ? -1 : 0;
    default: return -1;
    }
    answer->content = len;
    answer->state = CI_FCGI_IN_CONTENT;
    if (len == 0)
        skip(answer, answer->padding);
    return 0;
}

/* 5.5 */
static int end_request(struct ci_fcgi_answer *answer)
{
    const unsigned char *body = answer->small;
    answer->app_status =
        (uint32_t)body[0] << 24 | (uint32_t)body[1] << 16 | (uint32_t)body[2] << 8 | body[3];
    answer->status = body[4];
    answer->ended = true;
    skip(answer, answer->content - (uint32_t)sizeof answer->small + answer->padding);
    return answer->status > CI_FCGI_UNKNOWN_ROLE ? -1 : 0;
}

/* One step: bytes of framing that were consumed, or < 0. */
static int64_t step(struct ci_fcgi_answer *answer, const unsigned char *bytes, size_t len)
{
    size_t n;
    int rc = 0;
    if (answer->state == CI_FCGI_IN_SKIPPED) {
        n = answer->content < len ? answer->content : len;
        answer->content -= (uint32_t)n;
        if (answer->content == 0)
            answer->state = answer->ended ? CI_FCGI_DONE : CI_FCGI_IN_HEADER;
        return (int64_t)n;
    }
    n = gather(answer, bytes, len);
    if (answer->have == sizeof answer->small)
        rc = answer->state == CI_FCGI_IN_HEADER ? begin_record(answer) : end_request(answer);
    return rc < 0 ? rc : (int64_t)n;
}

int64_t ci_fcgi_answer_frame(struct ci_fcgi_answer *answer, const unsigned char *bytes, size_t len,
                             size_t *ret_data)
{
    size_t at = 0;
    *ret_data = 0;
    while (answer->state != CI_FCGI_IN_CONTENT && answer->state != CI_FCGI_DONE) {
        /* what is skipped may be empty, and ends without a byte */
        if (at == len && (answer->state != CI_FCGI_IN_SKIPPED || answer->content))
            return (int64_t)at;
        int64_t n = step(answer, bytes + at, len - at);
        if (n < 0)
            return n;
        at += (size_t)n;
    }
    if (answer->state == CI_FCGI_IN_CONTENT)
        *ret_data = answer->content < len - at ? answer->content : len - at;
    return (int64_t)at;
}

void ci_fcgi_answer_took(struct ci_fcgi_answer *answer, size_t len)
{
    ci_check(answer->state == CI_FCGI_IN_CONTENT && len <= answer->content, "proto/fastcgi.h 1");
    answer->content -= (uint32_t)len;
    answer->empty = 0;
    if (answer->content == 0)
        skip(answer, answer->padding);
}
