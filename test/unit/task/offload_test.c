/* Offloaded calls: results, order, limits, cancellation. */
#include <coir.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "harness.h"
#include "task/offload.h"
#include "task/runtime.h"

static int square(void *arg)
{
    int n = *(int *)arg;
    CHECK_EQ(coir_worker_index(), -ESRCH); /* not on a worker */
    return n * n;
}

static int square_in_sim(void *arg)
{
    int n = *(int *)arg;
    return n * n;
}

static int offload_square(void *arg)
{
    int here = coir_worker_index(), n = *(int *)arg;
    CHECK_EQ(coir_offload(square, arg), n * n);
    CHECK_EQ(coir_worker_index(), here); /* back on its own worker */
    return 0;
}

static void many(void)
{
    static int numbers[500];
    COIR_SCOPE(scope);
    for (int i = 0; i < 500; i++) {
        numbers[i] = i;
        coir_go_on(scope, i % (int)coir_worker_count(coir_runtime_current()), offload_square,
                   &numbers[i]);
    }
    CHECK_EQ(coir_scope_wait(scope), 0);
}

TEST(results_come_back_to_the_callers_worker)
{
    for (int i = 0; i < 5; i++)
        test_in_runtime(many, 2);
}

TEST_SIM(in_the_simulator_it_runs_at_a_seeded_time)
{
    int n = 7;
    coir_time start = coir_now();
    CHECK_EQ(coir_offload(square_in_sim, &n), 49);
    CHECK(coir_now() - start <= COIR_MS);
}

static void reserve_threads(void)
{
    coir_runtime *runtime = coir_runtime_current();
    struct ci_offload *pool = &runtime->offload;
    for (int i = 0; i < 3; i++) { /* as many as there may be, once */
        CHECK_EQ(ci_offload_reserve(runtime, i ? SIZE_MAX : 3), 0);
        CHECK_EQ(pool->running, i ? pool->threads_max : 3);
        CHECK(pool->reserved);
    }
    many();
    CHECK_EQ(pool->running, pool->threads_max);
}

TEST(threads_may_be_there_before_the_first_call)
{
    test_in_runtime(reserve_threads, 2);
}

/* ---- a pool of one thread, held until it is let go ---- */

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static int entered, order[8], ran;

static int hold(void *arg)
{
    (void)arg;
    __atomic_store_n(&entered, 1, __ATOMIC_RELEASE);
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    return 5;
}

static int note(void *arg)
{
    order[ran++] = (int)(intptr_t)arg;
    return 0;
}

static int offload_hold(void *arg)
{
    *(int *)arg = coir_offload(hold, NULL);
    return 0;
}

static int offload_note(void *arg)
{
    return coir_offload(note, arg);
}

static int use_one_thread(void *arg)
{
    int held = 0;
    (void)arg;
    pthread_mutex_lock(&gate);
    COIR_SERVING_SCOPE(scope);
    COIR_HANDLE(holder);
    COIR_HANDLE(second);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = holder;
    coir_go_with(scope, &options, offload_hold, &held);
    while (!__atomic_load_n(&entered, __ATOMIC_ACQUIRE))
        coir_yield();
    coir_go(scope, offload_note, (void *)1); /* these wait for the thread */
    options.handle = second;
    coir_go_with(scope, &options, offload_note, (void *)2);
    coir_go(scope, offload_note, (void *)3);
    coir_yield(); /* all three are in the queue now */
    coir_cancel(second);
    CHECK_EQ(coir_join(second), -ECANCELED); /* withdrawn at once */
    coir_cancel(holder);
    coir_yield();
    CHECK(!coir_handle_has_ended(holder)); /* what runs is waited for */
    pthread_mutex_unlock(&gate);
    coir_join(holder);
    CHECK_EQ(held, 5);
    coir_scope_wait(scope);
    CHECK(ran == 2 && order[0] == 1 && order[1] == 3); /* in order */
    return 0;
}

TEST(calls_wait_for_a_thread_and_are_withdrawn_while_they_do)
{
    coir_runtime *runtime;
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.offload_threads_max = 1;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    CHECK_EQ(coir_runtime_run(runtime, use_one_thread, NULL), 0);
    coir_runtime_free(runtime);
}

/* ---- cancels that race with everything ---- */

static int short_work(void *arg)
{
    for (volatile int i = 0; i < (int)(intptr_t)arg; i++)
        continue;
    return 0;
}

