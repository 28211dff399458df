/* Starting processes where the system refuses something, and looking at groups. */
#include "sys/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "open_files.h"
#include "seccomp.h"

static _Alignas(16) char stack[CI_SPAWN_STACK_SIZE];

static struct ci_spawn shell(const char *const *arguments)
{
    return (struct ci_spawn){.file = "/bin/sh",
                             .arguments = arguments,
                             .stdio = {CI_SPAWN_INHERIT, CI_SPAWN_INHERIT, CI_SPAWN_INHERIT},
                             .own_group = true,
                             .stack = stack};
}

#define SHELL(script) shell((const char *const[]){"/bin/sh", "-c", script, NULL})

static int wait_for(coir_fd pidfd)
{
    siginfo_t info;
    CHECK(waitid((idtype_t)3, (id_t)pidfd, &info, WEXITED | WNOWAIT) == 0);
    int status = ci_sys_exit_status(pidfd);
    close(pidfd);
    return status;
}

static void check_closes_others(void)
{
    pid_t pid;
    int low = open("/dev/null", O_RDONLY), high = fcntl(low, F_DUPFD, 700);
    CHECK(low > 2 && high >= 700);
    for (int i = 0; i < 200; i++) /* more than one look at the directory gives */
        CHECK(fcntl(low, F_DUPFD, 400) >= 400);
    struct ci_spawn spawn = SHELL("i=3; while [ $i -lt 800 ]; do [ -e /proc/$$/fd/$i ] && exit 1;"
                                  "i=$((i + 1)); done; exit 42");
    coir_fd pidfd = ci_sys_spawn(&spawn, &pid);
    CHECK(pidfd >= 0);
    CHECK_EQ(wait_for(pidfd), 42);
}

TEST(other_descriptors_are_closed)
{
    check_closes_others();
}

TEST(other_descriptors_are_closed_where_close_range_is_refused)
{
    refuse_calls(436, 436, ENOSYS);
    check_closes_others();
}

TEST(a_child_that_cannot_be_made_leaves_nothing)
{
    pid_t pid = -7;
    struct ci_spawn spawn = SHELL("exit");
    int before = open_files();
    refuse_calls(SYS_clone, SYS_clone, EAGAIN);
    CHECK_EQ(ci_sys_spawn(&spawn, &pid), -EAGAIN);
    CHECK_EQ(pid, -7);
    CHECK_EQ(open_files(), before);
    _exit(0); /* the leak checker would clone, too */
}

TEST(the_mask_of_the_caller_is_kept)
{
    sigset_t before, after;
    pid_t pid;
    struct ci_spawn spawn = SHELL("exit");
    sigemptyset(&before);
    sigaddset(&before, SIGUSR1);
    sigprocmask(SIG_SETMASK, &before, NULL);
    CHECK_EQ(wait_for(ci_sys_spawn(&spawn, &pid)), 0);
    spawn.file = "/nowhere";
    CHECK_EQ(ci_sys_spawn(&spawn, &pid), -ENOENT);
    sigprocmask(SIG_SETMASK, NULL, &after);
    for (int number = 1; number < 32; number++)
        CHECK_EQ(sigismember(&after, number), number == SIGUSR1);
}

/* The directories of PATH, one of which has no such file, one is no directory, one has a file that
 * must not be executed, one has a name that is too long. */
static int spawn_by(const char *path, const char *file)
{
    static char variable[8192];
    const char *const environment[] = {variable, NULL};
    pid_t pid;
    struct ci_spawn spawn = SHELL("exit 3");
    strcpy(variable, "PATH=");
    strcat(variable, path);
    spawn.environment = environment;
    spawn.file = file;
    coir_fd pidfd = ci_sys_spawn(&spawn, &pid);
    return pidfd < 0 ? pidfd : wait_for(pidfd);
}

TEST(a_program_is_looked_for_in_the_directories_of_path)
{
    char folder[] = "/tmp/process_test.XXXXXX", text[64], path[8000];
    CHECK(mkdtemp(folder));
    snprintf(text, sizeof text, "%s/sh", folder);
    CHECK(close(open(text, O_CREAT | O_WRONLY, 0600)) == 0);
    snprintf(path, sizeof path, "/nowhere:%s/sh:%s:/bin", folder, folder);
    CHECK_EQ(spawn_by(path, "sh"), 3);
    snprintf(path, sizeof path, "/nowhere:%s:", folder);
    CHECK_EQ(spawn_by(path, "sh"), -EACCES);
    memset(path, 'x', 5000);
    strcpy(path + 5000, ":/bin");
    CHECK_EQ(spawn_by(path, "sh"), 3);
    CHECK_EQ(spawn_by("/nowhere", "sh"), -ENOENT);
    CHECK(chdir("/bin") == 0);
    CHECK_EQ(spawn_by("/nowhere:", "sh"), 3); /* an empty one is the current directory */
    CHECK_EQ(spawn_by("", "sh"), 3);
    unlink(text);
    rmdir(folder);
}

TEST(a_group_of_zombies_does_not_run)
{
    pid_t pid;
    struct ci_spawn spawn = SHELL("exec sleep 1000");
    siginfo_t info;
    coir_fd pidfd = ci_sys_spawn(&spawn, &pid);
    CHECK(pidfd >= 0);
    CHECK(ci_sys_group_runs(pid));
    CHECK_EQ(ci_sys_kill_group(pidfd, pid, 0), 0);
    CHECK_EQ(ci_sys_exit_status(pidfd), -EAGAIN);
    CHECK_EQ(ci_sys_kill_group(pidfd, pid, SIGKILL), 0);
    CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
    CHECK(!ci_sys_group_runs(pid));
    CHECK_EQ(ci_sys_kill_group(pidfd, pid, 0), 0);
    CHECK_EQ(wait_for(pidfd), CI_EXIT_KILLED + SIGKILL);
    CHECK(!ci_sys_group_runs(pid));
}

TEST(an_exit_that_somebody_else_has_waited_for_is_known_or_said_to_be_unknown)
{
    pid_t pid;
    struct ci_spawn spawn = SHELL("exit 11");
    coir_fd pidfd = ci_sys_spawn(&spawn, &pid);
    CHECK(waitpid(pid, NULL, 0) == pid);
    int status = ci_sys_exit_status(pidfd);
    CHECK(status == 11 || status == -ECHILD);
    CHECK_EQ(ci_sys_kill_group(pidfd, pid, 0), -ESRCH);
    CHECK_EQ(ci_sys_kill(pidfd, SIGTERM), -ESRCH);
    refuse_calls(SYS_ioctl, SYS_ioctl, ENOTTY); /* before Linux 6.13 */
    CHECK_EQ(ci_sys_exit_status(pidfd), -ECHILD);
    close(pidfd);
}
