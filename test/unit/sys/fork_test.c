/* Whether a process is a child that must not use what its parent had. */
#include "sys/fork.h"

#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

static bool child_is_forked(void)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(ci_forked() ? 1 : 0);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST(only_children_of_what_forbids_it_are_marked)
{
    CHECK(!child_is_forked());
    ci_fork_forbid();
    ci_fork_forbid();
    CHECK(child_is_forked());
    ci_fork_allow();
    CHECK(child_is_forked()); /* the other one still lives */
    ci_fork_allow();
    CHECK(!child_is_forked());
    CHECK(!ci_forked()); /* the parent never is */
}
