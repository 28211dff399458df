/* Hosts: runtimes whose workers are stepped by the world instead of by threads.
 *
 * 1. One step is one turn of one worker that has something to do, chosen by the seed among all such
 * workers of all hosts.
 * 2. Only when no worker has anything to do does time move: to the next event of the world or the
 * next timer of a worker.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/options.h"
#include "sim/name.h"
#include "task/simulation.h"
#include "task/task.h"

enum { RUNNABLE_MOST = 256 };

/* ---- hosts ---- */

struct opening {
    struct ci_world *world;
    struct ci_node *node;
};

static int open_driver(void *arg, int worker, const coir_allocator *allocator,
                       struct ci_driver **ret_driver)
{
    (void)worker;
    (void)allocator;
    const struct opening *opening = arg;
    return ci_sim_driver_open(opening->world, opening->node, ret_driver);
}

static bool down(const coir_host *host)
{
    return host->sim->on_kernel ? ci_kernel_host_ended(host) : ci_run_ended(host->runtime);
}

/* One whose run has ended leaves its name, its address and its disk to the next. */
static void replace(const struct coir_sim *sim, const char *name)
{
    for (const coir_host *host = sim->hosts; host; host = host->next)
        if (down(host) && strcmp(host->node->name, name) == 0)
            host->node->dead = true;
}

static int make_runtime(coir_host *host)
{
    struct opening opening = {&host->sim->world, host->node};
    int rc = ci_runtime_new_on(&host->sim->config, &host->node->allocator, open_driver, &opening,
                               &host->runtime);
    for (int i = 0; rc == 0 && i < host->runtime->worker_count; i++)
        ci_worker_adopt_thread(&host->runtime->workers[i]);
    return rc;
}

static int begin(coir_host *host)
{
    int rc = ci_runtime_begin(host->runtime, host->fn, host->arg);
    if (rc == 0)
        host->node->faults = host->sim->world.everywhere;
    return rc;
}

coir_host *coir_sim_host(coir_sim *sim, const char *name, coir_task_fn *fn, void *arg)
{
    if (ci_forked())
        return NULL;
    replace(sim, name);
    coir_host *host = calloc(1, sizeof *host);
    struct ci_node *node = host ? ci_world_add_node(&sim->world, name) : NULL;
    if (!node) {
        free(host);
        return NULL;
    }
    *host = (coir_host){.sim = sim, .node = node, .fn = fn, .arg = arg};
    if ((sim->on_kernel ? ci_kernel_host_start(host) : make_runtime(host)) < 0) {
        free(host);
        return NULL;
    }
    *sim->hosts_tail = host;
    sim->hosts_tail = &host->next;
    ci_world_trace(&sim->world, node, "up");
    return sim->on_kernel || begin(host) == 0 ? host : NULL;
}

/* ---- steps ---- */

static bool has_work(const struct coir_sim *sim, struct ci_worker *worker)
{
    return worker->ready || worker->loop.alert || !ci_inbox_empty(&worker->loop.inbox) ||
           !ci_list_empty(&worker->loop.fresh) || ci_sim_driver_busy(worker->loop.driver) ||
           worker->runtime->shared_count || ci_wheel_next(&worker->loop.wheel) <= sim->world.now;
}

static int find_runnable(const struct coir_sim *sim, struct ci_worker *runnable[RUNNABLE_MOST])
{
    int count = 0;
    for (coir_host *host = sim->hosts; host; host = host->next)
        for (int i = 0; i < host->runtime->worker_count && count < RUNNABLE_MOST; i++)
            if (has_work(sim, &host->runtime->workers[i]))
                runnable[count++] = &host->runtime->workers[i];
    return count;
}

static coir_time next_time(const struct coir_sim *sim)
{
    coir_time next = ci_world_next_event(&sim->world);
    for (coir_host *host = sim->hosts; host; host = host->next)
        for (int i = 0; i < host->runtime->worker_count; i++) {
            coir_time timer = ci_wheel_next(&host->runtime->workers[i].loop.wheel);
            if (timer < next)
                next = timer;
        }
    return next;
}

static int step(struct coir_sim *sim)
{
    if (sim->on_kernel)
        return ci_kernel_hosts_run();
    struct ci_worker *runnable[RUNNABLE_MOST];
    ci_world_run_due(&sim->world);
    int count = find_runnable(sim, runnable);
    if (count) {
        sim->world.steps++;
        ci_worker_turn(
            runnable[count > 1 ? ci_random_below(&sim->world.random, (uint64_t)count) : 0], 0);
        return 0;
    }
    coir_time next = next_time(sim);
    if (next == COIR_NEVER)
        return -EDEADLK;
    if (next > sim->options.time_max)
        return -ETIME;
    ci_check(next > sim->world.now);
    sim->world.now = next;
    return 0;
}

