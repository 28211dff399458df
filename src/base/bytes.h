/* Short pieces of memory, copied and compared without a call. */
#ifndef CI_BASE_BYTES_H
#define CI_BASE_BYTES_H

#include <string.h>

#include "base/compiler.h"

CI_INLINE uint64_t ci_bytes_word(const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

CI_INLINE uint32_t ci_bytes_half(const char *at)
{
    uint32_t half;
    memcpy(&half, at, sizeof half);
    return half;
}

/* Whether `len` bytes are equal. Calls nothing, so a function that uses it need not save registers.
 */
CI_INLINE bool ci_bytes_equal(const char *a, const char *b, size_t len)
{
    if (ci_likely(len - 8 <= 8)) /* 8 to 16; the two words may overlap */
        return ci_bytes_word(a) == ci_bytes_word(b) &&
               ci_bytes_word(a + len - 8) == ci_bytes_word(b + len - 8);
    if (len < 4)
        return len == 0 || (a[0] == b[0] && a[len / 2] == b[len / 2] && a[len - 1] == b[len - 1]);
    if (len < 8)
        return ci_bytes_half(a) == ci_bytes_half(b) &&
               ci_bytes_half(a + len - 4) == ci_bytes_half(b + len - 4);
    for (size_t at = 0; at < len - 8; at += 8)
        if (ci_bytes_word(a + at) != ci_bytes_word(b + at))
            return false;
    return ci_bytes_word(a + len - 8) == ci_bytes_word(b + len - 8);
}

/* Copies `len` bytes to `to`; returns what is behind. */
CI_INLINE char *ci_bytes_put(char *to, const void *from, size_t len)
{
    const char *bytes = from;
    if (ci_likely(len - 8 <= 8)) { /* 8 to 16; the two words may overlap */
        uint64_t first = ci_bytes_word(bytes), last = ci_bytes_word(bytes + len - 8);
        memcpy(to, &first, 8);
        memcpy(to + len - 8, &last, 8);
    } else if (len) {
        memcpy(to, bytes, len);
    }
    return to + len;
}

#endif
