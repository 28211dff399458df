/* A loop in its turn: neither its own callbacks nor other threads may run or change it. */
#include <coir/loop.h>
#include <errno.h>
#include <pthread.h>

#include "harness.h"
#include "never.h"

static int turn_result, run_result;

static void run_inside(coir_loop *loop, coir_timer *timer, void *arg)
{
    (void)timer;
    (void)arg;
    run_result = coir_loop_run(loop);
    turn_result = coir_loop_run_once(loop, 0);
}

TEST(a_loop_does_not_run_inside_of_itself)
{
    coir_loop *loop;
    coir_timer timer = {{0}};
    CHECK_EQ(coir_loop_new(&loop), 0);
    coir_timer_start(loop, &timer, 0, run_inside, NULL);
    CHECK_EQ(coir_loop_run(loop), 0);
    CHECK_EQ(run_result, -EBUSY);
    CHECK_EQ(turn_result, -EBUSY);
    coir_loop_free(loop);
}

/* Another thread's calls, while the loop is in a turn. */
static void *meddle(void *arg)
{
    coir_loop *loop = arg;
    static coir_watch watch;
    static coir_timer timer;
    static coir_hook hook;
    CHECK_EQ(coir_watch_start(loop, &watch, 0, COIR_READ, never_event, NULL), -EXDEV);
    coir_timer_start(loop, &timer, 0, never_timer, NULL);
    coir_hook_start(loop, &hook, COIR_HOOK_AFTER_TURN, never_hook, NULL);
    return NULL;
}

static void let_meddle(coir_loop *loop, coir_timer *timer, void *arg)
{
    pthread_t thread;
    (void)timer;
    (void)arg;
    CHECK_EQ(pthread_create(&thread, NULL, meddle, loop), 0);
    pthread_join(thread, NULL);
}

TEST(another_thread_cannot_touch_a_loop_during_a_turn)
{
    coir_loop *loop;
    coir_timer timer = {{0}};
    CHECK_EQ(coir_loop_new(&loop), 0);
    coir_timer_start(loop, &timer, 0, let_meddle, NULL);
    CHECK_EQ(coir_loop_run(loop), 0); /* returns: nothing was started */
    CHECK_EQ(coir_loop_run_once(loop, 0), 0);
    coir_loop_free(loop);
}
