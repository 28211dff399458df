/* Generators. */
#include <coir.h>
#include <errno.h>
#include <stdlib.h>

#include "harness.h"
#include "sys/misuse.h"

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

static int sleep_and_yield(coir_generator *generator, uint64_t first, void *arg)
{
    (void)arg;
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    return coir_generator_yield(generator, first, NULL);
}

static int take_next(void *generator)
{
    uint64_t value = 0;
    CHECK_EQ(coir_generator_next(generator, 7, &value), 1);
    CHECK_EQ(value, 7);
    return 0;
}

static int yield_another(coir_generator *generator, uint64_t first, void *outer)
{
    (void)generator;
    return coir_generator_yield(outer, first, NULL);
}

static int resume_one_that_yields_this(coir_generator *generator, uint64_t first, void *arg)
{
    coir_generator *inner;
    uint64_t value;
    (void)arg;
    CHECK_EQ(coir_generator_new(yield_another, generator, &inner), 0);
    CHECK_EQ(coir_generator_next(inner, 3, &value), -EINVAL);
    coir_generator_free(inner);
    return coir_generator_yield(generator, first, NULL);
}

TEST_SIM(only_the_generators_own_function_yields)
{
    coir_generator *generator;
    ci_misuse_aborts = false;
    CHECK_EQ(coir_generator_new(sleep_and_yield, NULL, &generator), 0);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, take_next, generator), 0);
    CHECK_EQ(coir_sleep_for(COIR_US), 0); /* it waits, in another task */
    CHECK_EQ(coir_generator_yield(generator, 1, NULL), -EINVAL);
    CHECK_EQ(coir_scope_wait(scope), 0);
    coir_generator_free(generator);
    CHECK_EQ(coir_generator_new(resume_one_that_yields_this, NULL, &generator), 0);
    take_next(generator);
    coir_generator_free(generator);
}
