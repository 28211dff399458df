#include "sys/fork.h"

#include <pthread.h>

#include "base/atomic.h"

bool ci_forked_child;
static int32_t forbidding; /* how many things exist that a child must not use */

static void in_child(void)
{
    if (ci_load_relaxed(&forbidding))
        ci_forked_child = true;
}

__attribute__((constructor)) static void watch_for_fork(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

void ci_fork_forbid(void)
{
    ci_fetch_add_relaxed(&forbidding, 1);
}

void ci_fork_allow(void)
{
    ci_fetch_sub(&forbidding, 1);
}
