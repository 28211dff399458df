/* The runtime: its configuration, how it is made and freed, and what it says about itself. Its runs
 * are in run.c.
 *
 * 1. Nothing of any worker is freed before all threads are joined and all inboxes are empty.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/cares.h"
#include "sys/cpu.h"
#include "task/task.h"

enum {
    STACK_SIZE = 64 * 1024,
    STACK_SIZE_MOST = 1 << 30,
    BUDGET = 128,
    WORKERS_MOST = 1024,
    OFFLOAD_THREADS = 32,
    NAME_THREADS = 8,
    NAME_THREADS_MOST = 1024,
    NAME_CACHE = 1024,
    OFFLOAD_THREADS_MOST = 65536,
};

static void log_args(const coir_config *config, enum coir_log_level level, const char *format,
                     va_list args)
{
    char line[512];
    if (!config->log)
        return;
    vsnprintf(line, sizeof line, format, args);
    config->log(level, line, config->log_arg);
}

void ci_log(const coir_runtime *runtime, enum coir_log_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_args(&runtime->config, level, format, args);
    va_end(args);
}

/* For a runtime that is not there yet. */
static CI_COLD __attribute__((format(printf, 3, 4))) void log_to(const coir_config *config,
                                                                 enum coir_log_level level,
                                                                 const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_args(config, level, format, args);
    va_end(args);
}

/* ---- configuration ---- */

static CI_COLD int refuse_number(const coir_config *config, const char *name, uint64_t value,
                                 uint64_t most)
{
    log_to(config, COIR_LOG_ERROR, "coir_config.%s is %" PRIu64 "; it may be at most %" PRIu64,
           name, value, most);
    return -EINVAL;
}

static CI_COLD int refuse_choice(const coir_config *config, const char *name, int value, int last)
{
    log_to(config, COIR_LOG_ERROR, "coir_config.%s is %d; it may be 0 to %d", name, value, last);
    return -EINVAL;
}

static int check_time(const coir_config *config, const char *name, coir_time value)
{
    if (value >= 0)
        return 0;
    log_to(config, COIR_LOG_ERROR, "coir_config.%s is negative: %" PRId64 " ns", name, value);
    return -EINVAL;
}

static int check_numbers(const coir_config *config)
{
    if (config->workers > WORKERS_MOST)
        return refuse_number(config, "workers", config->workers, WORKERS_MOST);
    if (config->stack_size > STACK_SIZE_MOST)
        return refuse_number(config, "stack_size", config->stack_size, STACK_SIZE_MOST);
    if (config->budget > INT32_MAX)
        return refuse_number(config, "budget", config->budget, INT32_MAX);
    if (config->offload_threads_max > OFFLOAD_THREADS_MOST)
        return refuse_number(config, "offload_threads_max", config->offload_threads_max,
                             OFFLOAD_THREADS_MOST);
    if (config->name_threads_max > NAME_THREADS_MOST)
        return refuse_number(config, "name_threads_max", config->name_threads_max,
                             NAME_THREADS_MOST);
    if ((unsigned)config->deadlock > COIR_DEADLOCK_END)
        return refuse_choice(config, "deadlock", (int)config->deadlock, COIR_DEADLOCK_END);
    int rc = check_time(config, "defer_timeout", config->defer_timeout);
    if (rc == 0)
        rc = check_time(config, "drain_timeout", config->drain_timeout);
    return rc < 0 ? rc : check_time(config, "name_cache_time", config->name_cache_time);
}

static CI_COLD int refuse_setting(const coir_config *config, const char *name, const char *value,
                                  const char *wanted)
{
    log_to(config, COIR_LOG_ERROR, "%s is \"%s\"; it may be %s", name, value, wanted);
    return -EINVAL;
}

static int check_resolver(const coir_config *config)
{
    const char *names =
        ci_has_cares ? "system or c-ares" : "system, as this coir was built without c-ares";
    bool cares = config->resolver && strcmp(config->resolver, "c-ares") == 0;
    if (config->resolver && strcmp(config->resolver, "system") != 0 && !(cares && ci_has_cares))
        return refuse_setting(config, "the resolver", config->resolver, names);
    if (config->name_servers && !cares)
        return refuse_setting(config, "coir_config.name_servers", config->name_servers,
                              "set for c-ares alone: the system has its own");
    return 0;
}

