/* Child processes: how they begin, end, and talk; on real ones, mostly shells. */
#include <coir.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "open_files.h"

#define SHELL(script) ((const char *const[]){"/bin/sh", "-c", script, NULL})

static const coir_process_options piped = {
    .size = sizeof piped, .in = COIR_STDIO_PIPE, .out = COIR_STDIO_PIPE, .err = COIR_STDIO_PIPE};
static const coir_process_options reads = {.size = sizeof reads, .out = COIR_STDIO_PIPE};

static int no_children(void)
{
    return waitpid(-1, NULL, WNOHANG | __WALL) < 0 && errno == ECHILD;
}

/* Reads a stream to its end: what came, as a string. */
static const char *all_of(coir_stream *stream)
{
    static char text[4096];
    size_t len = 0;
    ssize_t n;
    while ((n = coir_read(stream, text + len, sizeof text - 1 - len)) > 0)
        len += (size_t)n;
    CHECK_EQ(n, 0);
    text[len] = '\0';
    return text;
}

static void check_text(const char *got, const char *want)
{
    if (strcmp(got, want) != 0)
        test_fail(__FILE__, __LINE__, "\"%s\" is not \"%s\"", got, want);
}

static void check_output(const char *script, const coir_process_options *options, const char *want)
{
    COIR_PROCESS(child);
    CHECK_EQ(coir_process_spawn_with(child, SHELL(script), options), 0);
    check_text(all_of(coir_process_stdout(child)), want);
    CHECK_EQ(coir_process_wait(child), 0);
}

TEST_REAL(a_child_reads_writes_and_ends_with_a_code)
{
    char buf[16];
    int before = open_files();
    {
        COIR_PROCESS(child);
        CHECK_EQ(coir_process_spawn_with(child, SHELL("cat; echo wrong >&2; exit 7"), &piped), 0);
        CHECK(coir_process_pid(child) > 0);
        CHECK_EQ(coir_write_all(coir_process_stdin(child), "hello", 5), 0);
        CHECK_EQ(coir_read_full(coir_process_stdout(child), buf, 5, NULL), 5);
        CHECK(memcmp(buf, "hello", 5) == 0);
        coir_close(coir_process_stdin(child));
        CHECK(!coir_process_stdin(child));
        check_text(all_of(coir_process_stdout(child)), "");
        check_text(all_of(coir_process_stderr(child)), "wrong\n");
        CHECK_EQ(coir_process_wait(child), 7);
        CHECK_EQ(coir_process_wait(child), 7);
        CHECK(no_children());
        CHECK_EQ(coir_process_signal(child, SIGTERM), -ESRCH);
        CHECK_EQ(coir_process_kill(child), -ESRCH);
    }
    CHECK_EQ(open_files(), before);
}

TEST_REAL(what_cannot_be_executed_is_the_callers_error)
{
    static const char *const nowhere[] = {"/nowhere/program", NULL},
                             *const unknown[] = {"no-such-program", NULL},
                             *const empty[] = {"", NULL}, *const plain[] = {"/etc/passwd", NULL},
                             *const folder[] = {"/tmp", NULL}, *const echo[] = {"true", NULL};
    char text[] = "/tmp/process_test.XXXXXX";
    int before = open_files(), fd = mkstemp(text);
    CHECK(fd >= 0 && fchmod(fd, 0700) == 0 && write(fd, "echo\n", 5) == 5 && close(fd) == 0);
    const char *const script[] = {text, NULL};
    coir_process_options options = piped;
    COIR_PROCESS(child);
    CHECK_EQ(coir_process_spawn(child, nowhere), -ENOENT);
    CHECK_EQ(coir_process_spawn(child, unknown), -ENOENT);
    CHECK_EQ(coir_process_spawn(child, empty), -ENOENT);
    CHECK_EQ(coir_process_spawn_with(child, plain, &options), -EACCES);
    CHECK_EQ(coir_process_spawn_with(child, folder, &options), -EACCES);
    CHECK_EQ(coir_process_spawn_with(child, script, &options), -ENOEXEC);
    options.directory = "/nowhere";
    CHECK_EQ(coir_process_spawn_with(child, echo, &options), -ENOENT);
    options.directory = "/etc/passwd";
    CHECK_EQ(coir_process_spawn_with(child, echo, &options), -ENOTDIR);
    options.directory = NULL;
    options.in = COIR_STDIO_FD(1000);
    CHECK_EQ(coir_process_spawn_with(child, echo, &options), -EBADF);
    CHECK(no_children());
    CHECK(!coir_process_stdout(child));
    CHECK_EQ(coir_process_pid(child), -EBADF);
    CHECK_EQ(coir_process_spawn(child, echo), 0); /* the same one, after all of these */
    CHECK_EQ(coir_process_wait(child), 0);
    coir_process_close(child);
    unlink(text);
    CHECK_EQ(open_files(), before);
}

