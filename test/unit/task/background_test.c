/* The background scope of a runtime: what a NULL scope means, and what the end of a run does to
 * it. */
#include <coir.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "harness.h"

enum { LINES = 16 };

struct log {
    pthread_mutex_t lock;
    int count;
    enum coir_log_level levels[LINES];
    char lines[LINES][200];
};

static struct log lines = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int stops_logged; /* lines about how long background tasks may go on */
static char stop_line[200];

static void log_line(enum coir_log_level level, const char *line, void *context)
{
    (void)context;
    pthread_mutex_lock(&lines.lock);
    if (strstr(line, "may go on")) {
        stops_logged++;
        snprintf(stop_line, sizeof stop_line, "%s", line);
    }
    if (level <= COIR_LOG_WARNING && lines.count < LINES) {
        lines.levels[lines.count] = level;
        snprintf(lines.lines[lines.count++], sizeof lines.lines[0], "%s", line);
    }
    pthread_mutex_unlock(&lines.lock);
}

static int run(coir_task_fn *fn, void *arg, coir_time drain)
{
    coir_config config = COIR_CONFIG;
    config.workers = 2;
    config.log = log_line;
    config.drain_timeout = drain;
    coir_runtime *runtime;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    int rc = coir_runtime_run(runtime, fn, arg);
    coir_runtime_free(runtime);
    return rc;
}

static int ended;
static coir_event failed, stopped, never;

static int fail(void *arg)
{
    coir_event_set(&failed);
    return (int)(intptr_t)arg;
}

static int outlive(void *arg)
{
    (void)arg;
    int rc = coir_yield();
    __atomic_fetch_add(&ended, 1, __ATOMIC_RELAXED);
    return rc;
}

/* ---- failures ---- */

static int start_failing_jobs(void *arg)
{
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = "send the mail";
    CHECK_EQ(coir_go_with(NULL, &options, fail, (void *)-EBADMSG), 0);
    options.place = COIR_ON_WORKER(1);
    CHECK_EQ(coir_go_with(NULL, &options, fail, (void *)-EBADMSG), 0);
    CHECK_EQ(coir_event_wait(&failed), 0);
    CHECK_EQ(coir_yield(), 0);
    CHECK_EQ(coir_go(NULL, fail, (void *)-EBADMSG), 0);
    CHECK_EQ(coir_sleep_for(COIR_MS), 0); /* no task was cancelled */
    CHECK_EQ(coir_go(NULL, outlive, NULL), 0);
    return (int)(intptr_t)arg;
}

TEST(a_background_task_that_fails_is_named_and_takes_nothing_down)
{
    CHECK_EQ(run(start_failing_jobs, NULL, 0), 0);
    CHECK_EQ(ended, 1);
    CHECK_EQ(lines.count, 3);
    int named = 0;
    char number[32];
    snprintf(number, sizeof number, "(error %d)", EBADMSG);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(lines.levels[i], COIR_LOG_WARNING);
        named += strstr(lines.lines[i], "\"send the mail\" failed") != NULL;
        CHECK(strstr(lines.lines[i], coir_strerror(-EBADMSG)) != NULL);
        CHECK(strstr(lines.lines[i], number) != NULL);
    }
    CHECK_EQ(named, 2);
}

/* ---- results ---- */

static int wait_for_ever(void *arg)
{
    int rc = coir_event_wait(&never);
    *(int *)arg = rc;
    return rc;
}

static int leave_with(void *arg)
{
    static int reason;
    CHECK_EQ(coir_go(NULL, outlive, NULL), 0);
    if ((intptr_t)arg < 0)
        CHECK_EQ(coir_go_on(NULL, 1, wait_for_ever, &reason), 0);
    return (int)(intptr_t)arg;
}

TEST(the_result_of_a_run_is_that_of_its_first_task)
{
    CHECK_EQ(run(leave_with, NULL, 0), 0);
    CHECK_EQ(ended, 1); /* the job was waited for */
    CHECK_EQ(run(leave_with, (void *)7, 0), 7);
    /* and does not wait for what is in the background */
    CHECK_EQ(run(leave_with, (void *)-EBADMSG, 0), -EBADMSG);
    CHECK_EQ(ended, 3);
    CHECK_EQ(run(start_failing_jobs, (void *)-ENOENT, 0), -ENOENT);
}

/* ---- stopping ---- */

static int background_saw;

static int finish_after_the_stop(void *arg)
{
    (void)arg;
    CHECK_EQ(coir_event_wait(&stopped), 0);
    CHECK_EQ(coir_task_interrupted(), 0);
    /* a drained request may leave another job behind */
    background_saw = coir_go(NULL, outlive, NULL);
    return 0;
}

