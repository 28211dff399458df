/* Runtimes: what they say about themselves. */
#include <coir.h>
#include <errno.h>

#include "harness.h"

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int look(void *arg)
{
    coir_runtime *runtime = *(coir_runtime **)arg;
    CHECK(coir_runtime_current() == runtime);
    CHECK_EQ(coir_worker_count(runtime), 3);
    CHECK_EQ(coir_worker_index(), 0);
    COIR_SCOPE(scope);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(coir_go(scope, nothing, NULL), 0);
    coir_counters counters = COIR_COUNTERS;
    CHECK_EQ(coir_counters_get(runtime, &counters), 0);
    CHECK_EQ(counters.tasks_started, 11); /* and the first */
    CHECK_EQ(counters.tasks_live, 11);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(coir_counters_get(runtime, &counters), 0);
    CHECK_EQ(counters.tasks_live, 1);
    CHECK_EQ(counters.task_errors, 0);
    return 0;
}

TEST(it_counts_its_tasks)
{
    coir_config config = COIR_CONFIG;
    config.workers = 3;
    coir_runtime *runtime;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    CHECK(!coir_runtime_current());
    CHECK_EQ(coir_runtime_run(runtime, look, &runtime), 0);
    coir_runtime_free(runtime);
    coir_runtime_free(NULL);
}

TEST(wrong_arguments_are_refused)
{
    coir_runtime *runtime;
    coir_counters counters = COIR_COUNTERS;
    CHECK_EQ(coir_runtime_new(NULL, NULL), -EINVAL);
    CHECK_EQ(coir_counters_get(NULL, &counters), -EINVAL);
    CHECK_EQ(coir_runtime_run(NULL, nothing, NULL), -EINVAL);
    CHECK_EQ(coir_runtime_new(NULL, &runtime), 0);
    CHECK_EQ(coir_runtime_run(runtime, NULL, NULL), -EINVAL);
    CHECK_EQ(coir_counters_get(runtime, NULL), -EINVAL);
    coir_runtime_free(runtime);
}
