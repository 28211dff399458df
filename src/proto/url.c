/* See url.h. */
#include "proto/url.h"

#include "base/check.h"

/* -1: not a hexadecimal digit. */
static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20; /* to lower case */
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool ci_url_decode(char *to, const char *from, size_t len, bool plus)
{
    for (size_t i = 0; i < len; i++) {
        char c = from[i];
        if (c == '+' && plus) {
            c = ' ';
        } else if (c == '%') {
            if (i + 2 >= len || hex(from[i + 1]) < 0 || hex(from[i + 2]) < 0)
                return false;
            c = (char)(hex(from[i + 1]) << 4 | hex(from[i + 2]));
            i += 2;
        }
        if (!c)
            return false;
        *to++ = c;
    }
    *to = '\0';
    return true;
}

bool ci_url_is_escape(const char *c)
{
    int high = hex(c[1]), low = high < 0 ? -1 : hex(c[2]);
    return low >= 0 && (high || low);
}

/* The character at *at, decoded; moves *at behind it. */
static int next_char(const char *text, size_t *at)
{
    enum { ESCAPED_SLASH = 256 };
    if (text[*at] != '%')
        return (unsigned char)text[(*at)++];
    ci_debug_check(hex(text[*at + 1]) >= 0 && hex(text[*at + 2]) >= 0, "url.h 1");
    int c = hex(text[*at + 1]) << 4 | hex(text[*at + 2]);
    *at += 3;
    return c == '/' ? ESCAPED_SLASH : c;
}

bool ci_url_equal(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t i = 0, j = 0;
    while (i < a_len && j < b_len)
        if (next_char(a, &i) != next_char(b, &j))
            return false;
    return i == a_len && j == b_len;
}
