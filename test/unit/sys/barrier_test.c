/* The barrier for all threads: of two that store, and then look at what the other has stored, one
 * sees it, although only one of them has a barrier. */
#include "sys/barrier.h"

#include <pthread.h>

#include "base/atomic.h"
#include "harness.h"

enum { ROUNDS = 20000 };
static uint32_t a, b, b_seen, round_number, rounds_done;

static void *store_a_and_look_at_b(void *arg)
{
    (void)arg;
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        while (ci_load_acquire(&round_number) != i)
            continue;
        ci_store_buffered(&a, i);
        uint32_t seen = ci_load_relaxed(&b);
        ci_store_relaxed(&b_seen, seen);
        ci_store_release(&rounds_done, i);
    }
    return NULL;
}

TEST(one_of_two_threads_sees_the_store_of_the_other)
{
    pthread_t thread;
    if (!ci_barrier_prepare())
        return;
    CHECK(ci_barrier_prepare());
    CHECK_EQ(pthread_create(&thread, NULL, store_a_and_look_at_b, NULL), 0);
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        ci_store_release(&round_number, i);
        ci_store_relaxed(&b, i);
        ci_barrier_everywhere();
        uint32_t a_seen = ci_load_relaxed(&a);
        while (ci_load_acquire(&rounds_done) != i)
            continue;
        CHECK(a_seen == i || ci_load_relaxed(&b_seen) == i);
    }
    CHECK_EQ(pthread_join(thread, NULL), 0);
}
