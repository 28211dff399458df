/* Hosts on a simulated kernel: each is a process whose first thread makes a runtime on a real
 * driver, runs it, and frees it. Its workers are threads of that kernel, and sleep in it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/kernel.h"
#include "task/simulation.h"
#include "task/task.h"

int ci_kernel_hosts_open(struct coir_sim *sim)
{
    if (!ci_sim_kernel)
        return -ENOTSUP;
    if (!ci_driver_known(sim->options.driver))
        return -EINVAL;
    void **slots[] = {(void **)&ci_worker_current, (void **)&ci_carried_locals};
    ci_sim_kernel->open(&sim->world, sim->options.time_max, slots, ci_countof(slots));
    return 0;
}

void ci_kernel_hosts_close(void)
{
    ci_sim_kernel->close();
}

static coir_runtime *make_runtime(const coir_host *host, int *ret_error)
{
    coir_config config = host->sim->config;
    coir_runtime *runtime = NULL;
    config.driver = host->sim->options.driver;
    config.allocator = &host->node->allocator;
    *ret_error = coir_runtime_new(&config, &runtime);
    return runtime;
}

static void audit(const coir_host *host)
{
    for (int i = 0; i < host->runtime->worker_count; i++) {
        size_t timers = ci_worker_stray_timers(&host->runtime->workers[i]);
        if (timers)
            ci_world_leave(&host->sim->world, host->node, "timer of worker %d (%zu started)", i,
                           timers);
    }
}

static void *run_host(void *arg)
{
    coir_host *host = arg;
    host->runtime = make_runtime(host, &host->result);
    if (!host->runtime)
        return NULL;
    host->node->boots = false;
    if (host->stopped)
        coir_runtime_stop(host->runtime);
    host->result = coir_runtime_run(host->runtime, host->fn, host->arg);
    audit(host);
    coir_runtime *runtime = host->runtime;
    host->runtime = NULL;
    coir_runtime_free(runtime);
    return NULL;
}

int ci_kernel_host_start(coir_host *host)
{
    host->node->faults = host->sim->world.everywhere;
    host->node->boots = true;
    host->process = ci_sim_kernel->start(host->node, run_host, host);
    return host->process ? 0 : -ENOMEM;
}

bool ci_kernel_host_ended(const coir_host *host)
{
    return ci_sim_kernel->ended(host->process);
}

static void stop(void *runtime)
{
    coir_runtime_stop(runtime);
}

static void cancel(void *runtime)
{
    ci_run_cancel(runtime);
}

void ci_kernel_host_stop(coir_host *host)
{
    host->stopped = true;
    if (host->runtime)
        ci_sim_kernel->as(host->process, stop, host->runtime);
}

void ci_kernel_host_cancel(coir_host *host)
{
    host->stopped = true;
    if (host->runtime)
        ci_sim_kernel->as(host->process, cancel, host->runtime);
}

int ci_kernel_hosts_run(void)
{
    return ci_sim_kernel->run();
}

void ci_kernel_hosts_dump(void)
{
    ci_sim_kernel->dump();
}

void ci_kernel_host_audit(const coir_host *host)
{
    ci_sim_kernel->audit(host->process);
}
