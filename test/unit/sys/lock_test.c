/* The lock bit: one holder at a time, and what it stored is seen by the next. */
#include "sys/lock.h"

#include <pthread.h>

#include "harness.h"

enum { THREADS = 4, TIMES = 50000 };

static struct ci_lock lock;
static long count; /* not atomic: the lock guards it */

static void *add_often(void *arg)
{
    (void)arg;
    for (int i = 0; i < TIMES; i++) {
        ci_lock_take(&lock);
        count++;
        ci_lock_give(&lock);
    }
    return NULL;
}

TEST(no_addition_is_lost)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, add_often, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(count, THREADS * TIMES);
    CHECK_EQ(lock.held, 0);
}
