/* What a dump finds: each planted fault is named with its place, and nothing else is. */
#include "task/findings.h"

#include <coir.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/sanitizer.h"
#include "harness.h"
#include "sys/symbol.h"

static char text[1 << 20];

static const char *dump(void)
{
    FILE *file = tmpfile();
    CHECK(file != NULL);
    CHECK_EQ(coir_dump(fileno(file), COIR_DUMP_TEXT), 0);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

/* A loaded machine may be late. */
static void dump_until(const char *words)
{
    while (!strstr(dump(), words))
        CHECK_EQ(coir_sleep_for(COIR_MS), 0);
}

static void expect(const char *words)
{
    if (!strstr(text, words))
        test_fail(__FILE__, __LINE__, "not found: %s\nin: %.6000s", words, text);
}

/* "FUNCTION at FILE:LINE" of this file, where there are symbols. */
static void expect_place(const char *before, const char *function)
{
    char words[200];
    snprintf(words, sizeof words, "%s%s at ", before, function);
    if (!ci_has_symbols)
        return;
    expect(words);
    const char *line = strstr(text, words);
    CHECK((size_t)(strstr(line, "findings_test.c:") - line) < strcspn(line, "\n"));
}

static unsigned findings(void)
{
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, "\nfinding: ")); at++)
        count++;
    return count;
}

static void go(coir_scope *scope, const char *name, int place, coir_task_fn *fn, void *arg)
{
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = name;
    options.place = place;
    CHECK_EQ(coir_go_with(scope, &options, fn, arg), 0);
}

static void run(unsigned workers, coir_task_fn *fn)
{
    coir_config config = COIR_CONFIG;
    config.workers = workers;
    CHECK_EQ(test_run(&config, fn, NULL), 0);
}

/* ---- a cycle of three ---- */

static coir_mutex mutexes[4] = {COIR_MUTEX_INIT, COIR_MUTEX_INIT, COIR_MUTEX_INIT, COIR_MUTEX_INIT};
static coir_shared_mutex shared = COIR_SHARED_MUTEX_INIT;
static int32_t locked;

static __attribute__((noinline)) int lock_the_next(int own)
{
    int rc = own == 2 ? coir_shared_mutex_lock(&shared) : coir_mutex_lock(&mutexes[own + 1]);
    if (rc == 0 && own == 2)
        coir_shared_mutex_unlock(&shared);
    else if (rc == 0)
        coir_mutex_unlock(&mutexes[own + 1]);
    return rc;
}

/* Philosopher 0 has the shared mutex, the others one of the mutexes. */
static int take_two(void *arg)
{
    int own = *(int *)arg;
    CHECK_EQ(own == 0 ? coir_shared_mutex_lock(&shared) : coir_mutex_lock(&mutexes[own]), 0);
    locked++;
    while (locked < 3)
        CHECK_EQ(coir_yield(), 0);
    int rc = lock_the_next(own);
    if (own == 0)
        coir_shared_mutex_unlock(&shared);
    else
        coir_mutex_unlock(&mutexes[own]);
    return rc == -ECANCELED ? 0 : rc;
}

/* Waits for one in the cycle, but is none of it. */
static int wait_beside(void *arg)
{
    (void)arg;
    int rc = coir_mutex_lock(&mutexes[1]);
    if (rc == 0)
        coir_mutex_unlock(&mutexes[1]);
    return rc == -ECANCELED ? 0 : rc;
}

static int ticks(void *arg)
{
    for (;;) {
        int rc = coir_sleep_for(COIR_MS);
        if (rc < 0)
            return 0;
        ++*(int *)arg;
    }
}

static int make_a_cycle(void *arg)
{
    static int numbers[] = {0, 1, 2}, ticked;
    (void)arg;
    COIR_SERVING_SCOPE(scope);
    go(scope, "one", COIR_HERE, take_two, &numbers[0]);
    go(scope, "two", COIR_HERE, take_two, &numbers[1]);
    go(scope, "three", COIR_HERE, take_two, &numbers[2]);
    go(scope, "beside", COIR_HERE, wait_beside, NULL);
    go(scope, "ticker", COIR_HERE, ticks, &ticked);
    dump_until("finding: ");
    CHECK_EQ(findings(), 1);
    expect("finding: 3 tasks wait for each other, each for a lock that the next one holds:\n");
    const char *found = strstr(text, "\nfinding: ");
    CHECK(strstr(found, "    one 0x") && strstr(found, "    two 0x") &&
          strstr(found, "    three 0x"));
    CHECK(!strstr(found, "beside") && !strstr(found, "ticker"));
    CHECK(strstr(found, "waits for a shared mutex ") && strstr(found, ", held by one 0x"));
    expect_place(", in ", "lock_the_next");
    for (int before = ticked; ticked == before;) /* the rest of the program goes on */
        CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    coir_scope_cancel(scope);
    return 0;
}

TEST(tasks_that_wait_for_each_other_are_named)
{
    run(1, make_a_cycle);
}

/* ---- a cycle of one ---- */

static int lock_twice(void *arg)
{
    (void)arg;
    CHECK_EQ(coir_mutex_lock(&mutexes[0]), 0);
    int rc = coir_mutex_lock(&mutexes[0]);
    coir_mutex_unlock(&mutexes[0]);
    return rc == -ECANCELED ? 0 : rc;
}

static int make_a_cycle_of_one(void *arg)
{
    (void)arg;
    COIR_SERVING_SCOPE(scope);
    go(scope, "twice", COIR_HERE, lock_twice, NULL);
    dump_until("finding: ");
    CHECK_EQ(findings(), 1);
    expect("finding: a task waits for a lock that it holds itself:\n    twice 0x");
    coir_scope_cancel(scope);
    return 0;
}

