/* Task-locals. */
#include <coir.h>
#include <fcntl.h>
#include <string.h>

#include "harness.h"

static const char user_key, trace_key;

static int child_of_locals(void *arg)
{
    (void)arg;
    CHECK(strcmp(coir_local_get(&user_key), "ann") == 0);
    coir_local_set(&user_key, "child");
    CHECK(strcmp(coir_local_get(&user_key), "child") == 0);
    CHECK(strcmp(coir_task_name(), "kid") == 0);
    return 0;
}

TEST_SIM(locals_follow_into_children)
{
    CHECK(coir_local_get(&user_key) == NULL);
    CHECK_EQ(coir_local_set(&user_key, "bob"), 0);
    CHECK_EQ(coir_local_set(&user_key, "ann"), 0);
    COIR_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = "kid";
    coir_go_with(scope, &options, child_of_locals, NULL);
    coir_scope_wait(scope);
    CHECK(strcmp(coir_local_get(&user_key), "ann") == 0);
    CHECK(coir_local_get(&trace_key) == NULL);
    coir_task_set_name("renamed");
    CHECK(strcmp(coir_task_name(), "renamed") == 0);
}
