/* The CPU time that control groups grant this process: cgroups(7), versions 1 and 2, or both side
 * by side (hybrid). */
#ifndef CI_SYS_CGROUP_H
#define CI_SYS_CGROUP_H

/* The tightest quota of the process's group and its parents, in CPUs, rounded up; 0: no limit. All
 * paths begin with `root`: "" but in tests. */
unsigned ci_cgroup_cpus(const char *root);

#endif
