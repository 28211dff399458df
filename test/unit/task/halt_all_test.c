/* Workers that are halted stand still, and go on; those that do not answer are let be. */
#include "task/halt.h"

#include <coir.h>
#include <errno.h>
#include <pthread.h>
#include <sys/resource.h>

#include "base/atomic.h"
#include "base/time.h"
#include "harness.h"
#include "sys/clock.h"
#include "task/runtime.h"

enum { WORKERS = 3 };

static uint64_t turns[WORKERS];
static int32_t stop, blocked;

/* The test's thread asks for all; its mark is that of no worker. */
static void halt(struct ci_halted *halted, coir_time timeout)
{
    *halted = (struct ci_halted){.thread = ci_thread_mark()};
    ci_halt_all(halted, timeout);
}

static bool all_halted(const struct ci_halted *halted)
{
    for (int i = 0; halted->count && i < WORKERS; i++)
        if (!ci_is_halted(halted, &halted->runtimes[0]->workers[i]))
            return false;
    return halted->count == 1;
}

static int count_turns(void *arg)
{
    uint64_t *count = arg;
    while (!ci_load(&stop)) {
        ci_fetch_add(count, 1);
        if (coir_yield() < 0)
            break;
    }
    return 0;
}

static int on_every_worker(void *arg)
{
    (void)arg;
    COIR_SCOPE(scope);
    for (int i = 0; i < WORKERS; i++)
        CHECK_EQ(coir_go_on(scope, i, count_turns, &turns[i]), 0);
    return coir_scope_wait(scope);
}

static void *run(void *fn)
{
    coir_config config = COIR_CONFIG;
    config.workers = WORKERS;
    coir_task_fn *const *first = fn;
    CHECK_EQ(test_run(&config, *first, NULL), 0);
    return NULL;
}

static pthread_t start(coir_task_fn **fn)
{
    pthread_t thread;
    ci_store(&stop, 0);
    CHECK_EQ(pthread_create(&thread, NULL, run, (void *)fn), 0);
    return thread;
}

TEST(halted_workers_stand_still_and_go_on)
{
    static coir_task_fn *fn = on_every_worker;
    pthread_t thread = start(&fn);
    for (int found = 0; found < 20;) {
        struct ci_halted halted;
        uint64_t before[WORKERS];
        halt(&halted, COIR_S);
        bool all = all_halted(&halted);
        for (int i = 0; i < WORKERS; i++)
            before[i] = ci_load(&turns[i]);
        ci_clock_sleep(COIR_MS);
        for (int i = 0; all && i < WORKERS; i++)
            CHECK(ci_load(&turns[i]) == before[i]);
        ci_halt_release(&halted);
        found += all;
        for (int i = 0; all && i < WORKERS; i++)
            while (ci_load(&turns[i]) == before[i] && before[i])
                ci_clock_sleep(COIR_MS / 10); /* it goes on */
    }
    ci_store(&stop, 1);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* How often its thread has slept: while it is halted, once. */
static int64_t sleeps[WORKERS];

static int count_sleeps(void *arg)
{
    int64_t *count = arg;
    struct rusage usage;
    while (!ci_load(&stop) && coir_yield() == 0)
        if (getrusage(RUSAGE_THREAD, &usage) == 0)
            ci_store(count, 1 + usage.ru_nvcsw);
    return 0;
}

static int count_on_every_worker(void *arg)
{
    (void)arg;
    COIR_SCOPE(scope);
    for (int i = 0; i < WORKERS; i++)
        CHECK_EQ(coir_go_on(scope, i, count_sleeps, &sleeps[i]), 0);
    return coir_scope_wait(scope);
}

TEST(a_halted_worker_sleeps_until_its_release)
{
    enum { HALTS = 10 };
    static coir_task_fn *fn = count_on_every_worker;
    pthread_t thread = start(&fn);
    int64_t before[WORKERS];
    for (int i = 0; i < WORKERS; i++)
        while (!(before[i] = ci_load(&sleeps[i])))
            ci_clock_sleep(COIR_MS / 10);
    for (int found = 0; found < HALTS;) {
        struct ci_halted halted;
        halt(&halted, COIR_S);
        found += all_halted(&halted);
        ci_clock_sleep(5 * COIR_MS); /* enough for many looks */
        ci_halt_release(&halted);
    }
    ci_store(&stop, 1);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    for (int i = 0; i < WORKERS; i++)
        CHECK(sleeps[i] - before[i] <= 3 * HALTS);
}

static int block(void *arg)
{
    (void)arg;
    ci_store(&blocked, 1);
    while (!ci_load(&stop))
        ci_clock_sleep(COIR_MS / 10);
    return 0;
}

static int block_one_worker(void *arg)
{
    (void)arg;
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go_on(scope, 1, block, NULL), 0);
    return coir_scope_wait(scope);
}

