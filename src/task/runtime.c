/* Runtimes: making, freeing, counters and state.
 *
 * 1. Nothing of any worker is freed before all threads are joined and all inboxes are empty.
 */
#include "task/runtime.h"

#include <errno.h>

#include "base/check.h"
#include "sys/cpu.h"
#include "sys/fork.h"
#include "task/config.h"
#include "task/current.h"
#include "task/extension.h"
#include "task/log.h"
#include "task/recorder.h"
#include "task/run.h"
#include "task/run_state.h"
#include "task/stack_use.h"

/* ---- making and freeing ---- */

static void enlist(coir_runtime *runtime)
{
    ci_lock_take(&ci_runtimes_lock);
    ci_list_push(&ci_runtimes, &runtime->link);
    ci_lock_give(&ci_runtimes_lock);
}

static void delist(coir_runtime *runtime)
{
    ci_lock_take(&ci_runtimes_lock);
    ci_list_unlink(&runtime->link);
    ci_lock_give(&ci_runtimes_lock);
}

static void free_runtime(coir_runtime *runtime)
{
    coir_allocator allocator = runtime->allocator;
    delist(runtime);
    ci_run_close(runtime);
    ci_check(!runtime->started, "runtime.c 1");
    for (int i = 0; i < runtime->worker_count; i++)
        ci_check(ci_inbox_empty(&runtime->workers[i].loop.inbox), "runtime.c 1");
    ci_recorder_free(runtime);
    ci_runtime_free_extensions(runtime);
    ci_offload_done(runtime);
    ci_wakers_abandon(runtime->wakers);
    for (int i = 0; i < runtime->worker_count; i++)
        ci_worker_done(&runtime->workers[i]);
    ci_free(&allocator, runtime->workers, runtime->config.workers * sizeof *runtime->workers);
    ci_mutex_done(&runtime->metered_lock);
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
    ci_mutex_init(&runtime->metered_lock);
    ci_list_init(&runtime->metered);
    enlist(runtime);
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
        if (config->stack_use)
            rc = ci_stack_use_init(&runtime->workers[runtime->worker_count]);
        runtime->worker_count++;
    }
    if (rc < 0) {
        free_runtime(runtime);
        return rc;
    }
    *ret_runtime = runtime;
    return 0;
}

/* About what a wake-up through the kernel costs. */
static const coir_time spin_time = 50 * COIR_US;

/* Lets workers spin for messages before they sleep, if another CPU could send one in that time. */
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
        ci_log_to(config, COIR_LOG_INFO, "the driver is %s: %s does not work here (%s)", choice[1],
                  choice[0], why ? why : coir_strerror(rc));
    }
}

int coir_runtime_new(const coir_config *given, coir_runtime **ret_runtime)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!ret_runtime)
        return CI_MISUSE(-EINVAL, "ret_runtime is NULL");
    coir_config config;
    coir_allocator allocator;
    int rc = ci_config_read(&config, given);
    if (rc == 0)
        rc = ci_allocator_read(&allocator, config.allocator);
    config.allocator = &allocator;
    if (rc == 0 && config.driver && !ci_driver_known(config.driver))
        rc = ci_config_refuse(&config, "the driver", config.driver, ci_driver_names);
    if (rc == 0)
        rc = ci_config_check_resolver(&config);
    if (rc < 0)
        return rc;
    rc = config.driver ? make_on(&config, config.driver, ret_runtime)
                       : make_on_best(&config, ret_runtime);
    if (rc == 0)
        let_workers_spin(*ret_runtime);
    else if (config.driver)
        ci_log_to(&config, COIR_LOG_ERROR, "the driver %s does not work here: %s", config.driver,
                  coir_strerror(rc));
    return rc;
}

int ci_runtime_new_on(const coir_config *wanted, const coir_allocator *allocator,
                      ci_open_driver_fn *open, void *arg, coir_runtime **ret_runtime)
{
    coir_config given = *wanted, config;
    given.driver = "given";
    int rc = ci_config_read(&config, &given);
    config.allocator = allocator ? allocator : &ci_system_allocator;
    return rc < 0 ? rc : make_runtime(&config, open, arg, ret_runtime);
}

void coir_runtime_free(coir_runtime *runtime)
{
    if (!runtime || ci_forked() ||
        CI_REFUSED_AS(-EBUSY, ci_run_phase(ci_load(&runtime->run)) == CI_RUN_RUNNING,
                      "it runs; free it when coir_runtime_run has returned"))
        return;
    free_runtime(runtime);
}

/* ---- the current runtime, and its state ---- */

coir_runtime *coir_runtime_current(void)
{
    return ci_worker_current ? ci_worker_current->runtime : NULL;
}

size_t coir_worker_count(const coir_runtime *runtime)
{
    return CI_REFUSED(!runtime, "runtime is NULL") ? 0 : (size_t)runtime->worker_count;
}

int coir_worker_index(void)
{
    return ci_worker_current ? ci_worker_current->index : -ESRCH;
}

coir_loop *coir_worker_loop(void)
{
    return ci_worker_current ? &ci_worker_current->loop : NULL;
}

int coir_counters_get(const coir_runtime *runtime, coir_counters *ret_counters)
{
    coir_counters sum = COIR_COUNTERS;
    if (!runtime || !ret_counters)
        return CI_MISUSE(-EINVAL, "runtime or ret_counters is NULL");
    for (int i = 0; i < runtime->worker_count; i++) {
        const struct ci_worker *worker = &runtime->workers[i];
        sum.tasks_started += ci_load_relaxed(&worker->tasks_started);
        sum.tasks_live +=
            ci_load_relaxed(&worker->tasks.live) + ci_load_relaxed(&worker->remote_tasks.live);
        sum.stacks_live += ci_load_relaxed(&worker->stacks.live);
        sum.stacks_cached += ci_load_relaxed(&worker->stacks.cached);
        sum.resumes += ci_load_relaxed(&worker->resumes);
        sum.driver_waits += ci_load_relaxed(&worker->loop.turns);
        sum.wakeups_sent += ci_load_relaxed(&worker->loop.wakeups);
        sum.task_errors += ci_load_relaxed(&worker->task_errors);
    }
    return ci_result_write(ret_counters, &sum, sizeof sum);
}
