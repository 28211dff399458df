/* The state of a run: which changes it allows, and who may send. */
#include "task/run_state.h"

#include <coir.h>
#include <errno.h>

#include "harness.h"

static coir_runtime *make(void)
{
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    coir_runtime *runtime;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    return runtime;
}

static uint32_t phase(const coir_runtime *runtime)
{
    return ci_run_phase(runtime->run);
}

TEST(a_run_ends_with_its_last_root_and_refuses_others)
{
    coir_runtime *runtime = make();
    CHECK_EQ(phase(runtime), CI_RUN_CREATED);
    CHECK(!ci_run_add_root(runtime));
    CHECK_EQ(ci_run_open(runtime), 0);
    CHECK_EQ(ci_run_open(runtime), -EBUSY);
    CHECK(ci_run_add_root(runtime));
    ci_run_remove_root(runtime);
    CHECK_EQ(phase(runtime), CI_RUN_RUNNING);
    CHECK(!runtime->workers[0].loop.alert);
    ci_run_remove_root(runtime);
    CHECK(ci_run_ended(runtime) && runtime->workers[0].loop.alert);
    CHECK(!ci_run_add_root(runtime));
    CHECK_EQ(ci_run_open(runtime), -EBUSY); /* it is not settled */
    ci_run_settle(runtime);
    CHECK_EQ(ci_run_open(runtime), 0);
    ci_run_remove_root(runtime);
    coir_runtime_free(runtime);
}

TEST(a_stop_is_kept_for_the_next_run_and_ends_with_it)
{
    coir_runtime *runtime = make();
    coir_runtime_stop(runtime);
    ci_run_cancel(runtime); /* there is no run to be cancelled */
    CHECK_EQ(runtime->run & (CI_RUN_STOP | CI_RUN_STOP_AT_ONCE), CI_RUN_STOP);
    CHECK_EQ(ci_run_open(runtime), 0);
    CHECK(runtime->run & CI_RUN_STOP);
    coir_runtime_stop(runtime);
    CHECK(runtime->run & CI_RUN_STOP_AT_ONCE);
    ci_run_remove_root(runtime);
    CHECK(!(runtime->run & (CI_RUN_STOP | CI_RUN_STOP_AT_ONCE)));
    coir_runtime_free(runtime);
}

static int delivered;

static void deliver(struct ci_message *message)
{
    CHECK(message);
    delivered++;
}

TEST(a_message_is_delivered_or_refused)
{
    coir_runtime *runtime = make();
    struct ci_message messages[2] = {{.deliver = deliver}, {.deliver = deliver}};
    CHECK_EQ(ci_run_open(runtime), 0);
    CHECK_EQ(ci_run_send(&runtime->workers[0], &messages[0]), 0);
    ci_run_remove_root(runtime);
    CHECK_EQ(ci_run_send(&runtime->workers[0], &messages[1]), -COIR_EENDED);
    CHECK_EQ(delivered, 0);
    ci_run_settle(runtime);
    CHECK_EQ(delivered, 1);
    CHECK_EQ(runtime->visitors, 0);
    coir_runtime_free(runtime);
}
