/* The close of a TCP connection whose peer has sent what nobody reads. */
#include "io/linger.h"

#include <coir.h>
#include <errno.h>

#include "fill.h"
#include "harness.h"
#include "mask.h"
#include "pair.h"

static const coir_filter_kind mask_kind =
    COIR_FILTER_KIND(mask_read, mask_write, mask_flush, mask_readable, mask_end, mask_free);

static int linger_and_close(void *arg)
{
    coir_stream *near = arg;
    struct ci_linger linger;
    ci_linger_init(&linger, near);
    ci_linger_discard(&linger, near);
    CHECK_EQ(linger.discarded, 7);
    while (!ci_linger_is_over(&linger, near))
        CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    CHECK(!linger.input_ended);
    coir_close(near);
    return 0;
}

/* The peer reads only when the other side has given up writing. */
static void everything_arrives(void)
{
    coir_stream *near, *far;
    connect_pair(&near, &far);
    CHECK_EQ(coir_write_all(far, "unread.", 7), 0);
    CHECK_EQ(coir_stream_wait(near, COIR_READ), COIR_READ);
    size_t written = fill(near);
    struct ci_linger linger;
    ci_linger_init(&linger, near);
    CHECK(ci_linger_at_risk(&linger, near));
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, linger_and_close, near), 0);
    CHECK_EQ(read_to_the_end(far), written);
    CHECK_EQ(coir_scope_wait(scope), 0);
    coir_close(far);
}

TEST_REAL(what_was_written_arrives_although_something_is_unread)
{
    everything_arrives();
}

TEST_SIM(what_was_written_arrives_although_something_is_unread_in_a_simulated_world)
{
    everything_arrives();
}

/* A close that does not wait, for comparison: the reset loses some of it. */
TEST_REAL(without_it_the_close_loses_what_was_written)
{
    coir_stream *near, *far;
    char byte;
    ssize_t n;
    connect_pair(&near, &far);
    CHECK_EQ(coir_write_all(far, "unread.", 7), 0);
    CHECK_EQ(coir_stream_wait(near, COIR_READ), COIR_READ);
    fill(near);
    coir_close(near);
    while ((n = coir_read(far, &byte, 1)) > 0)
        continue;
    CHECK_EQ(n, -ECONNRESET);
    coir_close(far);
}

TEST_SIM(streams_that_lose_nothing_are_not_waited_for)
{
    coir_stream *near, *far;
    struct ci_linger linger;
    CHECK_EQ(coir_duplex(0, &near, &far), 0);
    ci_linger_init(&linger, near);
    CHECK_EQ(coir_write_all(near, "x", 1), 0);
    CHECK(!ci_linger_at_risk(&linger, near));
    CHECK(ci_linger_is_over(&linger, near));
    CHECK_EQ(coir_write_all(near, "y", 1), 0); /* it was not ended */
    coir_close(near);
    coir_close(far);
}

/* ---- filters over TCP ---- */

struct ends {
    struct mask mask;
    coir_stream *near, *far; /* a filter; what its transport is connected with */
};

static struct ends make_ends(void)
{
    struct ends ends = {.mask = {.ahead = -1}};
    connect_pair(&ends.mask.transport, &ends.far);
    return ends;
}

static void put_filter(struct ends *ends)
{
    CHECK_EQ(coir_filter_new(&mask_kind, &ends->mask, ends->mask.transport, &ends->near), 0);
}

/* `kept`: the filter has output that the system does not take. */
static void close_with_unread_input(bool kept)
{
    struct ends ends = make_ends();
    put_filter(&ends);
    CHECK_EQ(coir_write_all(ends.far, "unread.", 7), 0);
    CHECK_EQ(coir_stream_wait(ends.near, COIR_READ), COIR_READ);
    size_t unread = kept ? fill(ends.near) : fill_system(ends.near, ends.far);
    coir_close(ends.near);
    CHECK_EQ(ends.mask.frees, 0);
    CHECK_EQ(read_to_the_end(ends.far), unread + 1); /* mask_end's byte */
    while (!ends.mask.frees)
        CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    coir_close(ends.far);
}

TEST_REAL(a_filter_that_is_closed_delivers_what_it_has_taken)
{
    close_with_unread_input(true);
    close_with_unread_input(false);
}

