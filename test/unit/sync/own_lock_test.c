/* Locks that the first worker to take them owns: what another thread's first attempt costs, that no
 * two threads are in one, and that a process stops giving them away when it does not pay. */
#include "sync/own_lock.h"

#include <coir.h>
#include <pthread.h>

#include "harness.h"
#include "sys/barrier.h"
#include "sys/lock.h"

enum { ROUNDS = 300, OWNERS_TURNS = 300, THREADS_TURNS = 30 };

static struct ci_own_lock lock;
static coir_mutex mutex;
static coir_semaphore semaphore;
static int begun, total;

static bool locks_have_owners(void)
{
    return !CI_TSAN && ci_barrier_prepare();
}

static void add_under_lock(void)
{
    ci_own_lock_take(&lock);
    total++;
    ci_own_lock_give(&lock);
}

static void add_under_mutex(void)
{
    while (coir_mutex_try_lock(&mutex) < 0)
        ci_pause(0);
    total++;
    coir_mutex_unlock(&mutex);
}

static void add_under_semaphore(void)
{
    while (coir_semaphore_try_acquire(&semaphore, 1) < 0)
        ci_pause(0);
    total++;
    coir_semaphore_release(&semaphore, 1);
}

static void (*add)(void);

static void add_often(int times)
{
    for (int i = 0; i < times; i++)
        add();
}

static void *add_on_a_thread(void *arg)
{
    for (int i = 1; i <= ROUNDS; i++) {
        while (ci_load_acquire(&begun) < i)
            ci_pause(0);
        add_often(THREADS_TURNS);
        ci_store(&begun, -i);
        while (ci_load_acquire(&begun) == -i && i < ROUNDS)
            ci_pause(0);
    }
    return arg;
}

static void add_on_both(void)
{
    pthread_t thread;
    begun = 0;
    CHECK_EQ(pthread_create(&thread, NULL, add_on_a_thread, NULL), 0);
    for (int i = 1; i <= ROUNDS; i++) {
        lock = (struct ci_own_lock){0, 0, 0};
        mutex = (coir_mutex)COIR_MUTEX_INIT;
        semaphore = (coir_semaphore)COIR_SEMAPHORE_INIT(1);
        total = 0;
        add_often(1);
        ci_store(&begun, i);
        add_often(OWNERS_TURNS - 1);
        while (ci_load_acquire(&begun) != -i)
            ci_pause(0);
        CHECK_EQ(total, OWNERS_TURNS + THREADS_TURNS);
    }
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void add_everywhere(void)
{
    add = add_under_lock;
    add_on_both();
    CHECK_EQ(lock.word, CI_OWN_LOCK_SHARED);
    add = add_under_mutex;
    add_on_both();
    add = add_under_semaphore;
    add_on_both();
}

TEST(a_lock_is_taken_away_from_a_worker_that_uses_it)
{
    test_in_runtime(add_everywhere, 1);
}

/* ---- who owns it ---- */

static void *take_on_a_thread(void *arg)
{
    ci_own_lock_take(&lock);
    ci_own_lock_give(&lock);
    return arg;
}

static void by_a_thread(void)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, take_on_a_thread, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void first_worker_owns(void)
{
    lock = (struct ci_own_lock){0, 0, 0};
    by_a_thread();
    CHECK_EQ(lock.word, CI_OWN_LOCK_UNUSED);
    add_under_lock();
    CHECK_EQ(lock.word, locks_have_owners() ? ci_worker_current->owner_number : CI_OWN_LOCK_SHARED);
    add_under_lock();
    by_a_thread();
    CHECK_EQ(lock.word, CI_OWN_LOCK_SHARED);
    add_under_lock();
    CHECK_EQ(lock.word, CI_OWN_LOCK_SHARED);
}

static void owners_end(void)
{
    if (!locks_have_owners())
        return;
    int owned = 0;
    for (int i = 0; i < 1100; i++) {
        lock = (struct ci_own_lock){0, 0, 0};
        add_under_lock();
        owned += lock.word != CI_OWN_LOCK_SHARED;
        by_a_thread();
        CHECK_EQ(lock.word, CI_OWN_LOCK_SHARED);
    }
    CHECK(owned > 0 && owned <= 1000);
    lock = (struct ci_own_lock){0, 0, 0};
    add_under_lock();
    CHECK_EQ(lock.word, CI_OWN_LOCK_SHARED);
}

TEST(the_first_worker_owns_a_lock_until_another_thread_takes_it)
{
    test_in_runtime(first_worker_owns, 1);
}

TEST(a_process_whose_locks_are_taken_away_often_gives_them_to_nobody)
{
    test_in_runtime(owners_end, 1);
}
