/* Runs in which nothing can ever run again, and those that only look like it. */
#include <coir.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sanitizer.h"
#include "harness.h"
#include "sys/symbol.h"
#include "task/current.h"
#include "task/dump.h"
#include "task/runtime.h"

static char told[4096];

static void note_line(enum coir_log_level level, const char *line, void *context)
{
    (void)context;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    if (level != COIR_LOG_ERROR)
        return;
    pthread_mutex_lock(&lock);
    size_t len = strlen(told); /* the first lines are enough */
    snprintf(told + len, sizeof told - len, "%s\n", line);
    pthread_mutex_unlock(&lock);
}

static int run_dead(coir_task_fn *fn, void *arg, unsigned workers, enum coir_deadlock deadlock)
{
    coir_config config = COIR_CONFIG;
    config.workers = workers;
    config.deadlock = deadlock;
    config.drain_timeout = COIR_NEVER; /* a drain is a timer */
    config.log = note_line;
    coir_runtime *runtime;
    told[0] = 0;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    int rc = coir_runtime_run(runtime, fn, arg);
    coir_runtime_free(runtime);
    return rc;
}

/* "FUNCTION at FILE:LINE" of this file, and where its task was spawned. */
static void expect_place(const char *before, const char *function)
{
    char words[200];
    snprintf(words, sizeof words, "%s%s at ", before, function);
    const char *line = strstr(told, words);
    if (!ci_has_symbols)
        return;
    if (!line || !strstr(line, "deadlock_test.c:") || !strstr(line, "; spawned by cross at "))
        test_fail(__FILE__, __LINE__, "not found: %s in: %s", words, told);
}

struct crossed {
    coir_channel *a, *b;
};

static int wait_for_b(void *arg)
{
    struct crossed *crossed = arg;
    int item;
    coir_task_set_name("left");
    return coir_channel_recv(crossed->b, &item);
}

static int wait_for_a(void *arg)
{
    struct crossed *crossed = arg;
    int item;
    coir_task_set_name("right");
    return coir_channel_recv(crossed->a, &item);
}

static int cross(void *arg)
{
    coir_task_set_name("main");
    COIR_SCOPE(scope);
    coir_go(scope, wait_for_b, arg);
    coir_go_on(scope, (int)coir_worker_count(coir_runtime_current()) - 1, wait_for_a, arg);
    return coir_scope_wait(scope);
}

TEST(two_that_wait_for_each_other_are_told_and_ended)
{
    for (int i = 0; i < 200; i++) {
        struct crossed crossed;
        CHECK_EQ(coir_channel_new(sizeof(int), 1, &crossed.a), 0);
        CHECK_EQ(coir_channel_new(sizeof(int), 1, &crossed.b), 0);
        CHECK_EQ(run_dead(cross, &crossed, 1 + (unsigned)i % 3, COIR_DEADLOCK_END), -EDEADLK);
        CHECK(strstr(told, "task main waits for the tasks of a scope"));
        CHECK(strstr(told, "task left waits for an item of a channel"));
        if (i < 3)
            expect_place("task left waits for an item of a channel, in ", "wait_for_b");
        if (i % 3 == 0)
            CHECK(strstr(told, "task right waits for an item of a channel"));
        coir_channel_free(crossed.a);
        coir_channel_free(crossed.b);
    }
}

enum { DEEP = 400 };

static int go_deep(void *arg)
{
    int left = *(int *)arg - 1;
    coir_event never = COIR_EVENT_INIT;
    COIR_SCOPE(scope);
    coir_task_set_name(left ? "outer" : "innermost");
    if (left == 0)
        return coir_event_wait(&never);
    coir_go(scope, go_deep, &left);
    return coir_scope_wait(scope);
}

static bool innermost_told;

static void find_innermost(enum coir_log_level level, const char *line, void *arg)
{
    (void)level, (void)arg;
    if (strstr(line, "task innermost waits for an event"))
        innermost_told = true;
}

