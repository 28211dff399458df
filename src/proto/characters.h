/* Classes of characters in HTTP and in URIs. A character may belong to several. */
#ifndef CI_PROTO_CHARACTERS_H
#define CI_PROTO_CHARACTERS_H

#include <string.h>

#include "base/compiler.h"

enum {
    CI_CHAR_TOKEN = 1,  /* tchar (RFC 9110, 5.6.2) */
    CI_CHAR_VALUE = 2,  /* field-vchar, space and tab (RFC 9110, 5.5) */
    CI_CHAR_TARGET = 4, /* what may stand in a request target (RFC 9112, 3.2) */
    CI_CHAR_HOST = 8,   /* unreserved, sub-delims and "%" (RFC 3986, 3.2.2) */
    CI_CHAR_HEX = 16,   /* HEXDIG */
    CI_CHAR_PATH = 32,  /* those of a target but "%" and "?" */
    CI_CHAR_NAME = 64   /* those of a host but "%" */
};

extern const uint8_t ci_char_classes[256];

/* Whether a character belongs to one of the classes. */
static inline bool ci_char_is(char c, int classes)
{
    return ci_char_classes[(unsigned char)c] & classes;
}

/* The same for every character of a text; an empty one belongs to all. */
static inline bool ci_chars_are(const char *text, size_t len, int classes)
{
    for (size_t i = 0; i < len; i++)
        if (!ci_char_is(text[i], classes))
            return false;
    return true;
}

/* The first control character of a text, a tab among them; or its end. */
static inline const char *ci_chars_find_control(const char *at, const char *end)
{
    const uint64_t ones = 0x0101010101010101, tops = ones << 7, spaces = ones << 5;
    for (; end - at >= 8; at += 8) {
        uint64_t x, del;
        memcpy(&x, at, 8);
        del = x ^ (ones * 0x7f);
        /* a borrow makes false hits only beside a true one */
        if ((((x - spaces) & ~x) | ((del - ones) & ~del)) & tops)
            break;
    }
    while (at < end && (unsigned char)*at >= ' ' && *at != 0x7f)
        at++;
    return at;
}

/* The value of a hexadecimal digit, which `c` is. */
static inline int ci_char_hex_value(char c)
{
    return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

#endif