static int stop_and_say_so(void *arg)
{
    CHECK_EQ(coir_go_on(NULL, *(int *)arg, finish_after_the_stop, NULL), 0);
    coir_runtime_stop(coir_runtime_current());
    CHECK_EQ(coir_event_wait(&never), -ECANCELED);
    coir_event_set(&stopped);
    return 0;
}

TEST(after_a_stop_the_background_may_finish)
{
    for (int worker = 0; worker < 2; worker++) {
        ended = 0;
        background_saw = -1;
        stopped = (coir_event)COIR_EVENT_INIT;
        CHECK_EQ(run(stop_and_say_so, &worker, COIR_NEVER), 0);
        CHECK_EQ(background_saw, 0);
        CHECK_EQ(ended, 1);
        CHECK_EQ(stops_logged, worker + 1);
        CHECK(strstr(stop_line, "1 background task of worker 0 may go on until it ends") != NULL);
    }
    CHECK_EQ(lines.count, 0);
}

static int stop_with_jobs(void *arg)
{
    int *reasons = arg;
    CHECK_EQ(coir_go(NULL, wait_for_ever, &reasons[0]), 0);
    CHECK_EQ(coir_go_on(NULL, 1, wait_for_ever, &reasons[1]), 0);
    for (int i = 0; i < reasons[2]; i++)
        coir_runtime_stop(coir_runtime_current());
    return coir_event_wait(&never);
}

TEST(when_the_drain_time_is_over_the_background_is_cancelled)
{
    int reasons[3] = {0, 0, 1};
    CHECK_EQ(run(stop_with_jobs, reasons, COIR_MS), -ECANCELED);
    CHECK_EQ(reasons[0], -ECANCELED);
    CHECK_EQ(reasons[1], -ECANCELED);
    CHECK_EQ(stops_logged, 1); /* both are the worker's that spawned them */
    CHECK(strstr(stop_line, "2 background tasks of worker 0 may go on for 0.001 s") != NULL);
    CHECK_EQ(lines.count, 1);
    CHECK(strstr(lines.lines[0], "cancelling 2 background tasks of worker 0") != NULL);
}

TEST(a_second_stop_cancels_the_background_at_once)
{
    int reasons[3] = {0, 0, 2};
    CHECK_EQ(run(stop_with_jobs, reasons, COIR_NEVER), -ECANCELED);
    CHECK_EQ(reasons[0], -ECANCELED);
    CHECK_EQ(reasons[1], -ECANCELED);
    CHECK_EQ(lines.count, 0);
}

/* ---- futures whose result goes elsewhere ---- */

static coir_runtime *running;

static void *block_on_a_failure(void *arg)
{
    (void)arg;
    coir_call call;
    CHECK_EQ(coir_block_on(running, coir_call_init(&call, fail, (void *)-EBADMSG)), -EBADMSG);
    coir_event_set(&stopped);
    return NULL;
}

static int be_visited(void *arg)
{
    (void)arg;
    pthread_t thread;
    running = coir_runtime_current();
    CHECK_EQ(pthread_create(&thread, NULL, block_on_a_failure, NULL), 0);
    CHECK_EQ(coir_event_wait(&stopped), 0); /* the failure is the thread's */
    pthread_join(thread, NULL);
    return coir_yield();
}

TEST(what_a_plain_thread_blocks_on_may_fail)
{
    CHECK_EQ(run(be_visited, NULL, 0), 0);
    CHECK_EQ(lines.count, 0);
}

/* ---- positive results ---- */

static int count_to(void *arg)
{
    return (int)(intptr_t)arg;
}

static int return_counts(void *arg)
{
    COIR_SCOPE(scope);
    COIR_HANDLE(handle);
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = "count";
    options.place = COIR_ON_WORKER(*(int *)arg);
    options.handle = handle;
    CHECK_EQ(coir_go_with(scope, &options, count_to, (void *)7), 0);
    CHECK_EQ(coir_join(handle), 7);
    CHECK_EQ(lines.count, 0);
    options.handle = NULL;
    CHECK_EQ(coir_go_with(scope, &options, count_to, (void *)8), 0);
    return coir_scope_wait(scope);
}

TEST(a_positive_result_that_nobody_gets_is_told_in_debug_builds)
{
    for (int worker = 0; worker < 2; worker++) {
        lines.count = 0;
        CHECK_EQ(run(return_counts, &worker, 0), 0);
        CHECK_EQ(lines.count, CI_DEBUG);
        if (CI_DEBUG)
            CHECK(strstr(lines.lines[0], "the result 8 of the task \"count\" is dropped") != NULL);
    }
}
