/* Several workers: placement, far tasks, posts, stopping. Simulated ones, whose interleaving comes
 * from a seed, and real threads. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "harness.h"

static int where(void *arg)
{
    *(int *)arg = coir_worker_index();
    return coir_worker_index() + 100;
}

static void place(void)
{
    int count = (int)coir_worker_count(coir_runtime_current()),
        seen[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
    COIR_SCOPE(scope);
    for (int i = 0; i < count; i++)
        CHECK_EQ(coir_go_on(scope, i, where, &seen[i]), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    for (int i = 0; i < count; i++)
        CHECK_EQ(seen[i], i);
    CHECK_EQ(coir_go_on(scope, count, where, &seen[0]), -EINVAL);
    CHECK_EQ(coir_go_on(scope, -1, where, &seen[0]), -EINVAL);
    COIR_HANDLE(handle);
    coir_go_options options = COIR_GO_OPTIONS;
    options.place = COIR_ON_WORKER(count - 1);
    options.handle = handle;
    CHECK_EQ(coir_go_with(scope, &options, where, &seen[0]), 0);
    for (int i = -3; i < 0; i++) {
        coir_go_options nowhere = COIR_GO_OPTIONS;
        nowhere.place = COIR_ON_WORKER(i);
        CHECK_EQ(coir_go_with(scope, &nowhere, where, &seen[0]), -EINVAL);
        CHECK_EQ(coir_call_on(i, where, &seen[0]), -EINVAL);
    }
    CHECK_EQ(coir_join(handle), 100 + count - 1);
}

TEST(tasks_run_where_they_were_put)
{
    test_in_runtime(place, 4);
    for (uint64_t seed = 1; seed <= 100; seed++)
        test_in_sim(place, 3, seed);
}

static int total;

static int add_one(void *arg)
{
    (void)arg;
    coir_sleep_for(10 * COIR_US);
    __atomic_fetch_add(&total, 1, __ATOMIC_RELAXED);
    return 0;
}

static int wait_long(void *arg)
{
    (void)arg;
    int rc = coir_sleep_for(1000 * COIR_S);
    __atomic_fetch_add(&total, rc == -ECANCELED, __ATOMIC_RELAXED);
    return rc;
}

/* Cancels far tasks at any moment of their lives: before they arrive, while they are shared,
 * parked, or ending. */
static void cancel_far(void)
{
    int count = (int)coir_worker_count(coir_runtime_current());
    for (int round = 0; round < 30; round++) {
        COIR_SERVING_SCOPE(scope);
        for (int i = 0; i < 10; i++) {
            coir_go_on(scope, (round + i) % count, i % 2 ? wait_long : add_one, NULL);
            coir_go_anywhere(scope, i % 3 ? add_one : wait_long, NULL);
            if ((round + i) % 4 == 0)
                coir_yield();
        }
        if (round % 3 == 0)
            coir_sleep_for(round * COIR_US);
        coir_scope_cancel(scope);
        CHECK_EQ(coir_scope_wait(scope), 0);
        CHECK_EQ(coir_scope_live(scope), 0);
    }
}

TEST(far_tasks_may_be_cancelled_at_any_moment)
{
    for (int i = 0; i < 20; i++)
        test_in_runtime(cancel_far, 3);
    for (uint64_t seed = 1; seed <= 200; seed++)
        test_in_sim(cancel_far, 3, seed);
}

static int hello(void *arg)
{
    (void)arg;
    return 0;
}

/* The end comes while the other workers are between looking for it and falling asleep. */
TEST(a_runtime_that_ends_at_once_wakes_every_worker)
{
    coir_config config = COIR_CONFIG;
    config.workers = 3;
    coir_runtime *runtime;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    for (int i = 0; i < 3000; i++)
        CHECK_EQ(coir_runtime_run(runtime, hello, NULL), 0);
    coir_runtime_free(runtime);
}

static int sleep_until_stopped(void *arg)
{
    coir_go_on(NULL, 1, wait_long, NULL);
    kill(getpid(), SIGTERM);                   /* the first task is to end at once, */
    coir_runtime_stop(coir_runtime_current()); /* and what is in the background as well */
    return wait_long(arg);
}

TEST(a_stop_signal_and_another_stop_cancel_everything)
{
    setenv("COIR_WORKERS", "3", 1);
    CHECK_EQ(coir_main(sleep_until_stopped, NULL), 0);
}

static void *signal_helper(void *arg)
{
    (void)arg;
    return NULL;
}

static int handled;

static void on_user_signal(int number)
{
    (void)number;
    __atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
    CHECK(coir_worker_index() <= 0); /* never on a helper thread */
}

static int send_signals(void *arg)
{
    (void)arg;
    for (int i = 0; i < 100; i++) {
        kill(getpid(), SIGUSR1);
        coir_sleep_for(10 * COIR_US);
    }
    return 0;
}

static void under_signals(void)
{
    COIR_SCOPE(scope);
    coir_go_on(scope, 1, send_signals, NULL);
    coir_go_on(scope, 0, send_signals, NULL);
    CHECK_EQ(coir_scope_wait(scope), 0);
}

TEST(signals_are_not_delivered_to_helper_threads)
{
    pthread_t thread;
    signal(SIGUSR1, on_user_signal);
    CHECK(pthread_create(&thread, NULL, signal_helper, NULL) == 0);
    pthread_join(thread, NULL);
    test_in_runtime(under_signals, 2);
    CHECK(handled > 0);
}

static int count_up(coir_generator *generator, uint64_t first, void *arg)
{
    (void)arg;
    int rc = 0;
    for (uint64_t i = first; rc == 0; i++)
        rc = coir_generator_yield(generator, i, NULL);
    return rc;
}

static int resume_elsewhere(void *arg)
{
    uint64_t value = 77;
    CHECK_EQ(coir_generator_next(arg, 5, &value), -EXDEV);
    CHECK_EQ(value, 77);
    return 0;
}

static void share_a_generator(void)
{
    coir_generator *generator;
    uint64_t value = 0;
    CHECK_EQ(coir_generator_new(count_up, NULL, &generator), 0);
    CHECK_EQ(coir_call_on(1, resume_elsewhere, generator), 0); /* before it has begun */
    CHECK_EQ(coir_generator_next(generator, 3, &value), 1);
    CHECK_EQ(value, 3);
    CHECK_EQ(coir_call_on(1, resume_elsewhere, generator), 0); /* while it is suspended */
    CHECK_EQ(coir_generator_next(generator, 0, &value), 1);
    CHECK_EQ(value, 4);
    coir_generator_free(generator);
}

TEST(a_generator_belongs_to_its_worker)
{
    test_in_runtime(share_a_generator, 2);
    for (uint64_t seed = 1; seed <= 20; seed++)
        test_in_sim(share_a_generator, 2, seed);
}
