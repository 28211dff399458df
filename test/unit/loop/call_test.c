/* Calls from other threads: in order, with and without waiting, and without needless wake-ups. */
#include <coir/loop.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "harness.h"
#include "loop/loop.h"

/* 20 under Valgrind and the sanitizers, too: what counts is the order and the number of wake-ups.
 */
enum { SENDERS = 4, MESSAGES = 20000 };

static coir_loop *loop;
static int received[SENDERS];

struct numbered {
    int sender, number;
};

static struct numbered messages[SENDERS][MESSAGES];

static void receive(void *arg)
{
    const struct numbered *message = arg;
    CHECK_EQ(message->number, received[message->sender]);
    received[message->sender]++;
}

static void *send_all(void *arg)
{
    int sender = *(int *)arg;
    for (int i = 0; i < MESSAGES; i++) {
        messages[sender][i] = (struct numbered){sender, i};
        CHECK_EQ(coir_loop_post(loop, receive, &messages[sender][i]), 0);
    }
    coir_loop_release(loop);
    return NULL;
}

static coir_loop_counters counters(void)
{
    coir_loop_counters now = COIR_LOOP_COUNTERS;
    CHECK_EQ(coir_loop_counters_get(loop, &now), 0);
    return now;
}

TEST(posts_of_four_threads_arrive_in_the_order_of_each)
{
    pthread_t threads[SENDERS];
    int ids[SENDERS];
    CHECK_EQ(coir_loop_new(&loop), 0);
    for (int i = 0; i < SENDERS; i++) {
        ids[i] = i;
        coir_loop_hold(loop);
        CHECK_EQ(pthread_create(&threads[i], NULL, send_all, &ids[i]), 0);
    }
    CHECK_EQ(coir_loop_run(loop), 0); /* until the last one has released it */
    for (int i = 0; i < SENDERS; i++)
        CHECK_EQ(received[i], MESSAGES);
    CHECK(counters().wakeups <= counters().sleeps);
    for (int i = 0; i < SENDERS; i++)
        pthread_join(threads[i], NULL);
    coir_loop_free(loop);
}

static void *post_one(void *arg)
{
    CHECK_EQ(coir_loop_post(loop, receive, arg), 0);
    return NULL;
}

static void let_others_post(coir_loop *self, coir_timer *timer, void *arg)
{
    pthread_t threads[SENDERS];
    (void)self, (void)timer, (void)arg;
    for (int i = 0; i < SENDERS; i++) {
        messages[i][0] = (struct numbered){i, 0};
        CHECK_EQ(pthread_create(&threads[i], NULL, post_one, &messages[i][0]), 0);
    }
    for (int i = 0; i < SENDERS; i++)
        pthread_join(threads[i], NULL);
}

TEST(a_loop_in_a_callback_is_not_woken)
{
    coir_timer timer = {{0}};
    CHECK_EQ(coir_loop_new(&loop), 0);
    coir_timer_start(loop, &timer, 0, let_others_post, NULL);
    CHECK_EQ(coir_loop_run(loop), 0);
    for (int i = 0; i < SENDERS; i++)
        CHECK_EQ(received[i], 1);
    CHECK_EQ(counters().wakeups, 0);
    coir_loop_free(loop);
}

static int add_one(void *arg)
{
    return ++*(int *)arg;
}

static int call_inside(void *arg)
{
    return coir_loop_call(loop, add_one, arg);
}

static void *call_and_wait(void *arg)
{
    int value = 0;
    for (int i = 1; i <= 1000; i++)
        CHECK_EQ(coir_loop_call(loop, add_one, &value), i);
    CHECK_EQ(value, 1000);
    CHECK_EQ(coir_loop_call(loop, call_inside, &value), -EDEADLK);
    coir_loop_stop(loop);
    return arg;
}

TEST(a_call_returns_what_its_function_returns)
{
    pthread_t thread;
    CHECK_EQ(coir_loop_new(&loop), 0);
    CHECK_EQ(pthread_create(&thread, NULL, call_and_wait, NULL), 0);
    CHECK_EQ(coir_loop_run_forever(loop), 0); /* nothing is registered */
    pthread_join(thread, NULL);
    coir_loop_free(loop);
}

