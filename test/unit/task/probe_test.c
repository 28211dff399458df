/* What a worker does while a probe is attached. The test counts as the kernel does; what the probes
 * tell is tested by test/e2e/probes. */
#include "task/probe.h"

#include <coir.h>
#include <errno.h>
#include <stdio.h>

#include "harness.h"
#include "task/current.h"

extern volatile unsigned short ci_probe_listeners __attribute__((weak));

static bool have_probes(void)
{
    if (&ci_probe_listeners)
        return true;
    printf("left out: this coir was built without probes\n");
    return false;
}

static void next_turn(void)
{
    CHECK_EQ(coir_sleep_for(1 * COIR_MS), 0);
}

TEST_REAL(a_worker_traces_while_a_probe_is_attached)
{
    struct ci_worker *worker = ci_worker_current;
    int32_t switches_max = worker->switches_max;
    if (!have_probes())
        return;
    CHECK(!worker->trace);
    for (int i = 0; i < 3; i++) {
        ci_probe_listeners++;
        next_turn();
        CHECK(worker->trace && worker->trace->by_probes && worker->switches_max == 0);
        ci_probe_listeners--;
        next_turn();
        next_turn();
        CHECK(!worker->trace && worker->switches_max == switches_max);
    }
}

static int ends_in_the_turn(void *arg)
{
    CHECK_EQ(coir_trace_start(*(size_t *)arg), 0);
    return 0;
}

TEST_REAL(a_trace_that_is_asked_for_replaces_that_of_probes)
{
    struct ci_worker *worker = ci_worker_current;
    int32_t switches_max = worker->switches_max;
    if (!have_probes())
        return;
    ci_probe_listeners = 1;
    for (size_t size = 16; size <= 1 << 14; size *= 4) {
        next_turn();
        CHECK(worker->trace->by_probes);
        COIR_SCOPE(scope);
        CHECK_EQ(coir_go(scope, ends_in_the_turn, &size), 0);
        CHECK_EQ(coir_scope_wait(scope), 0);
        next_turn();
        CHECK(!worker->trace->by_probes && worker->trace->size == size);
        CHECK_EQ(coir_trace_start(0), -EBUSY);
        CHECK_EQ(coir_trace_stop(), 0);
    }
    ci_probe_listeners = 0;
    next_turn();
    next_turn();
    CHECK(!worker->trace && worker->switches_max == switches_max);
}
