/* Timeouts of one length: in order, never early, moved, stopped and freed from inside. */
#include <coir/loop.h>
#include <errno.h>

#include "harness.h"

static int calls;

static void never(coir_timeout_set *set, coir_timeout *timeout, void *arg)
{
    (void)set, (void)timeout, (void)arg;
    CHECK(false);
}

static coir_loop *open_loop(void)
{
    coir_loop *loop;
    CHECK_EQ(coir_loop_new(&loop), 0);
    return loop;
}

static coir_loop *the_loop;

/* `arg` is a time from before the start. */
static void check_time(coir_timeout_set *set, coir_timeout *timeout, void *arg)
{
    static coir_time last;
    coir_time started = *(coir_time *)arg;
    (void)set, (void)timeout;
    CHECK(coir_loop_now(the_loop) >= started + 2 * COIR_MS);
    CHECK(started >= last); /* in the order of their starts */
    last = started;
    calls++;
}

static coir_timeout_set set;
static coir_timeout timeouts[64];
static coir_time started[64];

static void start_one(coir_loop *loop, coir_timer *timer, void *arg)
{
    int *count = arg;
    started[*count] = coir_now();
    coir_timeout_start(&set, &timeouts[*count], &started[*count]);
    if (++*count == 64)
        coir_timer_stop(loop, timer);
}

TEST(timeouts_are_called_in_order_and_never_early)
{
    coir_timer ticks = {{0}};
    coir_timer_options options = COIR_TIMER_OPTIONS;
    int count = 32;
    the_loop = open_loop();
    options.interval = 100 * COIR_US;
    CHECK_EQ(coir_timeout_set_init(&set, the_loop, 2 * COIR_MS, check_time), 0);
    for (int i = 0; i < 32; i++) { /* together, and then one in each turn */
        started[i] = coir_now();
        coir_timeout_start(&set, &timeouts[i], &started[i]);
    }
    CHECK_EQ(coir_timer_start_with(the_loop, &ticks, &options, start_one, &count), 0);
    CHECK_EQ(coir_loop_run(the_loop), 0);
    CHECK_EQ(calls, 64);
    coir_timeout_set_done(&set);
    coir_loop_free(the_loop);
}

TEST(a_set_without_timeouts_does_not_keep_the_loop_running)
{
    coir_loop *loop = open_loop();
    CHECK_EQ(coir_timeout_set_init(&set, loop, 1000 * COIR_S, never), 0);
    coir_timeout_start(&set, &timeouts[0], NULL);
    coir_timeout_stop(&set, &timeouts[0]); /* before it has a time */
    CHECK(!coir_loop_alive(loop));
    coir_timeout_start(&set, &timeouts[0], NULL);
    coir_timeout_start(&set, &timeouts[1], NULL);
    coir_loop_run_once(loop, 0); /* now they have one */
    CHECK(coir_loop_alive(loop));
    coir_timeout_stop(&set, &timeouts[0]);
    CHECK(coir_loop_alive(loop));
    coir_timeout_stop(&set, &timeouts[1]);
    coir_timeout_stop(&set, &timeouts[1]);
    CHECK(!coir_loop_alive(loop));
    CHECK_EQ(coir_loop_run(loop), 0);
    coir_timeout_start(&set, &timeouts[0], NULL);
    coir_loop_run_once(loop, 0);
    coir_timeout_start(&set, &timeouts[1], NULL);
    coir_timeout_set_done(&set); /* one has a time, one has none */
    CHECK_EQ(coir_loop_run(loop), 0);
    coir_loop_free(loop);
}

static void restart_twice(coir_timeout_set *self, coir_timeout *timeout, void *arg)
{
    if (++calls < 3)
        coir_timeout_start(self, timeout, arg);
}

/* Moved: a started timeout counts anew; its place is behind the others. */
TEST(a_timeout_is_started_anew_from_its_own_function)
{
    coir_loop *loop = open_loop();
    CHECK_EQ(coir_timeout_set_init(&set, loop, 0, restart_twice), 0);
    coir_timeout_start(&set, &timeouts[0], NULL);
    coir_timeout_start(&set, &timeouts[0], NULL);
    CHECK_EQ(coir_loop_run(loop), 0);
    CHECK_EQ(calls, 3);
    coir_loop_free(loop);
}

