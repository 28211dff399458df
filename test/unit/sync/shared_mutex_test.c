/* Shared mutexes: readers together, writers alone, first come, first served. */
#include <coir.h>
#include <errno.h>

#include "unit/sync/everywhere.h"

struct guarded {
    coir_shared_mutex shared;
    int readers, writers;
};

static int use_shared(void *arg)
{
    struct guarded *guarded = arg;
    for (int i = 0; i < 20; i++) {
        bool writes = i % 4 == 0;
        COIR_DEADLINE(i % 5 == 4 ? coir_in(20 * COIR_US) : COIR_NEVER);
        int rc = writes ? coir_shared_mutex_lock(&guarded->shared)
                        : coir_shared_mutex_share(&guarded->shared);
        if (rc < 0)
            continue;
        int writers = __atomic_add_fetch(&guarded->writers, writes, __ATOMIC_SEQ_CST);
        int readers = __atomic_add_fetch(&guarded->readers, !writes, __ATOMIC_SEQ_CST);
        CHECK(writers == 0 || (writers == 1 && readers == 0));
        if (i % 3 == 0)
            coir_yield();
        __atomic_sub_fetch(&guarded->writers, writes, __ATOMIC_SEQ_CST);
        __atomic_sub_fetch(&guarded->readers, !writes, __ATOMIC_SEQ_CST);
        coir_shared_mutex_unlock(&guarded->shared);
    }
    return 0;
}

static void shared_mutex(void)
{
    struct guarded guarded = {.shared = COIR_SHARED_MUTEX_INIT};
    COIR_SCOPE(scope);
    for (int i = 0; i < 9; i++)
        CHECK_EQ(coir_go_on(scope, i % workers(), use_shared, &guarded), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(coir_shared_mutex_try_share(&guarded.shared), 0);
    CHECK_EQ(coir_shared_mutex_try_share(&guarded.shared), 0);
    CHECK_EQ(coir_shared_mutex_try_lock(&guarded.shared), -EAGAIN);
    coir_shared_mutex_unlock(&guarded.shared);
    coir_shared_mutex_unlock(&guarded.shared);
    CHECK_EQ(coir_shared_mutex_try_lock(&guarded.shared), 0);
}

TEST(readers_share_and_writers_do_not)
{
    everywhere(shared_mutex);
}

static int order[16], order_len;

static int write_once(void *arg)
{
    int rc = coir_shared_mutex_lock(arg);
    if (rc < 0)
        return rc;
    order[order_len++] = 'w';
    coir_shared_mutex_unlock(arg);
    return 0;
}

static int read_once(void *arg)
{
    coir_shared_mutex_share(arg);
    order[order_len++] = 'r';
    coir_shared_mutex_unlock(arg);
    return 0;
}

TEST_REAL(later_readers_do_not_pass_a_writer)
{
    coir_shared_mutex mutex = COIR_SHARED_MUTEX_INIT;
    COIR_SCOPE(scope);
    CHECK_EQ(coir_shared_mutex_share(&mutex), 0);
    coir_go(scope, write_once, &mutex);
    coir_go(scope, read_once, &mutex);
    coir_yield();
    CHECK_EQ(order_len, 0);
    coir_shared_mutex_unlock(&mutex);
    coir_scope_wait(scope);
    CHECK(order[0] == 'w' && order[1] == 'r');
    order_len = 0;
    coir_shared_mutex_share(&mutex);
    {
        COIR_SCOPE(impatient); /* a writer that gives up lets those behind it in */
        coir_go(impatient, write_once, &mutex);
        coir_yield();
        coir_go(scope, read_once, &mutex);
        coir_yield();
        CHECK_EQ(order_len, 0);
        coir_scope_cancel(impatient);
        coir_yield();
    }
    CHECK(order_len == 1 && order[0] == 'r');
    coir_shared_mutex_unlock(&mutex);
}
