/* Fibers and their stacks. */
#include <coir.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "harness.h"

static int spin_on_yield(void *arg)
{
    int *count = arg;
    while (coir_task_interrupted() == 0)
        if (coir_yield() == 0)
            ++*count;
    return 0;
}

TEST_REAL(the_driver_is_polled_though_the_run_queue_never_empties)
{
    int counts[2] = {0, 0};
    COIR_SCOPE(scope);
    coir_go(scope, spin_on_yield, &counts[0]);
    coir_go(scope, spin_on_yield, &counts[1]);
    do
        CHECK_EQ(coir_sleep_for(5 * COIR_MS), 0); /* the timer fires between their yields */
    while (counts[0] == 0 || counts[1] == 0);
    coir_scope_cancel(scope);
}

static CI_NOINLINE int recurse(int depth)
{
    volatile char frame[1024];
    frame[0] = (char)depth;
    return depth ? recurse(depth - 1) + frame[0] : 0;
}

static int fault(void *arg)
{
    (void)arg;
    volatile int *volatile nowhere = NULL;
    *nowhere = 1;
    return 0;
}

static int use_half(void *arg)
{
    (void)arg;
    return recurse(30) == 465 ? 0 : -1;
}

TEST_REAL(stacks_are_reused)
{
    coir_counters counters = COIR_COUNTERS;
    for (int i = 0; i < 1000; i++) {
        COIR_SCOPE(scope);
        coir_go(scope, use_half, NULL);
        coir_go(scope, use_half, NULL);
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    coir_counters_get(coir_runtime_current(), &counters);
    CHECK(counters.stacks_live + counters.stacks_cached <= 3);
}

static int fork_in_fiber(void *arg)
{
    (void)arg;
    pid_t child = fork();
    if (child == 0) {
        int refused =
            coir_sleep_for(1) == -COIR_EFORKED && coir_go(NULL, fault, NULL) == -COIR_EFORKED;
        if (!refused)
            _exit(9);
        return 0; /* returning ends the child: the other fibers are its parent's */
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return 0;
}

static int count_ticks(void *arg)
{
    for (int i = 0; i < 5; i++) {
        coir_sleep_for(COIR_MS);
        ++*(int *)arg;
    }
    return 0;
}

TEST_REAL(a_fork_in_a_fiber_is_harmless)
{
    int ticks = 0;
    COIR_SCOPE(scope);
    coir_go(scope, count_ticks, &ticks);
    coir_go(scope, fork_in_fiber, NULL);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(ticks, 5);
}
