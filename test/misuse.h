/* Misuse of the library: the error that a call returns, and the call that a debug build names. */
#ifndef TEST_MISUSE_H
#define TEST_MISUSE_H

#include <coir.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "sys/misuse.h"

/* Makes the call as a debug build would: it must abort, and name the call. */
#define NAMED(call, arguments)           \
    do {                                 \
        int out;                         \
        pid_t child = begin(&out);       \
        if (child == 0) {                \
            (void)(call arguments);      \
            _exit(0);                    \
        }                                \
        expect_named(child, out, #call); \
    } while (0)

#define RETURNS(value, call, arguments)  \
    do {                                 \
        CHECK_EQ(call arguments, value); \
        if (CI_DEBUG)                    \
            NAMED(call, arguments);      \
    } while (0)
#define REFUSED(call, arguments) RETURNS(-EINVAL, call, arguments)
#define COMPUTES_0(call, arguments) RETURNS(0, call, arguments)

/* Common calls look only in debug builds. */
#define REFUSED_IN_DEBUG(call, arguments) \
    do {                                  \
        if (CI_DEBUG)                     \
            REFUSED(call, arguments);     \
    } while (0)
#define NOTHING(call, arguments)    \
    do {                            \
        call arguments;             \
        if (CI_DEBUG)               \
            NAMED(call, arguments); \
    } while (0)
#define FUTURE_REFUSED(call, arguments)                         \
    do {                                                        \
        CHECK_EQ(coir_block_on(NULL, call arguments), -EINVAL); \
        if (CI_DEBUG)                                           \
            NAMED(call, arguments);                             \
    } while (0)

static inline pid_t begin(int *ret_out)
{
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        ci_misuse_aborts = true;
    }
    close(ends[1]);
    *ret_out = ends[0];
    return child;
}

static inline void expect_named(pid_t child, int out, const char *call)
{
    char said[1000], start[100];
    size_t len = 0;
    int status;
    for (ssize_t n; (n = read(out, said + len, sizeof said - 1 - len)) > 0;)
        len += (size_t)n;
    said[len] = '\0';
    close(out);
    CHECK_EQ(waitpid(child, &status, 0), child);
    snprintf(start, sizeof start, "coir: misuse: %s: ", call);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT ||
        strncmp(said, start, strlen(start)) != 0)
        test_fail(__FILE__, __LINE__, "%s is not named: %s", call, said);
}

#endif
