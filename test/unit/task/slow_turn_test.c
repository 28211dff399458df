/* Tasks and callbacks that keep a worker busy: the log names the task and the functions that it is
 * in, while it runs, whatever kind of task it is. */
#include <coir.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "harness.h"
#include "sys/symbol.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char lines[64 * 1024];
static int32_t stacks; /* that were logged */

static void log_line(enum coir_log_level level, const char *line, void *arg)
{
    CHECK(arg == lines);
    CHECK_EQ(level, COIR_LOG_WARNING);
    pthread_mutex_lock(&lock);
    CHECK(strlen(lines) + strlen(line) + 2 < sizeof lines);
    strcat(strcat(lines, line), "\n");
    pthread_mutex_unlock(&lock);
    if (strncmp(line, "    #0", 6) == 0)
        ci_fetch_add(&stacks, 1);
}

/* What a test waits for: words of the report, and a function of the stack. Reports of other turns,
 * which a loaded machine makes slow, may come before. */
static const char *wanted, *wanted_function;

static bool is_logged(void)
{
    pthread_mutex_lock(&lock);
    const char *report = strstr(lines, wanted);
    bool found = report && (!ci_has_symbols || strstr(report, wanted_function));
    pthread_mutex_unlock(&lock);
    return found;
}

static void check_log(void)
{
    if (!is_logged())
        test_fail(__FILE__, __LINE__, "%s", lines);
    pthread_mutex_lock(&lock);
    lines[0] = '\0';
    pthread_mutex_unlock(&lock);
}

/* It goes on until the report is there, for a few reports at most. */
static __attribute__((noinline)) void spin_until_it_is_logged(void)
{
    int32_t first = ci_load(&stacks), seen = first;
    while (seen - first < 9) {
        (void)coir_now(); /* where TSan lets signals in */
        if (ci_load(&stacks) == seen)
            continue;
        seen = ci_load(&stacks);
        if (is_logged())
            return;
    }
}

static void run(coir_task_fn *fn, const char *words, const char *function)
{
    coir_config config = COIR_CONFIG;
    coir_runtime *runtime;
    config.workers = 2;
    config.slow_turn = 5 * COIR_MS;
    config.log = log_line;
    config.log_arg = lines;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    wanted = words;
    wanted_function = function;
    CHECK_EQ(coir_runtime_run(runtime, fn, NULL), 0);
    coir_runtime_free(runtime);
    check_log();
}

/* ---- fibers ---- */

static __attribute__((noinline)) int work_in_a_fiber(void *arg)
{
    (void)arg;
    spin_until_it_is_logged();
    return 0;
}

static int on_each_worker(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++) {
        COIR_HANDLE(handle);
        coir_go_options options = COIR_GO_OPTIONS;
        options.name = "the slow one";
        options.place = COIR_ON_WORKER(i);
        options.handle = handle;
        CHECK_EQ(coir_go_with(NULL, &options, work_in_a_fiber, NULL), 0);
        CHECK_EQ(coir_join(handle), 0);
        if (i == 0)
            check_log();
    }
    return 0;
}

TEST(a_fiber_is_named_with_its_own_stack)
{
    run(on_each_worker, "; the slow one runs:", "work_in_a_fiber");
}

static int block_the_worker(void *arg)
{
    (void)arg;
    int32_t before = ci_load(&stacks);
    while (!is_logged() && ci_load(&stacks) - before < 9)
        usleep(100000); /* the signal ends it */
    return 0;
}

TEST(a_fiber_that_blocks_is_named)
{
    run(block_the_worker, "; main runs:", "block_the_worker");
}

static int spin_in_a_generator(coir_generator *generator, uint64_t first, void *arg)
{
    (void)first, (void)arg;
    uint64_t sent;
    spin_until_it_is_logged();
    return coir_generator_yield(generator, 1, &sent);
}

static int drive_a_generator(void *arg)
{
    uint64_t value;
    coir_generator *generator;
    CHECK_EQ(coir_generator_new(spin_in_a_generator, arg, &generator), 0);
    CHECK_EQ(coir_generator_next(generator, 0, &value), 1);
    coir_generator_free(generator);
    return 0;
}

TEST(a_generator_is_named_with_the_fiber_that_runs_it)
{
    run(drive_a_generator, "; main runs:", "spin_in_a_generator");
}

/* ---- futures ---- */

static coir_future *poll_slowly(coir_future *future)
{
    spin_until_it_is_logged();
    future->result = 0;
    return future->caller;
}

static const coir_future_kind slow_kind = COIR_FUTURE_KIND("slow", poll_slowly, NULL);

static int await_it(void *arg)
{
    (void)arg;
    coir_future future = {.kind = &slow_kind};
    return (int)coir_await(&future);
}

TEST(a_future_is_named)
{
    run(await_it, "ms; ", "poll_slowly");
}

/* ---- callbacks ---- */

static void call_slowly(coir_loop *loop, coir_timer *timer, void *arg)
{
    (void)loop, (void)timer;
    spin_until_it_is_logged();
    coir_event_set(arg);
}

static int start_a_timer(void *arg)
{
    (void)arg;
    coir_timer timer = {{0}};
    coir_event event = COIR_EVENT_INIT;
    coir_timer_start(coir_worker_loop(), &timer, 0, call_slowly, &event);
    return coir_event_wait(&event);
}

TEST(a_callback_is_named)
{
    run(start_a_timer, "; (a callback) runs:", "call_slowly");
}

static void post_slowly(void *arg)
{
    spin_until_it_is_logged();
    coir_event_set(arg);
}

static int post_it(void *arg)
{
    (void)arg;
    coir_event event = COIR_EVENT_INIT;
    CHECK_EQ(coir_runtime_post(coir_runtime_current(), 0, post_slowly, &event), 0);
    return coir_event_wait(&event);
}

TEST(a_posted_call_is_named)
{
    run(post_it, "ms; ", "post_slowly");
}
