#include "sys/cpu.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "sys/cgroup.h"

enum { CPUS_FIRST = CPU_SETSIZE, CPUS_MOST = 1 << 20 };

/* Of a thread that is tied to a CPU: the mask that it had before, or NULL. Between two calls of
 * ci_cpu_exchange_pin the one that it has otherwise. */
static CI_THREAD_LOCAL struct {
    cpu_set_t *mask;
    size_t size;
} kept;

/* The affinity mask of the thread, in the size that the kernel requires: sched_getaffinity(2)
 * returns EINVAL if it is too small. Freed with CPU_FREE; NULL: it cannot be read. */
static cpu_set_t *affinity(size_t *ret_size)
{
    for (size_t cpus = CPUS_FIRST; cpus <= CPUS_MOST; cpus *= 2) {
        size_t size = CPU_ALLOC_SIZE(cpus);
        cpu_set_t *set = CPU_ALLOC(cpus);
        if (set && sched_getaffinity(0, size, set) == 0) {
            *ret_size = size;
            return set;
        }
        bool too_small = set && errno == EINVAL;
        CPU_FREE(set);
        if (!too_small)
            return NULL;
    }
    return NULL;
}

static unsigned count_affinity(void)
{
    if (kept.mask)
        return (unsigned)CPU_COUNT_S(kept.size, kept.mask);
    size_t size;
    cpu_set_t *set = affinity(&size);
    unsigned count = set ? (unsigned)CPU_COUNT_S(size, set) : 1;
    CPU_FREE(set);
    return count;
}

unsigned ci_cpu_available(void)
{
    unsigned count = count_affinity(), quota = ci_cgroup_cpus("");
    if (quota && quota < count)
        count = quota;
    return count ? count : 1;
}

static int set_affinity(const cpu_set_t *mask, size_t size)
{
    return -pthread_setaffinity_np(pthread_self(), size, mask);
}

int ci_cpu_pin(unsigned index)
{
    size_t size;
    ci_cpu_unpin();
    cpu_set_t *before = affinity(&size), *set = before ? calloc(1, size) : NULL;
    if (!set) {
        CPU_FREE(before);
        return before ? -ENOMEM : -EINVAL;
    }
    index %= (unsigned)CPU_COUNT_S(size, before);
    size_t cpu = 0;
    while (!CPU_ISSET_S(cpu, size, before) || index-- > 0)
        cpu++;
    CPU_SET_S(cpu, size, set);
    int rc = set_affinity(set, size);
    free(set);
    if (rc < 0) {
        CPU_FREE(before);
        return rc;
    }
    kept.mask = before;
    kept.size = size;
    return 0;
}

void ci_cpu_unpin(void)
{
    if (!kept.mask)
        return;
    set_affinity(kept.mask, kept.size);
    CPU_FREE(kept.mask);
    kept.mask = NULL;
}

void ci_cpu_exchange_pin(void)
{
    size_t size;
    cpu_set_t *now = kept.mask ? affinity(&size) : NULL;
    if (!now)
        return;
    set_affinity(kept.mask, kept.size);
    CPU_FREE(kept.mask);
    kept.mask = now;
    kept.size = size;
}