static void count_call(coir_timeout_set *self, coir_timeout *timeout, void *arg)
{
    (void)self, (void)timeout;
    CHECK(arg == &calls);
    calls++;
}

TEST(a_timeout_is_called_though_those_before_it_were_stopped)
{
    coir_loop *loop = open_loop();
    CHECK_EQ(coir_timeout_set_init(&set, loop, COIR_MS, count_call), 0);
    for (int in_time = 0; in_time < 2; in_time++) {
        for (int i = 0; i < 4; i++)
            coir_timeout_start(&set, &timeouts[i], &calls);
        if (in_time)
            coir_loop_run_once(loop, 0); /* all have a time */
        coir_timeout_stop(&set, &timeouts[0]);
        coir_timeout_stop(&set, &timeouts[2]);
        CHECK_EQ(coir_loop_run(loop), 0);
        CHECK_EQ(calls, 2 + 2 * in_time);
    }
    coir_loop_free(loop);
}

static void stop_the_rest(coir_timeout_set *self, coir_timeout *timeout, void *arg)
{
    calls++;
    CHECK(timeout == &timeouts[0]);
    for (int i = 0; i < 64; i++)
        coir_timeout_stop(self, &timeouts[i]);
    if (arg) {
        coir_timeout_set_done(self);
        for (size_t i = 0; i < sizeof *self; i++) /* freed: it is not looked at again */
            ((unsigned char *)self)[i] = (unsigned char)(0x80 | i);
    }
}

TEST(a_timeout_may_stop_the_others_and_its_set)
{
    coir_loop *loop = open_loop();
    for (int done = 0; done < 2; done++) {
        calls = 0;
        CHECK_EQ(coir_timeout_set_init(&set, loop, COIR_US, stop_the_rest), 0);
        for (int i = 0; i < 64; i++)
            coir_timeout_start(&set, &timeouts[i], done ? &calls : NULL);
        CHECK_EQ(coir_loop_run(loop), 0);
        CHECK_EQ(calls, 1);
    }
    coir_loop_free(loop);
}

/* Where the frame of the call that had told the set was, among others. */
static __attribute__((noinline)) void be_done_again(void)
{
    volatile unsigned char frames[16384];
    for (size_t i = 0; i < sizeof frames; i++)
        frames[i] = 0x55;
    coir_timeout_set_done(&set);
    for (size_t i = 0; i < sizeof frames; i++)
        CHECK_EQ(frames[i], 0x55);
}

static void be_done(coir_timeout_set *self, coir_timeout *timeout, void *arg)
{
    (void)timeout, (void)arg;
    coir_timeout_set_done(self);
}

TEST(a_set_may_be_done_twice)
{
    coir_loop *loop = open_loop();
    CHECK_EQ(coir_timeout_set_init(&set, loop, COIR_US, be_done), 0);
    coir_timeout_start(&set, &timeouts[0], NULL);
    CHECK_EQ(coir_loop_run(loop), 0);
    be_done_again();
    coir_loop_free(loop);
}

TEST(calls_look_at_their_arguments)
{
    coir_loop *loop = open_loop();
    coir_timeout_set other;
    CHECK_EQ(coir_timeout_set_init(NULL, loop, 0, never), -EINVAL);
    CHECK_EQ(coir_timeout_set_init(&set, NULL, 0, never), -EINVAL);
    CHECK_EQ(coir_timeout_set_init(&set, loop, 0, NULL), -EINVAL);
    CHECK_EQ(coir_timeout_set_init(&set, loop, COIR_S, never), 0);
    CHECK_EQ(coir_timeout_set_init(&other, loop, COIR_S, never), 0);
    coir_timeout_start(NULL, &timeouts[0], NULL);
    coir_timeout_start(&set, NULL, NULL);
    coir_timeout_stop(NULL, &timeouts[0]);
    coir_timeout_stop(&set, NULL);
    coir_timeout_start(&set, &timeouts[0], NULL);
    coir_timeout_start(&other, &timeouts[0], NULL); /* refused: it is started in the first */
    coir_timeout_stop(&other, &timeouts[0]);
    coir_timeout_set_done(&other);
    CHECK(coir_loop_alive(loop));
    coir_timeout_set_done(&set);
    coir_timeout_set_done(NULL);
    CHECK(!coir_loop_alive(loop));
    coir_loop_free(loop);
}
