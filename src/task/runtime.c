/* The runtime: its workers, its first task, its end.
 *
 * 1. It is finished when no root scope has a task: every other task lives in a scope of one of those.
 * 2. Nothing of any worker is freed before all threads are joined and all inboxes are empty.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sys/clock.h"
#include "sys/cpu.h"
#include "sys/lock.h"
#include "sys/signal.h"
#include "sys/thread.h"
#include "task/task.h"

enum { STACK_SIZE = 64 * 1024, BUDGET = 128, WORKERS_MOST = 1024, OFFLOAD_THREADS = 32 };

static void log_args(const coir_config *config, enum coir_log_level level, const char *format, va_list args)
{
    char line[512];
    if (!config->log)
        return;
    vsnprintf(line, sizeof line, format, args);
    config->log(config->log_context, level, line);
}

void ci_log(const coir_runtime *runtime, enum coir_log_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_args(&runtime->config, level, format, args);
    va_end(args);
}

/* For a runtime that is not there yet. */
static CI_COLD __attribute__((format(printf, 3, 4))) void log_to(const coir_config *config, enum coir_log_level level, const char *format,
                                                                 ...)
{
    va_list args;
    va_start(args, format);
    log_args(config, level, format, args);
    va_end(args);
}

/* ---- configuration ---- */

static int fill_in(coir_config *config, const coir_config *given)
{
    *config = (coir_config)COIR_CONFIG;
    if (given) {
        if (given->size < sizeof config->size || given->size > sizeof *config)
            return -EINVAL;
        memcpy(config, given, given->size);
    }
    if (!config->workers)
        config->workers = ci_cpu_available() < WORKERS_MOST ? ci_cpu_available() : WORKERS_MOST;
    if (!config->stack_size)
        config->stack_size = ci_sanitizer ? 4 * STACK_SIZE : STACK_SIZE; /* they make frames larger */
    if (!config->budget)
        config->budget = BUDGET;
    if (!config->offload_threads_max)
        config->offload_threads_max = OFFLOAD_THREADS;
    if (!config->defer_timeout)
        config->defer_timeout = 5 * COIR_S;
    if (!config->allocator)
        config->allocator = &ci_system_allocator;
    return config->workers <= WORKERS_MOST && config->budget <= INT32_MAX ? 0 : -EINVAL;
}

static CI_COLD int refuse_setting(const coir_config *config, const char *name, const char *value, const char *wanted)
{
    log_to(config, COIR_LOG_ERROR, "%s is \"%s\"; it may be %s", name, value, wanted);
    return -EINVAL;
}

static int override_from_environment(coir_config *config)
{
    const char *workers = getenv("COIR_WORKERS"), *driver = getenv("COIR_DRIVER");
    if (workers && *workers) {
        char *end;
        unsigned long count = strtoul(workers, &end, 10);
        if (*end || count < 1 || count > WORKERS_MOST)
            return refuse_setting(config, "COIR_WORKERS", workers, "a number from 1 to 1024");
        config->workers = (unsigned)count;
    }
    if (driver && *driver)
        config->driver = driver;
    return 0;
}

/* ---- making and freeing ---- */

void ci_runtime_send(struct ci_worker *worker, struct ci_message *message)
{
    coir_runtime *runtime = worker->runtime;
    bool visits = !ci_worker_current || ci_worker_current->runtime != runtime;
    if (visits) {
        ci_fetch_add(&runtime->visitors, 1);
        ci_store_relaxed(&runtime->was_visited, true);
    }
    ci_loop_send(&worker->loop, message);
    if (visits)
        ci_fetch_sub(&runtime->visitors, 1);
}

static void free_runtime(coir_runtime *runtime)
{
    coir_allocator allocator = runtime->allocator;
    for (unsigned round = 0; ci_load(&runtime->visitors) || ci_load(&runtime->holds); round++)
        ci_pause(round);
    ci_offload_done(runtime);
    ci_wakers_abandon(runtime->wakers);
    bool delivered = true;
    while (delivered) {
        delivered = false;
        for (int i = 0; i < runtime->worker_count; i++) {
            delivered |= !ci_inbox_empty(&runtime->workers[i].loop.inbox);
            ci_loop_receive(&runtime->workers[i].loop);
        }
    }
    for (int i = 0; i < runtime->worker_count; i++)
        ci_worker_done(&runtime->workers[i]);
    ci_free(&allocator, runtime->workers, runtime->config.workers * sizeof *runtime->workers);
    ci_free(&allocator, runtime, sizeof *runtime);
}

