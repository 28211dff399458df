/* Pairs of streams in memory. */
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

static int wait_for_nothing(void *arg)
{
    return coir_stream_wait(arg, 0);
}

TEST_REAL(a_wait_for_no_event_ends_when_the_peer_has_gone)
{
    coir_stream *ends[2];
    COIR_HANDLE(handle);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    COIR_SCOPE(scope);
    CHECK_EQ(coir_duplex(0, &ends[0], &ends[1]), 0);
    CHECK_EQ(coir_go_with(scope, &options, wait_for_nothing, ends[0]), 0);
    CHECK_EQ(coir_write_all(ends[1], "x", 1), 0);
    coir_yield();
    CHECK(!coir_handle_has_ended(handle));
    coir_close(ends[1]);
    CHECK_EQ(coir_join(handle), COIR_HANGUP);
    coir_close(ends[0]);
}