TEST(a_task_that_waits_for_itself_is_named)
{
    run(1, make_a_cycle_of_one);
}

/* ---- locks that are held, but not in a cycle ---- */

static int wait_in_a_chain(void *arg)
{
    int own = *(int *)arg, rc = coir_mutex_lock(&mutexes[own]);
    CHECK_EQ(rc, 0);
    if (own < 3 && (rc = coir_mutex_lock(&mutexes[own + 1])) == 0)
        coir_mutex_unlock(&mutexes[own + 1]);
    else if (own == 3)
        rc = coir_sleep_for(1000 * COIR_S);
    coir_mutex_unlock(&mutexes[own]);
    return 0;
}

/* A task that has let its lock to others, and ended. */
static int lock_and_end(void *arg)
{
    (void)arg;
    return coir_mutex_lock(&mutexes[0]);
}

static __attribute__((noinline)) int lock_and_wait(void)
{
    return coir_mutex_lock(&mutexes[0]) == 0 ? -1 : 0;
}

static int wait_for_the_first(void *arg)
{
    int rc = lock_and_wait();
    return arg ? 1 : rc;
}

/* Optimized, its frame is gone when it waits. */
static int end_with_a_wait(void *mutex)
{
    return coir_mutex_lock(mutex);
}

static int make_a_chain(void *arg)
{
    static int numbers[] = {3, 2, 1};
    (void)arg;
    COIR_SERVING_SCOPE(scope);
    for (int i = 0; i < 3; i++) {
        go(scope, i == 0 ? "last" : "link", COIR_HERE, wait_in_a_chain, &numbers[i]);
        CHECK_EQ(coir_yield(), 0);
    }
    go(scope, "gone", COIR_HERE, lock_and_end, NULL);
    CHECK_EQ(coir_yield(), 0);
    /* its record is that of the one that has ended */
    go(scope, "waiter", COIR_HERE, wait_for_the_first, NULL);
    go(scope, "other waiter", COIR_HERE, wait_for_the_first, NULL);
    go(scope, "last waiter", COIR_HERE, end_with_a_wait, &mutexes[0]);
    CHECK_EQ(coir_yield(), 0);
    dump_until("finding: a lock was not given back by a task that has ended; 3 wait for it:\n");
    CHECK_EQ(findings(), 1);
    const char *found = strstr(text, "\nfinding: ");
    CHECK(strstr(found, "\n    waiter 0x") && strstr(found, "\n    other waiter 0x"));
    CHECK(strstr(found, ", held by a task that has ended") && !strstr(found, "link"));
    expect_place(", in ", "lock_and_wait");
    expect_place(", in ", "end_with_a_wait");
    expect(", held by last 0x");
    CHECK(!strstr(text, "held by waiter"));
    coir_scope_cancel(scope);
    return 0;
}

TEST(a_chain_is_no_cycle_and_a_lock_of_a_task_that_has_ended_is_named)
{
    run(1, make_a_chain);
}

/* ---- a task that computes ---- */

static int32_t seen;

static __attribute__((noinline)) int compute_until_it_is_seen(void)
{
    while (!ci_load(&seen))
        (void)coir_now(); /* where TSan lets signals in */
    return 0;
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

static __attribute__((noinline)) int wait_for_the_lock(void *arg)
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
    do /* TSan may let the signal in where a function of its own runs */
        dump_until("; it holds a lock that others wait for (1):\n");
    while (ci_sanitizer == CI_THREAD_SANITIZER && ci_has_symbols &&
           !strstr(text, "computes without a wait, in compute_until_it_is_seen at "));
    CHECK_EQ(findings(), 1);
    expect("\nfinding: busy 0x");
    expect("\n    busy 0x");
    expect(", held by busy 0x");
    expect_place("computes without a wait, in ", "compute_until_it_is_seen");
    expect_place(", in ", "wait_for_the_lock");
    ci_store(&seen, 1);
    return coir_scope_wait(scope);
}

TEST(a_task_that_computes_is_named_with_who_waits_for_its_lock)
{
    run(2, compute);
}

/* ---- a scope that is left open ---- */

static coir_scope *left;

static __attribute__((noinline)) void leave_a_scope_open(void)
{
    coir_scope scope;
    left = coir_scope_open(&scope);
}

/* Far below what is called next, which so does not write over the scope. */
static __attribute__((noinline)) void leave_one_open_far_below(void)
{
    char room[8192];
    __asm__ volatile("" : : "r"(room) : "memory");
    leave_a_scope_open();
    __asm__ volatile("" : : "r"(room) : "memory");
}

static int open_and_wait(void *arg)
{
    (void)arg;
    coir_scope kept;
    coir_scope_open(&kept); /* by a function that has not returned */
    leave_one_open_far_below();
    coir_sleep_for(1000 * COIR_S);
    exit(0); /* a task that ends inside of a scope aborts the program */
}

static int look_for_the_scope(void *arg)
{
    (void)arg;
    COIR_SCOPE(scope);
    go(scope, "leaky", COIR_HERE, open_and_wait, NULL);
    dump_until("finding: ");
    CHECK_EQ(findings(), 1);
    expect("finding: a scope was left open by a function that has returned; opened by ");
    expect("    leaky 0x");
    expect_place("; opened by ", "leave_a_scope_open");
    exit(0);
}

TEST(a_scope_that_was_left_open_is_named)
{
    run(1, look_for_the_scope);
}
