/* Quotas of control groups, read from trees of files like those of the kernel. */
#include "sys/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"

static char root[] = "/tmp/coir-cgroup-XXXXXX";

/* Writes a file below the root, with the folders that lead to it. */
static void put(const char *path, const char *text)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *slash = whole + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(whole, 0700);
        *slash = '/';
    }
    FILE *file = fopen(whole, "w");
    CHECK(file);
    CHECK(fputs(text, file) >= 0);
    fclose(file);
}

static void begin(const char *mountinfo, const char *cgroup)
{
    CHECK(mkdtemp(root));
    put("/proc/self/mountinfo", mountinfo);
    put("/proc/self/cgroup", cgroup);
}

static unsigned end(void)
{
    unsigned cpus = ci_cgroup_cpus(root);
    char command[600];
    snprintf(command, sizeof command, "rm -r '%s'", root);
    CHECK_EQ(system(command), 0);
    return cpus;
}

static const char v1_mount[] =
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n";
static const char v2_mount[] = "41 31 0:38 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n";

TEST(no_files_no_limit)
{
    CHECK(mkdtemp(root));
    CHECK_EQ(end(), 0);
}

TEST(version_2_takes_the_tightest_of_the_group_and_its_parents)
{
    begin(v2_mount, "0::/a/b\n");
    put("/sys/fs/cgroup/a/b/cpu.max", "400000 100000\n");
    put("/sys/fs/cgroup/a/cpu.max", "250000 100000\n");
    CHECK_EQ(end(), 3); /* 2.5, rounded up */
}

TEST(version_2_without_a_limit)
{
    begin(v2_mount, "0::/\n");
    put("/sys/fs/cgroup/cpu.max", "max 100000\n");
    CHECK_EQ(end(), 0);
}

TEST(version_1_reads_quota_and_period)
{
    begin(v1_mount, "4:cpuset:/other\n2:cpu,cpuacct:/web\n1:name=systemd:/\n");
    put("/sys/fs/cgroup/cpu,cpuacct/web/cpu.cfs_quota_us", "150000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/web/cpu.cfs_period_us", "50000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    CHECK_EQ(end(), 3);
}

TEST(hybrid_takes_the_tighter_of_both)
{
    begin("32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
          "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n",
          "1:cpu:/one\n0::/two\n");
    put("/sys/fs/cgroup/cpu/one/cpu.cfs_quota_us", "200000");
    put("/sys/fs/cgroup/cpu/one/cpu.cfs_period_us", "100000");
    put("/sys/fs/cgroup/unified/two/cpu.max", "500000 100000");
    CHECK_EQ(end(), 2);
}

TEST(in_a_container_the_mounted_group_counts)
{
    begin("32 31 0:29 /docker/0123 /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n",
          "1:cpu:/docker/0123/app\n");
    put("/sys/fs/cgroup/cpu/app/cpu.cfs_quota_us", "100000");
    put("/sys/fs/cgroup/cpu/app/cpu.cfs_period_us", "100000");
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
    CHECK_EQ(end(), 1);
}

TEST(a_group_outside_of_the_mount_is_the_mounted_one)
{
    begin("32 31 0:29 /docker/0123 /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n",
          "0::/docker/012345\n");
    put("/sys/fs/cgroup/cpu.max", "200000 100000");
    CHECK_EQ(end(), 2);
}
