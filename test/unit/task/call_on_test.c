/* Calls of functions on other workers. */
#include <coir.h>
#include <errno.h>
#include <sched.h>

#include "harness.h"

static int own_index(void *arg)
{
    *(int *)arg = 7;
    coir_yield();
    return coir_worker_index();
}

static void call_others(void)
{
    int touched = 0;
    for (int i = 0; i < (int)coir_worker_count(coir_runtime_current()); i++) {
        touched = 0;
        CHECK_EQ(coir_call_on(i, own_index, &touched), i);
        CHECK_EQ(touched, 7);
    }
    CHECK_EQ(coir_call_on(-1, own_index, &touched), -EINVAL);
    CHECK_EQ(coir_call_on(99, own_index, &touched), -EINVAL);
}

TEST(a_fiber_calls_a_function_on_another_worker)
{
    test_in_runtime(call_others, 3);
    for (uint64_t seed = 1; seed <= 50; seed++)
        test_in_sim(call_others, 3, seed);
}