/* Fills in what the program left open; what it set only where it asks for that. */
static int read_environment(coir_config *config)
{
    const char *workers = getenv("COIR_WORKERS"), *driver = getenv("COIR_DRIVER");
    if (workers && *workers &&
        (!config->workers || config->environment & COIR_ENVIRONMENT_WORKERS)) {
        char *end;
        unsigned long count = strtoul(workers, &end, 10);
        if (*end || count < 1 || count > WORKERS_MOST)
            return refuse_setting(config, "COIR_WORKERS", workers, "a number from 1 to 1024");
        config->workers = count;
    }
    if (driver && *driver && (!config->driver || config->environment & COIR_ENVIRONMENT_DRIVER))
        config->driver = driver;
    return 0;
}

static int fill_in(coir_config *config, const coir_config *given)
{
    *config = (coir_config)COIR_CONFIG;
    int rc = ci_options_read(config, sizeof *config, given);
    if (rc == 0)
        rc = read_environment(config);
    if (rc < 0)
        return rc;
    if (!config->workers) {
        unsigned cpus = ci_cpu_available();
        config->workers = cpus < WORKERS_MOST ? cpus : WORKERS_MOST;
    }
    if (!config->stack_size)
        /* they make frames larger */
        config->stack_size = ci_sanitizer ? 4 * STACK_SIZE : STACK_SIZE;
    if (!config->budget)
        config->budget = BUDGET;
    if (config->budget == COIR_UNLIMITED)
        config->budget = INT32_MAX;
    if (!config->offload_threads_max)
        config->offload_threads_max = OFFLOAD_THREADS;
    if (config->offload_threads_max == COIR_UNLIMITED)
        config->offload_threads_max = OFFLOAD_THREADS_MOST;
    if (config->offload_queue_max == COIR_UNLIMITED)
        config->offload_queue_max = 0;
    if (!config->name_threads_max)
        config->name_threads_max = NAME_THREADS;
    if (config->name_threads_max == COIR_UNLIMITED)
        config->name_threads_max = NAME_THREADS_MOST;
    if (!config->name_cache_max)
        config->name_cache_max = NAME_CACHE;
    if (!config->name_cache_time)
        config->name_cache_time = 10 * COIR_S;
    if (config->tasks_max == COIR_UNLIMITED)
        config->tasks_max = 0;
    if (!config->defer_timeout)
        config->defer_timeout = 5 * COIR_S;
    if (!config->drain_timeout)
        config->drain_timeout = 10 * COIR_S;
    return check_numbers(config);
}

/* ---- making and freeing ---- */

struct ci_runtime_extension *ci_runtime_find_extension(coir_runtime *runtime, const void *key)
{
    /* pairs with the exchange below */
    struct ci_runtime_extension *extension = ci_load_acquire(&runtime->extensions);
    while (extension && extension->key != key)
        extension = extension->next;
    return extension;
}

struct ci_runtime_extension *ci_runtime_add_extension(coir_runtime *runtime,
                                                      struct ci_runtime_extension *extension)
{
    extension->next = ci_load_acquire(&runtime->extensions);
    do {
        for (struct ci_runtime_extension *there = extension->next; there; there = there->next)
            if (there->key == extension->key)
                return there;
    } while (!ci_compare_exchange(&runtime->extensions, &extension->next, extension));
    return extension;
}

bool ci_runtime_extensions_awaited(coir_runtime *runtime)
{
    bool awaited = false;
    for (struct ci_runtime_extension *extension = ci_load_acquire(&runtime->extensions); extension;
         extension = extension->next)
        awaited |= extension->is_awaited(extension);
    return awaited;
}

static void free_extensions(coir_runtime *runtime)
{
    while (runtime->extensions) {
        struct ci_runtime_extension *extension = runtime->extensions;
        runtime->extensions = extension->next;
        extension->free(extension);
    }
}

static void free_runtime(coir_runtime *runtime)
{
    coir_allocator allocator = runtime->allocator;
    ci_run_close(runtime);
    free_extensions(runtime);
    ci_offload_done(runtime);
    ci_wakers_abandon(runtime->wakers);
    for (int i = 0; i < runtime->worker_count; i++)
        ci_worker_done(&runtime->workers[i]);
    ci_free(&allocator, runtime->workers, runtime->config.workers * sizeof *runtime->workers);
    ci_free(&allocator, runtime, sizeof *runtime);
    ci_fork_allow();
}

