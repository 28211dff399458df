/* Letters in names of protocols and hosts, which are those of ASCII whatever locale the program has
 * set: in a Turkish one strcasecmp(3) tells "If" from "if", and toupper(3) leaves an "i" as it is.
 */
#ifndef CI_BASE_ASCII_H
#define CI_BASE_ASCII_H

#include <stdbool.h>
#include <stddef.h>

static inline char ci_ascii_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static inline char ci_ascii_upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c & ~0x20) : c;
}

static inline bool ci_ascii_is_alnum(char c)
{
    char lower = ci_ascii_lower(c);
    return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9');
}

/* Whether so many bytes are the same but for the case of letters. Reads none behind one that
 * differs. */
static inline bool ci_ascii_same_bytes(const char *a, const char *b, size_t len)
{
    size_t at = 0;
    while (at < len && (a[at] == b[at] || ci_ascii_lower(a[at]) == ci_ascii_lower(b[at])))
        at++;
    return at == len;
}

static inline bool ci_ascii_same(const char *a, const char *b)
{
    while (*a && ci_ascii_lower(*a) == ci_ascii_lower(*b))
        a++, b++;
    return ci_ascii_lower(*a) == ci_ascii_lower(*b);
}

#endif
