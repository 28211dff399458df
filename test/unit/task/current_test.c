/* The worker of the calling thread, and what calls without one are told. */
#include "task/current.h"

#include <coir.h>
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "task/worker.h"

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

TEST(a_plain_thread_has_none)
{
    CHECK(!ci_worker_current);
    CHECK_EQ(ci_no_worker(), -ESRCH);
    CHECK_EQ(ci_no_fiber(), -ESRCH);
    CHECK_EQ(coir_go(NULL, nothing, NULL), -ESRCH);
    CHECK_EQ(coir_worker_index(), -ESRCH);
}

TEST_REAL(a_task_has_its_own_and_a_child_of_a_fork_has_none)
{
    CHECK(ci_worker_current && ci_worker_current->index == 0 && coir_worker_index() == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(!ci_worker_current && ci_no_worker() == -COIR_EFORKED &&
                      ci_no_fiber() == -COIR_EFORKED
                  ? 7
                  : 1);
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}
