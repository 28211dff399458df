/* Mutexes: one task at a time has one, and no waiter is passed twice. */
#include <coir.h>
#include <errno.h>

#include "unit/sync/everywhere.h"

struct guarded {
    coir_mutex mutex;
    int inside, total;
};

static int use_mutex(void *arg)
{
    struct guarded *guarded = arg;
    for (int i = 0; i < 20; i++) {
        COIR_DEADLINE(i % 5 == 4 ? coir_in(20 * COIR_US) : COIR_NEVER);
        int rc = coir_mutex_lock(&guarded->mutex);
        if (rc < 0)
            continue;
        CHECK_EQ(guarded->inside++, 0);
        if (i % 3 == 0)
            coir_yield();
        if (i % 7 == 0)
            coir_sleep_for(5 * COIR_US);
        CHECK_EQ(--guarded->inside, 0);
        guarded->total++;
        coir_mutex_unlock(&guarded->mutex);
    }
    return 0;
}

static void many_lock(const coir_mutex init)
{
    struct guarded guarded = {.mutex = init};
    COIR_SCOPE(scope);
    for (int i = 0; i < 9; i++)
        CHECK_EQ(coir_go_on(scope, i % workers(), use_mutex, &guarded), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK(guarded.total >= 9 * 16);
    CHECK_EQ(coir_mutex_try_lock(&guarded.mutex), 0);
    CHECK_EQ(coir_mutex_try_lock(&guarded.mutex), -EAGAIN);
    coir_mutex_unlock(&guarded.mutex);
}

static void plain_mutex(void)
{
    many_lock((coir_mutex)COIR_MUTEX_INIT);
}

static void fair_mutex(void)
{
    many_lock((coir_mutex)COIR_FAIR_MUTEX_INIT);
}

TEST(one_task_at_a_time_has_a_mutex)
{
    everywhere(plain_mutex);
    everywhere(fair_mutex);
}

static int lock_and_unlock(void *mutex)
{
    int rc = coir_mutex_lock(mutex);
    if (rc == 0)
        coir_mutex_unlock(mutex);
    return rc;
}

/* Who takes it while a waiter is on its way to it may do that once: then the waiter is given it. */
TEST_REAL(a_waiter_for_a_mutex_loses_once_at_most)
{
    coir_mutex mutex = COIR_MUTEX_INIT;
    COIR_SCOPE(scope);
    CHECK_EQ(coir_mutex_lock(&mutex), 0);
    CHECK_EQ(coir_go(scope, lock_and_unlock, &mutex), 0);
    coir_yield();
    coir_mutex_unlock(&mutex);
    CHECK_EQ(coir_mutex_try_lock(&mutex), 0);
    coir_yield();
    coir_mutex_unlock(&mutex);
    CHECK_EQ(coir_mutex_try_lock(&mutex), -EAGAIN);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(coir_mutex_try_lock(&mutex), 0);
}
