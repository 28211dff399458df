/* What all waits of this layer share: their order, what they get when they are cancelled, and where
 * they are woken. */
#include "sync/wait.h"

#include <coir.h>
#include <errno.h>

#include "unit/sync/everywhere.h"

static int asked, answered;

static int wait_in_turn(void *arg)
{
    int turn = asked++;
    int rc = coir_event_wait(arg);
    CHECK_EQ(answered++, turn);
    return rc;
}

TEST_REAL(waiters_are_woken_in_the_order_in_which_they_came)
{
    coir_event event = COIR_EVENT_INIT;
    COIR_SCOPE(scope);
    for (int i = 0; i < 7; i++)
        CHECK_EQ(coir_go(scope, wait_in_turn, &event), 0);
    coir_yield();
    CHECK_EQ(asked, 7);
    coir_event_set(&event);
    CHECK_EQ(answered, 0); /* no waiter runs inside of the call that wakes it */
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(answered, 7);
}

static int results[2];

static int acquire(void *arg)
{
    int rc = coir_semaphore_acquire(arg, 1);
    results[0] = rc;
    results[1] = coir_semaphore_acquire(arg, 1);
    return 0;
}

/* What was granted is not taken back by a cancel that comes before the waiter runs. */
TEST_REAL(a_waiter_that_was_granted_keeps_what_it_got)
{
    coir_semaphore semaphore = COIR_SEMAPHORE_INIT(0);
    COIR_SERVING_SCOPE(scope);
    CHECK_EQ(coir_go(scope, acquire, &semaphore), 0);
    coir_yield();
    CHECK_EQ(coir_semaphore_release(&semaphore, 1), 0);
    coir_scope_cancel(scope);
    coir_scope_wait(scope);
    CHECK_EQ(results[0], 0);
    CHECK_EQ(results[1], -ECANCELED);
    CHECK_EQ(coir_semaphore_units(&semaphore), 0);
}

/* And one that was cancelled is not granted anything. */
TEST_REAL(a_waiter_that_was_withdrawn_gets_nothing)
{
    coir_semaphore semaphore = COIR_SEMAPHORE_INIT(0);
    COIR_SERVING_SCOPE(scope);
    CHECK_EQ(coir_go(scope, acquire, &semaphore), 0);
    coir_yield();
    coir_scope_cancel(scope);
    CHECK_EQ(coir_semaphore_release(&semaphore, 1), 0);
    coir_scope_wait(scope);
    CHECK_EQ(results[0], -ECANCELED);
    CHECK_EQ(coir_semaphore_units(&semaphore), 1);
}

struct pair {
    coir_semaphore there, back;
};

static int answer(void *arg)
{
    struct pair *pair = arg;
    int home = coir_worker_index();
    for (int i = 0; i < 200; i++) {
        CHECK_EQ(coir_semaphore_acquire(&pair->there, 1), 0);
        CHECK_EQ(coir_worker_index(), home);
        CHECK_EQ(coir_semaphore_release(&pair->back, 1), 0);
    }
    return 0;
}

static void ask_another_worker(void)
{
    struct pair pair = {COIR_SEMAPHORE_INIT(0), COIR_SEMAPHORE_INIT(0)};
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go_on(scope, workers() - 1, answer, &pair), 0);
    for (int i = 0; i < 200; i++) {
        CHECK_EQ(coir_semaphore_release(&pair.there, 1), 0);
        CHECK_EQ(coir_semaphore_acquire(&pair.back, 1), 0);
    }
    CHECK_EQ(coir_scope_wait(scope), 0);
}

TEST(a_waiter_is_woken_on_its_own_worker)
{
    everywhere(ask_another_worker);
}
