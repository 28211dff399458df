/* A gate: all who wait pass once it is open, and see what was stored before. */
#include "sys/gate.h"

#include "base/atomic.h"
#include "harness.h"

enum { THREADS = 8 };

static struct ci_gate gate;
static int stored; /* not atomic: the gate orders it */
static int32_t passed;

static void *pass(void *arg)
{
    ci_gate_wait(&gate);
    CHECK_EQ(stored, 7);
    ci_fetch_add(&passed, 1);
    return arg;
}

TEST(all_pass_and_see_what_was_stored)
{
    struct ci_thread threads[THREADS];
    ci_gate_init(&gate);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(ci_thread_start(&threads[i], pass, NULL), 0);
    CHECK_EQ(ci_load(&passed), 0);
    stored = 7;
    ci_gate_open(&gate);
    for (int i = 0; i < THREADS; i++)
        ci_thread_join(&threads[i]);
    CHECK_EQ(ci_load(&passed), THREADS);
    ci_gate_wait(&gate); /* it stays open */
    ci_gate_done(&gate);
}
