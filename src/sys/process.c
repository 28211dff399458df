/* A child runs in its parent's memory, on a stack of its own, until it executes the program or
 * exits; the parent's thread sleeps meanwhile (CLONE_VM, CLONE_VFORK). So nothing is copied,
 * however large the parent is, and the child stores why it failed where the parent finds it.
 *
 * - Until then the child runs none of its parent's signal handlers: all signals are blocked in the
 * thread that clones, and have their default effects in the child before it unblocks them.
 * - The child makes system calls, and nothing else: other threads of the parent may hold any lock.
 */
#include "sys/process.h"

#include <errno.h>

#if defined(__linux__)
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "sys/call.h"
#include "sys/cpu.h"
#include "sys/result.h"

/* Of kernels newer than the headers. */
enum {
    NR_PIDFD_SEND_SIGNAL = 424,
    NR_CLOSE_RANGE = 436,
    CLONE_WITH_PIDFD = 0x1000,
    ID_PIDFD = 3, /* P_PIDFD */
    TO_GROUP = 4  /* PIDFD_SIGNAL_PROCESS_GROUP */
};
#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

/* ---- in the child ---- */

struct child {
    const struct ci_spawn *spawn;
    const char *const *environment;
    const char *path; /* where programs are looked for; NULL: the file has a slash */
    coir_fd pidfd;
    int error;
};

/* Sanitizers would attribute the child's accesses to the parent's thread, whose memory it shares.
 */
#define IN_CHILD CI_UNINSTRUMENTED

IN_CHILD static long call(long number, long a, long b, long c, long d)
{
    return ci_result(syscall(number, a, b, c, d));
}

IN_CHILD static void reset_signals(void)
{
    /* struct sigaction of the kernel: all zero is SIG_DFL */
    static const uint64_t by_default[8] = {0};
    for (int number = 1; number < _NSIG; number++) /* SIGKILL and SIGSTOP are refused */
        call(SYS_rt_sigaction, number, (long)by_default, 0, sizeof(uint64_t));
}

IN_CHILD static int set_limits(const struct ci_spawn *spawn)
{
    long rc = 0;
    for (size_t i = 0; rc == 0 && i < spawn->limit_count; i++) {
        uint64_t values[] = {spawn->limits[i].soft, spawn->limits[i].hard}; /* struct rlimit64 */
        rc = call(SYS_prlimit64, 0, spawn->limits[i].resource, (long)values, 0);
    }
    return (int)rc;
}

/* Makes the descriptors 0 to 2 those of `stdio`. What lies there and goes elsewhere is moved out of
 * the way first. */
IN_CHILD static int place_stdio(const struct ci_spawn *spawn, coir_fd terminal)
{
    long from[3], rc = 0;
    for (int i = 0; rc >= 0 && i < 3; i++) {
        from[i] = spawn->stdio[i] == CI_SPAWN_TERMINAL ? terminal : spawn->stdio[i];
        if (from[i] == CI_SPAWN_NULL)
            rc = from[i] = call(SYS_openat, AT_FDCWD, (long)"/dev/null", O_RDWR | O_CLOEXEC, 0);
        if (rc >= 0 && from[i] >= 0 && from[i] < 3 && from[i] != i)
            rc = from[i] = call(SYS_fcntl, from[i], F_DUPFD_CLOEXEC, 3, 0);
    }
    for (int i = 0; rc >= 0 && i < 3; i++)
        if (from[i] == CI_SPAWN_INHERIT)
            call(SYS_fcntl, i, F_SETFD, 0, 0); /* one that is closed stays closed */
        else if (from[i] == i)
            rc = call(SYS_fcntl, i, F_SETFD, 0, 0);
        else
            rc = call(SYS_dup3, from[i], i, 0, 0);
    return rc < 0 ? (int)rc : 0;
}

struct entry { /* of getdents64(2) */
    uint64_t inode;
    int64_t next;
    uint16_t size;
    uint8_t type;
    char name[];
};

