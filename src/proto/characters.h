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

/* Of 8 characters: a bit for each control character, a tab among them. Behind the first one there
 * may be bits of characters that are none. */
static inline uint64_t ci_chars_controls(const char *at)
{
    const uint64_t ones = 0x0101010101010101, tops = ones << 7, spaces = ones << 5;
    uint64_t x, del;
    memcpy(&x, at, 8);
    del = x ^ (ones * 0x7f);
    return (((x - spaces) & ~x) | ((del - ones) & ~del)) & tops;
}

/* The first control character of a text, a tab among them; or its end. */
static inline const char *ci_chars_find_control(const char *at, const char *end)
{
    for (; end - at >= 8; at += 8) {
        uint64_t controls = ci_chars_controls(at);
        if (!controls)
            continue;
        if (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
            break;
        return at + __builtin_ctzll(controls) / 8;
    }
    while (at < end && (unsigned char)*at >= ' ' && *at != 0x7f)
        at++;
    return at;
}

/* Whether a text has a control character, a tab among them. */
static inline bool ci_chars_have_control(const char *text, size_t len)
{
    if (len < 8)
        return ci_chars_find_control(text, text + len) < text + len;
    const char *last = text + len - 8;
    uint64_t controls = ci_chars_controls(last);
    for (; text < last; text += 8)
        controls |= ci_chars_controls(text);
    return controls;
}

/* The value of a hexadecimal digit, which `c` is. */
static inline int ci_char_hex_value(char c)
{
    return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

#endif
