#include "sys/barrier.h"

#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/check.h"

/* linux/membarrier.h, which not every C library comes with */
enum { GLOBAL = 1 << 0, PRIVATE_EXPEDITED = 1 << 3, REGISTER_PRIVATE_EXPEDITED = 1 << 4 };
enum { UNKNOWN, THERE, MISSING };

bool ci_barrier_prepare(void)
{
    static int32_t state;
    if (ci_load_relaxed(&state) == UNKNOWN) /* in two threads at once it does no harm */
        ci_store_relaxed(&state, syscall(SYS_membarrier, REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0
                                     ? THERE
                                     : MISSING);
    return ci_load_relaxed(&state) == THERE;
}

static uint32_t made;

bool ci_barrier_pays(void)
{
    return ci_load_relaxed(&made) < CI_BARRIERS_MAX;
}

void ci_barrier_everywhere(void)
{
    ci_fetch_add_relaxed(&made, 1);
    bool done = syscall(SYS_membarrier, PRIVATE_EXPEDITED, 0, 0) == 0 ||
                syscall(SYS_membarrier, GLOBAL, 0, 0) == 0;
    ci_check(done, "barrier.h 1");
}
#else
bool ci_barrier_prepare(void)
{
    return false;
}

bool ci_barrier_pays(void)
{
    return false;
}

void ci_barrier_everywhere(void)
{
}
#endif