static int make_runtime(const coir_config *config, ci_open_driver_fn *open, void *arg,
                        coir_runtime **ret_runtime)
{
    const coir_allocator *allocator = config->allocator;
    coir_runtime *runtime = ci_alloc_zero(allocator, sizeof *runtime);
    if (!runtime)
        return -ENOMEM;
    runtime->config = *config;
    runtime->allocator = *allocator;
    runtime->shared_tail = &runtime->shared;
    ci_fork_forbid();
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
        ci_worker_init(&runtime->workers[runtime->worker_count], runtime, runtime->worker_count,
                       driver);
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

static int open_named_driver(void *arg, int worker, const coir_allocator *allocator,
                             struct ci_driver **ret_driver)
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
        log_to(config, COIR_LOG_INFO, "the driver is %s: %s does not work here (%s)", choice[1],
               choice[0], why ? why : coir_strerror(rc));
    }
}

int coir_runtime_new(const coir_config *given, coir_runtime **ret_runtime)
{
    if (ci_forked())
        return -COIR_EFORKED;
    coir_config config;
    coir_allocator allocator;
    int rc = fill_in(&config, given);
    if (rc == 0)
        rc = ci_allocator_read(&allocator, config.allocator);
    config.allocator = &allocator;
    if (rc == 0 && config.driver && !ci_driver_known(config.driver))
        rc = refuse_setting(&config, "the driver", config.driver, ci_driver_names);
    if (rc == 0)
        rc = check_resolver(&config);
    if (rc < 0)
        return rc;
    rc = config.driver ? make_on(&config, config.driver, ret_runtime)
                       : make_on_best(&config, ret_runtime);
    if (rc == 0)
        let_workers_spin(*ret_runtime);
    else if (config.driver)
        log_to(&config, COIR_LOG_ERROR, "the driver %s does not work here: %s", config.driver,
               coir_strerror(rc));
    return rc;
}

int ci_config_check(const coir_config *given)
{
    coir_config config;
    return fill_in(&config, given);
}

int ci_runtime_new_on(const coir_config *wanted, const coir_allocator *allocator,
                      ci_open_driver_fn *open, void *arg, coir_runtime **ret_runtime)
{
    coir_config given = *wanted, config;
    given.driver = "given";
    int rc = fill_in(&config, &given);
    config.allocator = allocator ? allocator : &ci_system_allocator;
    return rc < 0 ? rc : make_runtime(&config, open, arg, ret_runtime);
}

void coir_runtime_free(coir_runtime *runtime)
{
    if (runtime && !ci_forked())
        free_runtime(runtime);
}

/* ---- looking at it ---- */

coir_runtime *coir_runtime_current(void)
{
    return ci_worker_current ? ci_worker_current->runtime : NULL;
}

size_t coir_worker_count(const coir_runtime *runtime)
{
    return (size_t)runtime->worker_count;
}

int coir_worker_index(void)
{
    return ci_worker_current ? ci_worker_current->index : -ESRCH;
}

int coir_counters_get(const coir_runtime *runtime, coir_counters *ret_counters)
{
    coir_counters sum = COIR_COUNTERS;
    for (int i = 0; i < runtime->worker_count; i++) {
        const struct ci_worker *worker = &runtime->workers[i];
        sum.tasks_started += ci_load_relaxed(&worker->tasks_started);
        sum.tasks_live +=
            ci_load_relaxed(&worker->tasks.live) + ci_load_relaxed(&worker->remote_tasks.live);
        sum.stacks_live += ci_load_relaxed(&worker->stacks.live);
        sum.stacks_cached += ci_load_relaxed(&worker->stacks.cached);
        sum.resumes += ci_load_relaxed(&worker->resumes);
        sum.driver_waits += ci_load_relaxed(&worker->loop.waits);
        sum.wakeups_sent += ci_load_relaxed(&worker->loop.wakeups);
        sum.task_errors += ci_load_relaxed(&worker->task_errors);
    }
    return ci_result_write(ret_counters, &sum, sizeof sum);
}
