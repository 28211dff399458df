/* The end of child processes, however they behave; and that nothing is left of them. */
#include <coir.h>
#include <errno.h>
#include <linux/sched.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "mask.h"
#include "open_files.h"
#include "seccomp.h"

#define SHELL(script) ((const char *const[]){"/bin/sh", "-c", script, NULL})

static coir_process_options reads_with(coir_time grace)
{
    coir_process_options options = COIR_PROCESS_OPTIONS;
    options.out = COIR_STDIO_PIPE;
    options.grace = grace;
    return options;
}

static int no_children(void)
{
    return waitpid(-1, NULL, WNOHANG | __WALL) < 0 && errno == ECHILD;
}

/* Orphans become children of this process, which so sees whether they are waited for. */
static void adopt_orphans(void)
{
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
}

/* Reads a line: a number. */
static int read_number(coir_stream *stream)
{
    char line[16] = "";
    for (size_t at = 0; at < sizeof line - 1; at++) {
        CHECK_EQ(coir_read(stream, line + at, 1), 1);
        if (line[at] == '\n')
            break;
    }
    return atoi(line);
}

/* Spawns a shell that first writes the number of a process, and returns that. */
static int spawn(coir_process *child, const char *script, coir_time grace)
{
    coir_process_options options = reads_with(grace);
    CHECK_EQ(coir_process_spawn_with(child, SHELL(script), &options), 0);
    return read_number(coir_process_stdout(child));
}

static bool exists(int pid)
{
    return kill(pid, 0) == 0;
}

TEST_REAL(a_child_that_ignores_sigterm_is_killed_after_the_grace_time)
{
    int before = open_files(), pid;
    coir_time begun;
    {
        COIR_PROCESS(child);
        pid = spawn(child, "trap '' TERM; echo $$; while :; do sleep 1000; done", 30 * COIR_MS);
        CHECK_EQ(pid, coir_process_pid(child));
        begun = coir_now();
    }
    CHECK(coir_now() - begun >= 30 * COIR_MS);
    CHECK(!exists(pid));
    CHECK(no_children());
    CHECK_EQ(open_files(), before);
}

TEST_REAL(a_child_that_heeds_sigterm_has_its_time)
{
    char text[] = "/tmp/process_test.XXXXXX", script[128], got[8] = "";
    int fd = mkstemp(text);
    CHECK(fd >= 0);
    snprintf(script, sizeof script,
             "trap 'sleep 0.02; echo bye >%s; exit' TERM; echo 1; while :; do sleep 0.01; done",
             text);
    {
        COIR_PROCESS(child);
        spawn(child, script, COIR_NEVER);
    }
    CHECK_EQ(read(fd, got, sizeof got), 4);
    close(fd);
    unlink(text);
    CHECK(no_children());
}

TEST_REAL(a_stopped_child_ends)
{
    COIR_PROCESS(child);
    int pid = spawn(child, "echo $$; kill -STOP $$", COIR_NEVER);
    siginfo_t info;
    CHECK(waitid(P_PID, (id_t)pid, &info, WSTOPPED) == 0);
    coir_process_close(child);
    CHECK(!exists(pid));
}

/* ---- exit and output are separate ---- */

TEST_REAL(a_child_that_closes_its_output_goes_on)
{
    char byte;
    coir_process_options options = reads_with(0);
    options.in = COIR_STDIO_PIPE;
    COIR_PROCESS(child);
    CHECK_EQ(coir_process_spawn_with(child, SHELL("exec >&-; read x; exit 4"), &options), 0);
    coir_case waits[] = {coir_case_process(child),
                         coir_case_stream(coir_process_stdout(child), COIR_READ)};
    CHECK_EQ(coir_select(waits, 2), 1);
    CHECK_EQ(coir_read(coir_process_stdout(child), &byte, 1), 0);
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(coir_process_wait(child), -ETIME);
    }
    coir_close(coir_process_stdin(child));
    waits[1] = coir_case_after(COIR_NEVER);
    CHECK_EQ(coir_select(waits, 2), 0);
    CHECK_EQ(waits[0].result, 4);
}

