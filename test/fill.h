/* Streams whose buffers are full. */
#ifndef TEST_FILL_H
#define TEST_FILL_H

#include <coir.h>
#include <errno.h>

#include "harness.h"

/* Writes until nothing more is taken: how much was. */
static inline size_t fill(coir_stream *stream)
{
    static char data[30000];
    size_t written = 0;
    ssize_t n;
    while ((n = coir_try_write(stream, data, sizeof data)) > 0)
        written += (size_t)n;
    CHECK_EQ(n, -EAGAIN);
    return written;
}

static inline bool is_writable(coir_stream *stream)
{
    COIR_DEADLINE(coir_in(COIR_MS));
    return coir_stream_wait(stream, COIR_WRITE) >= 0;
}

/* The same; then the peer reads until a filter keeps nothing, and the system still much: how much
 * the peer has not read. */
static inline size_t fill_system(coir_stream *stream, coir_stream *peer)
{
    static char data[5000];
    size_t unread = fill(stream);
    do {
        ssize_t n = coir_read(peer, data, sizeof data);
        CHECK(n > 0);
        unread -= (size_t)n;
    } while (!is_writable(stream));
    CHECK(unread > 0);
    return unread;
}

static inline size_t read_to_the_end(coir_stream *stream)
{
    static char data[30000];
    size_t got = 0;
    ssize_t n;
    while ((n = coir_read(stream, data, sizeof data)) > 0)
        got += (size_t)n;
    CHECK_EQ(n, 0);
    return got;
}

#endif
