/* A check that fails ends the program and says which invariant is broken, and where. */
#include "base/check.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

static char said[1000];

/* Whether a check in a child failed; what it said is in `said`. */
static bool fails(int value, bool debug_only)
{
    int ends[2], status;
    CHECK_EQ(pipe(ends), 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        if (debug_only)
            ci_debug_check(value == 7, "some.h 3");
        else
            ci_check(value == 7, "some.h 2");
        _exit(0);
    }
    close(ends[1]);
    size_t len = 0;
    for (ssize_t n; (n = read(ends[0], said + len, sizeof said - 1 - len)) > 0;)
        len += (size_t)n;
    said[len] = '\0';
    close(ends[0]);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) || WTERMSIG(status) == SIGABRT);
    return !WIFEXITED(status);
}

TEST(a_check_that_fails_names_the_invariant_and_the_line)
{
    CHECK(fails(8, false));
    const char *start = "coir: invariant broken: some.h 2: value == 7 (";
    CHECK(strncmp(said, start, strlen(start)) == 0);
    CHECK(strstr(said, "check_test.c:"));
}

TEST(a_check_that_holds_says_nothing)
{
    CHECK(!fails(7, false) && !fails(7, true));
    CHECK(!*said);
}

TEST(debug_checks_are_for_debug_builds)
{
    CHECK_EQ(fails(8, true), CI_DEBUG);
}