/* A line is cut at some length, but the name of a task is in it however deep it is. */
TEST(a_task_in_many_scopes_is_told)
{
    int depth = DEEP;
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.deadlock = COIR_DEADLOCK_END;
    config.log = find_innermost;
    CHECK_EQ(test_run(&config, go_deep, &depth), -EDEADLK);
    CHECK(innermost_told);
}

static int lock_twice(void *arg)
{
    (void)arg;
    coir_mutex mutex = COIR_MUTEX_INIT;
    coir_mutex_lock(&mutex);
    return coir_mutex_lock(&mutex);
}

static coir_handle own_handle;

static int join_oneself(void *arg)
{
    (void)arg;
    return coir_join(&own_handle);
}

static int wait_for_oneself(void *arg)
{
    (void)arg;
    COIR_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = &own_handle;
    coir_go_with(scope, &options, join_oneself, NULL);
    return coir_scope_wait(scope);
}

static coir_future *stuck_poll(coir_future *future)
{
    static coir_wait_op op;
    static coir_event never = COIR_EVENT_INIT;
    COIR_BEGIN(future);
    COIR_AWAIT(future, coir_event_wait_op(&op, &never));
    COIR_RETURN(future, op.future.result);
}

static const coir_future_kind stuck_kind = COIR_FUTURE_KIND("a stuck frame", stuck_poll, NULL);

static int select_for_ever(void *arg)
{
    struct crossed *crossed = arg;
    int item;
    coir_future frame;
    coir_event event = COIR_EVENT_INIT;
    COIR_SCOPE(scope);
    coir_go_future(scope, coir_future_init(&frame, &stuck_kind));
    coir_case waits[] = {coir_case_recv(crossed->a, &item), coir_case_event(&event)};
    return coir_select_in_order(waits, 2);
}

TEST(a_select_says_what_it_waits_for)
{
    struct crossed crossed;
    CHECK_EQ(coir_channel_new(sizeof(int), 1, &crossed.a), 0);
    CHECK_EQ(run_dead(select_for_ever, &crossed, 1, COIR_DEADLOCK_END), -EDEADLK);
    CHECK(strstr(told, "task main waits for any of an item of a channel, an event"));
    CHECK(strstr(told, "task a stuck frame waits for an event"));
    coir_channel_free(crossed.a);
}

/* So many that memory may be given back when they end: the look for that hides no deadlock. */
static int many_wait(void *arg)
{
    enum { MANY = 300 };
    COIR_SCOPE(scope);
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(coir_go(scope, wait_for_a, arg), 0);
    return coir_scope_wait(scope);
}

TEST(a_deadlock_of_many_is_told_and_ended)
{
    struct crossed crossed;
    CHECK_EQ(coir_channel_new(sizeof(int), 1, &crossed.a), 0);
    CHECK_EQ(run_dead(many_wait, &crossed, 1, COIR_DEADLOCK_END), -EDEADLK);
    coir_channel_free(crossed.a);
}

TEST(a_task_that_waits_for_itself_and_a_mutex_that_nobody_unlocks_are_told)
{
    CHECK_EQ(run_dead(lock_twice, NULL, 2, COIR_DEADLOCK_END), -EDEADLK);
    CHECK(strstr(told, "waits for a mutex"));
    CHECK_EQ(run_dead(wait_for_oneself, NULL, 1, COIR_DEADLOCK_END), -EDEADLK);
    CHECK(strstr(told, "waits for a task"));
}

/* Not a deadlock, though it looks like one: a thread outside of the runtime is going to send. */
static coir_event outside_event = COIR_EVENT_INIT;

static coir_runtime *watched;

static bool all_sleep(const coir_runtime *runtime, int from)
{
    for (int i = from; i < runtime->worker_count; i++)
        if (!ci_load(&runtime->workers[i].loop.asleep))
            return false;
    return true;
}

static void come_late(void) /* when the workers look for a deadlock */
{
    while (!all_sleep(watched, 0) && !ci_load(&watched->deadlocked))
        sched_yield();
}

