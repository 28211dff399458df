/* Signals for sinks and stops, chained to the handler that was there. */
#include "sys/signal.h"

#include <errno.h>
#include <poll.h>

#include "harness.h"
#include "sys/call.h"

static int earlier, stopped;

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