static int make_runtime(const coir_config *config, ci_open_driver_fn *open, void *arg, coir_runtime **ret_runtime)
{
    const coir_allocator *allocator = config->allocator;
    coir_runtime *runtime = ci_alloc_zero(allocator, sizeof *runtime);
    if (!runtime)
        return -ENOMEM;
    runtime->config = *config;
    runtime->allocator = *allocator;
    runtime->shared_tail = &runtime->shared;
    int rc = 0;
    if (!(runtime->workers = ci_alloc_zero(allocator, config->workers * sizeof *runtime->workers)))
        rc = -ENOMEM;
    if (rc == 0 && !(runtime->wakers = ci_wakers_new()))
        rc = -ENOMEM;
    if (rc == 0)
        rc = ci_offload_init(runtime);
    while (rc == 0 && runtime->worker_count < (int)config->workers) {
        struct ci_driver *driver;
        rc = open(arg, runtime->worker_count, &runtime->allocator, &driver);
        if (rc < 0)
            break;
        runtime->simulated = driver->kind->simulated;
        ci_worker_init(&runtime->workers[runtime->worker_count], runtime, runtime->worker_count, driver);
        runtime->worker_count++;
    }
    if (rc < 0) {
        free_runtime(runtime);
        return rc;
    }
    *ret_runtime = runtime;
    return 0;
}

static const coir_time spin_time = 50 * COIR_US; /* about what a wake-up through the kernel costs */

/* Workers look for messages before they sleep where another CPU can send one meanwhile. */
static void let_workers_spin(coir_runtime *runtime)
{
    bool useful = runtime->worker_count > 1 && ci_cpu_available() > 1;
    for (int i = 0; useful && i < runtime->worker_count; i++)
        ci_loop_spin(&runtime->workers[i].loop, spin_time);
}

static int open_named_driver(void *arg, int worker, const coir_allocator *allocator, struct ci_driver **ret_driver)
{
    (void)worker;
    return ci_driver_open(arg, allocator, ret_driver);
}

static int make_on(const coir_config *config, const char *driver, coir_runtime **ret_runtime)
{
    return make_runtime(config, open_named_driver, (void *)(uintptr_t)driver, ret_runtime);
}

/* The best driver that works, the same for all workers. */
static int make_on_best(const coir_config *config, coir_runtime **ret_runtime)
{
    for (const char *const *choice = ci_driver_choices;; choice++) {
        const char *why = choice[1] ? ci_driver_unfit(choice[0]) : NULL;
        int rc = why ? -EOPNOTSUPP : make_on(config, choice[0], ret_runtime);
        if (rc == 0 || !choice[1])
            return rc;
        log_to(config, COIR_LOG_INFO, "the driver is %s: %s does not work here (%s)", choice[1], choice[0], why ? why : coir_strerror(rc));
    }
}

int coir_runtime_new(const coir_config *given, coir_runtime **ret_runtime)
{
    coir_config config;
    int rc = fill_in(&config, given);
    if (rc == 0)
        rc = override_from_environment(&config);
    if (rc == 0 && config.driver && !ci_driver_known(config.driver))
        rc = refuse_setting(&config, "the driver", config.driver, ci_driver_names);
    if (rc < 0)
        return rc;
    rc = config.driver ? make_on(&config, config.driver, ret_runtime) : make_on_best(&config, ret_runtime);
    if (rc == 0)
        let_workers_spin(*ret_runtime);
    else if (config.driver)
        log_to(&config, COIR_LOG_ERROR, "the driver %s does not work here: %s", config.driver, coir_strerror(rc));
    return rc;
}

int ci_runtime_new_on(unsigned workers, const coir_allocator *allocator, ci_open_driver_fn *open, void *arg, coir_runtime **ret_runtime)
{
    coir_config given = COIR_CONFIG, config;
    given.workers = workers;
    given.allocator = allocator;
    int rc = fill_in(&config, &given);
    return rc < 0 ? rc : make_runtime(&config, open, arg, ret_runtime);
}

void coir_runtime_free(coir_runtime *runtime)
{
    if (runtime)
        free_runtime(runtime);
}

/* ---- running ---- */

void ci_runtime_alert_all(coir_runtime *runtime)
{
    for (int i = 0; i < runtime->worker_count; i++)
        ci_loop_alert(&runtime->workers[i].loop);
}

