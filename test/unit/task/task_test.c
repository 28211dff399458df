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
