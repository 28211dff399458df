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

static int fail_to_write(void *arg)
{
    return coir_write(arg, "x", 1) == -EPIPE ? 0 : -EINVAL;
}

/* As of a socket: a write would fail, and does not wait for a peer that reads nothing. */
TEST_SIM(whoever_waits_for_room_is_told_of_the_end_of_the_direction)
{
    coir_stream *a, *b;
    char byte;
    CHECK_EQ(coir_duplex(1, &a, &b), 0);
    CHECK_EQ(coir_write(a, "x", 1), 1);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, fail_to_write, a), 0);
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    CHECK_EQ(coir_shutdown_write(a), 0);
    {
        COIR_DEADLINE(coir_in(COIR_S));
        CHECK_EQ(coir_scope_wait(scope), 0);
        CHECK_EQ(coir_stream_wait(a, COIR_WRITE), COIR_WRITE);
    }
    CHECK_EQ(coir_read(b, &byte, 1), 1);
    CHECK_EQ(coir_read(b, &byte, 1), 0);
    coir_close(a);
    coir_close(b);
}

/* ---- a queue whose outcome closes the stream while its peer is being closed ---- */

static coir_stream *closed_with_outcome;
static int outcomes[2]; /* written, failed */

static void close_with_outcome(coir_buffer *buffer, int result, void *arg)
{
    (void)buffer;
    (void)arg;
    outcomes[result < 0]++;
    if (result == 0)
        return;
    coir_stream *stream = closed_with_outcome;
    closed_with_outcome = NULL;
    coir_close(stream);
}

TEST_SIM(an_outcome_may_close_the_other_end_of_a_stream_that_is_closed)
{
    coir_stream *peer;
    coir_write_queue *queue;
    coir_buffer *buffer;
    coir_write_queue_options options = COIR_WRITE_QUEUE_OPTIONS;
    options.on_outcome = close_with_outcome;
    CHECK_EQ(coir_duplex(8, &closed_with_outcome, &peer), 0);
    CHECK_EQ(coir_write_queue_new_with(closed_with_outcome, &options, &queue), 0);
    CHECK_EQ(coir_buffer_new("abcdef", 6, &buffer), 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(coir_write_queue_try_push(queue, buffer), 0);
    coir_buffer_unref(buffer);
    CHECK_EQ(coir_sleep_for(COIR_MS), 0); /* until there is no room */
    coir_close(peer);
    CHECK(!closed_with_outcome);
    CHECK_EQ(outcomes[0], 1);
    CHECK_EQ(outcomes[1], 3);
    coir_write_queue_free(queue);
}
