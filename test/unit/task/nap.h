/* A task that sleeps for a time of its own, and notes how that ended. */
#ifndef TEST_UNIT_TASK_NAP_H
#define TEST_UNIT_TASK_NAP_H

#include <coir.h>

struct nap {
    coir_time time;
    int result, ended;
};

static inline int take_nap(void *arg)
{
    struct nap *nap = arg;
    int rc = coir_sleep_for(nap->time);
    nap->ended = rc < 0 ? rc : 1;
    return rc < 0 ? rc : nap->result;
}

#endif