/* The exit is seen although the output does not end; what keeps it open ends with the process. */
TEST_REAL(a_grandchild_that_keeps_the_output_open_holds_nobody_up)
{
    char byte;
    int before = open_files();
    adopt_orphans();
    {
        COIR_PROCESS(child);
        int grandchild = spawn(child, "sleep 1000 & echo $!; exit 3", COIR_NEVER);
        CHECK_EQ(coir_process_wait(child), 3);
        CHECK(exists(grandchild));
        {
            COIR_DEADLINE(coir_in(COIR_MS));
            CHECK_EQ(coir_read(coir_process_stdout(child), &byte, 1), -ETIME);
        }
        coir_process_close(child);
        CHECK(!exists(grandchild));
    }
    CHECK(no_children());
    CHECK_EQ(open_files(), before);
}

/* The child ends at once when it is asked to; what it has started has its own time, then ends too.
 */
TEST_REAL(a_grandchild_that_ignores_sigterm_is_killed)
{
    adopt_orphans();
    COIR_PROCESS(child);
    int grandchild = spawn(child,
                           "(trap '' TERM; sh -c 'echo $PPID'; while :; do sleep 1000; done) &"
                           "exec sleep 1000",
                           30 * COIR_MS);
    CHECK(exists(grandchild));
    coir_process_close(child);
    CHECK(!exists(grandchild));
    CHECK(no_children());
}

static void leave_a_zombie_elsewhere(void)
{
    COIR_PROCESS(child);
    spawn(child, "sleep 1000 & echo $!; exec sleep 1000", COIR_NEVER);
}

