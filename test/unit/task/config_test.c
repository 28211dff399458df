/* Every number of a configuration: at its bound it is taken, one beside it is refused, and the
 * log says which it was. */
#include <coir.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

static char logged[512];

static void keep_line(enum coir_log_level level, const char *line, void *context)
{
    (void)context;
    if (level == COIR_LOG_ERROR)
        strncpy(logged, line, sizeof logged - 1);
}

static coir_config make_config(void)
{
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.log = keep_line;
    return config;
}

static void check_taken(const coir_config *config)
{
    coir_runtime *runtime;
    CHECK_EQ(coir_runtime_new(config, &runtime), 0);
    coir_runtime_free(runtime);
}

static void check_refused(const coir_config *config, const char *name, const char *value)
{
    coir_runtime *runtime = NULL;
    memset(logged, 0, sizeof logged);
    CHECK_EQ(coir_runtime_new(config, &runtime), -EINVAL);
    CHECK(!runtime);
    CHECK(strstr(logged, name) && strstr(logged, value));
}

TEST(stack_size)
{
    static const size_t good[] = {1,       16 * 1024,     32 * 1024, 32 * 1024 + 1,
                                  1 << 20, (1 << 30) - 1, 1 << 30};
    static const size_t bad[] = {(1 << 30) + 1,    (size_t)1 << 31,  SIZE_MAX / 2,
                                 SIZE_MAX / 2 + 1, SIZE_MAX / 2 + 2, SIZE_MAX};
    coir_config config = make_config();
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        config.stack_size = good[i];
        check_taken(&config);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        config.stack_size = bad[i];
        check_refused(&config, "stack_size", "at most 1073741824");
    }
}

TEST(workers)
{
    coir_config config = make_config();
    unsetenv("COIR_WORKERS");
    config.driver = "poll";
    config.workers = 1025;
    check_refused(&config, "workers", "1025");
    config.workers = UINT32_MAX;
    check_refused(&config, "workers", "4294967295");
    config.workers = 64;
    check_taken(&config);
}

TEST(budget_and_threads)
{
    coir_config config = make_config();
    config.budget = INT32_MAX;
    check_taken(&config);
    config.budget = (unsigned)INT32_MAX + 1;
    check_refused(&config, "budget", "2147483648");
    config.budget = 1;
    config.offload_threads_max = 65536;
    check_taken(&config);
    config.offload_threads_max = 65537;
    check_refused(&config, "offload_threads_max", "65537");
    config.offload_threads_max = UINT32_MAX;
    check_refused(&config, "offload_threads_max", "4294967295");
    config.offload_threads_max = 1;
    config.tasks_max = config.offload_queue_max = SIZE_MAX;
    check_taken(&config);
}

TEST(timeouts_and_deadlock)
{
    coir_config config = make_config();
    config.defer_timeout = COIR_NEVER;
    check_taken(&config);
    config.defer_timeout = -1;
    check_refused(&config, "defer_timeout", "-1");
    config.defer_timeout = INT64_MIN;
    check_refused(&config, "defer_timeout", "-9223372036854775808");
    config.defer_timeout = 1;
    config.drain_timeout = -1;
    check_refused(&config, "drain_timeout", "-1");
    config.drain_timeout = COIR_NEVER;
    config.deadlock = COIR_DEADLOCK_END;
    check_taken(&config);
    config.deadlock = (enum coir_deadlock)(COIR_DEADLOCK_END + 1);
    check_refused(&config, "deadlock", "3");
    config.deadlock = (enum coir_deadlock) - 1;
    check_refused(&config, "deadlock", "is -1; it may be 0 to 2");
}

static void *no_memory(size_t size, void *context)
{
    (void)context;
    (void)size;
    return NULL;
}

TEST(allocator)
{
    coir_config config = make_config();
    coir_allocator half = COIR_ALLOCATOR(no_memory, NULL, NULL);
    coir_runtime *runtime;
    config.allocator = &half;
    CHECK_EQ(coir_runtime_new(&config, &runtime), -EINVAL);
}

static int no_scenario(coir_sim *sim, void *arg)
{
    (void)sim;
    (void)arg;
    return 0;
}

TEST(of_channels_and_simulations)
{
    coir_channel *channel;
    coir_channel_options options = COIR_CHANNEL_OPTIONS;
    options.item_size = 8;
    options.capacity = 1;
    options.overflow = (enum coir_overflow)(COIR_OVERFLOW_KEEP_LATEST + 1);
    CHECK_EQ(coir_channel_new_with(&options, &channel), -EINVAL);
    options.overflow = (enum coir_overflow)256; /* as a byte it would be a good one */
    CHECK_EQ(coir_channel_new_with(&options, &channel), -EINVAL);
    options.overflow = COIR_OVERFLOW_CLOSE;
    options.capacity = SIZE_MAX - 1;
    CHECK_EQ(coir_channel_new_with(&options, &channel), -ENOMEM);
    options.capacity = SIZE_MAX / 8 + 2; /* times 8 it is small */
    CHECK_EQ(coir_channel_new_with(&options, &channel), -ENOMEM);
    coir_sim_options sim = COIR_SIM_OPTIONS;
    CHECK_EQ(coir_sim_run(&sim, no_scenario, NULL, NULL), 0);
    sim.workers = 257;
    CHECK_EQ(coir_sim_run(&sim, no_scenario, NULL, NULL), -EINVAL);
    sim.workers = 1;
    sim.time_max = -1;
    CHECK_EQ(coir_sim_run(&sim, no_scenario, NULL, NULL), -EINVAL);
}

/* "None" has a name in every count. */
TEST(unlimited)
{
    coir_config config = make_config();
    config.tasks_max = config.budget = config.offload_threads_max = config.offload_queue_max =
        COIR_UNLIMITED;
    config.defer_timeout = config.drain_timeout = COIR_NEVER;
    check_taken(&config);
}

/* ---- the environment fills in what the program left open, and comes first where the program says
 * so ---- */

static size_t workers_of(const coir_config *config)
{
    coir_runtime *runtime;
    CHECK_EQ(coir_runtime_new(config, &runtime), 0);
    size_t count = coir_worker_count(runtime);
    coir_runtime_free(runtime);
    return count;
}

TEST(environment_and_workers)
{
    coir_config config = make_config(), open = COIR_CONFIG;
    setenv("COIR_WORKERS", "3", 1);
    CHECK_EQ(workers_of(&config), 1);
    CHECK_EQ(workers_of(&open), 3);
    config.environment = COIR_ENVIRONMENT_DRIVER;
    CHECK_EQ(workers_of(&config), 1);
    config.environment = COIR_ENVIRONMENT_WORKERS;
    CHECK_EQ(workers_of(&config), 3);
    setenv("COIR_WORKERS", "many", 1);
    config.environment = 0;
    check_taken(&config);
    config.environment = COIR_ENVIRONMENT_WORKERS;
    check_refused(&config, "COIR_WORKERS", "many");
}

TEST(environment_and_driver)
{
    coir_config config = make_config();
    setenv("COIR_DRIVER", "none such", 1);
    check_refused(&config, "driver", "none such");
    config.driver = "poll";
    check_taken(&config);
    config.environment = COIR_ENVIRONMENT_DRIVER;
    check_refused(&config, "driver", "none such");
}
