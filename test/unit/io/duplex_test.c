/* The in-memory pair of streams. */
#include <coir.h>
#include <errno.h>

#include "harness.h"

static int write_pattern(void *arg)
{
    unsigned char data[777];
    for (size_t at = 0; at < 100000; at += sizeof data) {
        for (size_t i = 0; i < sizeof data; i++)
            data[i] = (unsigned char)((at + i) % 251);
        int rc = coir_write_all(arg, data, sizeof data);
        if (rc < 0)
            return rc;
    }
    return coir_shutdown_write(arg);
}

static void read_pattern(coir_stream *stream)
{
    unsigned char data[500];
    ssize_t n;
    size_t at = 0;
    while ((n = coir_read(stream, data, sizeof data)) > 0)
        for (ssize_t i = 0; i < n; i++, at++)
            CHECK_EQ(data[i], at % 251);
    CHECK_EQ(n, 0);
    CHECK(at >= 100000);
}

TEST_SIM(a_duplex_carries_bytes_through_a_small_ring)
{
    coir_stream *a, *b;
    CHECK_EQ(coir_duplex(64, &a, &b), 0);
    COIR_SCOPE(scope);
    coir_go(scope, write_pattern, a);
    read_pattern(b);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(coir_write(b, "x", 1), 1);
    coir_close(b);
    CHECK_EQ(coir_write(a, "x", 1), -EPIPE);
    coir_close(a);
    coir_close(NULL);
}