/* As where process 1 of a container waits for no orphan: this process here. */
TEST(a_zombie_that_its_reaper_leaves_is_not_waited_for)
{
    int status;
    adopt_orphans();
    pid_t inner = fork();
    if (inner == 0) {
        test_in_runtime(leave_a_zombie_elsewhere, 1);
        _exit(0);
    }
    CHECK(waitpid(inner, &status, 0) == inner);
    CHECK_EQ(status, 0);
    CHECK(waitpid(-1, &status, 0) > 0); /* the grandchild, which had been killed */
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

TEST_REAL(a_child_in_the_programs_group_ends_alone)
{
    adopt_orphans();
    coir_process_options options = reads_with(COIR_NEVER);
    options.share_group = true;
    COIR_PROCESS(child);
    CHECK_EQ(coir_process_spawn_with(child, SHELL("sleep 1000 & echo $!; wait"), &options), 0);
    int grandchild = read_number(coir_process_stdout(child));
    CHECK_EQ(getpgid(coir_process_pid(child)), getpgid(0));
    coir_process_close(child);
    CHECK(exists(grandchild));
    CHECK(kill(grandchild, SIGKILL) == 0 && waitpid(grandchild, NULL, 0) == grandchild);
    CHECK(no_children());
}

TEST_REAL(a_kill_ends_the_whole_group)
{
    adopt_orphans();
    COIR_PROCESS(child);
    int grandchild = spawn(child, "trap '' TERM; sleep 1000 & echo $!; wait", COIR_NEVER);
    CHECK_EQ(getpgid(grandchild), coir_process_pid(child));
    CHECK_EQ(coir_process_kill(child), 0);
    CHECK_EQ(coir_process_wait(child), COIR_PROCESS_KILLED + SIGKILL);
    CHECK(waitpid(grandchild, NULL, 0) == grandchild);
    CHECK_EQ(coir_process_kill(child), -ESRCH);
}

/* This program, as a child that leaves its group, and what it has started behind. */
__attribute__((constructor)) static void leave_group(void)
{
    if (!getenv("LEAVE_GROUP"))
        return;
    pid_t grandchild = fork();
    if (grandchild > 0 && setpgid(0, getpgid(getppid())) == 0)
        dprintf(STDOUT_FILENO, "%d\n", (int)grandchild);
    for (;;)
        pause();
}

/* The number of the grandchild. */
static int spawn_leaver(coir_process *child)
{
    static const char *const environment[] = {"LEAVE_GROUP=1", NULL};
    char own[4096] = "";
    const char *const command[] = {own, NULL};
    CHECK(readlink("/proc/self/exe", own, sizeof own - 1) > 0);
    coir_process_options options = reads_with(COIR_NEVER);
    options.environment = environment;
    CHECK_EQ(coir_process_spawn_with(child, command, &options), 0);
    int grandchild = read_number(coir_process_stdout(child));
    CHECK_EQ(getpgid(grandchild), coir_process_pid(child));
    CHECK_EQ(getpgid(coir_process_pid(child)), getpgid(0));
    return grandchild;
}

TEST_REAL(a_kill_ends_a_child_that_has_left_its_group)
{
    adopt_orphans();
    COIR_PROCESS(child);
    int grandchild = spawn_leaver(child);
    CHECK_EQ(coir_process_kill(child), 0);
    CHECK_EQ(coir_process_wait(child), COIR_PROCESS_KILLED + SIGKILL);
    CHECK(waitpid(grandchild, NULL, 0) == grandchild);
    CHECK_EQ(coir_process_kill(child), -ESRCH);
}

TEST_REAL(a_child_that_has_left_its_group_is_asked_to_end)
{
    adopt_orphans();
    COIR_PROCESS(child);
    spawn_leaver(child); /* with any time of grace */
    coir_process_close(child);
    CHECK(no_children());
}

/* Another process, with a number that is free, and in a group of its own. */
static pid_t fork_numbered(pid_t number)
{
    struct clone_args args = {
        .exit_signal = SIGCHLD, .set_tid = (uint64_t)(uintptr_t)&number, .set_tid_size = 1};
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    while (pid == 0)
        pause();
    CHECK(pid < 0 || setpgid(pid, pid) == 0);
    return pid;
}

/* Before Linux 6.9 groups are addressed by their numbers, which are reused. */
TEST_REAL(a_group_that_has_the_number_of_one_that_ended_gets_no_signal)
{
    enum { PIDFD_SEND_SIGNAL = 424 };
    COIR_PROCESS(child);
    CHECK_EQ(coir_process_spawn(child, SHELL("exit 3")), 0);
    CHECK_EQ(coir_process_wait(child), 3);
    refuse_calls(PIDFD_SEND_SIGNAL, PIDFD_SEND_SIGNAL, EINVAL);
    pid_t stranger = fork_numbered(coir_process_pid(child));
    if (stranger < 0) /* it takes a privilege */
        return;
    CHECK_EQ(coir_process_kill(child), -ESRCH);
    coir_process_close(child);
    CHECK_EQ(waitpid(stranger, NULL, WNOHANG), 0);
    CHECK(kill(stranger, SIGKILL) == 0 && waitpid(stranger, NULL, 0) == stranger);
}

TEST_REAL(a_gibibyte_comes_through_the_pipe)
{
    static char buf[256 * 1024];
    coir_process_options options = reads_with(0);
    int64_t total = 0;
    ssize_t n;
    COIR_PROCESS(child);
    CHECK_EQ(coir_process_spawn_with(child, SHELL("head -c 1073741824 /dev/zero"), &options), 0);
    while ((n = coir_read(coir_process_stdout(child), buf, sizeof buf)) > 0)
        total += n;
    CHECK_EQ(n, 0);
    CHECK_EQ(total, 1073741824);
    CHECK_EQ(coir_process_wait(child), 0);
}

/* ---- who waits ---- */

static int wait_for(void *child)
{
    return coir_process_wait(child);
}

static int wait_with_a_child(void *ret_pid)
{
    COIR_PROCESS(child);
    *(int *)ret_pid = spawn(child, "echo $$; exec sleep 1000", 0);
    return coir_process_wait(child);
}

TEST_REAL(the_child_of_a_cancelled_task_ends)
{
    int pid = 0;
    COIR_HANDLE(handle);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go_with(scope, &options, wait_with_a_child, &pid), 0);
    while (pid == 0)
        coir_sleep_for(COIR_MS);
    coir_cancel(handle);
    CHECK_EQ(coir_join(handle), -ECANCELED);
    CHECK(!exists(pid));
    CHECK(no_children());
}