IN_CHILD static long number_of(const char *name)
{
    long number = 0;
    for (; *name >= '0' && *name <= '9'; name++)
        number = number * 10 + *name - '0';
    return *name ? -1 : number;
}

/* Before Linux 5.9, or where a filter of system calls does not know close_range. */
IN_CHILD static CI_NOINLINE int close_others_one_by_one(void)
{
    _Alignas(struct entry) char buf[2048];
    long dir = call(SYS_openat, AT_FDCWD, (long)"/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC,
                    0),
         len = dir;
    while (len >= 0 && (len = call(SYS_getdents64, dir, (long)buf, sizeof buf, 0)) > 0)
        for (long at = 0; at < len;) {
            const struct entry *entry = (const struct entry *)(const void *)(buf + at);
            long fd = number_of(entry->name);
            if (fd > 2 && fd != dir)
                call(SYS_close, fd, 0, 0, 0);
            at += entry->size;
        }
    return len < 0 ? (int)len : 0;
}

IN_CHILD static int close_others(void)
{
    return call(NR_CLOSE_RANGE, 3, UINT_MAX, 0, 0) == 0 ? 0 : close_others_one_by_one();
}

/* Leaves the session of the parent for one with the terminal of a pty: a descriptor of that, which
 * is closed on exec; -1: it has none. */
IN_CHILD static int begin_session(const struct ci_spawn *spawn)
{
    if (!spawn->own_session)
        return -1;
    long rc = call(SYS_setsid, 0, 0, 0, 0);
    if (rc >= 0)
        rc = call(SYS_ioctl, spawn->pty, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC, 0);
    long terminal = rc;
    if (rc >= 0)
        rc = call(SYS_ioctl, terminal, TIOCSCTTY, 0, 0);
    return (int)(rc < 0 ? rc : terminal);
}

IN_CHILD static int prepare(const struct ci_spawn *spawn)
{
    int terminal = begin_session(spawn);
    long rc = spawn->own_session && terminal < 0 ? terminal : 0;
    if (rc == 0 && spawn->own_group && !spawn->own_session)
        rc = call(SYS_setpgid, 0, 0, 0, 0);
    reset_signals();
    if (rc == 0 && spawn->directory)
        rc = call(SYS_chdir, (long)spawn->directory, 0, 0, 0);
    if (rc == 0)
        rc = place_stdio(spawn, terminal);
    if (rc == 0)
        rc = close_others();
    if (rc == 0)
        rc = set_limits(spawn);
    uint64_t none = 0;
    return rc == 0 ? (int)call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&none, 0, sizeof none)
                   : (int)rc;
}

IN_CHILD static int execute(const struct child *child, const char *file)
{
    return (int)call(SYS_execve, (long)file, (long)child->spawn->arguments,
                     (long)child->environment, 0);
}

/* Writes "directory/file": false if it is too long. The directory ends at a colon. */
IN_CHILD static bool put_path(char *to, size_t size, const char *directory, const char *file)
{
    size_t len = 0;
    for (; *directory && *directory != ':' && len < size; directory++)
        to[len++] = *directory;
    if (len && len < size)
        to[len++] = '/';
    for (; *file && len < size; file++)
        to[len++] = *file;
    if (len == size)
        return false;
    to[len] = '\0';
    return true;
}

/* As execvp(3), but a script without #! is refused: -ENOEXEC. */
IN_CHILD static CI_NOINLINE int search(const struct child *child)
{
    char path[PATH_MAX];
    bool denied = false;
    int rc = -ENOENT;
    for (const char *at = child->path; at;) {
        rc = put_path(path, sizeof path, at, child->spawn->file) ? execute(child, path)
                                                                 : -ENAMETOOLONG;
        denied |= rc == -EACCES;
        if (rc != -EACCES && rc != -ENOENT && rc != -ENOTDIR && rc != -ENAMETOOLONG)
            return rc;
        while (*at && *at != ':')
            at++;
        at = *at ? at + 1 : NULL;
    }
    return denied ? -EACCES : rc;
}

