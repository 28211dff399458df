/* Hosts whose workers are stepped by the world instead of by threads: one step is one turn of one
 * worker that has something to do, chosen by the seed among all such workers of all hosts. Only
 * when no worker has anything to do does time move (world.h 1). */
#include <errno.h>

#include "base/check.h"
#include "scenario/host.h"
#include "sim/completion.h"
#include "sim/driver.h"
#include "sim/event.h"
#include "sim/node.h"
#include "sim/stream.h"
#include "task/audit.h"
#include "task/run.h"
#include "task/run_state.h"
#include "task/runtime.h"
#include "task/stepped.h"

/* How many workers one step chooses among; the others are left to later steps. */
enum { RUNNABLE_MOST = 256 };

static int open_driver(void *arg, int worker, const coir_allocator *allocator,
                       struct ci_driver **ret_driver)
{
    (void)worker;
    (void)allocator;
    const coir_host *host = arg;
    return ci_sim_driver_open(&host->sim->world, host->node, ret_driver);
}

static int open_stepped(struct coir_sim *sim)
{
    (void)sim;
    return 0;
}

/* No faults happen on a host before its first task is spawned. */
static int start(coir_host *host)
{
    int rc = ci_stepped_new(&host->sim->config, &host->node->allocator, open_driver, host,
                            &host->runtime);
    if (rc == 0)
        rc = ci_runtime_begin(host->runtime, host->fn, host->arg);
    if (rc < 0)
        coir_runtime_free(host->runtime);
    else
        host->node->faults = host->sim->world.everywhere;
    return rc;
}

static bool is_down(const coir_host *host)
{
    return ci_run_ended(host->runtime);
}

/* As at the end of coir_runtime_run, calls that were posted before are made. */
static int result(const coir_host *host)
{
    ci_run_settle(host->runtime);
    return ci_runtime_result(host->runtime);
}

static void stop(coir_host *host)
{
    coir_runtime_stop(host->runtime);
}

static void cancel(coir_host *host)
{
    ci_run_cancel(host->runtime);
}

static void links_changed(struct coir_sim *sim)
{
    ci_sim_stream_links_changed(&sim->world);
}

/* ---- steps ---- */

struct worker {
    coir_runtime *runtime;
    size_t index;
};

static bool has_work(const struct coir_sim *sim, const struct worker *worker)
{
    return ci_stepped_has_work(worker->runtime, worker->index, sim->world.now) ||
           ci_sim_driver_busy(ci_stepped_driver(worker->runtime, worker->index));
}

static size_t find_runnable(const struct coir_sim *sim, struct worker runnable[RUNNABLE_MOST])
{
    size_t count = 0;
    for (coir_host *host = sim->hosts; host; host = host->next)
        for (size_t i = 0; i < coir_worker_count(host->runtime) && count < RUNNABLE_MOST; i++) {
            struct worker worker = {host->runtime, i};
            if (has_work(sim, &worker))
                runnable[count++] = worker;
        }
    return count;
}

static coir_time next_time(const struct coir_sim *sim)
{
    coir_time next = ci_world_next_event(&sim->world);
    for (const coir_host *host = sim->hosts; host; host = host->next) {
        coir_time timer = ci_stepped_next_timer(host->runtime);
        if (timer < next)
            next = timer;
    }
    return next;
}

static int step(struct coir_sim *sim)
{
    struct worker runnable[RUNNABLE_MOST];
    ci_world_run_due(&sim->world);
    size_t count = find_runnable(sim, runnable);
    if (count) {
        sim->world.steps++;
        const struct worker *chosen =
            &runnable[count > 1 ? ci_random_below(&sim->world.random, count) : 0];
        ci_stepped_turn(chosen->runtime, chosen->index);
        return 0;
    }
    coir_time next = next_time(sim);
    if (next == COIR_NEVER)
        return -EDEADLK;
    if (next > sim->options.time_max)
        return -ETIME;
    ci_check(next > sim->world.now, "world.h 1");
    sim->world.now = next;
    return 0;
}

static void audit(coir_host *host)
{
    ci_run_settle(host->runtime); /* records of remote tasks may be in flight to their origins */
    for (size_t i = 0; i < coir_worker_count(host->runtime); i++)
        ci_sim_driver_audit(ci_stepped_driver(host->runtime, i));
    ci_runtime_audit(host->runtime, ci_host_leave, host->node);
}

const struct ci_host_kind ci_stepped_host = {
    .open = open_stepped,
    .start = start,
    .is_down = is_down,
    .result = result,
    .stop = stop,
    .cancel = cancel,
    .links_changed = links_changed,
    .step = step,
    .audit = audit,
};
