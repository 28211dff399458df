/* Bytes that tell where in a stream they stand. */
#ifndef TEST_PATTERN_H
#define TEST_PATTERN_H

#include <coir.h>

#include "harness.h"

/* At least `len` of them, and the end. */
static inline int write_pattern(coir_stream *stream, size_t len)
{
    unsigned char data[777];
    for (size_t at = 0; at < len; at += sizeof data) {
        for (size_t i = 0; i < sizeof data; i++)
            data[i] = (unsigned char)((at + i) % 251);
        int rc = coir_write_all(stream, data, sizeof data);
        if (rc < 0)
            return rc;
    }
    return coir_shutdown_write(stream);
}

static inline void read_pattern(coir_stream *stream, size_t len)
{
    static unsigned char data[20000];
    ssize_t n;
    size_t at = 0;
    while ((n = coir_read(stream, data, sizeof data)) > 0)
        for (ssize_t i = 0; i < n; i++, at++)
            CHECK_EQ(data[i], at % 251);
    CHECK_EQ(n, 0);
    CHECK(at >= len);
}

#endif
