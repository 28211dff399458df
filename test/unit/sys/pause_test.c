/* A loop with ci_pause lets the thread run that it waits for, also where both share one CPU. */
#include <pthread.h>

#include "harness.h"
#include "sys/cpu.h"
#include "sys/lock.h"

static int32_t turn;

static void wait_for(int32_t wanted)
{
    for (unsigned round = 0; ci_load_acquire(&turn) != wanted; round++)
        ci_pause(round);
}

static void *answer(void *arg)
{
    (void)arg;
    ci_cpu_pin(0);
    for (int32_t i = 1; i < 2000; i += 2) {
        wait_for(i);
        ci_store_release(&turn, i + 1); /* pairs with the acquire in wait_for */
    }
    ci_cpu_unpin();
    return NULL;
}

/* Each turn needs a switch of threads: without a yield it would take a whole time slice. */
TEST(two_threads_on_one_cpu_take_turns)
{
    pthread_t thread;
    ci_cpu_pin(0);
    CHECK_EQ(pthread_create(&thread, NULL, answer, NULL), 0);
    for (int32_t i = 0; i < 2000; i += 2) {
        wait_for(i);
        ci_store_release(&turn, i + 1);
    }
    pthread_join(thread, NULL);
    ci_cpu_unpin();
    CHECK_EQ(turn, 2000);
}
