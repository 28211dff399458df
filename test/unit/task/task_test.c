/* Tasks: their names, and where their results go. */
#include <coir.h>
#include <errno.h>
#include <string.h>

#include "harness.h"

static int check_names(void *arg)
{
    CHECK(strcmp(coir_task_name(), "as spawned") == 0);
    CHECK_EQ(coir_task_set_name("as set"), 0);
    CHECK(strcmp(coir_task_name(), "as set") == 0);
    CHECK_EQ(coir_task_set_name(NULL), 0);
    CHECK(!coir_task_name());
    return *(int *)arg;
}

TEST(outside_of_a_task_there_is_no_name)
{
    CHECK(!coir_task_name());
    CHECK_EQ(coir_task_set_name("plain"), -ESRCH);
}

TEST_SIM(a_record_that_is_used_again_has_no_name_and_no_argument_of_the_task_before)
{
    int result = 0;
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = "as spawned";
    options.copy_size = sizeof result;
    COIR_SCOPE(scope);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(coir_go_with(scope, &options, check_names, &result), 0);
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
}

TEST_SIM(a_result_is_the_handles_and_an_error_the_scopes_too)
{
    int results[] = {7, -EPIPE};
    for (int i = 0; i < 2; i++) {
        COIR_HANDLE(handle);
        COIR_SCOPE(scope);
        coir_go_options options = COIR_GO_OPTIONS;
        options.name = "as spawned";
        options.handle = handle;
        CHECK_EQ(coir_go_with(scope, &options, check_names, &results[i]), 0);
        CHECK_EQ(coir_scope_wait(scope), i == 0 ? 0 : -EPIPE);
        CHECK(coir_handle_has_ended(handle));
        CHECK_EQ(coir_join(handle), results[i]);
    }
}

/* ---- a task without a stack ---- */

struct asking {
    coir_future future;
    coir_sleep_op sleep;
    int interrupted;
};

static coir_future *asking_poll(coir_future *future)
{
    struct asking *self = coir_frame(future, struct asking);
    COIR_BEGIN(future);
    CHECK(strcmp(coir_task_name(), "as spawned") == 0);
    CHECK_EQ(coir_task_set_name("as set"), 0);
    CHECK(strcmp(coir_task_name(), "as set") == 0);
    CHECK_EQ(coir_task_interrupted(), 0);
    COIR_AWAIT(future, coir_sleep_for_op(&self->sleep, COIR_S));
    self->interrupted = coir_task_interrupted();
    COIR_END(future);
}
static const coir_future_kind asking_kind = COIR_FUTURE_KIND("asking", asking_poll, NULL);

TEST_SIM(a_task_without_a_stack_has_a_name_and_knows_that_it_should_end)
{
    struct asking asking = {.interrupted = 1};
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = "as spawned";
    COIR_SCOPE(scope);
    coir_future *future = coir_future_init(&asking.future, &asking_kind);
    CHECK_EQ(coir_go_future_with(scope, &options, future), 0);
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    coir_scope_cancel(scope);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(asking.interrupted, -ECANCELED);
}

static coir_future *deadline_poll(coir_future *future)
{
    COIR_BEGIN(future);
    COIR_RETURN(future, coir_task_deadline());
}
static const coir_future_kind deadline_kind = COIR_FUTURE_KIND("asking", deadline_poll, NULL);

TEST_SIM(a_frame_that_is_awaited_is_under_the_deadline_of_the_fiber)
{
    coir_future future;
    coir_time end = coir_in(COIR_S);
    COIR_DEADLINE(end);
    CHECK_EQ(coir_await(coir_future_init(&future, &deadline_kind)), end);
}
