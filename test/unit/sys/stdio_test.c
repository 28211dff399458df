/* Closed standard input, output and error. */
#include "sys/stdio.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"

/* Standard error stays open where the test is right, so that it can say what is not. */
static void check_numbers(int closed)
{
    char byte = 0;
    struct stat before, after;
    int error = dup(STDERR_FILENO);
    CHECK_EQ(fstat(STDERR_FILENO, &before), 0);
    close(closed);
    CHECK_EQ(ci_stdio_reserve(), 0);
    ssize_t n = closed == STDIN_FILENO ? read(closed, &byte, 1) : write(closed, &byte, 1);
    int why = errno, flags = fcntl(closed, F_GETFD), next = dup(error);
    dup2(error, STDERR_FILENO);
    CHECK_EQ(n, -1);
    CHECK_EQ(why, EBADF);
    CHECK_EQ(flags, FD_CLOEXEC); /* for a child it is closed */
    CHECK(next > STDERR_FILENO);
    CHECK_EQ(fstat(STDERR_FILENO, &after), 0);
    CHECK_EQ(before.st_ino, after.st_ino);
}

TEST(a_closed_input_keeps_its_number)
{
    check_numbers(STDIN_FILENO);
}

TEST(a_closed_output_keeps_its_number)
{
    check_numbers(STDOUT_FILENO);
}

TEST(a_closed_error_keeps_its_number)
{
    check_numbers(STDERR_FILENO);
}

TEST(without_descriptors_it_fails)
{
    CHECK_EQ(ci_stdio_reserve(), 0); /* all are open */
    struct rlimit all, none;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &all), 0);
    none = (struct rlimit){0, all.rlim_max};
    close(STDIN_FILENO);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    CHECK_EQ(ci_stdio_reserve(), -EMFILE);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &all), 0);
}
