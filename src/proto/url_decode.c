/* See url_decode.h. */
#include "proto/url_decode.h"

#include "base/check.h"
#include "proto/characters.h"

/* The byte that the escape "%XX" at `c` stands for, which is valid. */
static int escaped_byte(const char *c)
{
    return ci_char_hex_value(c[1]) << 4 | ci_char_hex_value(c[2]);
}

bool ci_url_decode(char *to, const char *from, size_t len, bool plus)
{
    for (size_t i = 0; i < len; i++) {
        char c = from[i];
        if (c == '+' && plus) {
            c = ' ';
        } else if (c == '%') {
            if (i + 2 >= len || !ci_chars_are(from + i + 1, 2, CI_CHAR_HEX))
                return false;
            c = (char)escaped_byte(from + i);
            i += 2;
        }
        if (!c)
            return false;
        *to++ = c;
    }
    *to = '\0';
    return true;
}

/* The character at *at, decoded; moves *at behind it. */
static int next_char(const char *text, size_t *at)
{
    enum { ESCAPED_SLASH = 256 };
    if (text[*at] != '%')
        return (unsigned char)text[(*at)++];
    ci_debug_check(ci_chars_are(text + *at + 1, 2, CI_CHAR_HEX), "url_decode.h 1");
    int c = escaped_byte(text + *at);
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
