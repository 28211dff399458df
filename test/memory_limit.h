/* A process that gets no more memory from the system, and so starts no thread: the C library keeps
 * a few stacks of threads that have ended for others, which do start. */
#ifndef TEST_MEMORY_LIMIT_H
#define TEST_MEMORY_LIMIT_H

#include <stdio.h>
#include <sys/resource.h>

#include "harness.h"

/* Returns the limit as it was. */
static inline struct rlimit limit_memory(void)
{
    unsigned long pages = 0;
    struct rlimit before, limit;
    FILE *file = fopen("/proc/self/statm", "re");
    CHECK(file && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    CHECK_EQ(getrlimit(RLIMIT_AS, &before), 0);
    limit = before;
    limit.rlim_cur = pages * 4096 + (1 << 20);
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    return before;
}

static inline void unlimit_memory(struct rlimit before)
{
    CHECK_EQ(setrlimit(RLIMIT_AS, &before), 0);
}

#endif