static int offload_short(void *arg)
{
    for (int i = 0; i < 3; i++) {
        int rc = coir_offload(short_work, arg);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static void race(void)
{
    for (intptr_t round = 0; round < 300; round++) {
        COIR_SERVING_SCOPE(scope);
        for (intptr_t i = 0; i < 8; i++)
            coir_go_on(scope, (int)(i % 2), offload_short, (void *)(i * 100));
        if (round % 2)
            coir_sleep_for(round % 50 * COIR_US);
        coir_scope_cancel(scope);
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
}

TEST(cancels_race_with_the_threads)
{
    test_in_runtime(race, 2);
}

/* ---- the limit of the queue; several jobs as futures ---- */

static int fill_the_queue(void *arg)
{
    int held = 0;
    (void)arg;
    entered = ran = 0;
    pthread_mutex_lock(&gate);
    COIR_SERVING_SCOPE(scope);
    coir_go(scope, offload_hold, &held);
    while (!__atomic_load_n(&entered, __ATOMIC_ACQUIRE))
        coir_yield();
    coir_go(scope, offload_note, (void *)1);
    coir_go(scope, offload_note, (void *)2);
    coir_yield();
    CHECK_EQ(coir_offload(note, (void *)3), -EAGAIN);
    coir_offload_job jobs[2];
    coir_sleep_op sleep;
    coir_branch race[] = {COIR_BRANCH(coir_offload_op(&jobs[0], note, (void *)4)),
                          COIR_BRANCH(coir_sleep_for_op(&sleep, COIR_MS))};
    CHECK_EQ(coir_any_in_order(race, 2), 0);
    CHECK_EQ(jobs[0].future.result, -EAGAIN);
    pthread_mutex_unlock(&gate);
    coir_scope_wait(scope);
    CHECK_EQ(ran, 2);
    coir_branch both[] = {COIR_BRANCH(coir_offload_op(&jobs[0], note, (void *)5)),
                          COIR_BRANCH(coir_offload_op(&jobs[1], note, (void *)6))};
    CHECK_EQ(coir_join_all(both, 2, 0), 0);
    CHECK_EQ(ran, 4);
    return 0;
}

TEST(a_full_queue_refuses)
{
    coir_runtime *runtime;
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.offload_threads_max = 1;
    config.offload_queue_max = 2;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    CHECK_EQ(coir_runtime_run(runtime, fill_the_queue, NULL), 0);
    coir_runtime_free(runtime);
}

static int enter_and_hold(void *arg)
{
    (void)arg;
    __atomic_add_fetch(&entered, 1, __ATOMIC_RELEASE);
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    return 0;
}

static int offload_an_entry(void *arg)
{
    return coir_offload(enter_and_hold, arg);
}

/* Calls for which there may be threads do not wait for one, although none has begun yet. */
static int call_at_once(void *arg)
{
    enum { THREADS = 4, WAIT = 1 };
    (void)arg;
    entered = 0;
    pthread_mutex_lock(&gate);
    COIR_SERVING_SCOPE(scope);
    for (int i = 0; i < THREADS + WAIT; i++)
        CHECK_EQ(coir_go(scope, offload_an_entry, NULL), 0);
    coir_yield();
    while (__atomic_load_n(&entered, __ATOMIC_ACQUIRE) < THREADS && !coir_scope_errors(scope))
        coir_yield();
    CHECK_EQ(coir_scope_errors(scope), 0);
    CHECK_EQ(coir_offload(enter_and_hold, NULL), -EAGAIN);
    pthread_mutex_unlock(&gate);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(entered, THREADS + WAIT);
    return 0;
}

static int do_nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int offload_nothing(void *arg)
{
    return coir_offload(do_nothing, arg);
}

/* The thread has just returned the results of the last two calls, or is about to look for more. */
static int call_two_at_once(void *arg)
{
    (void)arg;
    for (int i = 0; i < 1000; i++) {
        COIR_SERVING_SCOPE(scope);
        CHECK_EQ(coir_go(scope, offload_nothing, NULL), 0);
        CHECK_EQ(coir_go(scope, offload_nothing, NULL), 0);
        CHECK_EQ(coir_scope_wait(scope), 0);
        CHECK_EQ(coir_scope_errors(scope), 0);
    }
    return 0;
}

TEST(a_thread_whose_call_has_returned_is_free)
{
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.offload_threads_max = 1;
    config.offload_queue_max = 1;
    CHECK_EQ(test_run(&config, call_two_at_once, NULL), 0);
}

TEST(a_queue_is_not_full_while_threads_are_free)
{
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.offload_threads_max = 4;
    config.offload_queue_max = 1;
    CHECK_EQ(test_run(&config, call_at_once, NULL), 0);
}

/* ---- task-locals follow into jobs, posts and children ---- */

static const char key;
static int seen_in_post;

static int look(void *arg)
{
    (void)arg;
    return *(int *)coir_local_get(&key);
}

static int count_child(void *arg)
{
    (void)arg;
    __atomic_add_fetch(&seen_in_post, *(int *)coir_local_get(&key), __ATOMIC_SEQ_CST);
    return 0;
}

static void on_post(void *arg)
{
    (void)arg;
    CHECK_EQ(coir_go(NULL, count_child, NULL), 0); /* the child of a message has them, too */
    __atomic_add_fetch(&seen_in_post, *(int *)coir_local_get(&key), __ATOMIC_SEQ_CST);
}

static void with_locals(void)
{
    static int value = 21;
    CHECK(coir_local_get(&key) == NULL);
    CHECK_EQ(coir_local_set(&key, &value), 0);
    CHECK_EQ(coir_offload(look, NULL), 21);
    CHECK_EQ(coir_call_on(1, look, NULL), 21);
    seen_in_post = 0;
    CHECK_EQ(coir_runtime_post(coir_runtime_current(), 1, on_post, NULL), 0);
    while (__atomic_load_n(&seen_in_post, __ATOMIC_SEQ_CST) < 42)
        coir_yield();
}

TEST(task_locals_follow_the_work)
{
    test_in_runtime(with_locals, 2);
    for (uint64_t seed = 1; seed <= 20; seed++)
        test_in_sim(with_locals, 2, seed);
}