static void *set_later(void *arg)
{
    come_late();
    coir_event_set(&outside_event);
    coir_runtime_release(arg);
    return NULL;
}

static int wait_for_outside(void *arg)
{
    pthread_t *thread = arg;
    watched = coir_runtime_current();
    coir_runtime_hold(watched);
    pthread_create(thread, NULL, set_later, watched);
    return coir_event_wait(&outside_event);
}

static int offload_nap(void *arg)
{
    (void)arg;
    come_late();
    return 0;
}

static int wait_for_offloaded(void *arg)
{
    (void)arg;
    watched = coir_runtime_current();
    return coir_offload(offload_nap, NULL);
}

static void *use_waker(void *arg)
{
    come_late();
    coir_waker_wake(*(coir_waker *)arg);
    return NULL;
}

static int wait_for_waker(void *arg)
{
    coir_parker parker;
    coir_waker waker;
    coir_parker_init(&parker);
    waker = coir_parker_waker(&parker);
    watched = coir_runtime_current();
    pthread_create(arg, NULL, use_waker, &waker);
    int rc = coir_parker_wait(&parker);
    coir_parker_done(&parker);
    return rc;
}

TEST(what_is_no_deadlock_is_not_told)
{
    pthread_t thread;
    for (int i = 0; i < 20; i++) {
        coir_event_reset(&outside_event);
        CHECK_EQ(run_dead(wait_for_outside, &thread, 2, COIR_DEADLOCK_END), 0);
        pthread_join(thread, NULL);
        CHECK_EQ(run_dead(wait_for_offloaded, NULL, 2, COIR_DEADLOCK_END), 0);
        CHECK_EQ(run_dead(wait_for_waker, &thread, 2, COIR_DEADLOCK_END), 0);
        pthread_join(thread, NULL);
        CHECK_EQ(told[0], 0);
    }
}

/* ---- workers that were alerted ---- */

static int wait_for_nothing(void *arg)
{
    static coir_event never = COIR_EVENT_INIT;
    (void)arg;
    return coir_event_wait(&never);
}

/* Alerts them all, and wakes one. */
static int share_with_sleepers(void *arg)
{
    while (!all_sleep(coir_runtime_current(), 1))
        CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go_anywhere(scope, wait_for_nothing, arg), 0);
    return coir_scope_wait(scope);
}

TEST(a_worker_that_was_alerted_and_sleeps_on_hides_none)
{
    CHECK_EQ(run_dead(share_with_sleepers, NULL, 4, COIR_DEADLOCK_END), -EDEADLK);
}

/* ---- who might have woken a task, and goes ---- */

static int do_nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int offload_and_wait(void *arg)
{
    CHECK_EQ(coir_offload(do_nothing, arg), 0);
    return wait_for_nothing(arg);
}

static pthread_t leaver;

static void wait_until_asleep(const coir_runtime *runtime)
{
    for (int i = 0; i < runtime->worker_count; i++)
        while (!ci_load(&runtime->workers[i].stuck))
            sched_yield();
}

static void *release_only(void *arg)
{
    wait_until_asleep(arg);
    coir_runtime_release(arg);
    return NULL;
}

static int wait_for_holder(void *arg)
{
    coir_runtime_hold(coir_runtime_current());
    CHECK_EQ(pthread_create(&leaver, NULL, release_only, coir_runtime_current()), 0);
    return wait_for_nothing(arg);
}

struct dropped {
    coir_runtime *runtime;
    coir_waker waker;
};

static void *drop_only(void *arg)
{
    struct dropped *dropped = arg;
    wait_until_asleep(dropped->runtime);
    coir_waker_drop(dropped->waker);
    return NULL;
}

static int wait_for_dropped(void *arg)
{
    struct dropped dropped = {.runtime = coir_runtime_current()};
    coir_parker parker;
    (void)arg;
    CHECK_EQ(coir_parker_init(&parker), 0);
    dropped.waker = coir_parker_waker(&parker);
    CHECK_EQ(pthread_create(&leaver, NULL, drop_only, &dropped), 0);
    int rc = coir_parker_wait(&parker);
    coir_parker_done(&parker);
    return rc;
}