TEST_SIM(a_filter_that_is_closed_delivers_what_it_has_taken_in_a_simulated_world)
{
    close_with_unread_input(true);
    close_with_unread_input(false);
}

/* What comes while the farewell waits is discarded, too. */
TEST_REAL(input_that_comes_after_the_close_resets_nothing)
{
    struct ends ends = make_ends();
    put_filter(&ends);
    size_t unread = fill_system(ends.near, ends.far);
    coir_close(ends.near);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(coir_write_all(ends.far, "more", 4), 0);
        CHECK_EQ(coir_yield(), 0);
    }
    CHECK_EQ(read_to_the_end(ends.far), unread + 1);
    while (!ends.mask.frees)
        CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    coir_close(ends.far);
}

TEST_REAL(no_task_waits_where_the_peer_has_ended_first)
{
    struct ends ends = make_ends();
    char byte;
    put_filter(&ends);
    CHECK_EQ(coir_write_all(ends.far, (char[]){'a' ^ MASK, (char)MASK_END}, 2), 0);
    CHECK_EQ(coir_read(ends.near, &byte, 1), 1);
    CHECK_EQ(coir_read(ends.near, &byte, 1), 0);
    CHECK_EQ(coir_write_all(ends.near, "b", 1), 0);
    coir_close(ends.near);
    CHECK_EQ(ends.mask.frees, 1);
    CHECK_EQ(read_to_the_end(ends.far), 2);
    coir_close(ends.far);
}

/* The answer has acknowledged the question. */
TEST_REAL(no_task_waits_where_nothing_is_at_risk)
{
    struct ends ends = make_ends();
    char byte;
    put_filter(&ends);
    CHECK_EQ(coir_write_all(ends.near, "a", 1), 0);
    CHECK_EQ(coir_read(ends.far, &byte, 1), 1);
    CHECK_EQ(coir_write_all(ends.far, (char[]){'b' ^ MASK}, 1), 0);
    CHECK_EQ(coir_read(ends.near, &byte, 1), 1);
    CHECK_EQ(coir_write_all(ends.far, "unread", 6), 0);
    coir_close(ends.near);
    CHECK_EQ(ends.mask.frees, 1);
    CHECK_EQ(read_to_the_end(ends.far), 1); /* and not a reset: the rest was discarded */
    coir_close(ends.far);
}

/* A simulated reset loses what the peer has not read, so it is waited for, with growing pauses. */
TEST_SIM(a_farewell_looks_again_and_is_bounded)
{
    struct ends ends[2] = {make_ends(), make_ends()};
    char byte;
    for (int i = 0; i < 2; i++) {
        put_filter(&ends[i]);
        CHECK_EQ(coir_write_all(ends[i].near, "a", 1), 0);
        coir_close(ends[i].near);
    }
    for (int i = 0; i < 1000; i++) { /* what comes meanwhile lengthens no pause */
        CHECK_EQ(coir_sleep_for(COIR_MS), 0);
        CHECK_EQ(coir_write_all(ends[0].far, "more", 4), 0);
    }
    CHECK_EQ(ends[0].mask.frees + ends[1].mask.frees, 0);
    CHECK_EQ(coir_read(ends[0].far, &byte, 1), 1);
    CHECK_EQ(coir_read(ends[0].far, &byte, 1), 1);
    CHECK_EQ(coir_sleep_for(2 * COIR_S), 0);
    CHECK_EQ(ends[0].mask.frees, 1);
    CHECK_EQ(ends[1].mask.frees, 0);
    CHECK_EQ(coir_sleep_for(3 * COIR_S), 0);
    CHECK_EQ(ends[1].mask.frees, 1);
    coir_close(ends[0].far);
    coir_close(ends[1].far);
}

TEST_REAL(a_filter_that_was_broken_resets_its_transport)
{
    struct ends ends = make_ends();
    char byte;
    put_filter(&ends);
    fill(ends.near);
    ci_stream_break(ends.near, -ECONNABORTED);
    CHECK_EQ(coir_write(ends.near, "x", 1), -ECONNABORTED);
    coir_close(ends.near);
    CHECK_EQ(ends.mask.frees, 1);
    ssize_t n;
    while ((n = coir_read(ends.far, &byte, 1)) > 0)
        continue;
    CHECK_EQ(n, -ECONNRESET);
    coir_close(ends.far);
}
