#include "sys/cgroup.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_SIZE = 4096 };

/* Where one version's hierarchy is mounted, and which group the process is in. */
struct hierarchy {
    bool version_2;
    char mount[PATH_SIZE]; /* the folder in which the files of `root` lie */
    char root[PATH_SIZE];  /* the group that is mounted there: "/" but in containers */
    char group[PATH_SIZE];
};

static FILE *open_in(const char *root, const char *path)
{
    char whole[2 * PATH_SIZE];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    return fopen(whole, "re");
}

/* Whether `name` is one of the words that commas separate in `list`. */
static bool lists(const char *list, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = list; *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
        if (strncmp(at, name, len) == 0 && (at[len] == ',' || at[len] == '\0'))
            return true;
    }
    return false;
}

static void copy(char to[PATH_SIZE], const char *from)
{
    snprintf(to, PATH_SIZE, "%s", from);
}

/* One line of /proc/self/mountinfo: "31 23 0:28 ROOT MOUNT options [fields] - TYPE source super-options". */
static void read_mount(struct hierarchy *hierarchy, char *line)
{
    char *fields[5] = {0}, *rest = line;
    for (size_t i = 0; i < 5; i++)
        fields[i] = strsep(&rest, " ");
    char *end = rest ? strstr(rest, " - ") : NULL;
    if (!end)
        return;
    end += 3;
    const char *type = strsep(&end, " ");
    if (end)
        strsep(&end, " "); /* the source */
    bool found = hierarchy->version_2 ? strcmp(type, "cgroup2") == 0 : strcmp(type, "cgroup") == 0 && end && lists(end, "cpu");
    if (!found)
        return;
    copy(hierarchy->root, fields[3]);
    copy(hierarchy->mount, fields[4]);
}

/* One line of /proc/self/cgroup: "ID:CONTROLLERS:GROUP"; version 2 is "0::GROUP". */
static void read_group(struct hierarchy *hierarchy, char *line)
{
    char *group = line;
    const char *id = strsep(&group, ":"), *controllers = strsep(&group, ":");
    if (!group)
        return;
    bool found = hierarchy->version_2 ? strcmp(id, "0") == 0 && !*controllers : lists(controllers, "cpu");
    if (found)
        copy(hierarchy->group, group);
}

static void each_line(const char *root, const char *path, void (*read)(struct hierarchy *, char *), struct hierarchy *hierarchy)
{
    char *line = NULL;
    size_t size = 0;
    FILE *file = open_in(root, path);
    while (file && getline(&line, &size, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        read(hierarchy, line);
    }
    free(line);
    if (file)
        fclose(file);
}

/* The numbers of a file: how many of them there were. "max" is none. */
static int numbers_in(const char *root, const char *folder, const char *name, long long ret_numbers[2])
{
    char path[2 * PATH_SIZE];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = open_in(root, path);
    int count = file ? fscanf(file, "%lld %lld", &ret_numbers[0], &ret_numbers[1]) : 0;
    if (file)
        fclose(file);
    return count;
}

/* The quota that one folder's files grant, in CPUs. */
static unsigned quota_in(const char *root, const char *folder, bool version_2)
{
    long long time[2] = {0}, period[2] = {0};
    if (version_2) {
        if (numbers_in(root, folder, "cpu.max", time) < 2)
            return 0;
        period[0] = time[1];
    } else if (numbers_in(root, folder, "cpu.cfs_quota_us", time) < 1 || numbers_in(root, folder, "cpu.cfs_period_us", period) < 1) {
        return 0;
    }
    return time[0] > 0 && period[0] > 0 ? (unsigned)((time[0] + period[0] - 1) / period[0]) : 0;
}

/* The group's path below the mounted one. A group that is not below it is seen from outside a container: the mounted one counts. */
static const char *below_mount(const struct hierarchy *hierarchy)
{
    size_t len = strcmp(hierarchy->root, "/") == 0 ? 0 : strlen(hierarchy->root);
    const char *below = hierarchy->group + len;
    if (strncmp(hierarchy->group, hierarchy->root, len) != 0 || (*below && *below != '/') || strcmp(below, "/") == 0)
        return "";
    return below;
}

static unsigned tightest_of(const char *root, bool version_2)
{
    struct hierarchy hierarchy = {.version_2 = version_2};
    each_line(root, "/proc/self/mountinfo", read_mount, &hierarchy);
    each_line(root, "/proc/self/cgroup", read_group, &hierarchy);
    if (!*hierarchy.mount)
        return 0;
    char folder[2 * PATH_SIZE];
    snprintf(folder, sizeof folder, "%s%s", hierarchy.mount, below_mount(&hierarchy));
    unsigned tightest = 0;
    while (strlen(folder) >= strlen(hierarchy.mount)) {
        unsigned quota = quota_in(root, folder, version_2);
        if (quota && (!tightest || quota < tightest))
            tightest = quota;
        *strrchr(folder, '/') = '\0';
    }
    return tightest;
}

unsigned ci_cgroup_cpus(const char *root)
{
    unsigned one = tightest_of(root, false), two = tightest_of(root, true);
    return !one || (two && two < one) ? two : one;
}
