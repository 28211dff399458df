/* A futex: who waits goes on once the word has changed, or when its time is over. */
#include "sys/futex.h"

#include "base/atomic.h"
#include "harness.h"
#include "sys/clock.h"
#include "sys/thread.h"

enum { THREADS = 4, ROUNDS = 2000 };

static uint32_t word;
static uint32_t turns[THREADS];

/* Passes a turn around: a wake-up that is lost is a test that does not end. */
static void *pass_on(void *arg)
{
    uint32_t self = *(const uint32_t *)arg;
    for (uint32_t now; (now = ci_load(&word)) < ROUNDS;) {
        if (now % THREADS != self) {
            ci_futex_wait(&word, now, COIR_NEVER);
            continue;
        }
        ci_store(&word, now + 1);
        ci_futex_wake(&word);
    }
    return arg;
}

TEST(a_change_wakes_all_who_wait)
{
    struct ci_thread threads[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        turns[i] = i;
        CHECK_EQ(ci_thread_start(&threads[i], pass_on, &turns[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        ci_thread_join(&threads[i]);
    CHECK_EQ(ci_load(&word), ROUNDS);
}

TEST(a_wait_ends_when_its_time_is_over)
{
    coir_time begin = ci_clock_now();
    while (ci_clock_now() - begin < 2 * COIR_MS)
        ci_futex_wait(&word, ci_load(&word), COIR_MS);
}

TEST(a_word_that_has_changed_is_not_waited_for)
{
    ci_futex_wait(&word, ci_load(&word) + 1, COIR_NEVER);
}
