/* The loop by itself: when its run ends, what may come from other threads, and misuse. */
#include <coir/loop.h>
#include <errno.h>
#include <pthread.h>

#include "harness.h"
#include "never.h"

static int calls;

static void note_and_stop(coir_loop *loop, coir_timer *timer, void *arg)
{
    (void)arg;
    (void)timer;
    if (++calls == 3)
        coir_loop_stop(loop);
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

TEST(calls_look_at_their_arguments)
{
    coir_loop *loop;
    coir_watch watch = {{0}};
    coir_timer timer = {{0}};
    coir_hook hook;
    CHECK_EQ(coir_loop_new(NULL), -EINVAL);
    CHECK_EQ(coir_loop_new_with(NULL, NULL), -EINVAL);
    CHECK_EQ(coir_loop_run(NULL), -EINVAL);
    CHECK_EQ(coir_loop_run_once(NULL, 0), -EINVAL);
    CHECK_EQ(coir_loop_now(NULL), 0);
    coir_loop_stop(NULL);
    coir_loop_free(NULL);
    CHECK_EQ(coir_loop_new(&loop), 0);
    CHECK_EQ(coir_loop_post(NULL, NULL, NULL), -EINVAL);
    CHECK_EQ(coir_loop_post(loop, NULL, NULL), -EINVAL);
    CHECK_EQ(coir_watch_start(NULL, &watch, 0, COIR_READ, never_event, NULL), -EINVAL);
    CHECK_EQ(coir_watch_start(loop, NULL, 0, COIR_READ, never_event, NULL), -EINVAL);
    CHECK_EQ(coir_watch_start(loop, &watch, 0, COIR_READ, NULL, NULL), -EINVAL);
    coir_watch_stop(NULL, &watch);
    coir_watch_stop(loop, NULL);
    coir_timer_start(NULL, &timer, 0, never_timer, NULL);
    coir_timer_start(loop, NULL, 0, never_timer, NULL);
    coir_timer_start(loop, &timer, 0, NULL, NULL);
    coir_timer_stop(NULL, &timer);
    coir_timer_stop(loop, NULL);
    coir_hook_start(NULL, &hook, COIR_HOOK_AFTER_TURN, never_hook, NULL);
    coir_hook_start(loop, NULL, COIR_HOOK_AFTER_TURN, never_hook, NULL);
    coir_hook_start(loop, &hook, COIR_HOOK_AFTER_TURN, NULL, NULL);
    coir_hook_start(loop, &hook, (enum coir_hook_when)7, never_hook, NULL);
    coir_hook_stop(NULL, &hook);
    coir_hook_stop(loop, NULL);
    CHECK_EQ(coir_loop_run(loop), 0);
    coir_loop_free(loop);
}
