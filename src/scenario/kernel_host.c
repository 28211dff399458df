/* Hosts on a simulated kernel: each is a process whose first thread makes a runtime on a real
 * driver, runs it, and frees it. Its workers are threads of that kernel, and sleep in it. */
#include <errno.h>

#include "base/atomic.h"
#include "driver/driver.h"
#include "scenario/host.h"
#include "sim/kernel.h"
#include "sim/node.h"
#include "sys/lock.h"
#include "task/audit.h"
#include "task/current.h"
#include "task/local.h"
#include "task/runtime.h"

static bool is_open; /* the kernel has one world at a time */

static int open_kernel(struct coir_sim *sim)
{
    if (!ci_sim_kernel)
        return -ENOTSUP;
    if (!ci_driver_known(sim->options.driver))
        return -EINVAL;
    if (ci_exchange(&is_open, true))
        return -EBUSY;
    void **locals[] = {(void **)&ci_worker_current, (void **)&ci_carried_locals};
    ci_sim_kernel->open(&sim->world, sim->options.time_max, locals, ci_countof(locals));
    return 0;
}

static void close_kernel(void)
{
    ci_sim_kernel->close();
    ci_store(&is_open, false);
}

static int make_runtime(const coir_host *host, coir_runtime **ret_runtime)
{
    coir_config config = host->config;
    config.driver = host->sim->options.driver;
    config.allocator = &host->node->allocator;
    return coir_runtime_new(&config, ret_runtime);
}

static void *run_host(void *arg)
{
    coir_host *host = arg;
    coir_runtime *runtime;
    host->result = make_runtime(host, &runtime);
    if (host->result < 0)
        return NULL;
    host->node->boots = false;
    host->runtime = runtime;
    for (; host->stops; host->stops--)
        coir_runtime_stop(runtime);
    host->result = coir_runtime_run(runtime, host->fn, host->arg);
    ci_runtime_audit(runtime, ci_host_leave, host->node);
    host->runtime = NULL;
    for (unsigned round = 0; host->stopping; round++)
        ci_pause(round);
    coir_runtime_free(runtime);
    return NULL;
}

static int start(coir_host *host)
{
    host->node->faults = host->sim->world.everywhere;
    host->node->boots = true;
    host->config = host->sim->config;
    host->process = ci_sim_kernel->start(host->node, run_host, host);
    return host->process ? 0 : -ENOMEM;
}

static bool is_down(const coir_host *host)
{
    return ci_sim_kernel->ended(host->process);
}

static int result(const coir_host *host)
{
    return host->result;
}

static void stop_runtime(void *runtime)
{
    coir_runtime_stop(runtime);
}

static void stop(coir_host *host)
{
    if (!host->runtime) {
        host->stops++;
        return;
    }
    host->stopping++;
    ci_sim_kernel->as(host->process, stop_runtime, host->runtime);
    host->stopping--;
}

/* The second stop does not wait for background tasks. ci_run_cancel would be lost on a runtime
 * whose run has not begun yet. */
static void cancel(coir_host *host)
{
    stop(host);
    stop(host);
}

static void links_changed(struct coir_sim *sim)
{
    (void)sim;
    ci_sim_kernel->links_changed();
}

static int step(struct coir_sim *sim)
{
    (void)sim;
    return ci_sim_kernel->run();
}

static void dump(void)
{
    ci_sim_kernel->dump();
}

static void audit(coir_host *host)
{
    ci_sim_kernel->audit(host->process);
}

const struct ci_host_kind ci_kernel_host = {
    .open = open_kernel,
    .close = close_kernel,
    .start = start,
    .is_down = is_down,
    .result = result,
    .stop = stop,
    .cancel = cancel,
    .links_changed = links_changed,
    .step = step,
    .dump = dump,
    .audit = audit,
};