static void trace_task(void *arg, int depth, const char *name, const char *waits_for, int cancelled)
{
    ci_world_trace(arg, NULL, "%*s%s waits for %s%s", 2 * depth + 2, "", name, waits_for,
                   cancelled ? " (cancelled)" : "");
}

/* Who waits for what. */
static void dump(struct coir_sim *sim)
{
    if (sim->on_kernel)
        ci_kernel_hosts_dump();
    for (const coir_host *host = sim->hosts; host; host = host->next)
        if (host->runtime)
            ci_runtime_dump(host->runtime, trace_task, &sim->world);
}

int coir_sim_host_main(coir_sim *sim, const char *name, coir_task_fn *fn, void *arg)
{
    if (ci_forked())
        return -COIR_EFORKED;
    coir_host *host = coir_sim_host(sim, name, fn, arg);
    if (!host)
        return -ENOMEM;
    int rc = 0;
    while (rc == 0 && !down(host))
        rc = step(sim);
    if (rc < 0) {
        ci_world_trace(&sim->world, host->node, "gave up: %s", coir_strerror(rc));
        dump(sim);
        return rc;
    }
    rc = sim->on_kernel ? host->result : ci_runtime_result(host->runtime);
    ci_world_trace(&sim->world, host->node, "down result=%d", rc);
    return rc;
}

/* ---- scenarios ---- */

int coir_sim_configure(coir_sim *sim, const coir_config *config)
{
    if (ci_forked())
        return -COIR_EFORKED;
    int rc = ci_config_check(config);
    if (rc < 0)
        return rc;
    sim->config = (coir_config)COIR_CONFIG;
    ci_options_read(&sim->config, sizeof sim->config, config);
    sim->config.workers = sim->options.workers;
    return 0;
}

/* The inline functions of coir/sim.h set the size: these tables are never without one. */
void coir_sim_set_link(coir_sim *sim, const coir_host *a, const coir_host *b,
                       const coir_link *given)
{
    if (ci_forked())
        return;
    coir_link link = {0};
    int rc = ci_options_read(&link, sizeof link, given);
    ci_check(rc == 0);
    ci_world_link(&sim->world, a ? a->node : NULL, b ? b->node : NULL, &link);
}

void coir_sim_set_faults(coir_sim *sim, const coir_host *host, const coir_faults *given)
{
    if (ci_forked())
        return;
    coir_faults faults = {0};
    int rc = ci_options_read(&faults, sizeof faults, given);
    ci_check(rc == 0);
    if (host) {
        host->node->faults = faults;
        return;
    }
    sim->world.everywhere = faults;
    for (host = sim->hosts; host; host = host->next)
        host->node->faults = faults;
}

int coir_sim_set_name(coir_sim *sim, const char *name, const coir_name_answer *given)
{
    if (ci_forked())
        return -COIR_EFORKED;
    coir_name_answer answer = {0};
    int rc = ci_options_read(&answer, sizeof answer, given);
    return rc < 0 ? rc : ci_world_set_name(&sim->world, name, &answer);
}

void coir_sim_crash(coir_sim *sim, coir_host *host)
{
    if (ci_forked())
        return;
    ci_world_kill(&sim->world, host->node);
    if (sim->on_kernel)
        ci_kernel_host_cancel(host);
    else
        ci_run_cancel(host->runtime);
}

static void stop(coir_host *host)
{
    if (host->sim->on_kernel)
        ci_kernel_host_stop(host);
    else
        coir_runtime_stop(host->runtime);
}

void coir_sim_stop(coir_sim *sim, coir_host *host)
{
    if (ci_forked())
        return;
    ci_world_trace(&sim->world, host->node, "stop");
    if (!down(host))
        stop(host);
}

bool coir_host_is_down(const coir_host *host)
{
    return down(host);
}

uint64_t coir_sim_random(coir_sim *sim)
{
    return ci_random_next(&sim->world.random);
}

/* Stops what is still up. A program that does not end when it is cancelled is given up. */
static int stop_all(struct coir_sim *sim)
{
    int rc = 0;
    for (coir_host *host = sim->hosts; rc == 0 && host; host = host->next) {
        if (!down(host))
            stop(host);
        while (rc == 0 && !down(host))
            rc = step(sim);
        if (rc < 0)
            dump(sim);
    }
    return rc;
}

/* Timers of the worker itself may outlive a run. */
size_t ci_worker_stray_timers(const struct ci_worker *worker)
{
    size_t own = (size_t)ci_timer_started(&worker->drain) + ci_timer_started(&worker->trim) +
                 ci_timer_started(&worker->warnings.timer);
    return worker->loop.wheel.count - own;
}

static void leave_some(void *arg, const char *what, size_t count)
{
    const struct ci_node *node = arg;
    ci_world_leave(node->world, node, "%s (%zu)", what, count);
}

