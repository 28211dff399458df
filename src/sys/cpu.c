#include "sys/cpu.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#include "sys/cgroup.h"

enum { CPUS_FIRST = CPU_SETSIZE, CPUS_MOST = 1 << 20 };

/* The affinity mask of the process, in the size that the kernel requires: sched_getaffinity(2)
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

unsigned ci_cpu_available(void)
{
    size_t size;
    unsigned count = 1, quota = ci_cgroup_cpus("");
    cpu_set_t *set = affinity(&size);
    if (set)
        count = (unsigned)CPU_COUNT_S(size, set);
    CPU_FREE(set);
    if (quota && quota < count)
        count = quota;
    return count ? count : 1;
}

int ci_cpu_pin(unsigned index)
{
    size_t size;
    cpu_set_t *set = affinity(&size);
    if (!set)
        return -EINVAL;
    index %= (unsigned)CPU_COUNT_S(size, set);
    size_t cpu = 0;
    while (!CPU_ISSET_S(cpu, size, set) || index-- > 0)
        cpu++;
    CPU_ZERO_S(size, set);
    CPU_SET_S(cpu, size, set);
    int rc = -pthread_setaffinity_np(pthread_self(), size, set);
    CPU_FREE(set);
    return rc;
}
