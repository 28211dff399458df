/* Turns that are slow: the watchdog names the callback and the functions that it is in, while it
 * runs; and tells nothing of a loop that waits. */
#include <coir/loop.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "harness.h"
#include "sys/symbol.h"

static coir_loop *loop;
static int32_t reports, answered;
static char stack[16 * 1024];
static const void *callback;

static void on_slow(const coir_slow_turn *turn, void *arg)
{
    CHECK(arg == &reports);
    CHECK_EQ(turn->size, sizeof *turn);
    CHECK(turn->busy >= 5 * COIR_MS);
    CHECK(!turn->task);
    ci_fetch_add(&reports, 1);
    if (!*turn->stack || ci_load(&answered))
        return;
    CHECK(strlen(turn->stack) < sizeof stack);
    strcpy(stack, turn->stack);
    callback = turn->callback;
    ci_store(&answered, true);
}

/* It goes on until it has been reported, however late that is. */
static __attribute__((noinline)) void spin_until_it_is_reported(void)
{
    while (!ci_load(&answered))
        (void)coir_now(); /* where TSan lets signals in */
}

/* Runs the loop to its end, with what was started on it. */
static void check_report(void (*fn)(void))
{
    CHECK_EQ(coir_loop_run(loop), 0);
    coir_loop_free(loop); /* reports end */
    CHECK(ci_load(&answered) && *stack);
    if (callback != (const void *)(uintptr_t)fn ||
        (ci_has_symbols && !strstr(stack, "spin_until_it_is_reported")))
        test_fail(__FILE__, __LINE__, "%s", stack);
    ci_store(&answered, false);
}

static void start(void)
{
    CHECK_EQ(coir_loop_new(&loop), 0);
    CHECK_EQ(coir_loop_watchdog_start(loop, 5 * COIR_MS, on_slow, &reports), 0);
}

static void slow_timer(coir_loop *own, coir_timer *timer, void *arg);
static void slow_timer(coir_loop *own, coir_timer *timer, void *arg)
{
    (void)own, (void)timer, (void)arg;
    spin_until_it_is_reported();
}

static void slow_watch(coir_loop *own, coir_watch *watch, int events, void *arg)
{
    (void)events, (void)arg;
    coir_watch_stop(own, watch);
    spin_until_it_is_reported();
}

static void slow_hook(coir_loop *own, coir_hook *hook, void *arg)
{
    (void)arg;
    coir_hook_stop(own, hook);
    spin_until_it_is_reported();
}

static void slow_call(void *arg)
{
    (void)arg;
    spin_until_it_is_reported();
}

static void on_timer(coir_loop *own, coir_timer *timer, void *arg)
{
    (void)own, (void)timer, (void)arg;
}

TEST(each_kind_of_callback_is_named)
{
    coir_timer timer = {{0}};
    coir_watch watch = {{0}};
    coir_hook hook = {{0}};
    int ends[2];
    start();
    coir_timer_start(loop, &timer, 0, slow_timer, NULL);
    check_report((void (*)(void))slow_timer);
    start();
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(write(ends[1], "x", 1), 1);
    CHECK_EQ(coir_watch_start(loop, &watch, ends[0], COIR_READ, slow_watch, NULL), 0);
    check_report((void (*)(void))slow_watch);
    for (int when = COIR_HOOK_BEFORE_WAIT; when <= COIR_HOOK_IN_TURN; when++) {
        start();
        timer = (coir_timer){{0}};
        coir_timer_start(loop, &timer, 0, on_timer, NULL); /* another hook keeps no loop running */
        coir_hook_start(loop, &hook, (enum coir_hook_when)when, slow_hook, NULL);
        check_report((void (*)(void))slow_hook);
    }
    start();
    CHECK_EQ(coir_loop_post(loop, slow_call, NULL), 0);
    check_report((void (*)(void))slow_call);
}

TEST(a_loop_that_waits_is_not_slow)
{
    coir_timer timer = {{0}};
    CHECK_EQ(coir_loop_new(&loop), 0);
    CHECK_EQ(coir_loop_watchdog_start(loop, 100 * COIR_MS, on_slow, &reports), 0);
    coir_timer_start(loop, &timer, 400 * COIR_MS, on_timer, NULL);
    CHECK_EQ(coir_loop_run(loop), 0);
    coir_loop_watchdog_stop(loop);
    CHECK_EQ(reports, 0);
    coir_loop_free(loop);
}

static void spin_for_three(coir_loop *own, coir_timer *timer, void *arg)
{
    (void)own, (void)timer, (void)arg;
    while (ci_load(&reports) < 3)
        (void)coir_now();
}

TEST(a_turn_that_does_not_end_is_reported_again)
{
    coir_timer timer = {{0}};
    start();
    coir_timer_start(loop, &timer, 0, spin_for_three, NULL);
    CHECK_EQ(coir_loop_run(loop), 0);
    coir_loop_watchdog_stop(loop);
    int32_t before = reports;
    coir_timer_start(loop, &timer, 20 * COIR_MS, on_timer, NULL);
    CHECK_EQ(coir_loop_run(loop), 0);
    CHECK_EQ(reports, before);
    coir_loop_free(loop);
}

TEST(a_loop_has_one_watchdog)
{
    start();
    CHECK_EQ(coir_loop_watchdog_start(loop, COIR_S, on_slow, NULL), -EBUSY);
    coir_loop_watchdog_stop(loop);
    coir_loop_watchdog_stop(loop);
    CHECK_EQ(coir_loop_watchdog_start(loop, 0, on_slow, NULL), -EINVAL);
    CHECK_EQ(coir_loop_watchdog_start(loop, COIR_S, NULL, NULL), -EINVAL);
    CHECK_EQ(coir_loop_watchdog_start(NULL, COIR_S, on_slow, NULL), -EINVAL);
    CHECK_EQ(coir_loop_watchdog_start(loop, COIR_S, on_slow, NULL), 0);
    coir_loop_free(loop);
}

static void *stop_and_free(void *arg)
{
    coir_loop_watchdog_stop(arg);
    coir_loop_free(arg);
    return NULL;
}

/* Only the thread that has started it can end to be asked for its stack. */
TEST(another_thread_does_not_stop_it)
{
    pthread_t thread;
    start();
    CHECK_EQ(pthread_create(&thread, NULL, stop_and_free, loop), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(coir_loop_watchdog_start(loop, COIR_S, on_slow, NULL), -EBUSY);
    coir_loop_free(loop);
}

static int count_threads(void)
{
    int count = 0;
    DIR *threads = opendir("/proc/self/task");
    CHECK(threads);
    for (const struct dirent *entry; (entry = readdir(threads));)
        count += *entry->d_name != '.';
    closedir(threads);
    return count;
}

static void start_another(void *arg)
{
    CHECK_EQ(coir_loop_watchdog_start(arg, COIR_S, on_slow, NULL), 0);
}

TEST(a_watchdog_that_a_last_callback_starts_ends_with_the_loop)
{
    start();
    coir_loop_watchdog_stop(loop); /* TSan has started its thread now */
    int before = count_threads();
    CHECK_EQ(coir_loop_post(loop, start_another, loop), 0);
    coir_loop_free(loop);
    CHECK_EQ(count_threads(), before);
}
