/* Runs a body with one and with three workers, and in the simulator under many seeds (SEEDS=N in
 * the environment: so many). */
#ifndef TEST_SYNC_EVERYWHERE_H
#define TEST_SYNC_EVERYWHERE_H

#include <coir.h>
#include <stdlib.h>

#include "harness.h"

static inline void everywhere(void (*body)(void))
{
    const char *text = getenv("SEEDS");
    uint64_t seeds = text ? strtoull(text, NULL, 0) : 200;
    test_in_runtime(body, 1);
    for (int i = 0; i < 5; i++)
        test_in_runtime(body, 3);
    for (uint64_t seed = 1; seed <= seeds; seed++)
        test_in_sim(body, 1 + (unsigned)seed % 3, seed);
}

static inline int workers(void)
{
    return (int)coir_worker_count(coir_runtime_current());
}

#endif
