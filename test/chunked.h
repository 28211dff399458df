/* Decodes a chunked body the way a server does, from input that comes `step` bytes at a time: for
 * the parser's tests and its fuzzer. */
#ifndef TEST_CHUNKED_H
#define TEST_CHUNKED_H

#include <stdlib.h>
#include <string.h>

#include "proto/http1_body.h"

/* The decoded length, with the content in `out` where that is given; minus the status; -1 when the
 * body is not complete. */
static inline int64_t decode_chunked(const char *text, size_t len, size_t step, char *out,
                                     size_t *ret_used)
{
    struct ci_http1_head request = {.chunked = true};
    struct ci_http1_body body;
    size_t at = 0, have = 0, got = 0;
    ci_http1_body_init(&body, &request);
    while (body.state != CI_BODY_DONE) {
        size_t data = 0;
        int64_t ate = ci_http1_body_frame(&body, text + at, have - at, &data);
        if (ate < 0)
            return ate;
        at += (size_t)ate;
        if (at + data > have)
            abort(); /* outside of its input */
        if (data) {
            if (out)
                memcpy(out + got, text + at, data);
            ci_http1_body_took(&body, data);
            got += data;
            at += data;
        } else if (body.state != CI_BODY_DONE) {
            if (have == len)
                return -1;
            have = have + step < len ? have + step : len;
        }
    }
    *ret_used = at;
    return (int64_t)got;
}

#endif
