/* Reading a trace while its worker goes on; what is recorded: trace_test.c. */
#include <string.h>

#include "harness.h"
#include "task/trace.h"

enum { SIZE = 64 };

static struct ci_trace_event events[SIZE], copied[SIZE];

/* A trace of which `count` events were ever recorded: the time of each is its number. */
static struct ci_trace made(uint64_t count)
{
    struct ci_trace trace = {.events = events, .size = SIZE, .count = count};
    for (uint64_t i = count > SIZE ? count - SIZE : 0; i < count; i++)
        events[i % SIZE] = (struct ci_trace_event){.at = i & 0xffff, .kind = CI_TRACE_GOES_ON};
    return trace;
}

TEST(nothing_is_peeked_of_an_empty_trace)
{
    struct ci_trace trace = made(0);
    CHECK_EQ(ci_trace_peek(&trace, copied), 0);
    trace = made(1); /* it may not be complete */
    CHECK_EQ(ci_trace_peek(&trace, copied), 0);
}

TEST(the_newest_event_is_left_out)
{
    struct ci_trace trace = made(10);
    CHECK_EQ(ci_trace_peek(&trace, copied), 9);
    for (unsigned i = 0; i < 9; i++)
        CHECK_EQ(copied[i].at, i);
}

TEST(the_oldest_events_are_left_out_where_the_ring_is_full)
{
    struct ci_trace trace = made(1000);
    size_t count = ci_trace_peek(&trace, copied);
    CHECK(count > SIZE / 2 && count < SIZE - 1);
    for (size_t i = 0; i < count; i++)
        CHECK_EQ(copied[i].at, 999 - count + i);
}