/* Neither is anything begun under a deadline that has passed. */
TEST_REAL(a_deadline_ends_the_child_and_begins_none)
{
    COIR_DEADLINE(coir_in(COIR_MS));
    COIR_PROCESS(child);
    coir_process_options options = reads_with(0);
    int rc = coir_process_spawn_with(child, SHELL("exec sleep 1000"), &options);
    CHECK(rc == 0 || rc == -ETIME);
    if (rc == 0)
        CHECK_EQ(coir_process_wait(child), -ETIME);
    coir_process_close(child);
    CHECK_EQ(coir_process_spawn(child, SHELL("exit")), -ETIME);
    CHECK(no_children());
}

TEST_REAL(one_task_at_a_time_waits_and_a_close_tells_it)
{
    COIR_PROCESS(child);
    COIR_HANDLE(handle);
    COIR_SERVING_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    spawn(child, "echo 1; exec sleep 1000", 0);
    CHECK_EQ(coir_go_with(scope, &options, wait_for, child), 0);
    coir_yield();
    CHECK_EQ(coir_process_wait(child), -EBUSY);
    coir_process_close(child);
    CHECK_EQ(coir_join(handle), -ECANCELED);
    CHECK(no_children());
}

/* The thread, with its driver, waits for the exit, so that it comes in one turn with the output. */
static int block_until_exit(void *child)
{
    siginfo_t info;
    CHECK(waitid(P_PID, (id_t)coir_process_pid(child), &info, WEXITED | WNOWAIT) == 0);
    return 0;
}

TEST_REAL(a_process_may_be_gone_when_who_waited_continues)
{
    char byte;
    coir_process *child = calloc(1, sizeof *child);
    COIR_HANDLE(handle);
    COIR_SERVING_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    coir_process_options reads = reads_with(0);
    options.handle = handle;
    CHECK_EQ(coir_process_spawn_with(child, SHELL("sleep 0.01; echo; exit 5"), &reads), 0);
    CHECK_EQ(coir_go_with(scope, &options, wait_for, child), 0);
    CHECK_EQ(coir_go(scope, block_until_exit, child), 0);
    CHECK_EQ(coir_read(coir_process_stdout(child), &byte, 1), 1); /* the exit is known, too */
    coir_process_close(child);
    memset(child, 0x55, sizeof *child);
    CHECK_EQ(coir_join(handle), -ECANCELED);
    free(child);
    CHECK(no_children());
}

/* Its owner: the memory is something else's afterwards. */
static int wait_and_close(void *child)
{
    CHECK_EQ(coir_process_wait(child), -ECANCELED);
    coir_process_close(child);
    memset(child, 0x55, sizeof(coir_process));
    return 0;
}

TEST_REAL(the_owner_may_close_a_process_that_another_task_closes)
{
    coir_process *child = calloc(1, sizeof *child), gone;
    COIR_SERVING_SCOPE(scope);
    spawn(child, "trap '' TERM; echo 1; exec sleep 1000", 20 * COIR_MS);
    memset(&gone, 0x55, sizeof gone);
    CHECK_EQ(coir_go(scope, wait_and_close, child), 0);
    coir_yield();
    coir_process_close(child);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK(memcmp(child, &gone, sizeof gone) == 0);
    free(child);
    CHECK(no_children());
}

static int use_elsewhere(void *child)
{
    CHECK_EQ(coir_process_wait(child), -EXDEV);
    CHECK_EQ(coir_process_signal(child, SIGTERM), -EXDEV);
    CHECK_EQ(coir_process_kill(child), -EXDEV);
    return 0;
}

static void on_two_workers(void)
{
    COIR_PROCESS(child);
    CHECK_EQ(coir_process_spawn(child, SHELL("exec sleep 1000")), 0);
    CHECK_EQ(coir_call_on(1, use_elsewhere, child), 0);
}

