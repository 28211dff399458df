/* coir_main: exit statuses, and what is printed. */
#include <coir.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

static char printed[2000];

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
