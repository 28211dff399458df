/* Signals for sinks and stops, chained to the handler that was there. */
#include "sys/signal.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "container.h"
#include "harness.h"
#include "sys/call.h"
#include "sys/fork.h"

static volatile int earlier; /* raise(3) is declared not to call back */
static int stopped;

static void on_earlier(int number)
{
    earlier += number == SIGUSR1;
}

static void on_stop(void *arg)
{
    ++*(int *)arg;
}

TEST(a_sink_gets_its_signals_and_the_earlier_handler_too)
{
    struct ci_signal_sink sink = {.wanted = (uint64_t)1 << SIGUSR1, .eventfd = ci_sys_eventfd()};
    struct pollfd ready = {.fd = sink.eventfd, .events = POLLIN};
    struct sigaction after;
    signal(SIGUSR1, on_earlier);
    CHECK_EQ(ci_signal_attach(&sink), 0);
    raise(SIGUSR1);
    CHECK_EQ(sink.pending, sink.wanted);
    CHECK_EQ(ci_sys_poll(&ready, 1, 0), 1);
    CHECK_EQ(earlier, 1);
    ci_signal_detach(&sink);
    sink.pending = 0;
    raise(SIGUSR1);
    CHECK_EQ(sink.pending, 0);
    CHECK_EQ(earlier, 2);
    sigaction(SIGUSR1, NULL, &after);
    CHECK(after.sa_handler == on_earlier);
    ci_sys_close(sink.eventfd);
}

TEST(a_signal_that_cannot_be_caught_leaves_nothing_behind)
{
    struct ci_signal_sink sink = {.wanted = (uint64_t)1 << SIGKILL | (uint64_t)1 << SIGUSR1,
                                  .eventfd = ci_sys_eventfd()};
    signal(SIGUSR1, on_earlier);
    CHECK_EQ(ci_signal_attach(&sink), -EINVAL);
    raise(SIGUSR1);
    CHECK_EQ(sink.pending, 0);
    CHECK_EQ(earlier, 1);
    ci_sys_close(sink.eventfd);
}

