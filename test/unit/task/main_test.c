/* coir_main: exit statuses, and what is printed. */
#include <coir.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

static char printed[20000];

static int give(void *arg)
{
    return *(int *)arg;
}

static int stop_and_give(void *arg)
{
    coir_runtime_stop(coir_runtime_current());
    return coir_sleep_for(1000 * COIR_S) == -ECANCELED ? -ECANCELED : *(int *)arg;
}

static int fail_in_the_background(void *arg)
{
    static int error = -EIO;
    (void)arg;
    return coir_go(NULL, give, &error);
}

/* The exit status of a program whose first task is `fn` of `result`. */
static int status_of_task(coir_task_fn *fn, int result)
{
    int ends[2], status;
    CHECK_EQ(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        _exit(coir_main(fn, &result));
    }
    close(ends[1]);
    size_t len = 0;
    for (ssize_t n; (n = read(ends[0], printed + len, sizeof printed - 1 - len)) > 0;)
        len += (size_t)n;
    printed[len] = '\0';
    close(ends[0]);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int status_of(int result)
{
    return status_of_task(give, result);
}

TEST(the_result_of_the_first_task_is_the_exit_status)
{
    setenv("COIR_LOG", "none", 1);
    CHECK_EQ(status_of(0), 0);
    CHECK(printed[0] == '\0');
    CHECK_EQ(status_of(-EPIPE), 1);
    CHECK(strstr(printed, "coir: error: ") && strstr(printed, coir_strerror(-EPIPE)));
    CHECK_EQ(status_of(7), 0); /* positive: for a handle alone */
    CHECK_EQ(status_of(-EXDEV), 1);
    CHECK(strstr(printed, "error of its first task: it belongs to another worker"));
}

TEST(a_task_that_was_cancelled_is_an_error_unless_it_was_asked_to_stop)
{
    setenv("COIR_LOG", "none", 1);
    CHECK_EQ(status_of_task(stop_and_give, 0), 0);
    CHECK(printed[0] == '\0');
    CHECK_EQ(status_of(-ECANCELED), 1);
}

TEST(a_driver_that_does_not_exist_is_an_error)
{
    setenv("COIR_DRIVER", "nonsense", 1);
    CHECK_EQ(status_of(0), 1);
    CHECK(strstr(printed, "\"nonsense\""));
}

TEST(coir_main_logs_what_the_environment_asks_for)
{
    unsetenv("COIR_LOG");
    CHECK_EQ(status_of_task(fail_in_the_background, 0), 0);
    CHECK(strstr(printed, "coir: warning: "));
    setenv("COIR_LOG", "warning", 1);
    CHECK_EQ(status_of_task(fail_in_the_background, 0), 0);
    CHECK(strstr(printed, "coir: warning: "));
    setenv("COIR_LOG", "error", 1);
    CHECK_EQ(status_of_task(fail_in_the_background, 0), 0);
    CHECK(printed[0] == '\0');
}

TEST(a_setting_that_means_nothing_is_told)
{
    setenv("COIR_LOG", "loudly", 1);
    CHECK_EQ(status_of(0), 0);
    CHECK(strstr(printed, "COIR_LOG is \"loudly\"; it may be none, error, warning, info or debug"));
}

/* ---- SIGQUIT ---- */

static void handle_quit(int number)
{
    static const char said[] = "its own handler\n";
    (void)number;
    (void)!write(STDERR_FILENO, said, sizeof said - 1);
}

/* Ends when the standard input does. */
static int quit_and_wait(void *arg)
{
    (void)arg;
    kill(getpid(), SIGQUIT);
    return coir_fd_wait(STDIN_FILENO, COIR_READ);
}

/* Runs a program that gets a SIGQUIT; its input ends once it has printed `words`. */
static void quit_until(const char *words, void (*own)(int number))
{
    int input[2], output[2], status;
    size_t len = 0;
    CHECK(pipe(input) == 0 && pipe(output) == 0);
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dup2(input[0], STDIN_FILENO);
        dup2(output[1], STDERR_FILENO);
        close(input[1]);
        if (own)
            signal(SIGQUIT, own);
        _exit(coir_main(quit_and_wait, NULL));
    }
    close(output[1]);
    bool told = false;
    for (ssize_t n; (n = read(output[0], printed + len, sizeof printed - 1 - len)) > 0;) {
        printed[len += (size_t)n] = '\0';
        if (!told && strstr(printed, words)) {
            close(input[1]);
            told = true;
        }
    }
    close(output[0]);
    CHECK(told);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(quit_dumps_and_goes_on)
{
    setenv("COIR_LOG", "none", 1);
    setenv("COIR_WORKERS", "2", 1);
    quit_until("\nruntime 0, worker 1", NULL);
    CHECK(strstr(printed, ", process ") && strstr(printed, "\n  main 0x"));
}

TEST(a_program_keeps_its_own_handler_of_quit)
{
    setenv("COIR_LOG", "none", 1);
    quit_until("its own handler\n", handle_quit);
    CHECK(!strstr(printed, ", process "));
}

enum { PIPE = 4096 };

static int sleep_on(void *arg)
{
    (void)arg;
    return coir_sleep_for(COIR_NEVER);
}

/* Ends in the middle of a dump, of which nobody reads more than the pipe holds. */
static int quit_and_end(void *arg)
{
    static char names[100][20];
    int in_pipe = 0;
    COIR_SERVING_SCOPE(scope);
    for (size_t i = 0; i < 100; i++) {
        coir_go_options options = COIR_GO_OPTIONS;
        snprintf(names[i], sizeof names[i], "a sleeper %zu", i);
        options.name = names[i];
        CHECK_EQ(coir_go_with(scope, &options, sleep_on, NULL), 0);
    }
    kill(getpid(), SIGQUIT);
    while (in_pipe < PIPE && ioctl(*(int *)arg, FIONREAD, &in_pipe) == 0)
        CHECK_EQ(coir_yield(), 0);
    coir_scope_cancel(scope);
    return 0;
}

TEST(a_dump_that_nobody_reads_does_not_keep_a_program_from_ending)
{
    int ends[2], status;
    setenv("COIR_LOG", "none", 1);
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(fcntl(ends[1], F_SETPIPE_SZ, PIPE), PIPE);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        _exit(coir_main(quit_and_end, &ends[0]));
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(ends[0]);
    close(ends[1]);
}
