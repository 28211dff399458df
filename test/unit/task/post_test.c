/* Calls that are posted to a worker. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>

#include "harness.h"

static int posted;

static void on_post(void *arg)
{
    CHECK_EQ((intptr_t)arg, posted);
    CHECK_EQ(coir_worker_index(), 1);
    CHECK_EQ(coir_sleep_for(1), -ESRCH); /* not in a fiber */
    __atomic_store_n(&posted, posted + 1, __ATOMIC_RELEASE);
}

static void post_all(void)
{
    for (intptr_t i = 0; i < 10000; i++)
        CHECK_EQ(coir_runtime_post(coir_runtime_current(), 1, on_post, (void *)i), 0);
    CHECK_EQ(coir_runtime_post(coir_runtime_current(), 2, on_post, NULL), -EINVAL);
    while (__atomic_load_n(&posted, __ATOMIC_ACQUIRE) < 10000)
        coir_yield();
}

TEST(posts_run_on_the_worker_in_order)
{
    test_in_runtime(post_all, 2);
}
