/* Configurations: the bounds of each field, and the defaults. */
#include "task/config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/options.h"
#include "base/sanitizer.h"
#include "sys/cares.h"
#include "sys/cpu.h"
#include "task/log.h"

enum {
    STACK_SIZE = 64 * 1024,
    STACK_SIZE_MAX = 1 << 30,
    BUDGET = 128,
    WORKERS_MAX = 1024,
    OFFLOAD_THREADS = 32,
    NAME_THREADS = 8,
    NAME_THREADS_MAX = 1024,
    NAME_CACHE = 1024,
    FILE_CALLS = 256,
    OFFLOAD_THREADS_MAX = 65536,
};

static CI_COLD int refuse_number(const coir_config *config, const char *name, uint64_t value,
                                 uint64_t most)
{
    ci_log_to(config, COIR_LOG_ERROR, "coir_config.%s is %" PRIu64 "; it may be at most %" PRIu64,
              name, value, most);
    return -EINVAL;
}

static CI_COLD int refuse_choice(const coir_config *config, const char *name, int value, int last)
{
    ci_log_to(config, COIR_LOG_ERROR, "coir_config.%s is %d; it may be 0 to %d", name, value, last);
    return -EINVAL;
}

static int check_time(const coir_config *config, const char *name, coir_time value)
{
    if (value >= 0)
        return 0;
    ci_log_to(config, COIR_LOG_ERROR, "coir_config.%s is negative: %" PRId64 " ns", name, value);
    return -EINVAL;
}

static int check_numbers(const coir_config *config)
{
    if (config->workers > WORKERS_MAX)
        return refuse_number(config, "workers", config->workers, WORKERS_MAX);
    if (config->stack_size > STACK_SIZE_MAX)
        return refuse_number(config, "stack_size", config->stack_size, STACK_SIZE_MAX);
    if (config->budget > INT32_MAX)
        return refuse_number(config, "budget", config->budget, INT32_MAX);
    if (config->offload_threads_max > OFFLOAD_THREADS_MAX)
        return refuse_number(config, "offload_threads_max", config->offload_threads_max,
                             OFFLOAD_THREADS_MAX);
    if (config->name_threads_max > NAME_THREADS_MAX)
        return refuse_number(config, "name_threads_max", config->name_threads_max,
                             NAME_THREADS_MAX);
    if ((unsigned)config->deadlock > COIR_DEADLOCK_END)
        return refuse_choice(config, "deadlock", (int)config->deadlock, COIR_DEADLOCK_END);
    int rc = check_time(config, "defer_timeout", config->defer_timeout);
    if (rc == 0)
        rc = check_time(config, "drain_timeout", config->drain_timeout);
    if (rc == 0)
        rc = check_time(config, "slow_turn", config->slow_turn);
    if (rc == 0)
        rc = check_time(config, "report_stalls", config->report_stalls);
    return rc < 0 ? rc : check_time(config, "name_cache_time", config->name_cache_time);
}

int ci_config_refuse(const coir_config *config, const char *name, const char *value,
                     const char *wanted)
{
    ci_log_to(config, COIR_LOG_ERROR, "%s is \"%s\"; it may be %s", name, value, wanted);
    return -EINVAL;
}

int ci_config_check_resolver(const coir_config *config)
{
    const char *names =
        ci_has_cares ? "system or c-ares" : "system, as this coir was built without c-ares";
    bool cares = config->resolver && strcmp(config->resolver, "c-ares") == 0;
    if (config->resolver && strcmp(config->resolver, "system") != 0 && !(cares && ci_has_cares))
        return ci_config_refuse(config, "the resolver", config->resolver, names);
    if (config->name_servers && !cares)
        return ci_config_refuse(
            config, "coir_config.name_servers", config->name_servers,
            "set with the resolver c-ares only; the system's resolver has its own servers");
    return 0;
}

/* Takes fields from the environment that the program left open, and those for which it allows the
 * environment to override it. */
static int read_environment(coir_config *config)
{
    const char *workers = getenv("COIR_WORKERS"), *driver = getenv("COIR_DRIVER");
    if (workers && *workers &&
        (!config->workers || config->environment & COIR_ENVIRONMENT_WORKERS)) {
        char *end;
        unsigned long count = strtoul(workers, &end, 10);
        if (*end || count < 1 || count > WORKERS_MAX)
            return ci_config_refuse(config, "COIR_WORKERS", workers, "a number from 1 to 1024");
        config->workers = count;
    }
    const char *stack_use = getenv("COIR_STACK_USE");
    if (stack_use && strcmp(stack_use, "1") == 0)
        config->stack_use = true;
    if (driver && *driver && (!config->driver || config->environment & COIR_ENVIRONMENT_DRIVER))
        config->driver = driver;
    return 0;
}

int ci_config_read(coir_config *config, const coir_config *given)
{
    *config = (coir_config)COIR_CONFIG;
    int rc = ci_options_read(config, sizeof *config, given);
    if (rc == 0)
        rc = read_environment(config);
    if (rc < 0)
        return rc;
    if (!config->workers) {
        unsigned cpus = ci_cpu_available();
        config->workers = cpus < WORKERS_MAX ? cpus : WORKERS_MAX;
    }
    if (!config->stack_size)
        /* sanitizers make stack frames larger */
        config->stack_size = ci_sanitizer ? 4 * STACK_SIZE : STACK_SIZE;
    if (!config->budget)
        config->budget = BUDGET;
    if (config->budget == COIR_UNLIMITED)
        config->budget = INT32_MAX;
    if (!config->offload_threads_max)
        config->offload_threads_max = OFFLOAD_THREADS;
    if (config->offload_threads_max == COIR_UNLIMITED)
        config->offload_threads_max = OFFLOAD_THREADS_MAX;
    if (config->offload_queue_max == COIR_UNLIMITED)
        config->offload_queue_max = 0;
    if (!config->name_threads_max)
        config->name_threads_max = NAME_THREADS;
    if (config->name_threads_max == COIR_UNLIMITED)
        config->name_threads_max = NAME_THREADS_MAX;
    if (!config->name_cache_max)
        config->name_cache_max = NAME_CACHE;
    if (config->report_stalls == COIR_NEVER)
        config->report_stalls = 0;
    if (!config->slow_turn)
        config->slow_turn = config->report_stalls;
    if (config->slow_turn == COIR_NEVER)
        config->slow_turn = 0;
    if (config->slow_turn)
        config->report_overflow = true; /* the handler runs on its stack, not on a fiber's */
    if (!config->file_calls_max)
        config->file_calls_max = FILE_CALLS;
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

int ci_config_check(const coir_config *given)
{
    coir_config config;
    return ci_config_read(&config, given);
}