IN_CHILD static int child_main(void *arg)
{
    struct child *child = arg;
    /* a kernel without pidfds leaves it as it was */
    int rc = child->pidfd < 0 ? -ENOTSUP : prepare(child->spawn);
    if (rc == 0)
        rc = child->path ? search(child) : execute(child, child->spawn->file);
    child->error = rc;
    call(SYS_exit_group, 127, 0, 0, 0);
    __builtin_unreachable();
}

/* ---- in the parent ---- */

#if CI_TSAN
/* TSan intercepts clone, and assumes that the child has its own memory. */
int __clone(int (*fn)(void *), void *stack, int flags, void *arg, ...);
#define clone __clone
#endif

/* clearenv(3) leaves NULL. */
static const char *const *environment_of(const struct ci_spawn *spawn)
{
    static const char *const none[] = {NULL};
    if (spawn->environment)
        return spawn->environment;
    return environ ? (const char *const *)(void *)environ : none;
}

static const char *path_of(const char *const *environment)
{
    for (; *environment; environment++)
        if (strncmp(*environment, "PATH=", 5) == 0)
            return *environment + 5;
    return "/bin:/usr/bin";
}

/* The raw call: the C library's leaves signals of its own unblocked. */
static void set_mask(const uint64_t *mask, uint64_t *ret_before)
{
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, mask, ret_before, sizeof *mask);
}

static void reap(pid_t pid)
{
    while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
        continue;
}

coir_fd ci_sys_spawn(const struct ci_spawn *spawn, pid_t *ret_pid)
{
    static const uint64_t all = UINT64_MAX;
    uint64_t before;
    const char *const *environment = environment_of(spawn);
    bool is_path = !*spawn->file || strchr(spawn->file, '/');
    struct child child = {spawn, environment, is_path ? NULL : path_of(environment), -1, 0};
    set_mask(&all, &before);
    ci_cpu_exchange_pin();
    pid_t pid = (pid_t)ci_result(clone(child_main, (char *)spawn->stack + CI_SPAWN_STACK_SIZE,
                                       CLONE_VM | CLONE_VFORK | CLONE_WITH_PIDFD | SIGCHLD, &child,
                                       &child.pidfd));
    ci_cpu_exchange_pin();
    if (pid >= 0 && child.error < 0)
        reap(pid);
    set_mask(&before, NULL);
    if (pid < 0)
        return pid;
    if (child.error < 0) {
        if (child.pidfd >= 0)
            ci_sys_close(child.pidfd);
        return child.error;
    }
    *ret_pid = pid;
    return child.pidfd;
}

/* struct pidfd_info, and the request for it, of Linux 6.15. */
struct info {
    uint64_t mask, cgroup;
    uint32_t ids[11];
    int32_t wait_status;
};
#define GET_INFO _IOWR(0xff, 11, struct info)
enum { INFO_EXIT = 8 };

static int status_of_wait(int status)
{
    return WIFSIGNALED(status) ? CI_EXIT_KILLED + WTERMSIG(status) : WEXITSTATUS(status);
}

/* The status of a process that other code has waited for, or that ended while SIGCHLD was ignored.
 */
static CI_COLD int status_of_reaped(coir_fd pidfd)
{
    for (;; sched_yield()) {
        struct info info = {.mask = INFO_EXIT};
        if (syscall(SYS_ioctl, pidfd, GET_INFO, &info) < 0) /* musl's ioctl takes an int */
            return -ECHILD;
        if (info.mask & INFO_EXIT) /* else it is still ending */
            return status_of_wait(info.wait_status);
    }
}

int ci_sys_exit_status(coir_fd pidfd)
{
    siginfo_t info;
    int rc;
    info.si_pid = 0;
    do
        rc = (int)ci_result(waitid((idtype_t)ID_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG));
    while (rc == -EINTR);
    if (rc == -ECHILD)
        return status_of_reaped(pidfd);
    if (rc < 0)
        return rc;
    if (info.si_pid == 0)
        return -EAGAIN;
    return info.si_code == CLD_EXITED ? info.si_status : CI_EXIT_KILLED + info.si_status;
}

