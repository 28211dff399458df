/* One run of a scenario in a world of its own. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "scenario/host.h"
#include "sys/fork.h"
#include "sys/misuse.h"
#include "task/config.h"
#include "task/lock_counts.h"
#include "task/runtime.h"

enum { WORKERS_MOST = 256 };
static const coir_time time_max = 3600 * COIR_S;

int coir_sim_configure(coir_sim *sim, const coir_config *config)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!sim)
        return CI_MISUSE(-EINVAL, "sim is NULL");
    coir_config wanted = COIR_CONFIG;
    int rc = ci_config_check(config);
    if (rc == 0)
        rc = ci_options_read(&wanted, sizeof wanted, config);
    if (rc == 0)
        rc = ci_config_check_resolver(&wanted);
    if (rc < 0)
        return rc;
    wanted.workers = sim->options.workers;
    wanted.environment = 0;
    wanted.resolver = wanted.name_servers = NULL; /* the world answers */
    sim->config = wanted;
    return 0;
}

uint64_t coir_sim_random(coir_sim *sim)
{
    if (sim)
        return ci_random_next(&sim->world.random);
    (void)CI_MISUSE(-EINVAL, "sim is NULL");
    return 0;
}

/* ---- results: a program built against an older version has only the first fields ---- */

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

/* ---- a run ---- */

static int read_options(coir_sim_options *options, const coir_sim_options *given)
{
    *options = (coir_sim_options)COIR_SIM_OPTIONS;
    int rc = ci_options_read(options, sizeof *options, given);
    if (rc < 0)
        return rc;
    if (options->workers > WORKERS_MOST || options->time_max < 0)
        return -EINVAL;
    if (!options->workers)
        options->workers = 1;
    if (!options->time_max)
        options->time_max = time_max;
    return 0;
}

static struct coir_sim *new_sim(const coir_sim_options *options)
{
    struct coir_sim *sim = calloc(1, sizeof *sim);
    if (!sim)
        return NULL;
    sim->options = *options;
    sim->config = (coir_config)COIR_CONFIG;
    sim->config.workers = options->workers;
    sim->hosts_tail = &sim->hosts;
    sim->kind =
        options->driver && strcmp(options->driver, "sim") != 0 ? &ci_kernel_host : &ci_stepped_host;
    ci_world_init(&sim->world, options->seed);
    sim->world.trace = options->trace;
    sim->world.trace_arg = options->trace_arg;
    sim->world.faults.chosen = options->faults;
    sim->world.faults.chosen_count = options->fault_count;
    sim->world.faults.choose = options->choose_faults;
    return sim;
}

static void free_sim(struct coir_sim *sim)
{
    ci_world_done(&sim->world);
    free(sim);
}

int coir_sim_run(const coir_sim_options *given, coir_scenario_fn *scenario, void *arg,
                 coir_sim_result *ret_result)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!scenario)
        return CI_MISUSE(-EINVAL, "scenario is NULL");
    coir_sim_options options;
    int rc = read_options(&options, given);
    if (rc == 0 && ret_result)
        rc = ci_size_check(ret_result, sizeof *ret_result);
    if (rc < 0)
        return rc;
    struct coir_sim *sim = new_sim(&options);
    if (!sim)
        return -ENOMEM;
    if (ret_result)
        begin_result(ret_result, &sim->world.faults);
    ci_lock_counts_forget();
    ci_misuse_forget();
    rc = sim->kind->open(sim);
    if (rc < 0) {
        free_sim(sim);
        return rc;
    }
    rc = scenario(sim, arg);
    int ended = ci_hosts_end(sim);
    if (rc >= 0 && ended < 0)
        rc = ended;
    if (ret_result)
        end_result(ret_result, &sim->world);
    if (!sim->hosts) /* otherwise their stacks are in use */
        free_sim(sim);
    return rc;
}
