/* Generators. */
#include <coir.h>
#include <errno.h>
#include <stdlib.h>

#include "harness.h"

static int squares(coir_generator *generator, uint64_t first, void *arg)
{
    uint64_t sent = first;
    int rc;
    for (uint64_t i = 1;; i++) {
        if (i % 3 == 0 && (rc = coir_sleep_for(COIR_MS)) < 0)
            return rc; /* a generator may suspend: the task that resumed it is parked */
        if ((rc = coir_generator_yield(generator, i * i + sent, &sent)) < 0) {
            *(int *)arg = rc;
            return 0;
        }
        if (sent == UINT64_MAX)
            return -EDOM;
    }
}

static int use_generator(void *arg)
{
    coir_generator *generator;
    uint64_t value = 0, offset = (uint64_t)(intptr_t)arg;
    int closed = 0;
    CHECK_EQ(coir_generator_new(squares, &closed, &generator), 0);
    for (uint64_t i = 1; i <= 10; i++) {
        CHECK_EQ(coir_generator_next(generator, offset, &value), 1);
        CHECK_EQ(value, i * i + offset);
    }
    coir_generator_free(generator);
    CHECK_EQ(closed, -ECANCELED);
    CHECK_EQ(coir_generator_new(squares, &closed, &generator), 0);
    CHECK_EQ(coir_generator_next(generator, 0, &value), 1);
    CHECK_EQ(coir_generator_next(generator, UINT64_MAX, &value), -EDOM);
    CHECK_EQ(coir_generator_next(generator, 0, &value), -EDOM);
    coir_generator_free(generator);
    coir_generator_free(NULL);
    return 0;
}

TEST_SIM(generators_carry_values_both_ways_and_may_suspend)
{
    COIR_SCOPE(scope);
    for (intptr_t i = 0; i < 20; i++)
        coir_go(scope, use_generator, (void *)i);
    CHECK_EQ(coir_scope_wait(scope), 0);
}