TEST(a_worker_that_does_not_answer_goes_on)
{
    static coir_task_fn *fn = block_one_worker;
    pthread_t thread = start(&fn);
    while (!ci_load(&blocked))
        ci_clock_sleep(COIR_MS / 10);
    for (int i = 0; i < 3; i++) {
        struct ci_halted halted;
        halt(&halted, COIR_MS);
        CHECK_EQ(halted.count, 1);
        struct ci_worker *worker = &halted.runtimes[0]->workers[1];
        CHECK(!ci_is_halted(&halted, worker));
        CHECK_EQ(ci_halt_ask_stack(worker), 0); /* also without slow_turn */
        CHECK_EQ(ci_halt_await_stack(worker, ci_time_after(ci_clock_now(), 10 * COIR_S)), 0);
        ci_halt_release(&halted);
    }
    ci_store(&stop, 1);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static int32_t inside;

static void *halt_often(void *arg)
{
    for (int i = 0; i < 30; i++) {
        struct ci_halted halted;
        halt(&halted, 50 * COIR_MS);
        CHECK_EQ(ci_fetch_add(&inside, 1), 0);
        ci_clock_sleep(COIR_MS / 10);
        ci_fetch_sub(&inside, 1);
        ci_halt_release(&halted);
    }
    return arg;
}

TEST(one_thread_at_a_time_halts_workers)
{
    static coir_task_fn *fn = on_every_worker;
    pthread_t thread = start(&fn), others[3];
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_create(&others[i], NULL, halt_often, NULL), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_join(others[i], NULL), 0);
    ci_store(&stop, 1);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void *halt_once(void *arg)
{
    struct ci_halted *halted = arg;
    ci_fetch_add(&inside, 1);
    halt(halted, 50 * COIR_MS);
    ci_halt_release(halted);
    return NULL;
}

/* So who counts how long workers were halted does not count the wait for another thread. */
TEST(workers_are_asked_after_the_halt_before)
{
    static coir_task_fn *fn = on_every_worker;
    struct ci_halted first, second;
    pthread_t thread = start(&fn), other;
    halt(&first, 50 * COIR_MS);
    CHECK_EQ(pthread_create(&other, NULL, halt_once, &second), 0);
    while (!ci_load(&inside))
        ci_clock_sleep(COIR_MS / 10);
    ci_clock_sleep(COIR_MS);
    coir_time released = ci_clock_now();
    ci_halt_release(&first);
    CHECK_EQ(pthread_join(other, NULL), 0);
    CHECK(first.asked < released && second.asked >= released);
    ci_store(&stop, 1);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* A deadlock is found although it came while the workers were halted. */
static int wait_for_ever(void *arg)
{
    (void)arg;
    static coir_event never = COIR_EVENT_INIT;
    return coir_event_wait(&never);
}

static void *run_dead(void *arg)
{
    coir_config config = COIR_CONFIG;
    config.workers = 2;
    config.deadlock = COIR_DEADLOCK_END;
    CHECK_EQ(test_run(&config, wait_for_ever, NULL), -EDEADLK);
    ci_store(&stop, 1);
    return arg;
}

TEST(a_deadlock_is_found_all_the_same)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, run_dead, NULL), 0);
    while (!ci_load(&stop)) {
        struct ci_halted halted;
        halt(&halted, 10 * COIR_MS);
        ci_halt_release(&halted);
        ci_clock_sleep(COIR_MS);
    }
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* The worker did not answer in time: it is not among those that look again after the release. */
static int wait_for_ever_when_told(void *arg)
{
    block(arg);
    return wait_for_ever(arg);
}

static void *run_dead_when_told(void *arg)
{
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.deadlock = COIR_DEADLOCK_END;
    CHECK_EQ(test_run(&config, wait_for_ever_when_told, NULL), -EDEADLK);
    return arg;
}

TEST(a_deadlock_of_a_worker_that_did_not_answer_is_found_before_the_release)
{
    struct ci_halted halted;
    pthread_t thread;
    ci_store(&stop, 0);
    ci_store(&blocked, 0);
    CHECK_EQ(pthread_create(&thread, NULL, run_dead_when_told, NULL), 0);
    while (!ci_load(&blocked))
        ci_clock_sleep(COIR_MS / 10);
    halt(&halted, COIR_MS);
    CHECK_EQ(halted.count, 1);
    CHECK(!halted.first);
    ci_store(&stop, 1);
    while (!ci_load(&halted.runtimes[0]->deadlocked))
        ci_clock_sleep(COIR_MS / 10);
    ci_halt_release(&halted);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}
