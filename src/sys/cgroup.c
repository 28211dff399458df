#include "sys/cgroup.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_SIZE = 4096 };

/* Where one version's hierarchy is mounted, and which group the process is in. On the heap: the
 * caller may be a fiber. */
struct hierarchy {
    bool version_2;
    const char *files;     /* what every path begins with */
    char mount[PATH_SIZE]; /* the folder in which the files of `root` lie */
    char root[PATH_SIZE];  /* the group that is mounted there: "/" but in containers */
    char group[PATH_SIZE];
    char folder[2 * PATH_SIZE], path[3 * PATH_SIZE];
};

static FILE *open_in(struct hierarchy *hierarchy, const char *folder, const char *name)
{
    snprintf(hierarchy->path, sizeof hierarchy->path, "%s%s/%s", hierarchy->files, folder, name);
    return fopen(hierarchy->path, "re");
}

/* Whether `name` is an item of a list with commas. */
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

/* One line of /proc/self/mountinfo: "31 23 0:28 ROOT MOUNT options [fields] - TYPE source
 * super-options". */
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
    bool found = hierarchy->version_2 ? strcmp(type, "cgroup2") == 0
                                      : strcmp(type, "cgroup") == 0 && end && lists(end, "cpu");
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
    bool found =
        hierarchy->version_2 ? strcmp(id, "0") == 0 && !*controllers : lists(controllers, "cpu");
    if (found)
        copy(hierarchy->group, group);
}

static void each_line(struct hierarchy *hierarchy, const char *name,
                      void (*read)(struct hierarchy *, char *))
{
    char *line = NULL;
    size_t size = 0;
    FILE *file = open_in(hierarchy, "/proc/self", name);
    while (file && getline(&line, &size, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        read(hierarchy, line);
    }
    free(line);
    if (file)
        fclose(file);
}

/* The numbers of a file of the folder: how many of them there were. "max" is none. */
static int numbers_in(struct hierarchy *hierarchy, const char *name, long long ret_numbers[2])
{
    FILE *file = open_in(hierarchy, hierarchy->folder, name);
    int count = file ? fscanf(file, "%lld %lld", &ret_numbers[0], &ret_numbers[1]) : 0;
    if (file)
        fclose(file);
    return count;
}

/* The quota that the folder's files grant, in CPUs. */
static unsigned quota_in(struct hierarchy *hierarchy)
{
    long long time[2] = {0}, period[2] = {0};
    if (hierarchy->version_2) {
        if (numbers_in(hierarchy, "cpu.max", time) < 2)
            return 0;
        period[0] = time[1];
    } else if (numbers_in(hierarchy, "cpu.cfs_quota_us", time) < 1 ||
               numbers_in(hierarchy, "cpu.cfs_period_us", period) < 1) {
        return 0;
    }
    return time[0] > 0 && period[0] > 0 ? (unsigned)((time[0] + period[0] - 1) / period[0]) : 0;
}

/* The group's path below the mounted one. If it is not below it, the process is in a container
 * whose files show the groups of the host: the mounted one applies. */
static const char *below_mount(const struct hierarchy *hierarchy)
{
    size_t len = strcmp(hierarchy->root, "/") == 0 ? 0 : strlen(hierarchy->root);
    const char *below = hierarchy->group + len;
    if (strncmp(hierarchy->group, hierarchy->root, len) != 0 || (*below && *below != '/') ||
        strcmp(below, "/") == 0)
        return "";
    return below;
}

/* Of the process's group and its parents. */
static unsigned tightest_in(struct hierarchy *hierarchy)
{
    each_line(hierarchy, "mountinfo", read_mount);
    each_line(hierarchy, "cgroup", read_group);
    if (!*hierarchy->mount)
        return 0;
    snprintf(hierarchy->folder, sizeof hierarchy->folder, "%s%s", hierarchy->mount,
             below_mount(hierarchy));
    unsigned tightest = 0;
    while (strlen(hierarchy->folder) >= strlen(hierarchy->mount)) {
        unsigned quota = quota_in(hierarchy);
        if (quota && (!tightest || quota < tightest))
            tightest = quota;
        *strrchr(hierarchy->folder, '/') = '\0';
    }
    return tightest;
}

static unsigned tightest_of(const char *root, bool version_2)
{
    struct hierarchy *hierarchy = calloc(1, sizeof *hierarchy);
    unsigned cpus = 0;
    if (hierarchy) {
        hierarchy->version_2 = version_2;
        hierarchy->files = root;
        cpus = tightest_in(hierarchy);
    }
    free(hierarchy);
    return cpus;
}

unsigned ci_cgroup_cpus(const char *root)
{
    unsigned one = tightest_of(root, false), two = tightest_of(root, true);
    return !one || (two && two < one) ? two : one;
}
