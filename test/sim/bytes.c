#include "bytes.h"

#include <string.h>

/* A prime: nothing else repeats with it. */
enum { PERIOD = 32749, STEP = 7919 };

static unsigned char table[PERIOD];

__attribute__((constructor)) static void fill(void)
{
    unsigned state = 1;
    for (size_t i = 0; i < PERIOD; i++) {
        state = state * 1103515245 + 12345;
        table[i] = (unsigned char)(state >> 16);
    }
}

/* The next piece of the table: how long it is, at most `len`. */
static size_t piece(unsigned which, size_t at, size_t len, const unsigned char **ret_bytes)
{
    size_t start = ((size_t)which * STEP + at) % PERIOD;
    *ret_bytes = table + start;
    return len < PERIOD - start ? len : PERIOD - start;
}

void bytes_make(void *to, unsigned which, size_t at, size_t len)
{
    const unsigned char *bytes;
    for (size_t done = 0, n; done < len; done += n) {
        n = piece(which, at + done, len - done, &bytes);
        memcpy((char *)to + done, bytes, n);
    }
}

bool bytes_are(const void *data, unsigned which, size_t at, size_t len)
{
    const unsigned char *bytes;
    for (size_t done = 0, n; done < len; done += n) {
        n = piece(which, at + done, len - done, &bytes);
        if (memcmp((const char *)data + done, bytes, n) != 0)
            return false;
    }
    return true;
}