void coir_runtime_stop(coir_runtime *runtime)
{
    ci_store(&runtime->stop_requested, true);
    ci_runtime_alert_all(runtime);
}

void ci_runtime_root_live(coir_runtime *runtime, bool live)
{
    if (live) {
        ci_fetch_add(&runtime->live_roots, 1);
    } else if (ci_fetch_sub(&runtime->live_roots, 1) == 1) {
        ci_store(&runtime->finished, true);
        ci_runtime_alert_all(runtime);
    }
}

static void enter_thread(struct ci_worker *worker)
{
    if (worker->runtime->config.pin_workers)
        ci_cpu_pin((unsigned)worker->index);
    if (worker->runtime->config.report_overflow)
        ci_overflow_watch(worker);
}

static bool goes_on(const struct ci_worker *worker)
{
    return !ci_load(&worker->runtime->finished) || worker->root.live;
}

static void leave_thread(struct ci_worker *worker)
{
    struct ci_driver *driver = worker->loop.driver;
    if (driver->kind->end)
        driver->kind->end(driver);
    if (worker->runtime->config.report_overflow)
        ci_overflow_unwatch(worker);
}

void ci_worker_run(struct ci_worker *worker)
{
    enter_thread(worker);
    while (goes_on(worker))
        ci_worker_turn(worker, COIR_NEVER);
    leave_thread(worker);
}

static void *worker_thread(void *arg)
{
    struct ci_worker *worker = arg;
    ci_worker_adopt_thread(worker);
    ci_worker_run(worker);
    return NULL;
}

static int start_threads(coir_runtime *runtime)
{
    int rc = 0, i = 1;
    for (; rc == 0 && i < runtime->worker_count; i++)
        rc = ci_thread_start(&runtime->workers[i].thread, worker_thread, &runtime->workers[i]);
    runtime->started = rc == 0 ? i : i - 1;
    return rc;
}

int ci_runtime_begin(coir_runtime *runtime, coir_task_fn *fn, void *arg)
{
    struct ci_worker *first = &runtime->workers[0], *before = ci_worker_current;
    runtime->finished = runtime->stop_requested = false;
    runtime->deadlocked = false;
    runtime->told = 0;
    for (int i = 0; i < runtime->worker_count; i++) {
        struct ci_worker *worker = &runtime->workers[i];
        ci_scope_init(&worker->root, worker, false);
        worker->root.root = true;
        worker->was_stopped = worker->told_deadlock = worker->stuck = false;
    }
    ci_worker_current = first;
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = "main";
    int rc = coir_go_with(NULL, &options, fn, arg);
    ci_worker_current = before;
    return rc;
}

int ci_runtime_result(coir_runtime *runtime)
{
    int interrupted = 0;
    if (runtime->deadlocked && runtime->config.deadlock == COIR_DEADLOCK_END)
        return -EDEADLK;
    for (int i = 0; i < runtime->worker_count; i++) {
        const struct ci_scope *root = &runtime->workers[i].root;
        if (root->error)
            return root->error;
        if (root->cancelled)
            interrupted = -ECANCELED;
    }
    return interrupted;
}

static int begin_drivers(coir_runtime *runtime)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < runtime->worker_count; i++) {
        struct ci_driver *driver = runtime->workers[i].loop.driver;
        if (driver->kind->begin)
            rc = driver->kind->begin(driver);
    }
    return rc;
}

static int begin(coir_runtime *runtime, coir_task_fn *fn, void *arg)
{
    runtime->started = 0;
    if (ci_worker_current)
        return -EBUSY;
    ci_worker_adopt_thread(&runtime->workers[0]);
    int rc = begin_drivers(runtime);
    if (rc == 0)
        rc = ci_runtime_begin(runtime, fn, arg);
    if (rc < 0)
        return rc;
    if ((rc = start_threads(runtime)) < 0)
        coir_runtime_stop(runtime); /* what has begun ends on this thread */
    return rc;
}

static void join_threads(coir_runtime *runtime)
{
    for (int i = 1; i < runtime->started; i++)
        pthread_join(runtime->workers[i].thread, NULL);
    runtime->started = 0;
}

