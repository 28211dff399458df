/* Events: set once they hold for all who wait and will wait, until they are reset. */
#include <coir.h>

#include "unit/sync/everywhere.h"

struct starters {
    coir_event event;
    int started;
};

static int start_when_set(void *arg)
{
    struct starters *starters = arg;
    CHECK_EQ(coir_event_wait(&starters->event), 0);
    CHECK_EQ(coir_event_wait(&starters->event), 0); /* it holds still */
    __atomic_add_fetch(&starters->started, 1, __ATOMIC_SEQ_CST);
    return 0;
}

static void set_for_all(void)
{
    struct starters starters = {.event = COIR_EVENT_INIT};
    COIR_SCOPE(scope);
    for (int i = 0; i < 6; i++)
        CHECK_EQ(coir_go_on(scope, i % workers(), start_when_set, &starters), 0);
    coir_yield();
    CHECK(!coir_event_is_set(&starters.event));
    CHECK_EQ(__atomic_load_n(&starters.started, __ATOMIC_SEQ_CST), 0);
    coir_event_set(&starters.event);
    coir_event_set(&starters.event);
    CHECK(coir_event_is_set(&starters.event));
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(starters.started, 6);
}

TEST(an_event_that_is_set_lets_all_go)
{
    everywhere(set_for_all);
}

TEST_SIM(an_event_that_is_reset_holds_again)
{
    coir_event event = COIR_EVENT_INIT;
    coir_wait_op op;
    coir_event_set(&event);
    CHECK_EQ(coir_await(coir_event_wait_op(&op, &event)), 0);
    coir_event_reset(&event);
    CHECK(!coir_event_is_set(&event));
    coir_case cases[] = {coir_case_event(&event), coir_case_after(COIR_MS)};
    CHECK_EQ(coir_select_in_order(cases, 2), 1);
    coir_event_set(&event);
    CHECK_EQ(coir_select_in_order(cases, 2), 0);
}
