/* As in a Turkish locale: an "I" is no capital "i". A program may have set one, so what compares
 * names of protocols goes by ASCII alone. Replaces the functions of the C library. */
#ifndef TEST_TURKISH_H
#define TEST_TURKISH_H

#include <stdint.h>
#include <strings.h>

#include "base/ascii.h"

static char turkish_lower(char c)
{
    return c == 'I' ? c : ci_ascii_lower(c);
}

int strncasecmp(const char *a, const char *b, size_t len)
{
    for (; len > 0; a++, b++, len--)
        if (!*a || turkish_lower(*a) != turkish_lower(*b))
            return (unsigned char)turkish_lower(*a) - (unsigned char)turkish_lower(*b);
    return 0;
}

int strcasecmp(const char *a, const char *b)
{
    return strncasecmp(a, b, SIZE_MAX / 2);
}

#endif