int coir_runtime_run(coir_runtime *runtime, coir_task_fn *fn, void *arg)
{
    int rc = begin(runtime, fn, arg);
    if (!runtime->started)
        return rc;
    if (runtime->config.stop_signals)
        ci_signal_watch((ci_signal_fn *)(uintptr_t)coir_runtime_stop, runtime);
    struct ci_signal_mask before;
    ci_signal_block_pipe(&before);
    ci_worker_run(&runtime->workers[0]);
    ci_signal_restore(&before);
    if (runtime->config.stop_signals)
        ci_signal_unwatch();
    join_threads(runtime);
    return rc < 0 ? rc : ci_runtime_result(runtime);
}

/* ---- driven by somebody else's loop ---- */

/* A worker that somebody else's loop waits for needs a driver over a selector. */
static int give_selector(coir_runtime *runtime)
{
    struct ci_driver **driver = &runtime->workers[0].loop.driver, *other;
    if ((*driver)->kind->descriptor || runtime->config.driver || runtime->started)
        return 0;
    int rc = ci_driver_open(ci_driver_selector, &runtime->allocator, &other);
    if (rc < 0)
        return rc;
    (*driver)->kind->free(*driver);
    *driver = other;
    return 0;
}

coir_fd coir_runtime_fd(coir_runtime *runtime)
{
    int rc = give_selector(runtime);
    struct ci_driver *driver = runtime->workers[0].loop.driver;
    return rc < 0 ? rc : driver->kind->descriptor ? driver->kind->descriptor(driver) : -ENOTSUP;
}

int coir_runtime_begin(coir_runtime *runtime, coir_task_fn *fn, void *arg)
{
    coir_fd fd = coir_runtime_fd(runtime);
    if (fd < 0)
        return fd;
    int rc = begin(runtime, fn, arg);
    if (rc == 0) {
        enter_thread(&runtime->workers[0]);
    } else if (runtime->started) {
        ci_worker_run(&runtime->workers[0]);
        join_threads(runtime);
    }
    return rc;
}

coir_time coir_runtime_next(coir_runtime *runtime)
{
    struct ci_worker *worker = &runtime->workers[0];
    bool idle = ci_loop_announce_sleep(&worker->loop) && !worker->ready && ci_list_empty(&worker->loop.fresh) &&
                !ci_load_relaxed(&runtime->shared_count);
    return idle && goes_on(worker) ? ci_wheel_next(&worker->loop.wheel) : 0;
}

int coir_runtime_step(coir_runtime *runtime)
{
    struct ci_worker *worker = &runtime->workers[0];
    if (!goes_on(worker))
        return 0;
    struct ci_signal_mask before;
    ci_signal_block_pipe(&before);
    ci_store_relaxed(&worker->loop.asleep, false);
    ci_worker_turn(worker, 0);
    ci_loop_announce_sleep(&worker->loop);
    ci_signal_restore(&before);
    return goes_on(worker);
}

int coir_runtime_end(coir_runtime *runtime)
{
    leave_thread(&runtime->workers[0]);
    join_threads(runtime);
    return ci_runtime_result(runtime);
}

void coir_runtime_hold(coir_runtime *runtime)
{
    ci_fetch_add(&runtime->holds, 1);
}

void coir_runtime_release(coir_runtime *runtime)
{
    ci_fetch_sub(&runtime->holds, 1);
}

/* ---- looking at it ---- */

coir_runtime *coir_runtime_current(void)
{
    return ci_worker_current ? ci_worker_current->runtime : NULL;
}

int coir_worker_count(const coir_runtime *runtime)
{
    return runtime->worker_count;
}

int coir_worker_index(void)
{
    return ci_worker_current ? ci_worker_current->index : -ESRCH;
}

void coir_runtime_counters(const coir_runtime *runtime, coir_counters *ret_counters)
{
    coir_counters sum = {0};
    for (int i = 0; i < runtime->worker_count; i++) {
        const struct ci_worker *worker = &runtime->workers[i];
        sum.tasks_started += ci_load_relaxed(&worker->tasks_started);
        sum.tasks_live += ci_load_relaxed(&worker->tasks.live) + ci_load_relaxed(&worker->far_tasks.live);
        sum.stacks_live += ci_load_relaxed(&worker->stacks.live);
        sum.stacks_cached += ci_load_relaxed(&worker->stacks.cached);
        sum.resumes += ci_load_relaxed(&worker->resumes);
        sum.driver_waits += ci_load_relaxed(&worker->loop.waits);
        sum.wakeups_sent += ci_load_relaxed(&worker->loop.wakeups);
        sum.task_errors += ci_load_relaxed(&worker->task_errors);
    }
    *ret_counters = sum;
}