TEST(a_process_is_its_workers)
{
    test_in_runtime(on_two_workers, 2);
}

/* ---- leaks ---- */

static int one_after_another(void *arg)
{
    char buf[16];
    for (intptr_t i = 0; i < (intptr_t)arg; i++) {
        coir_process_options options = reads_with(0);
        COIR_PROCESS(child);
        CHECK_EQ(coir_process_spawn_with(child, SHELL("echo abc; exit 5"), &options), 0);
        if (i % 3 == 0)
            continue; /* killed, or just before its end */
        CHECK_EQ(coir_read(coir_process_stdout(child), buf, sizeof buf), 4);
        CHECK_EQ(coir_process_wait(child), 5);
    }
    return 0;
}

static void spawn_many(int count)
{
    COIR_SCOPE(scope);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(coir_go(scope, one_after_another, (void *)(intptr_t)(count / 8)), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
}

/* SPAWNS=10000 in the environment: so many. */
TEST_REAL(many_spawns_leave_nothing_behind)
{
    const char *asked = getenv("SPAWNS");
    int before = open_files();
    spawn_many(40);
    size_t used = mallinfo2().uordblks;
    spawn_many(asked ? atoi(asked) : 160);
    CHECK(mallinfo2().uordblks <= used + 4096);
    CHECK(no_children());
    CHECK_EQ(open_files(), before);
}

TEST_REAL(without_descriptors_nothing_is_spawned_and_nothing_lost)
{
    struct rlimit limit;
    coir_process_options options = reads_with(0);
    options.in = options.err = COIR_STDIO_PIPE;
    int before = open_files(), failed = 0, rc = 0;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    COIR_PROCESS(first);
    spawn(first, "echo 1; read x; exit 6", COIR_NEVER);
    for (rlim_t more = 0; more < 40; more++) {
        COIR_PROCESS(child);
        CHECK(setrlimit(RLIMIT_NOFILE, &(struct rlimit){more, limit.rlim_max}) == 0);
        rc = coir_process_spawn_with(child, SHELL("exit"), &options);
        CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
        CHECK(rc == 0 || rc == -EMFILE);
        failed += rc == -EMFILE;
    }
    CHECK(failed > 0 && rc == 0);
    coir_process_close(first);
    CHECK(no_children());
    CHECK_EQ(open_files(), before);
}

/* Its close takes time: who has the pipe, and has left the child's group, does not read. The pipe
 * is the filter's until then. */
TEST_REAL(a_filter_may_have_the_pipe_for_longer_than_the_process)
{
    static const coir_filter_kind mask_kind =
        COIR_FILTER_KIND(mask_read, mask_write, mask_flush, mask_readable, mask_end, mask_free);
    static const char bytes[4096];
    coir_process_options options = reads_with(0);
    coir_process child = {{0}}, gone;
    coir_stream *over;
    options.in = COIR_STDIO_PIPE;
    adopt_orphans();
    int before = open_files();
    CHECK_EQ(coir_process_spawn_with(
                 &child, SHELL("exec 3<&0; setsid sleep 1000 <&3 3<&- & echo $!"), &options),
             0);
    int grandchild = read_number(coir_process_stdout(&child));
    CHECK_EQ(coir_process_wait(&child), 0);
    while (getsid(grandchild) != grandchild)
        CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    struct mask mask = {.transport = coir_process_stdin(&child), .ahead = -1};
    CHECK_EQ(coir_filter_new(&mask_kind, &mask, mask.transport, &over), 0);
    while (coir_try_write(over, bytes, sizeof bytes) > 0)
        continue;
    coir_close(over);
    coir_process_close(&child);
    memset(&child, 0x5a, sizeof child);
    gone = child;
    CHECK_EQ(mask.frees, 0);
    CHECK(kill(grandchild, SIGKILL) == 0 && waitpid(grandchild, NULL, 0) == grandchild);
    while (!mask.frees)
        CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    CHECK(memcmp(&child, &gone, sizeof gone) == 0);
    CHECK_EQ(open_files(), before);
}
