/* Guards: called before a signal ends or stops the process. That they restore the mode of a
 * terminal then, whatever the signal is, is tested by terminal_test.c. */
#include "sys/signal_default.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "container.h"
#include "harness.h"

static int left, resumed;

static void leave(void *arg)
{
    left += *(int *)arg;
}

static void resume(void *arg)
{
    resumed += *(int *)arg;
}

static int one = 1, ten = 10;
static struct ci_signal_guard first = {.leave = leave, .resume = resume, .arg = &one},
                              second = {.leave = leave, .resume = resume, .arg = &ten};

static bool is_sig_dfl(int number)
{
    struct sigaction now;
    CHECK_EQ(sigaction(number, NULL, &now), 0);
    CHECK(ci_signal_is_default(&now));
    return now.sa_handler == SIG_DFL;
}

TEST(a_guard_stands_for_the_default_effects)
{
    signal(SIGHUP, SIG_DFL);
    CHECK_EQ(ci_signal_guard(&first), 0);
    CHECK_EQ(ci_signal_guard(&second), 0);
    CHECK(!is_sig_dfl(SIGHUP) && !is_sig_dfl(SIGTSTP) && !is_sig_dfl(SIGCONT));
    CHECK(is_sig_dfl(SIGCHLD) && is_sig_dfl(SIGWINCH) && is_sig_dfl(SIGTTOU));
    raise(SIGCONT);
    CHECK_EQ(resumed, 11);
    ci_signal_leave();
    CHECK_EQ(left, 11);
    ci_signal_unguard(&first);
    CHECK(!is_sig_dfl(SIGHUP));
    raise(SIGCONT);
    CHECK_EQ(resumed, 21);
    ci_signal_unguard(&second);
    ci_signal_unguard(&second); /* it is not there */
    for (int number = 1; number < 32; number++) {
        struct sigaction now;
        CHECK_EQ(sigaction(number, NULL, &now), 0);
        CHECK(!ci_signal_is_default(&now) || now.sa_handler == SIG_DFL);
    }
    raise(SIGCONT);
    ci_signal_leave();
    CHECK_EQ(left + resumed, 11 + 21);
}

static int status_of(pid_t pid)
{
    int status;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return status;
}

static void say_goodbye(void *fd)
{
    CHECK_EQ(write(*(int *)fd, "", 1), 1);
}

static void do_nothing(void *arg)
{
    (void)arg;
}

/* A program that has replaced the handler, and calls the one that was there. */
static struct sigaction before;

static void pass_on(int number, siginfo_t *info, void *context)
{
    before.sa_sigaction(number, info, context);
}

TEST(a_handler_that_calls_the_one_before_has_the_default_effect)
{
    int said[2];
    char byte;
    CHECK_EQ(pipe(said), 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct ci_signal_guard guard = {
            .leave = say_goodbye, .resume = do_nothing, .arg = &said[1]};
        struct sigaction action = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO};
        signal(SIGTERM, SIG_DFL);
        CHECK_EQ(ci_signal_guard(&guard), 0);
        CHECK_EQ(sigaction(SIGTERM, &action, &before), 0);
        raise(SIGTERM);
        _exit(1);
    }
    CHECK_EQ(WTERMSIG(status_of(child)), SIGTERM);
    close(said[1]);
    CHECK_EQ(read(said[0], &byte, 1), 1);
    CHECK_EQ(read(said[0], &byte, 1), 0); /* once */
}

static int be_sent_two(void)
{
    left = resumed = 0;
    signal(SIGTERM, SIG_DFL);
    if (ci_signal_guard(&first) < 0)
        return 2;
    raise(SIGTERM);
    raise(SIGTERM);
    return left == 2 && resumed == 2 && !is_sig_dfl(SIGTERM) ? 0 : 1;
}

/* The kernel spares it the default effects of signals. */
TEST(the_first_process_of_a_container_goes_on_with_its_guards)
{
    bool ran;
    int status = run_as_first_process(be_sent_two, &ran);
    CHECK(!ran || status == 0);
}
