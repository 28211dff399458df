/* The audit of a runtime whose run has ended. */
#include "task/audit.h"

#include <coir.h>
#include <string.h>

#include "harness.h"

static coir_parker parker;

static int leave_a_parker_open(void *arg)
{
    (void)arg;
    return coir_parker_init(&parker);
}

static int leave_nothing(void *arg)
{
    (void)arg;
    return coir_local_set(&parker, &parker);
}

static size_t wakers_left, others_left;

static void count(void *arg, const char *what, size_t live)
{
    CHECK(!arg && live);
    *(strcmp(what, "wakers") == 0 ? &wakers_left : &others_left) += live;
}

static void audit_after(coir_task_fn *fn)
{
    coir_config config = COIR_CONFIG;
    config.workers = 2;
    coir_runtime *runtime;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    CHECK_EQ(coir_runtime_run(runtime, fn, NULL), 0);
    ci_runtime_audit(runtime, count, NULL);
    coir_runtime_free(runtime);
    CHECK_EQ(others_left, 0);
}

TEST(what_gives_everything_back_leaves_nothing)
{
    audit_after(leave_nothing);
    CHECK_EQ(wakers_left, 0);
}

TEST(an_open_parker_is_found)
{
    audit_after(leave_a_parker_open);
    CHECK_EQ(wakers_left, 1);
}
