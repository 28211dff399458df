/* Watches of descriptors: level-triggered, stopped and started from inside of callbacks. */
#include <coir/loop.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "harness.h"

static int calls;

static int ends[2];
static coir_watch watches[2];

static void on_readable(coir_loop *loop, coir_watch *watch, int events, void *arg)
{
    (void)arg;
    char byte;
    CHECK(events & COIR_READ);
    if (++calls < 3)
        return; /* level-triggered: it comes again */
    CHECK_EQ(read(ends[0], &byte, 1), 1);
    coir_watch_stop(loop, watch);
    coir_watch_stop(loop, watch);
}

TEST(a_watch_calls_as_long_as_it_holds_and_may_stop_itself)
{
    coir_loop *loop;
    CHECK_EQ(coir_loop_new(&loop), 0);
    CHECK_EQ(pipe2(ends, O_NONBLOCK), 0);
    CHECK_EQ(coir_watch_start(loop, &watches[0], ends[0], COIR_READ, on_readable, NULL), 0);
    CHECK_EQ(coir_watch_start(loop, &watches[1], ends[0], COIR_READ, on_readable, NULL),
             -16 /* EBUSY */);
    CHECK_EQ(write(ends[1], "x", 1), 1);
    CHECK_EQ(coir_loop_run(loop), 0); /* returns: nothing is left */
    CHECK_EQ(calls, 3);
    coir_loop_free(loop);
}

static int others[2];

/* A started watch is refused, on its own descriptor and on another, and goes on as it was. */
static void start_again(coir_loop *loop, coir_watch *watch)
{
    CHECK_EQ(coir_watch_start(loop, watch, ends[0], COIR_READ, NULL, NULL), -EBUSY);
    CHECK_EQ(coir_watch_start(loop, watch, others[0], COIR_READ, NULL, NULL), -EBUSY);
    CHECK_EQ(coir_watch_start(loop, watch, -1, COIR_READ, NULL, NULL), -EBUSY);
}

static void start_again_inside(coir_loop *loop, coir_watch *watch, int events, void *arg)
{
    CHECK(arg == &calls);
    char byte;
    CHECK_EQ(events, COIR_READ);
    start_again(loop, watch);
    CHECK_EQ(read(calls ? others[0] : ends[0], &byte, 1), 1);
    coir_watch_stop(loop, watch);
    if (calls++ == 0) /* a stopped one may start anew, also here */
        CHECK_EQ(coir_watch_start(loop, watch, others[0], COIR_READ, start_again_inside, &calls),
                 0);
}

TEST(a_started_watch_cannot_be_started_again)
{
    coir_loop *loop;
    CHECK_EQ(coir_loop_new(&loop), 0);
    CHECK_EQ(pipe2(ends, O_NONBLOCK), 0);
    CHECK_EQ(pipe2(others, O_NONBLOCK), 0);
    CHECK_EQ(coir_watch_start(loop, &watches[0], -1, COIR_READ, start_again_inside, &calls),
             -EBADF);
    CHECK_EQ(coir_watch_start(loop, &watches[0], ends[0], COIR_READ, start_again_inside, &calls),
             0);
    start_again(loop, &watches[0]);
    CHECK_EQ(write(ends[1], "x", 1), 1);
    CHECK_EQ(write(others[1], "x", 1), 1);
    CHECK_EQ(coir_loop_run(loop), 0); /* nothing is left */
    CHECK_EQ(calls, 2);
    coir_loop_free(loop);
}
