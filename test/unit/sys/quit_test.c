/* SIGQUIT for a thread that waits for it. */
#include "sys/quit.h"

#include <signal.h>

#include "harness.h"

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
