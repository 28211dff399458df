/* The in-memory pair of streams. */
#include <coir.h>
#include <errno.h>

#include "harness.h"
#include "pattern.h"

enum { LEN = 100000 };

static int write_all(void *arg)
{
    return write_pattern(arg, LEN);
}

TEST_SIM(a_duplex_carries_bytes_through_a_small_ring)
{
    coir_stream *a, *b;
    CHECK_EQ(coir_duplex(64, &a, &b), 0);
    COIR_SCOPE(scope);
    coir_go(scope, write_all, a);
    read_pattern(b, LEN);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(coir_write(b, "x", 1), 1);
    coir_close(b);
    CHECK_EQ(coir_write(a, "x", 1), -EPIPE);
    coir_close(a);
    coir_close(NULL);
}