TEST_REAL(options_that_cannot_be_right_are_refused)
{
    static const char *const none[] = {NULL};
    coir_process_limit limits[17] = {{1000, 1, 1}};
    struct rlimit now;
    coir_process_options options = COIR_PROCESS_OPTIONS;
    COIR_PROCESS(child);
    CHECK_EQ(coir_process_spawn(child, none), -EINVAL);
    options.in = COIR_STDIO_OUT;
    CHECK_EQ(coir_process_spawn_with(child, SHELL("exit"), &options), -EINVAL);
    options.in = COIR_STDIO_FD(-1);
    CHECK_EQ(coir_process_spawn_with(child, SHELL("exit"), &options), -EINVAL);
    options.in = -4;
    CHECK_EQ(coir_process_spawn_with(child, SHELL("exit"), &options), -EINVAL);
    options.in = COIR_STDIO_INHERIT;
    options.grace = -1;
    CHECK_EQ(coir_process_spawn_with(child, SHELL("exit"), &options), -EINVAL);
    options.grace = 0;
    options.limit_count = 1;
    CHECK_EQ(coir_process_spawn_with(child, SHELL("exit"), &options), -EINVAL);
    options.limits = limits;
    CHECK_EQ(coir_process_spawn_with(child, SHELL("exit"), &options), -EINVAL);
    options.limit_count = 17;
    CHECK_EQ(coir_process_spawn_with(child, SHELL("exit"), &options), -EINVAL);
    CHECK(getrlimit(RLIMIT_NOFILE, &now) == 0);
    limits[0] = (coir_process_limit){RLIMIT_NOFILE, 2, 1}; /* more than the hard one */
    options.limit_count = 1;
    CHECK_EQ(coir_process_spawn_with(child, SHELL("exit"), &options), -EINVAL);
    options.size = 0;
    CHECK_EQ(coir_process_spawn_with(child, SHELL("exit"), &options), -COIR_EUNSIZED);
    CHECK(no_children());
}

TEST_REAL(environment_directory_and_limits_are_the_childs)
{
    static const char *const environment[] = {"NAME=a value", "PATH=/bin:/usr/bin", NULL};
    const coir_process_limit limits[] = {{RLIMIT_NOFILE, 77, 99}, {RLIMIT_CORE, 0, UINT64_MAX}};
    coir_process_options options = reads;
    setenv("OF_THE_PROGRAM", "1", 1);
    check_output("echo $OF_THE_PROGRAM$NAME", &options, "1\n");
    options.environment = environment;
    options.directory = "/usr";
    check_output("echo $OF_THE_PROGRAM$NAME; pwd", &options, "a value\n/usr\n");
    options.limits = limits;
    options.limit_count = 1;
    check_output("ulimit -n; ulimit -Hn", &options, "77\n99\n");
    options.file = "sh"; /* by the PATH of the child */
    check_output("echo $0", &options, "/bin/sh\n");
    options.environment = (const char *const[]){"PATH=/nowhere", NULL};
    COIR_PROCESS(child);
    CHECK_EQ(coir_process_spawn_with(child, SHELL("exit"), &options), -ENOENT);
}

/* ---- standard streams and other descriptors ---- */

