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

/* The exit status of a program whose first task returns `result`. */
static int status_of(int result)
{
    int ends[2], status;
    CHECK_EQ(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        _exit(coir_main(give, &result));
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

TEST(the_result_of_the_first_task_is_the_exit_status)
{
    setenv("COIR_LOG", "none", 1);
    CHECK_EQ(status_of(0), 0);
    CHECK(printed[0] == '\0');
    CHECK_EQ(status_of(-EPIPE), 1);
    CHECK(strstr(printed, "coir: error: ") && strstr(printed, coir_strerror(-EPIPE)));
}

TEST(a_setting_that_means_nothing_is_told)
{
    setenv("COIR_LOG", "loudly", 1);
    CHECK_EQ(status_of(0), 0);
    CHECK(strstr(printed, "COIR_LOG is \"loudly\""));
}
