#include "sys/cpu.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

/* The CPUs' worth of time that one cpu.max file grants, rounded up; 0: no limit. */
static unsigned quota_in(const char *folder)
{
    char path[600];
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", folder);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    long long quota, period;
    int fields = fscanf(file, "%lld %lld", &quota, &period);
    fclose(file);
    return fields == 2 && quota > 0 && period > 0 ? (unsigned)((quota + period - 1) / period) : 0;
}

/* The tightest quota of this process's cgroup (version 2) and its parents. */
static unsigned cgroup_quota(void)
{
    char line[512] = "";
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (!file)
        return 0;
    char folder[512] = "";
    while (fgets(line, sizeof line, file))
        if (strncmp(line, "0::", 3) == 0) {
            line[strcspn(line, "\n")] = '\0';
            memcpy(folder, line + 3, strlen(line + 3) + 1);
        }
    fclose(file);
    unsigned tightest = 0;
    for (;;) {
        unsigned quota = quota_in(strcmp(folder, "/") == 0 ? "" : folder);
        if (quota && (!tightest || quota < tightest))
            tightest = quota;
        char *slash = strrchr(folder, '/');
        if (!slash)
            return tightest;
        *slash = '\0';
    }
}

unsigned ci_cpu_available(void)
{
    cpu_set_t set;
    unsigned count = 1;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        count = (unsigned)CPU_COUNT(&set);
    unsigned quota = cgroup_quota();
    if (quota && quota < count)
        count = quota;
    return count ? count : 1;
}

int ci_cpu_pin(unsigned index)
{
    cpu_set_t set, one;
    if (sched_getaffinity(0, sizeof set, &set) < 0)
        return -errno;
    index %= (unsigned)CPU_COUNT(&set);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set) && index-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            return -pthread_setaffinity_np(pthread_self(), sizeof one, &one);
        }
    return -EINVAL;
}
