/* Findings that are logged without a dump: once each, with places. */
#include "task/stall.h"

#include <coir.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/atomic.h"
#include "base/sanitizer.h"
#include "harness.h"
#include "sys/symbol.h"

static const coir_time limit = 20 * COIR_MS;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char lines[64 * 1024];

static void log_line(enum coir_log_level level, const char *line, void *arg)
{
    (void)arg;
    if (level != COIR_LOG_WARNING)
        return;
    pthread_mutex_lock(&lock);
    CHECK(strlen(lines) + strlen(line) + 2 < sizeof lines);
    strcat(strcat(lines, line), "\n");
    pthread_mutex_unlock(&lock);
}

static unsigned logged(const char *words)
{
    unsigned count = 0;
    pthread_mutex_lock(&lock);
    for (const char *at = lines; (at = strstr(at, words)); at++)
        count++;
    pthread_mutex_unlock(&lock);
    return count;
}

static void wait_until_logged(const char *words)
{
    while (!logged(words))
        CHECK_EQ(coir_sleep_for(COIR_MS), 0);
}

static void run(unsigned workers, coir_time report_stalls, coir_task_fn *fn)
{
    coir_config config = COIR_CONFIG;
    config.workers = workers;
    config.log = log_line;
    config.report_stalls = report_stalls;
    config.slow_turn = 3600 * COIR_S; /* which would be reported beside it */
    CHECK_EQ(test_run(&config, fn, NULL), 0);
}

static void go(coir_scope *scope, const char *name, int place, coir_task_fn *fn, void *arg)
{
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = name;
    options.place = place;
    CHECK_EQ(coir_go_with(scope, &options, fn, arg), 0);
}

/* ---- cycles ---- */

static coir_mutex mutexes[4] = {COIR_MUTEX_INIT, COIR_MUTEX_INIT, COIR_MUTEX_INIT, COIR_MUTEX_INIT};

static __attribute__((noinline)) int lock_the_other(int own)
{
    int rc = coir_mutex_lock(&mutexes[own ^ 1]);
    if (rc == 0)
        coir_mutex_unlock(&mutexes[own ^ 1]);
    return rc;
}

static int take_two(void *arg)
{
    int own = *(int *)arg;
    CHECK_EQ(coir_mutex_lock(&mutexes[own]), 0);
    CHECK_EQ(coir_yield(), 0); /* the other one takes its own meanwhile */
    int rc = lock_the_other(own);
    coir_mutex_unlock(&mutexes[own]);
    return rc == -ECANCELED ? 0 : rc;
}

static int make_two_cycles(void *arg)
{
    static int numbers[] = {0, 1, 2, 3};
    (void)arg;
    COIR_SERVING_SCOPE(scope);
    coir_time begin = coir_now();
    go(scope, "one", COIR_HERE, take_two, &numbers[0]);
    go(scope, "two", COIR_HERE, take_two, &numbers[1]);
    wait_until_logged("    one 0x");
    wait_until_logged("    two 0x");
    CHECK(coir_now() - begin > limit / 2);
    CHECK_EQ(
        logged("finding: 2 tasks wait for each other, each for a lock that the next one holds"), 1);
    CHECK_EQ(logged("    one 0x"), 1);
    if (ci_has_symbols)
        CHECK_EQ(logged(", in lock_the_other at "), 2);
    go(scope, "three", COIR_HERE, take_two, &numbers[2]);
    go(scope, "four", COIR_HERE, take_two, &numbers[3]);
    wait_until_logged("    three 0x");
    wait_until_logged("    four 0x"); /* there were more looks, which have found the first again */
    CHECK_EQ(logged("    one 0x"), 1);
    CHECK_EQ(logged("finding: 2 tasks wait for each other"), 2);
    coir_scope_cancel(scope);
    return 0;
}

TEST(a_cycle_is_logged_once)
{
    run(1, limit, make_two_cycles);
}

enum { STUCK = 100 };

static int lock_twice(void *arg)
{
    (void)arg;
    coir_mutex own = COIR_MUTEX_INIT;
    CHECK_EQ(coir_mutex_lock(&own), 0);
    return coir_mutex_lock(&own) == -ECANCELED ? 0 : -EINVAL;
}

static int get_stuck_often(void *arg)
{
    static char names[STUCK][20];
    (void)arg;
    COIR_SERVING_SCOPE(scope);
    for (int i = 0; i < STUCK; i++) {
        snprintf(names[i], sizeof names[i], "stuck %d.", i);
        go(scope, names[i], COIR_HERE, lock_twice, NULL);
    }
    for (int i = 0; i < STUCK; i++)
        wait_until_logged(names[i]);
    CHECK_EQ(logged("finding: a task waits for a lock that it holds itself"), STUCK);
    coir_scope_cancel(scope);
    return 0;
}

