/* Machines with more CPUs than a cpu_set_t has bits. This program's sched_getaffinity stands in for
 * the C library's. */
#include "sys/cpu.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include <coir.h>

#include "harness.h"
#include "sys/cgroup.h"

static size_t cpus = 2;

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
    (void)pid;
    if (size * 8 < cpus) {
        errno = EINVAL;
        return -1;
    }
    memset(set, 0, size);
    for (size_t cpu = 0; cpu < cpus; cpu++)
        CPU_SET_S(cpu, size, set);
    return 0;
}

TEST(many_cpus_are_counted)
{
    cpus = 5000;
    unsigned quota = ci_cgroup_cpus("");
    CHECK_EQ(ci_cpu_available(), quota ? quota : 5000);
}

TEST(pinning_finds_its_cpu_in_a_large_mask)
{
    cpus = 5000;
    CHECK_EQ(ci_cpu_pin(0), 0);          /* the first one is there in fact */
    CHECK_EQ(ci_cpu_pin(4999), -EINVAL); /* and this one is not */
}

TEST(more_cpus_than_workers_there_may_be_are_no_error)
{
    cpus = 5000;
    coir_config config = COIR_CONFIG;
    config.driver = "poll";
    coir_runtime *runtime;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    coir_runtime_free(runtime);
}
