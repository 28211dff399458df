/* What an observer is told of turns: which callback took long, how many there were, the load. */
#include <coir/loop.h>
#include <unistd.h>

#include "harness.h"

static int turns;
static coir_turn last;

static void note_turn(coir_loop *loop, const coir_turn *turn, void *arg)
{
    (void)loop;
    CHECK(arg == &last);
    CHECK_EQ(turn->size, sizeof(coir_turn));
    last = *turn;
    turns++;
}

static void spin_until(coir_time end)
{
    while (coir_now() < end)
        continue;
}

static void be_slow(coir_loop *loop, coir_timer *timer, void *arg)
{
    (void)loop, (void)timer, (void)arg;
    spin_until(coir_in(5 * COIR_MS));
}

static void read_it(coir_loop *loop, coir_watch *watch, int events, void *arg)
{
    char byte;
    (void)events;
    CHECK_EQ(read(*(int *)arg, &byte, 1), 1);
    coir_watch_stop(loop, watch);
}

TEST(a_slow_turn_names_the_callback_that_took_longest)
{
    coir_loop *loop;
    coir_timer slow = {{0}}, late = {{0}};
    coir_watch watch = {{0}};
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(write(ends[1], "x", 1), 1);
    CHECK_EQ(coir_loop_new(&loop), 0);
    coir_loop_observe(loop, 5 * COIR_MS, note_turn, &last);
    CHECK_EQ(coir_watch_start(loop, &watch, ends[0], COIR_READ, read_it, &ends[0]), 0);
    coir_timer_start(loop, &slow, 0, be_slow, NULL);
    CHECK_EQ(coir_loop_run_once(loop, 0), 0);
    CHECK_EQ(turns, 1);
    CHECK(last.slowest == (const void *)(uintptr_t)be_slow);
    CHECK(last.slowest_time >= 5 * COIR_MS && last.busy >= last.slowest_time);
    CHECK_EQ(last.calls, 2);
    CHECK(last.load > 0 && last.load <= 1000);
    coir_timer_start(loop, &late, 200 * COIR_MS, be_slow, NULL);
    CHECK_EQ(coir_loop_run(loop), 0);
    CHECK(last.waited >= COIR_MS);
    coir_loop_observe(loop, 0, NULL, NULL);
    turns = 0;
    coir_timer_start(loop, &slow, 0, be_slow, NULL);
    CHECK_EQ(coir_loop_run(loop), 0);
    CHECK_EQ(turns, 0);
    coir_loop_free(loop);
    close(ends[0]);
    close(ends[1]);
}
