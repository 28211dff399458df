/* Rate-limited warnings. */
#include "task/warn.h"

#include <coir.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "task/current.h"

static int plain, suppressed, told;

static void count(enum coir_log_level level, const char *line, void *arg)
{
    (void)arg;
    CHECK_EQ(level, COIR_LOG_WARNING);
    if (sscanf(line, "worker 0: %d more warnings suppressed", &told) == 1)
        suppressed += told;
    else
        plain++;
}

static int warn_often(void *arg)
{
    for (int i = 0; i < *(int *)arg; i++)
        ci_warn(ci_worker_current, "warning %d", i);
    return 0;
}

static void run(int times)
{
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.log = count;
    coir_runtime *runtime;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    CHECK_EQ(coir_runtime_run(runtime, warn_often, &times), 0);
    coir_runtime_free(runtime);
}

TEST(few_are_logged_as_they_are)
{
    run(10);
    CHECK_EQ(plain, 10);
    CHECK_EQ(suppressed, 0);
}

/* In the same turn, so within one second of the worker's clock: its end comes with the
 * runtime's. */
TEST(of_many_the_rest_is_counted)
{
    run(1000);
    CHECK_EQ(plain, 10);
    CHECK_EQ(suppressed, 990);
}
