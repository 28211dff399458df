/* A filter (coir/filter.h) for tests: it changes each byte, keeps what the transport does not take,
 * and ends with a byte of its own, so that the bytes that pass are less than 128. */
#ifndef TEST_MASK_H
#define TEST_MASK_H

#include <coir/filter.h>
#include <errno.h>
#include <string.h>

static inline void mask_must(bool right)
{
    if (!right)
        __builtin_trap();
}

enum { MASK = 0x55, MASK_END = 0xff, MASK_ROOM = 16 };

struct mask {
    coir_stream *transport;
    unsigned char kept[MASK_ROOM];
    size_t kept_len;
    bool ended;      /* the peer's END has come */
    int ahead;       /* a byte that was read ahead; -1: none */
    int error;       /* what every call returns from now on */
    int frees, ends; /* how often it was freed, and ended */
};

static inline int mask_read_one(struct mask *mask)
{
    unsigned char byte;
    if (mask->ahead >= 0 || mask->ended)
        return 0;
    ssize_t n = coir_try_read(mask->transport, &byte, 1);
    if (n == 0)
        return -ECONNRESET; /* without an END */
    if (n < 0)
        return (int)n;
    if (byte == MASK_END)
        mask->ended = true;
    else
        mask->ahead = byte ^ MASK;
    return 0;
}

static inline ssize_t mask_read(void *buf, size_t len, int *events, void *arg)
{
    struct mask *mask = arg;
    unsigned char *to = buf;
    size_t done = 0;
    mask_must(*events == COIR_READ);
    if (mask->error)
        return mask->error;
    while (done < len) {
        int rc = mask_read_one(mask);
        if (rc < 0 && !done)
            return rc;
        if (rc < 0 || mask->ahead < 0)
            break;
        to[done++] = (unsigned char)mask->ahead;
        mask->ahead = -1;
    }
    return (ssize_t)done;
}

static inline int mask_flush(void *arg)
{
    struct mask *mask = arg;
    mask_must(mask->frees == 0);
    if (mask->error)
        return mask->error;
    while (mask->kept_len) {
        ssize_t n = coir_try_write(mask->transport, mask->kept, mask->kept_len);
        if (n < 0)
            return (int)n;
        mask->kept_len -= (size_t)n;
        memmove(mask->kept, mask->kept + n, mask->kept_len);
    }
    return 0;
}

static inline ssize_t mask_write(const void *buf, size_t len, int *events, void *arg)
{
    struct mask *mask = arg;
    const unsigned char *from = buf;
    mask_must(*events == COIR_WRITE);
    if (mask->kept_len == MASK_ROOM - 1) /* one is left for END */
        return -EAGAIN;
    size_t n = len < MASK_ROOM - 1 - mask->kept_len ? len : MASK_ROOM - 1 - mask->kept_len;
    for (size_t i = 0; i < n; i++)
        mask->kept[mask->kept_len++] = from[i] ^ MASK;
    return (ssize_t)n;
}

static inline bool mask_readable(int *events, void *arg)
{
    struct mask *mask = arg;
    mask_must(*events == COIR_READ);
    return mask->error || mask_read_one(mask) != -EAGAIN;
}

static inline int mask_end(void *arg)
{
    struct mask *mask = arg;
    if (mask->ends++ == 0)
        mask->kept[mask->kept_len++] = MASK_END;
    return 0;
}

static inline void mask_free(void *arg)
{
    ((struct mask *)arg)->frees++;
}

#endif
