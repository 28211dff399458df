/* Plain threads that block on futures. */
#include <coir.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "harness.h"

static int add(void *arg)
{
    coir_sleep_for(10 * COIR_US);
    CHECK(coir_worker_index() >= 0);
    return *(int *)arg + 1;
}

TEST(a_plain_thread_runs_a_future_on_a_runtime_of_its_own)
{
    coir_call call;
    coir_sleep_op sleep;
    int number = 41;
    CHECK_EQ(coir_block_on(NULL, coir_call_init(&call, add, &number)), 42);
    CHECK_EQ(coir_block_on(NULL, coir_sleep_for_op(&sleep, COIR_MS)), 0);
}

struct visitors {
    coir_runtime *runtime;
    coir_channel *channel;
    coir_semaphore left;
};

static void *visit(void *arg)
{
    struct visitors *visitors = arg;
    for (int i = 0; i < 200; i++) {
        coir_call call;
        coir_wait_op op;
        int number = i;
        CHECK_EQ(coir_block_on(visitors->runtime, coir_call_init(&call, add, &number)), i + 1);
        CHECK_EQ(
            coir_block_on(visitors->runtime, coir_channel_send_op(&op, visitors->channel, &number)),
            0);
    }
    coir_semaphore_release(&visitors->left, 1);
    return NULL;
}

static int host_visitors(void *arg)
{
    struct visitors *visitors = arg;
    coir_future nothing;
    CHECK_EQ(coir_block_on(visitors->runtime, coir_yield_op(&nothing)), -EDEADLK);
    for (int i = 0; i < 600; i++) {
        int number;
        CHECK_EQ(coir_channel_recv(visitors->channel, &number), 0);
    }
    return coir_semaphore_acquire(&visitors->left, 3);
}

TEST(plain_threads_block_on_a_running_runtime)
{
    coir_config config = COIR_CONFIG;
    config.workers = 2;
    struct visitors visitors = {.left = COIR_SEMAPHORE_INIT(0)};
    pthread_t threads[3];
    CHECK_EQ(coir_runtime_new(&config, &visitors.runtime), 0);
    CHECK_EQ(coir_channel_new(sizeof(int), 1, &visitors.channel), 0);
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, visit, &visitors); /* the first may come before the run */
    CHECK_EQ(coir_runtime_run(visitors.runtime, host_visitors, &visitors), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    coir_runtime_free(visitors.runtime);
    coir_channel_free(visitors.channel);
}

static coir_future *count_poll(coir_future *future)
{
    COIR_BEGIN(future);
    COIR_RETURN(future, 3 * (int64_t)INT32_MAX / 2);
}
static const coir_future_kind count_kind = COIR_FUTURE_KIND("a count", count_poll, NULL);

TEST(a_result_has_64_bits)
{
    coir_future count;
    CHECK_EQ(coir_block_on(NULL, coir_future_init(&count, &count_kind)),
             3 * (int64_t)INT32_MAX / 2);
}
