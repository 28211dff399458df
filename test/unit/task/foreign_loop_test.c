/* A worker that another event loop drives. */
#include <coir.h>
#include <errno.h>
#include <poll.h>
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