TEST(who_goes_without_waking_a_task_hides_no_deadlock)
{
    for (unsigned i = 0; i < 200; i++) {
        CHECK_EQ(run_dead(offload_and_wait, NULL, 1 + i % 2, COIR_DEADLOCK_END), -EDEADLK);
        CHECK_EQ(run_dead(wait_for_holder, NULL, 1 + i % 2, COIR_DEADLOCK_END), -EDEADLK);
        pthread_join(leaver, NULL);
        CHECK_EQ(run_dead(wait_for_dropped, NULL, 1 + i % 2, COIR_DEADLOCK_END), -EDEADLK);
        pthread_join(leaver, NULL);
    }
}

static coir_event told_of_it = COIR_EVENT_INIT;

static void *stop_and_wait(void *arg)
{
    coir_runtime_stop(arg);
    while (!ci_load(&((coir_runtime *)arg)->deadlocked))
        sched_yield();
    coir_event_set(&told_of_it);
    return NULL;
}

static int wait_after_the_stop(void *arg)
{
    CHECK_EQ(pthread_create(&leaver, NULL, stop_and_wait, coir_runtime_current()), 0);
    CHECK_EQ(coir_sleep_for(COIR_NEVER / 2), -ECANCELED);
    COIR_SHIELD;
    (void)arg;
    return coir_event_wait(&told_of_it);
}

TEST(a_deadlock_that_a_stop_makes_is_told)
{
    for (unsigned i = 0; i < 200; i++) {
        coir_event_reset(&told_of_it);
        CHECK_EQ(run_dead(wait_after_the_stop, NULL, 1 + i % 2, COIR_DEADLOCK_REPORT), 0);
        pthread_join(leaver, NULL);
    }
}

/* ---- a scope that was left open ---- */

static coir_mutex never_given_back = COIR_MUTEX_INIT;

static __attribute__((noinline)) void leave_a_scope_open(void)
{
    coir_scope scope;
    memset(&scope, 0, sizeof scope);
    coir_scope_open(&scope);
    __asm__ volatile("" : : "r"(&scope) : "memory");
}

/* Below all that a wait has on the stack, also with a sanitizer: only that is told from a scope
 * which is still open. */
static __attribute__((noinline)) void leave_a_scope_open_far_below(void)
{
    char room[4000];
    __asm__ volatile("" : : "r"(room) : "memory");
    leave_a_scope_open();
    __asm__ volatile("" : : "r"(room) : "memory");
}

static __attribute__((noinline)) void write_over_it(void)
{
    char room[6000];
    memset(room, 'A', sizeof room);
    __asm__ volatile("" : : "r"(room) : "memory");
}

static int leave_and_wait(void *arg)
{
    (void)arg;
    leave_a_scope_open_far_below();
    write_over_it();
    coir_mutex_lock(&never_given_back);
    _exit(8);
}

static int noted;

static void note_task(void *arg, int depth, const char *name, const char *waits_for, int cancelled,
                      const struct ci_task *task)
{
    (void)arg, (void)depth, (void)name, (void)waits_for, (void)cancelled, (void)task;
    noted++;
}

static int run_a_leaver(void *arg)
{
    (void)arg;
    COIR_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = "leaver";
    CHECK_EQ(coir_mutex_lock(&never_given_back), 0);
    CHECK_EQ(coir_go_with(scope, &options, leave_and_wait, NULL), 0);
    for (int i = 0; i < 3; i++)
        coir_yield();
    struct ci_worker *worker = ci_worker_current;
    ci_worker_dump(worker, note_task, NULL);
    _exit(noted == 2 ? 7 : 8);
}

TEST(a_scope_that_was_left_open_and_overwritten_is_not_followed)
{
    int status;
    if (CI_ASAN) /* which lets nobody write over it */
        return;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(run_dead(run_a_leaver, NULL, 1, COIR_DEADLOCK_REPORT) < 0);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}