TEST_REAL(a_program_without_environment_has_children)
{
    coir_process_options options = COIR_PROCESS_OPTIONS;
    options.file = "sh"; /* it is looked for, in the directories that a PATH would name */
    CHECK_EQ(clearenv(), 0);
    COIR_PROCESS(child);
    CHECK_EQ(coir_process_spawn_with(child, SHELL("exit 4"), &options), 0);
    CHECK_EQ(coir_process_wait(child), 4);
}

TEST_REAL(standard_streams_are_null_files_or_each_other)
{
    char text[] = "/tmp/process_test.XXXXXX", got[32] = "";
    int fd = mkstemp(text);
    coir_process_options options = reads;
    CHECK(fd >= 0);
    options.in = COIR_STDIO_NULL;
    options.err = COIR_STDIO_OUT;
    check_output("cat; echo out; echo err >&2", &options, "out\nerr\n");
    options = (coir_process_options)COIR_PROCESS_OPTIONS;
    options.out = COIR_STDIO_FD(fd);
    options.err = COIR_STDIO_NULL;
    {
        COIR_PROCESS(child);
        CHECK_EQ(coir_process_spawn_with(child, SHELL("echo into a file; echo lost >&2"), &options),
                 0);
        CHECK_EQ(coir_process_wait(child), 0);
        CHECK(!coir_process_stdin(child) && !coir_process_stdout(child));
    }
    CHECK_EQ(pread(fd, got, sizeof got - 1, 0), 12);
    check_text(got, "into a file\n");
    CHECK(fcntl(fd, F_GETFD) >= 0); /* it stays the caller's */
    close(fd);
    unlink(text);
}

/* The descriptors of the child lie where its pipes have to be put: in the way, crosswise, closed.
 */
static void check_crosswise(int in, int out)
{
    char buf[8] = "";
    int to[2], from[2];
    CHECK(pipe(to) == 0 && pipe(from) == 0 && write(to[1], "across", 6) == 6);
    close(to[1]);
    int saved[2] = {dup(0), dup(1)};
    CHECK(dup2(to[0], in) == in && dup2(from[1], out) == out);
    coir_process_options options = COIR_PROCESS_OPTIONS;
    options.in = COIR_STDIO_FD(in);
    options.out = COIR_STDIO_FD(out);
    {
        COIR_PROCESS(child);
        int rc = coir_process_spawn_with(child, SHELL("cat"), &options);
        dup2(saved[0], 0);
        dup2(saved[1], 1);
        CHECK_EQ(rc, 0);
        CHECK_EQ(coir_process_wait(child), 0);
    }
    CHECK_EQ(read(from[0], buf, sizeof buf), 6);
    check_text(buf, "across");
    close(saved[0]), close(saved[1]), close(to[0]), close(from[0]), close(from[1]);
}

TEST_REAL(descriptors_that_lie_crosswise_are_put_straight)
{
    check_crosswise(1, 0);
    check_crosswise(0, 1);
    check_crosswise(1, 9);
    close(9);
}

TEST_REAL(a_program_without_standard_streams_has_children)
{
    char buf[8] = "";
    coir_process_options options = piped;
    int saved[] = {dup(0), dup(1), dup(2)};
    close(0), close(1), close(2);
    COIR_PROCESS(child);
    int rc = coir_process_spawn_with(child, SHELL("cat; echo x"), &options);
    ssize_t n = rc < 0 ? rc : coir_write_all(coir_process_stdin(child), "abc", 3);
    coir_close(coir_process_stdin(child));
    ssize_t m = coir_read_full(coir_process_stdout(child), buf, 5, NULL);
    coir_process_close(child);
    options = (coir_process_options)COIR_PROCESS_OPTIONS; /* what is inherited is closed */
    options.in = COIR_STDIO_NULL;
    int inherits = coir_process_spawn_with(
        child, SHELL("test -c /proc/$$/fd/0 && test ! -e /proc/$$/fd/1"), &options);
    int code = coir_process_wait(child);
    dup2(saved[0], 0), dup2(saved[1], 1), dup2(saved[2], 2);
    CHECK_EQ(rc, 0);
    CHECK_EQ(n, 0);
    CHECK_EQ(m, 5);
    check_text(buf, "abcx\n");
    CHECK_EQ(inherits, 0);
    CHECK_EQ(code, 0);
}