static int send_signal(coir_fd pidfd, int number, unsigned flags)
{
    return (int)ci_result(syscall(NR_PIDFD_SEND_SIGNAL, pidfd, number, NULL, flags));
}

int ci_sys_kill(coir_fd pidfd, int number)
{
    return send_signal(pidfd, number, 0);
}

/* Before Linux 6.9 the group is addressed by its number, which is not reused while it has members:
 * who calls knows that it has some, or has just had. */
int ci_sys_kill_group(coir_fd pidfd, pid_t group, int number)
{
    int rc = send_signal(pidfd, number, TO_GROUP);
    return rc == -EINVAL ? (int)ci_result(kill(-group, number)) : rc;
}

bool ci_sys_is_in_own_group(pid_t pid)
{
    return getpgid(pid) == pid;
}

/* A line of /proc/PID/stat: "PID (name) state parent group ...". */
static bool runs_in(pid_t group, const char *line)
{
    const char *at = strrchr(line, ')'); /* names may have parentheses */
    char state;
    long parent, its_group;
    return at && sscanf(at + 1, " %c %ld %ld", &state, &parent, &its_group) == 3 &&
           its_group == group && state != 'Z' && state != 'X';
}

bool ci_sys_group_runs(pid_t group)
{
    bool found = false;
    DIR *all = opendir("/proc");
    if (!all)
        return true;
    for (const struct dirent *entry; !found && (entry = readdir(all));) {
        char path[sizeof entry->d_name + sizeof "/stat"], line[256];
        if (number_of(entry->d_name) <= 0)
            continue;
        snprintf(path, sizeof path, "%s/stat", entry->d_name);
        coir_fd fd = openat(dirfd(all), path, O_RDONLY | O_CLOEXEC);
        ssize_t len = fd < 0 ? 0 : read(fd, line, sizeof line - 1);
        line[len > 0 ? len : 0] = '\0';
        found = runs_in(group, line);
        if (fd >= 0)
            close(fd);
    }
    closedir(all);
    return found;
}

void ci_sys_reap_group(pid_t group)
{
    while (waitpid(-group, NULL, WNOHANG | __WALL) > 0)
        continue;
}

int ci_sys_pipe_to_child(bool child_writes, coir_fd *ret_own, coir_fd *ret_child)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    int own = ends[!child_writes];
    if (fcntl(own, F_SETFL, (child_writes ? O_RDONLY : O_WRONLY) | O_NONBLOCK) < 0) {
        int rc = -errno;
        close(ends[0]);
        close(ends[1]);
        return rc;
    }
    *ret_own = own;
    *ret_child = ends[child_writes];
    return 0;
}

#else

coir_fd ci_sys_spawn(const struct ci_spawn *spawn, pid_t *ret_pid)
{
    (void)spawn;
    (void)ret_pid;
    return -ENOTSUP;
}

int ci_sys_exit_status(coir_fd pidfd)
{
    (void)pidfd;
    return -ENOTSUP;
}

int ci_sys_kill(coir_fd pidfd, int number)
{
    (void)pidfd;
    (void)number;
    return -ENOTSUP;
}

int ci_sys_kill_group(coir_fd pidfd, pid_t group, int number)
{
    (void)pidfd;
    (void)group;
    (void)number;
    return -ENOTSUP;
}

bool ci_sys_is_in_own_group(pid_t pid)
{
    (void)pid;
    return true;
}

bool ci_sys_group_runs(pid_t group)
{
    (void)group;
    return true;
}

void ci_sys_reap_group(pid_t group)
{
    (void)group;
}

int ci_sys_pipe_to_child(bool child_writes, coir_fd *ret_own, coir_fd *ret_child)
{
    (void)child_writes;
    (void)ret_own;
    (void)ret_child;
    return -ENOTSUP;
}
#endif