/* What hosts that did not crash have left open, now that all runs have ended. */
static void audit(struct coir_sim *sim)
{
    struct ci_world *world = &sim->world;
    for (const coir_host *host = sim->hosts; host && !sim->on_kernel; host = host->next) {
        ci_run_settle(host->runtime); /* records of remote tasks may be on their way home */
        for (int i = 0; i < host->runtime->worker_count; i++) {
            size_t timers = ci_worker_stray_timers(&host->runtime->workers[i]);
            if (timers)
                ci_world_leave(world, host->node, "timer of worker %d (%zu started)", i, timers);
            ci_sim_driver_audit(host->runtime->workers[i].loop.driver);
        }
        ci_runtime_audit(host->runtime, leave_some, host->node);
    }
    for (const coir_host *host = sim->hosts; sim->on_kernel && host; host = host->next)
        ci_kernel_host_audit(host);
    ci_socket_audit(world);
    ci_disk_audit(world);
}

/* All that a runtime had is given back when it is freed. */
static void free_host(coir_host *host)
{
    struct ci_node *node = host->node;
    coir_runtime_free(host->runtime);
    if (node->memory)
        ci_world_leave(node->world, node, "memory (%zu bytes)", node->memory);
    free(host);
}

/* Ends all hosts: 0, or an error if one does not end (then they have live stacks, and are left as
 * they are) or has left something. */
static int end_all(struct coir_sim *sim)
{
    int rc = stop_all(sim);
    if (rc == 0)
        audit(sim);
    if (sim->on_kernel)
        ci_kernel_hosts_close();
    if (rc < 0)
        return rc;
    while (sim->hosts) {
        coir_host *host = sim->hosts;
        sim->hosts = host->next;
        free_host(host);
    }
    return sim->world.left_count ? -COIR_ELEFT : 0;
}

static int open_kernel(struct coir_sim *sim)
{
    const char *driver = sim->options.driver;
    sim->on_kernel = driver && strcmp(driver, "sim") != 0;
    return sim->on_kernel ? ci_kernel_hosts_open(sim) : 0;
}

/* Of the result's fields an older program has the first ones. */
#define HAS(result, field) \
    ((result)->size >= offsetof(coir_sim_result, field) + sizeof(result)->field)

static void begin_result(coir_sim_result *result, struct ci_fault_log *log)
{
    if (!HAS(result, fault_count))
        return;
    size_t room = (result->size - offsetof(coir_sim_result, faults)) / sizeof *result->faults;
    result->fault_count = 0;
    log->count = &result->fault_count;
    log->taken = result->faults;
    log->room = room < COIR_SIM_FAULTS_KEPT ? room : COIR_SIM_FAULTS_KEPT;
}

static void end_result(coir_sim_result *result, const struct ci_world *world)
{
    if (HAS(result, trace_hash))
        result->trace_hash = world->trace_hash;
    if (HAS(result, steps))
        result->steps = world->steps;
    if (HAS(result, time))
        result->time = world->now;
    if (HAS(result, left))
        memcpy(result->left, world->left, sizeof result->left);
    if (result->size > sizeof *result)
        memset(result + 1, 0, result->size - sizeof *result);
}

int coir_sim_run(const coir_sim_options *given, coir_scenario_fn *scenario, void *arg,
                 coir_sim_result *ret_result)
{
    if (ci_forked())
        return -COIR_EFORKED;
    coir_sim_options options = COIR_SIM_OPTIONS;
    int rc = ci_options_read(&options, sizeof options, given);
    if (rc == 0 && (options.workers > RUNNABLE_MOST || options.time_max < 0))
        rc = -EINVAL;
    if (rc == 0 && ret_result)
        rc = ci_size_check(ret_result, sizeof *ret_result);
    if (rc < 0)
        return rc;
    struct coir_sim *sim = calloc(1, sizeof *sim);
    if (!sim)
        return -ENOMEM;
    sim->options = options;
    if (!sim->options.workers)
        sim->options.workers = 1;
    if (!sim->options.time_max)
        sim->options.time_max = 3600 * COIR_S;
    sim->config = (coir_config)COIR_CONFIG;
    sim->config.workers = sim->options.workers;
    sim->hosts_tail = &sim->hosts;
    ci_world_init(&sim->world, options.seed);
    sim->world.trace = options.trace;
    sim->world.trace_arg = options.trace_arg;
    sim->world.faults.chosen = options.faults;
    sim->world.faults.chosen_count = options.fault_count;
    sim->world.faults.choose = options.choose_faults;
    if (ret_result)
        begin_result(ret_result, &sim->world.faults);
    rc = open_kernel(sim);
    if (rc < 0) {
        ci_world_done(&sim->world);
        free(sim);
        return rc;
    }
    rc = scenario(sim, arg);
    int ended = end_all(sim);
    if (rc >= 0 && ended < 0)
        rc = ended;
    if (ret_result)
        end_result(ret_result, &sim->world);
    if (!sim->hosts) {
        ci_world_done(&sim->world);
        free(sim);
    }
    return rc;
}