TEST_REAL(every_other_descriptor_is_closed_in_the_child)
{
    int fd = open("/dev/zero", O_RDONLY), high = fcntl(fd, F_DUPFD, 500); /* not close-on-exec */
    COIR_PROCESS(other);
    CHECK_EQ(coir_process_spawn_with(other, SHELL("read x"), &piped), 0);
    check_output("i=0; while [ $i -lt 600 ]; do [ -e /proc/$$/fd/$i ] && echo $i; i=$((i + 1));"
                 "done; :",
                 &reads, "0\n1\n2\n");
    close(fd);
    close(high);
}

/* ---- signals ---- */

static void on_signal(int number)
{
    (void)number;
}

TEST_REAL(the_signals_of_a_child_are_as_at_the_start)
{
    sigset_t some, before;
    sigemptyset(&some);
    sigaddset(&some, SIGUSR1);
    sigaddset(&some, SIGTERM);
    signal(SIGHUP, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGUSR2, on_signal);
    pthread_sigmask(SIG_BLOCK, &some, &before);
    check_output("exec sed -n '/^Sig[BIC]/p' /proc/self/status", &reads,
                 "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"
                 "SigCgt:\t0000000000000000\n");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    struct sigaction now;
    CHECK(sigaction(SIGUSR2, NULL, &now) == 0 && now.sa_handler == on_signal);
    CHECK(sigaction(SIGHUP, NULL, &now) == 0 && now.sa_handler == SIG_IGN);
}

/* The CPUs that a child may use, in `arg`. */
static int read_cpus(void *arg)
{
    COIR_PROCESS(child);
    CHECK_EQ(coir_process_spawn_with(child, SHELL("grep Cpus_allowed: /proc/self/status"), &reads),
             0);
    strcpy(arg, all_of(coir_process_stdout(child)));
    return coir_process_wait(child);
}

TEST(a_child_is_not_tied_to_the_cpu_of_its_worker)
{
    static char cpus[2][4096];
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    for (int i = 0; i < 2; i++) {
        config.pin_workers = i;
        CHECK_EQ(test_run(&config, read_cpus, cpus[i]), 0);
    }
    check_text(cpus[1], cpus[0]);
}

TEST_REAL(a_child_that_a_signal_kills_says_which)
{
    COIR_PROCESS(child);
    CHECK_EQ(coir_process_spawn(child, SHELL("kill -SEGV $$")), 0);
    CHECK_EQ(coir_process_wait(child), COIR_PROCESS_KILLED + SIGSEGV);
    coir_process_close(child);
    CHECK_EQ(coir_process_spawn(child, SHELL("exec sleep 1000")), 0);
    CHECK_EQ(coir_process_signal(child, 0), -EINVAL);
    CHECK_EQ(coir_process_signal(child, 65), -EINVAL);
    CHECK_EQ(coir_process_signal(child, SIGINT), 0);
    CHECK_EQ(coir_process_wait(child), COIR_PROCESS_KILLED + SIGINT);
}

static void reap_all(int number)
{
    int saved = errno;
    (void)number;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
    errno = saved;
}

static void check_without_status(void)
{
    COIR_PROCESS(child);
    CHECK_EQ(coir_process_spawn_with(child, SHELL("read x; exit 9"), &piped), 0);
    coir_close(coir_process_stdin(child));
    int rc = coir_process_wait(child);
    CHECK(rc == 9 || rc == -ECHILD); /* Linux 6.15 knows it, older ones do not */
    CHECK_EQ(coir_process_wait(child), rc);
    CHECK(no_children());
}

/* Somebody else waits for the child, or nobody has to. */
TEST_REAL(a_program_that_waits_for_all_children_may_have_processes)
{
    signal(SIGCHLD, SIG_IGN);
    for (int i = 0; i < 20; i++)
        check_without_status();
    signal(SIGCHLD, reap_all);
    for (int i = 0; i < 20; i++)
        check_without_status();
    signal(SIGCHLD, SIG_DFL);
}

TEST_SIM(the_simulator_has_no_processes)
{
    COIR_PROCESS(child);
    CHECK_EQ(coir_process_spawn(child, SHELL("exit")), -ENOTSUP);
}
