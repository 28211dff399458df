/* A future that is made with its result: it completes at its first poll, unless its task is asked
 * to end, and in place of none there is none. */
#include <coir.h>
#include <errno.h>

#include "harness.h"
#include "task/completed.h"

TEST_SIM(a_completed_future_has_its_result_at_once)
{
    coir_future future;
    coir_time before = coir_now();
    CHECK(ci_completed_op(&future, 7) == &future);
    CHECK_EQ(coir_await(&future), 7);
    CHECK_EQ(coir_await(ci_completed_op(&future, -EINVAL)), -EINVAL);
    CHECK_EQ(coir_now(), before);
    CHECK(ci_completed_op(NULL, 7) == NULL);
}

TEST_SIM(a_case_may_have_its_result_too)
{
    coir_case cases[] = {ci_completed_case(-EINVAL), coir_case_after(COIR_S)};
    CHECK_EQ(coir_select_in_order(cases, 2), 0);
    CHECK_EQ(cases[0].result, -EINVAL);
}

TEST_SIM(an_interrupt_comes_before_the_result)
{
    coir_future future;
    COIR_DEADLINE(coir_now());
    CHECK_EQ(coir_await(ci_completed_op(&future, 7)), -ETIME);
}