/* As a server that runs for long, with a mistake that some requests run into. */
TEST(what_was_logged_does_not_hide_what_comes_later)
{
    run(1, limit, get_stuck_often);
}

/* With a deadline that is later than any look on a busy machine. */
static int take_two_in_time(void *arg)
{
    int own = *(int *)arg, rc;
    CHECK_EQ(coir_mutex_lock(&mutexes[own]), 0);
    CHECK_EQ(coir_yield(), 0);
    {
        COIR_DEADLINE(coir_in(3000 * COIR_S));
        rc = lock_the_other(own);
    }
    coir_mutex_unlock(&mutexes[own]);
    return rc == -ECANCELED ? 0 : rc;
}

static int make_a_cycle_that_ends(void *arg)
{
    static int numbers[] = {0, 1, 2, 3};
    (void)arg;
    COIR_SERVING_SCOPE(scope);
    go(scope, "one", COIR_HERE, take_two_in_time, &numbers[0]);
    go(scope, "two", COIR_HERE, take_two, &numbers[1]);
    wait_until_logged("    one 0x");
    CHECK_EQ(logged(", deadline in 29"), 1); /* of one of them: it would end by itself */
    coir_scope_cancel(scope);
    return 0;
}

TEST(a_cycle_that_a_deadline_breaks_is_logged_with_it)
{
    run(1, limit, make_a_cycle_that_ends);
}

/* ---- a task that computes, and has a lock ---- */

static int32_t locked, seen;

static __attribute__((noinline)) void compute_until_it_is_seen(void)
{
    while (!ci_load(&seen))
        (void)coir_now(); /* where TSan lets signals in */
}

static int compute_with_a_lock(void *arg)
{
    (void)arg;
    CHECK_EQ(coir_mutex_lock(&mutexes[0]), 0);
    ci_store(&locked, 1);
    compute_until_it_is_seen();
    coir_mutex_unlock(&mutexes[0]);
    return 0;
}

static int wait_for_the_lock(void *arg)
{
    (void)arg;
    int rc = coir_mutex_lock(&mutexes[0]);
    if (rc == 0)
        coir_mutex_unlock(&mutexes[0]);
    return rc;
}

static int compute(void *arg)
{
    (void)arg;
    COIR_SCOPE(scope);
    go(scope, "busy", COIR_ON_WORKER(1), compute_with_a_lock, NULL);
    while (!ci_load(&locked))
        CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    go(scope, "waiter", COIR_HERE, wait_for_the_lock, NULL);
    wait_until_logged("    waiter 0x");
    CHECK_EQ(logged("finding: busy 0x"), 1);
    CHECK_EQ(logged("; it holds a lock that others wait for (1):"), 1);
    if (ci_has_symbols && !CI_TSAN) /* which delivers the signal inside of its own functions */
        CHECK_EQ(logged("computes without a wait, in compute_until_it_is_seen at "), 1);
    ci_store(&seen, 1);
    return coir_scope_wait(scope);
}

TEST(a_lock_is_named_that_is_held_by_a_task_which_computes)
{
    run(2, limit, compute);
}

/* ---- system calls of the program ---- */

/* Shorter than the time between two looks, so that one at most finds it. */
static int call_the_system(void *arg)
{
    const struct timespec half = {.tv_nsec = limit / 2};
    (void)arg;
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(nanosleep(&half, NULL), 0);
        CHECK_EQ(coir_sleep_for(1), 0); /* another turn */
    }
    return 0;
}

TEST(a_system_call_that_one_look_finds_is_not_interrupted)
{
    run(1, limit, call_the_system);
}

/* ---- nothing ---- */

static int lock_in_turn(void *arg)
{
    coir_time end = coir_in(4 * limit);
    while (coir_now() < end) {
        CHECK_EQ(coir_mutex_lock(&mutexes[0]), 0);
        CHECK_EQ(coir_sleep_for(100 * COIR_US), 0);
        coir_mutex_unlock(&mutexes[0]);
    }
    (void)arg;
    return 0;
}

static int work_well(void *arg)
{
    (void)arg;
    COIR_SCOPE(scope);
    for (int i = 0; i < 4; i++)
        go(scope, "worker", COIR_ANYWHERE, lock_in_turn, NULL);
    return coir_scope_wait(scope);
}

TEST(a_program_that_works_well_is_not_reported)
{
    run(2, limit, work_well);
    /* a machine that is loaded may keep a worker from running for long, with a lock */
    CHECK_EQ(logged("finding: "), logged(" computes without a wait, in "));
}

static int refuse(void *arg)
{
    return arg ? 1 : 0;
}

TEST(without_it_there_is_no_thread)
{
    coir_config config = COIR_CONFIG;
    coir_runtime *runtime;
    run(1, COIR_NEVER, refuse);
    config.report_stalls = -1;
    CHECK_EQ(coir_runtime_new(&config, &runtime), -EINVAL);
}
