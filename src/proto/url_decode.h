/* Percent-encoding in URLs: decoded, or compared as if decoded (RFC 3986, 2.1; uri.h says whether
 * it is valid).
 *
 * 1. Texts that are compared hold valid escapes only.
 */
#ifndef CI_PROTO_URL_DECODE_H
#define CI_PROTO_URL_DECODE_H

#include <stdbool.h>
#include <stddef.h>

/* Decodes "%XX", and "+" where it stands for a space, into `to`, which has room for `len` bytes and
 * a NUL. False: an escape that is not valid, or a NUL. */
bool ci_url_decode(char *to, const char *from, size_t len, bool plus);

/* Whether two texts are equal once decoded (RFC 3986, 6.2.2.2). An escaped slash is data: it is not
 * equal to a slash, which separates segments. */
bool ci_url_equal(const char *a, size_t a_len, const char *b, size_t b_len);

#endif