static bool calling;

static void *call_once(void *arg)
{
    __atomic_store_n(&calling, true, __ATOMIC_RELAXED);
    CHECK_EQ(coir_loop_call(loop, add_one, arg), 1);
    return NULL;
}

TEST(a_call_that_waits_is_made_when_the_loop_is_freed)
{
    pthread_t thread;
    int value = 0;
    CHECK_EQ(coir_loop_new(&loop), 0);
    CHECK_EQ(pthread_create(&thread, NULL, call_once, &value), 0);
    while (!coir_loop_alive(loop)) /* until it has been sent */
        sched_yield();
    coir_loop_free(loop);
    pthread_join(thread, NULL);
    CHECK_EQ(value, 1);
}

static void count_late(void *value)
{
    add_one(value);
}

static void use_while_freed(void *value)
{
    coir_loop_free(loop);
    CHECK_EQ(coir_loop_run(loop), -EBUSY);
    CHECK_EQ(coir_loop_run_once(loop, 0), -EBUSY);
    CHECK_EQ(coir_loop_call(loop, add_one, value), -EDEADLK);
    CHECK_EQ(coir_loop_post(loop, count_late, value), 0); /* it is made, too */
}

TEST(a_last_call_neither_runs_nor_frees_the_loop)
{
    int value = 0;
    CHECK_EQ(coir_loop_new(&loop), 0);
    CHECK_EQ(coir_loop_post(loop, use_while_freed, &value), 0);
    coir_loop_free(loop);
    CHECK_EQ(value, 1);
}

static void *release_late(void *arg)
{
    coir_loop_release(loop);
    return arg;
}

TEST(a_held_loop_runs_until_it_is_released)
{
    CHECK_EQ(coir_loop_new(&loop), 0);
    coir_loop_release(loop); /* refused: nobody holds it */
    for (int i = 0; i < 200; i++) {
        pthread_t thread;
        coir_loop_hold(loop);
        CHECK(coir_loop_alive(loop));
        CHECK_EQ(pthread_create(&thread, NULL, release_late, NULL), 0);
        CHECK_EQ(coir_loop_run(loop), 0);
        CHECK(!coir_loop_alive(loop));
        pthread_join(thread, NULL);
    }
    coir_loop_free(loop);
}

/* ---- a thread in a call while the loop is freed ---- */

static bool wakes, woke;

static void wake_slowly(struct ci_driver *driver)
{
    (void)driver;
    __atomic_store_n(&wakes, true, __ATOMIC_RELEASE);
    usleep(20000);
    __atomic_store_n(&woke, true, __ATOMIC_RELAXED);
}

static void *call_slowly(void *arg)
{
    int value = 0, which = *(int *)arg;
    if (which == 0)
        coir_loop_stop(loop);
    else if (which == 1)
        coir_loop_release(loop);
    else if (which == 2)
        CHECK_EQ(coir_loop_post(loop, count_late, arg), 0);
    else
        CHECK_EQ(coir_loop_call(loop, add_one, &value), 1);
    return NULL;
}

/* Each of the four may be why a run returns, so its caller cannot know that the loop is still
 * there. */
TEST(a_loop_is_freed_after_the_last_thread_has_left_it)
{
    for (int which = 0; which < 4; which++) {
        pthread_t thread;
        int arg = which;
        CHECK_EQ(coir_loop_new(&loop), 0);
        struct ci_driver_kind slow = *loop->driver->kind;
        slow.wake = wake_slowly;
        loop->driver->kind = &slow;
        wakes = woke = false;
        coir_loop_hold(loop);
        CHECK(ci_loop_announce_sleep(loop));
        CHECK_EQ(pthread_create(&thread, NULL, call_slowly, &arg), 0);
        while (!__atomic_load_n(&wakes, __ATOMIC_ACQUIRE))
            sched_yield();
        coir_loop_free(loop);
        CHECK(__atomic_load_n(&woke, __ATOMIC_RELAXED));
        pthread_join(thread, NULL);
    }
}