static int raised_in_child(int number)
{
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        raise(number);
        _exit(earlier ? 3 : 0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

TEST(in_a_child_after_fork_a_signal_does_what_it_did_before)
{
    struct ci_signal_sink sink = {.wanted = (uint64_t)1 << SIGUSR1 | (uint64_t)1 << SIGUSR2,
                                  .eventfd = ci_sys_eventfd()};
    struct ci_signal_stop stop = {.fn = on_stop, .arg = &stopped};
    struct pollfd ready = {.fd = sink.eventfd, .events = POLLIN};
    signal(SIGINT, SIG_IGN);
    signal(SIGUSR2, SIG_DFL);
    signal(SIGUSR1, on_earlier);
    ci_fork_forbid();
    ci_signal_watch(&stop);
    CHECK_EQ(ci_signal_attach(&sink), 0);
    CHECK_EQ(raised_in_child(SIGTERM), -SIGTERM);
    CHECK_EQ(raised_in_child(SIGINT), 0);
    CHECK_EQ(raised_in_child(SIGUSR2), -SIGUSR2);
    CHECK_EQ(raised_in_child(SIGUSR1), 3);
    CHECK_EQ(ci_sys_poll(&ready, 1, 0), 0); /* nothing for the parent */
    raise(SIGTERM);
    CHECK_EQ(stopped, 1);
    ci_signal_detach(&sink);
    ci_signal_unwatch(&stop);
    ci_fork_allow();
    ci_sys_close(sink.eventfd);
}

TEST(all_stops_are_called_once)
{
    struct ci_signal_stop stops[] = {{.fn = on_stop, .arg = &stopped},
                                     {.fn = on_stop, .arg = &stopped}};
    ci_signal_watch(&stops[0]);
    ci_signal_watch(&stops[1]);
    raise(SIGTERM);
    CHECK_EQ(stopped, 2);
    ci_signal_unwatch(&stops[0]);
    ci_signal_unwatch(&stops[1]);
}

/* ---- the second signal ---- */

static int said[2];
static pthread_t other;

static void say(void *word)
{
    CHECK_EQ(write(said[1], word, 1), 1);
}

static void do_nothing(void *arg)
{
    (void)arg;
}

static void *wait_for_signals(void *arg)
{
    for (;;)
        pause();
    return arg;
}

/* In the handler of the first signal: the other thread gets the second one before this returns. */
static void on_slow_stop(void *arg)
{
    say(arg);
    pthread_kill(other, SIGINT);
    for (;;)
        pause();
}

static void expect_said(const char *what)
{
    char text[10] = "";
    close(said[1]);
    for (ssize_t n, len = 0; (n = read(said[0], text + len, sizeof text - 1 - (size_t)len)) > 0;)
        len += n;
    close(said[0]);
    CHECK(strcmp(text, what) == 0);
}

/* In a child: `number` ends it, and `what` was said before. */
static void check_end(void (*run)(void), int number, const char *what)
{
    int status;
    CHECK_EQ(pipe(said), 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        signal(number, SIG_DFL);
        run();
        _exit(1);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(WTERMSIG(status), number);
    expect_said(what);
}

static void be_stopped_slowly(void)
{
    struct ci_signal_guard guard = {.leave = say, .resume = do_nothing, .arg = "g"};
    struct ci_signal_stop stop = {.fn = on_slow_stop, .arg = "s"};
    CHECK_EQ(ci_signal_guard(&guard), 0);
    ci_signal_watch(&stop);
    CHECK_EQ(pthread_create(&other, NULL, wait_for_signals, NULL), 0);
    pthread_kill(pthread_self(), SIGINT);
}

TEST(guards_are_called_before_the_second_signal_ends_the_process)
{
    check_end(be_stopped_slowly, SIGINT, "sg");
}

/* A stop that begins to watch is told of the next signal, as is who watched before. */
static void watch_again(void)
{
    struct ci_signal_stop stops[] = {{.fn = say, .arg = "1"}, {.fn = say, .arg = "2"}};
    ci_signal_watch(&stops[0]);
    raise(SIGTERM);
    ci_signal_watch(&stops[1]);
    raise(SIGTERM);
    ci_signal_unwatch(&stops[1]);
    raise(SIGTERM);
}

TEST(after_another_watch_the_next_signal_is_the_first_again)
{
    check_end(watch_again, SIGTERM, "121");
}

static void be_sent_two(void)
{
    struct ci_signal_stop stop = {.fn = say, .arg = "s"};
    ci_signal_watch(&stop);
    raise(SIGTERM);
    raise(SIGTERM);
}

static int be_first_and_sent_two(void)
{
    be_sent_two();
    return 1;
}

/* The kernel spares the first process of a container the default effects of signals. */
TEST(the_second_signal_ends_the_first_process_of_a_container)
{
    bool ran;
    CHECK_EQ(pipe(said), 0);
    int status = run_as_first_process(be_first_and_sent_two, &ran);
    CHECK(!ran || status == 128 + SIGTERM);
    if (ran)
        expect_said("s");
}

static struct sigaction coirs;

static void pass_to_coir(int number, siginfo_t *info, void *context)
{
    coirs.sa_sigaction(number, info, context);
}

TEST(a_handler_in_front_that_calls_coirs_is_not_ended_by_a_second_signal)
{
    struct ci_signal_stop stop = {.fn = on_stop, .arg = &stopped};
    struct sigaction action = {.sa_sigaction = pass_to_coir, .sa_flags = SA_SIGINFO};
    ci_signal_watch(&stop);
    CHECK_EQ(sigaction(SIGTERM, &action, &coirs), 0);
    raise(SIGTERM);
    raise(SIGTERM);
    CHECK_EQ(stopped, 2);
    ci_signal_unwatch(&stop);
    signal(SIGTERM, SIG_DFL);
}

/* ---- what is left when nobody watches ---- */

static void on_own(int number)
{
    earlier += number == SIGTERM;
}

/* A handler in front keeps coir's from being taken away; who installed it puts back what it found.
 */
static void leave_handler_behind(bool first_comes)
{
    int before = stopped;
    struct ci_signal_stop stop = {.fn = on_stop, .arg = &stopped};
    struct sigaction action = {.sa_sigaction = pass_to_coir, .sa_flags = SA_SIGINFO};
    ci_signal_watch(&stop);
    if (first_comes)
        raise(SIGTERM);
    CHECK_EQ(sigaction(SIGTERM, &action, &coirs), 0);
    ci_signal_unwatch(&stop);
    raise(SIGTERM); /* the program's handler, which is there still, has its way */
    CHECK_EQ(stopped, before + first_comes);
    CHECK_EQ(sigaction(SIGTERM, &coirs, NULL), 0);
}

TEST(what_is_left_of_coirs_handler_calls_the_programs)
{
    signal(SIGTERM, on_own);
    leave_handler_behind(true);
    raise(SIGTERM);
    raise(SIGTERM);
    CHECK_EQ(stopped, 1);
    CHECK_EQ(earlier, 4);
    signal(SIGTERM, SIG_DFL);
}

static void be_ended_by_the_first(void)
{
    leave_handler_behind(false);
    raise(SIGTERM);
}

TEST(what_is_left_of_coirs_handler_has_the_default_effect)
{
    check_end(be_ended_by_the_first, SIGTERM, "");
}

/* ---- a chain with coir's handler in it twice ---- */

TEST(each_signal_is_counted_once_at_all_levels)
{
    uint64_t wanted = (uint64_t)1 << SIGTERM;
    struct ci_signal_sink first = {.wanted = wanted, .eventfd = ci_sys_eventfd()},
                          second = {.wanted = wanted, .eventfd = ci_sys_eventfd()};
    struct ci_signal_stop stop = {.fn = on_stop, .arg = &stopped};
    struct sigaction action = {.sa_sigaction = pass_to_coir, .sa_flags = SA_SIGINFO};
    signal(SIGTERM, on_own);
    ci_signal_watch(&stop);
    CHECK_EQ(ci_signal_attach(&first), 0);
    CHECK_EQ(sigaction(SIGTERM, &action, &coirs), 0);
    CHECK_EQ(ci_signal_attach(&second), 0);
    for (uint32_t i = 1; i <= 2; i++) {
        raise(SIGTERM);
        CHECK_EQ(first.counts[SIGTERM], i);
        CHECK_EQ(second.counts[SIGTERM], i);
        CHECK_EQ(stopped, (int)i);
        CHECK_EQ(earlier, (int)i);
    }
    ci_signal_detach(&second);
    raise(SIGTERM); /* by the handler in front */
    CHECK_EQ(first.counts[SIGTERM], 3);
    ci_signal_detach(&first);
    ci_signal_unwatch(&stop);
    signal(SIGTERM, SIG_DFL);
    ci_sys_close(first.eventfd);
    ci_sys_close(second.eventfd);
}

static sigjmp_buf place;

static void leave_chain(int number)
{
    (void)number;
    siglongjmp(place, 1);
}

TEST(a_handler_that_does_not_return_mutes_nothing)
{
    struct ci_signal_sink sink = {.wanted = (uint64_t)1 << SIGTERM, .eventfd = ci_sys_eventfd()};
    struct ci_signal_stop stop = {.fn = on_stop, .arg = &stopped};
    struct sigaction leaves = {.sa_handler = leave_chain},
                     passes = {.sa_sigaction = pass_to_coir, .sa_flags = SA_SIGINFO};
    ci_signal_watch(&stop);
    CHECK_EQ(sigaction(SIGTERM, &leaves, &coirs), 0);
    CHECK_EQ(ci_signal_attach(&sink), 0);
    if (sigsetjmp(place, 1) == 0)
        raise(SIGTERM); /* coir's second level, which calls leave_chain */
    CHECK_EQ(sink.counts[SIGTERM], 1);
    CHECK_EQ(sigaction(SIGTERM, &coirs, NULL), 0);
    raise(SIGTERM);
    CHECK_EQ(sink.counts[SIGTERM], 2);
    CHECK_EQ(sigaction(SIGTERM, &passes, NULL), 0);
    raise(SIGTERM);
    CHECK_EQ(sink.counts[SIGTERM], 3);
    CHECK_EQ(stopped, 3);
    ci_signal_detach(&sink);
    ci_signal_unwatch(&stop);
    signal(SIGTERM, SIG_DFL);
    ci_sys_close(sink.eventfd);
}
