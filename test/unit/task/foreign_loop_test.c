/* A worker that another event loop drives. */
#include <coir.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "harness.h"

static int chat_far(void *arg)
{
    coir_channel *channel = arg;
    for (int i = 0; i < 100; i++)
        CHECK_EQ(coir_channel_send(channel, &i), 0);
    return 0;
}

static int driven(void *arg)
{
    COIR_SCOPE(scope);
    coir_channel *channel;
    coir_time start = coir_now();
    CHECK_EQ(coir_channel_new(sizeof(int), 1, &channel), 0);
    CHECK_EQ(coir_go_on(scope, 1, chat_far, channel), 0);
    for (int i = 0; i < 100; i++) {
        int got;
        CHECK_EQ(coir_channel_recv(channel, &got), 0);
        CHECK_EQ(got, i);
        if (i % 10 == 0)
            coir_sleep_for(COIR_MS);
    }
    CHECK(coir_now() - start >= 10 * COIR_MS);
    CHECK_EQ(coir_scope_wait(scope), 0);
    coir_channel_free(channel);
    *(int *)arg = 1;
    return 0;
}

TEST(a_foreign_loop_drives_a_worker)
{
    coir_config config = COIR_CONFIG;
    config.workers = 2;
    coir_runtime *runtime;
    int done = 0, steps = 0;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    int rc = coir_runtime_begin(runtime, driven, &done);
    if (rc == -ENOTSUP) { /* COIR_DRIVER names a driver without a descriptor */
        coir_runtime_free(runtime);
        return;
    }
    CHECK_EQ(rc, 0);
    struct pollfd watched = {.fd = coir_runtime_fd(runtime), .events = POLLIN};
    do {
        coir_time next = coir_runtime_next(runtime), now = coir_now();
        int timeout = next == COIR_NEVER ? -1
                      : next <= now      ? 0
                                         : (int)((next - now + COIR_MS - 1) / COIR_MS);
        CHECK(poll(&watched, 1, timeout) >= 0);
        steps++;
    } while (coir_runtime_step(runtime));
    CHECK_EQ(coir_runtime_end(runtime), 0);
    CHECK_EQ(done, 1);
    CHECK(steps < 20000); /* it waits rather than spins */
    coir_runtime_free(runtime);
}

/* ---- a loop of callbacks inside of another one ---- */

static coir_loop *guest;
static int posted, ticked;

static void count_post(void *arg)
{
    CHECK(arg == &posted);
    posted++;
}

/* Each post finds the host asleep, or not: the descriptor wakes it. */
static void *post_to_guest(void *arg)
{
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(coir_loop_post(guest, count_post, arg), 0);
        sched_yield();
    }
    coir_loop_release(guest);
    return NULL;
}

static pthread_t poster;

/* The posts come when nothing else ends the host's wait. */
static void count_tick(coir_loop *loop, coir_timer *timer, void *arg)
{
    (void)arg;
    if (++ticked < 5)
        return;
    coir_timer_stop(loop, timer);
    CHECK_EQ(pthread_create(&poster, NULL, post_to_guest, &posted), 0);
}

TEST(a_poll_loop_drives_a_loop_of_callbacks)
{
    coir_timer timer = {{0}};
    coir_timer_options options = COIR_TIMER_OPTIONS;
    options.interval = COIR_MS;
    CHECK_EQ(coir_loop_new(&guest), 0);
    coir_loop_hold(guest);
    CHECK_EQ(coir_timer_start_with(guest, &timer, &options, count_tick, NULL), 0);
    struct pollfd watched = {.fd = coir_loop_fd(guest), .events = POLLIN};
    CHECK(watched.fd >= 0);
    while (coir_loop_alive(guest)) {
        coir_time left = coir_loop_next(guest) - coir_now();
        int timeout = left > COIR_S ? -1 : left <= 0 ? 0 : (int)((left + COIR_MS - 1) / COIR_MS);
        CHECK(poll(&watched, 1, timeout) >= 0);
        CHECK_EQ(coir_loop_run_once(guest, 0), 0);
    }
    pthread_join(poster, NULL);
    CHECK_EQ(posted, 100);
    CHECK_EQ(ticked, 5);
    coir_loop_free(guest);
}
