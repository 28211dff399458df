/* SHA-1 (FIPS 180-4) and Base64 (RFC 4648, 4), as far as the handshake of WebSocket needs them.
 * They protect nothing there: a proxy shall not take the answer for one of its own.
 *
 * 1. A text has at most CI_SHA1_TEXT_MAX bytes: with the padding, two blocks.
 */
#ifndef CI_PROTO_SHA1_H
#define CI_PROTO_SHA1_H

#include "base/compiler.h"

enum { CI_SHA1_SIZE = 20, CI_SHA1_TEXT_MAX = 119 };

/* The digest of a text. */
void ci_sha1(const void *text, size_t len, uint8_t digest[CI_SHA1_SIZE]);

/* Bytes as text, with padding and a NUL: 4 characters for each 3 bytes begun. Returns the
 * length. */
size_t ci_base64(const void *bytes, size_t len, char *text);

#endif
