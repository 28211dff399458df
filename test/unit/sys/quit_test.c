/* SIGQUIT for a thread that waits for it. */
#include "sys/quit.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "sys/fork.h"

static int handled;

static void handle(int number)
{
    (void)number;
    handled++;
}

TEST(each_signal_ends_a_wait)
{
    struct sigaction now;
    CHECK(ci_quit_begin());
    for (int i = 0; i < 3; i++) {
        raise(SIGQUIT);
        CHECK(ci_quit_wait());
    }
    ci_quit_stop();
    CHECK(!ci_quit_wait());
    ci_quit_end();
    CHECK(sigaction(SIGQUIT, NULL, &now) == 0 && now.sa_handler == SIG_DFL);
    CHECK(ci_quit_begin());
    ci_quit_end();
}

TEST(a_child_after_fork_is_ended_by_it)
{
    int status;
    ci_fork_forbid();
    CHECK(ci_quit_begin());
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        raise(SIGQUIT);
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGQUIT);
    ci_quit_end();
    ci_fork_allow();
}

TEST(a_handler_of_the_program_stays)
{
    struct sigaction now;
    CHECK(ci_quit_begin());
    signal(SIGQUIT, handle);
    ci_quit_end();
    raise(SIGQUIT);
    CHECK_EQ(handled, 1);
    CHECK(!ci_quit_begin());
    signal(SIGQUIT, SIG_IGN);
    CHECK(!ci_quit_begin());
    CHECK(sigaction(SIGQUIT, NULL, &now) == 0 && now.sa_handler == SIG_IGN);
}
