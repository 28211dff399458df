/* Locks with a name: what is counted of the waits for them, and what a dump calls them. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "metrics.h"
#include "unit/sync/everywhere.h"

static coir_mutex mutex = COIR_MUTEX_INIT, fair = COIR_FAIR_MUTEX_INIT, unnamed = COIR_MUTEX_INIT;
static coir_shared_mutex shared = COIR_SHARED_MUTEX_INIT;
static coir_semaphore semaphore = COIR_SEMAPHORE_INIT(2);

static int waits_of(const char *label)
{
    return (int)metrics_sum("coir_lock_waits_total", label);
}

static void check_counts(const char *label, int waits, int ended, double ms)
{
    double waited = 1e3 * metrics_sum("coir_lock_wait_seconds_sum", label);
    CHECK_EQ(waits_of(label), waits);
    CHECK_EQ((int)metrics_sum("coir_lock_wait_seconds_count", label), ended);
    CHECK(waited >= ms && waited < ms + 4);
}

static void name_all(void)
{
    CHECK_EQ(coir_mutex_set_name(&mutex, "a mutex"), 0);
    CHECK_EQ(coir_mutex_set_name(&fair, "a fair mutex"), 0);
    CHECK_EQ(coir_shared_mutex_set_name(&shared, "a shared mutex"), 0);
    CHECK_EQ(coir_semaphore_set_name(&semaphore, "a semaphore"), 0);
}

static int take_mutex(void *arg)
{
    int rc = coir_mutex_lock(arg);
    if (rc == 0)
        coir_mutex_unlock(arg);
    return rc;
}

static int take_shared(void *arg)
{
    int rc = coir_shared_mutex_share(arg);
    if (rc == 0)
        coir_shared_mutex_unlock(arg);
    return rc;
}

static int take_unit(void *arg)
{
    int rc = coir_semaphore_acquire(arg, 1);
    return rc < 0 ? rc : coir_semaphore_release(arg, 1);
}

static void take_all(coir_scope *scope)
{
    CHECK_EQ(coir_go(scope, take_mutex, &mutex), 0);
    CHECK_EQ(coir_go(scope, take_mutex, &fair), 0);
    CHECK_EQ(coir_go(scope, take_mutex, &unnamed), 0);
    CHECK_EQ(coir_go(scope, take_shared, &shared), 0);
    CHECK_EQ(coir_go(scope, take_unit, &semaphore), 0);
}

TEST_SIM(every_lock_counts)
{
    name_all();
    CHECK_EQ(take_mutex(&mutex) | take_mutex(&fair) | take_shared(&shared) | take_unit(&semaphore),
             0); /* they are free: nothing is counted */
    CHECK_EQ(coir_mutex_lock(&mutex), 0);
    CHECK_EQ(coir_mutex_lock(&fair), 0);
    CHECK_EQ(coir_mutex_lock(&unnamed), 0);
    CHECK_EQ(coir_shared_mutex_lock(&shared), 0);
    CHECK_EQ(coir_semaphore_acquire(&semaphore, 2), 0);
    COIR_SCOPE(scope);
    take_all(scope);
    take_all(scope);
    CHECK_EQ(coir_sleep_for(7 * COIR_MS), 0);
    metrics_read();
    CHECK_EQ(waits_of("mutex\""), 6);
    CHECK_EQ((int)metrics_sum("coir_lock_wait_seconds_count", ""), 0);
    coir_mutex_unlock(&mutex);
    coir_mutex_unlock(&fair);
    coir_mutex_unlock(&unnamed);
    coir_shared_mutex_unlock(&shared);
    CHECK_EQ(coir_semaphore_release(&semaphore, 2), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    metrics_read();
    check_counts("lock=\"a mutex\"", 2, 2, 14);
    check_counts("lock=\"a fair mutex\"", 2, 2, 14);
    check_counts("lock=\"a shared mutex\"", 2, 2, 14);
    check_counts("lock=\"a semaphore\"", 2, 2, 14);
    CHECK_EQ(waits_of(""), 8);
}

TEST_SIM(a_wait_that_is_given_up_counts_as_begun)
{
    name_all();
    CHECK_EQ(coir_mutex_lock(&mutex), 0);
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(coir_mutex_lock(&mutex), -ETIME);
    }
    CHECK_EQ(coir_mutex_set_name(&mutex, "another name"), 0);
    coir_mutex_unlock(&mutex);
    metrics_read();
    check_counts("lock=\"a mutex\"", 1, 0, 0);
    CHECK_EQ(waits_of("another name"), 0);
}

/* A lock that gets its name while a task waits for it: that wait is not counted. */
TEST_SIM(a_wait_before_the_name_does_not_count)
{
    CHECK_EQ(coir_mutex_lock(&fair), 0);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, take_mutex, &fair), 0);
    CHECK_EQ(coir_yield(), 0);
    CHECK_EQ(coir_mutex_set_name(&fair, "late"), 0);
    coir_mutex_unlock(&fair);
    CHECK_EQ(coir_scope_wait(scope), 0);
    metrics_read();
    check_counts("late", 0, 0, 0);
}

static int dump(void *file)
{
    return coir_dump(fileno(file), COIR_DUMP_TEXT);
}

TEST_REAL(a_dump_has_the_name)
{
    static char text[1 << 14];
    FILE *file = tmpfile();
    name_all();
    CHECK_EQ(coir_mutex_lock(&mutex), 0);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, take_mutex, &mutex), 0);
    CHECK_EQ(coir_yield(), 0);
    CHECK_EQ(coir_offload(dump, file), 0);
    CHECK(pread(fileno(file), text, sizeof text - 1, 0) > 0);
    CHECK(strstr(text, " waits for a mutex 0x") && strstr(text, " (a mutex), held by "));
    coir_mutex_unlock(&mutex);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(fclose(file), 0);
}

TEST(names_are_refused)
{
    CHECK_EQ(coir_mutex_set_name(&mutex, ""), -EINVAL);
    char name[20];
    int rc = 0;
    for (int i = 0; rc == 0 && i < 1000; i++) {
        snprintf(name, sizeof name, "lock %d", i);
        rc = coir_mutex_set_name(&mutex, name);
    }
    CHECK_EQ(rc, -ENOSPC);
    CHECK_EQ(coir_shared_mutex_set_name(&shared, "lock 1"), 0);
}

static void many_take(void)
{
    name_all();
    COIR_SCOPE(scope);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(coir_go_on(scope, i % workers(), take_mutex, &mutex), 0);
        CHECK_EQ(coir_go_on(scope, i % workers(), take_mutex, &fair), 0);
        CHECK_EQ(coir_go_on(scope, i % workers(), take_shared, &shared), 0);
        CHECK_EQ(coir_go_on(scope, i % workers(), take_unit, &semaphore), 0);
    }
    CHECK_EQ(coir_scope_wait(scope), 0);
    metrics_read();
    CHECK_EQ(waits_of(""), (int)metrics_sum("coir_lock_wait_seconds_count", ""));
}

TEST(every_wait_ends_once)
{
    everywhere(many_take);
}
