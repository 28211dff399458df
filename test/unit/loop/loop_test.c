/* The loop by itself, with callbacks. */
#include <coir/loop.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "harness.h"

static int calls;
static coir_time last_due;

/* The argument is when it is due: whatever the delays of this machine were while they were started,
 * they fire in that order. */
static void check_order(coir_loop *loop, coir_timer *timer, void *arg)
{
    (void)timer;
    coir_time due = *(coir_time *)arg;
    CHECK(due >= last_due && coir_now() >= due);
    last_due = due;
    if (++calls == 3)
        coir_loop_stop(loop);
}

static void note_and_stop(coir_loop *loop, coir_timer *timer, void *arg)
{
    (void)arg;
    (void)timer;
    if (++calls == 3)
        coir_loop_stop(loop);
}

TEST(timers_fire_in_order)
{
    static const coir_time delays[4] = {100 * COIR_S, 3 * COIR_MS, 2 * COIR_MS, 1 * COIR_MS};
    coir_loop *loop;
    coir_timer timers[3] = {{{0}}, {{0}}, {{0}}};
    coir_time due[3];
    CHECK_EQ(coir_loop_new(&loop), 0);
    for (int i = 0; i < 4; i++) { /* the last one moves the first */
        coir_timer_start(loop, &timers[i % 3], delays[i], check_order, &due[i % 3]);
        due[i % 3] = coir_loop_now(loop) + delays[i];
    }
    CHECK_EQ(coir_loop_run(loop), 0);
    CHECK_EQ(calls, 3);
    coir_loop_free(loop);
}

TEST(a_loop_with_nothing_registered_returns)
{
    coir_loop *loop;
    CHECK_EQ(coir_loop_new(&loop), 0);
    CHECK_EQ(coir_loop_run(loop), 0);
    coir_loop_stop(loop); /* a stop before the run makes it return at once */
    coir_timer timer = {{0}};
    coir_timer_start(loop, &timer, 1000 * COIR_S, note_and_stop, NULL);
    CHECK_EQ(coir_loop_run(loop), 0);
    CHECK_EQ(calls, 0);
    coir_timer_stop(loop, &timer);
    coir_loop_free(loop);
}

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

static void before(coir_loop *loop, coir_hook *hook, void *arg)
{
    (void)arg;
    (void)loop;
    (void)hook;
    calls++;
}

static void add_another(coir_loop *loop, coir_hook *hook, void *arg)
{
    (void)arg;
    static coir_hook added;
    coir_hook_stop(loop, hook);
    coir_hook_start(loop, &added, COIR_HOOK_AFTER_TURN, before, NULL);
}

TEST(a_hook_added_by_a_hook_runs_in_the_next_turn)
{
    coir_loop *loop;
    coir_hook hook;
    CHECK_EQ(coir_loop_new(&loop), 0);
    coir_hook_start(loop, &hook, COIR_HOOK_AFTER_TURN, add_another, NULL);
    coir_loop_run_once(loop, 0);
    CHECK_EQ(calls, 0);
    coir_loop_run_once(loop, 0);
    CHECK_EQ(calls, 1);
    coir_loop_free(loop);
}

enum { POSTS = 50000 };
static coir_loop *posted_to;
static int received;

static void receive(void *arg)
{
    CHECK_EQ((intptr_t)arg, received); /* in order */
    if (++received == POSTS)
        coir_loop_stop(posted_to);
}

static void *post_all(void *arg)
{
    for (intptr_t i = 0; i < POSTS; i++)
        CHECK_EQ(coir_loop_post(arg, receive, (void *)i), 0);
    return NULL;
}

TEST(posts_from_another_thread_arrive_in_order)
{
    pthread_t thread;
    coir_timer keep_alive = {{0}};
    CHECK_EQ(coir_loop_new(&posted_to), 0);
    coir_timer_start(posted_to, &keep_alive, 1000 * COIR_S, note_and_stop, NULL);
    CHECK(pthread_create(&thread, NULL, post_all, posted_to) == 0);
    coir_loop_run(posted_to);
    CHECK_EQ(received, POSTS);
    pthread_join(thread, NULL);
    received = 0;
    coir_loop_post(posted_to, receive, (void *)0);
    coir_loop_free(posted_to); /* what still waits is delivered */
    CHECK_EQ(received, 1);
}
