/* Whether bytes are UTF-8 (RFC 3629), in pieces that may be cut anywhere. Surrogates, overlong
 * forms and what lies beyond U+10FFFF are refused at the first byte that cannot be right.
 *
 * 1. left <= 3; low and high are the bounds of the next byte while left > 0.
 */
#ifndef CI_PROTO_UTF8_H
#define CI_PROTO_UTF8_H

#include "base/compiler.h"

struct ci_utf8 {
    uint8_t left;      /* bytes of a character that are still to come */
    uint8_t low, high; /* what the next one of them may be */
};

/* Checks the next piece. False: it is not UTF-8. */
bool ci_utf8_check(struct ci_utf8 *utf8, const void *data, size_t len);

/* Whether the pieces end with a whole character. */
static inline bool ci_utf8_is_whole(const struct ci_utf8 *utf8)
{
    return utf8->left == 0;
}

#endif
