/* Signals that a sink counts, and who takes them. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include "harness.h"
#include "sys/call.h"
#include "sys/signal.h"

TEST(a_sink_counts_its_signals_until_they_are_taken)
{
    struct ci_signal_sink sink = {.wanted = (uint64_t)1 << SIGUSR1 | (uint64_t)1 << SIGHUP,
                                  .eventfd = ci_sys_eventfd()};
    struct pollfd ready = {.fd = sink.eventfd, .events = POLLIN};
    uint64_t count;
    CHECK_EQ(ci_signal_attach(&sink), 0);
    CHECK_EQ(ci_signal_take(&sink), 0);
    raise(SIGUSR1);
    raise(SIGHUP);
    raise(SIGUSR1);
    CHECK_EQ(ci_sys_read(sink.eventfd, &count, sizeof count), (ssize_t)sizeof count);
    CHECK_EQ(ci_signal_take(&sink), SIGHUP);
    CHECK_EQ(ci_sys_poll(&ready, 1, 0), 1); /* another thread may wait for the rest */
    CHECK_EQ(ci_signal_take(&sink), SIGUSR1);
    CHECK_EQ(ci_sys_read(sink.eventfd, &count, sizeof count), (ssize_t)sizeof count);
    CHECK_EQ(ci_signal_take(&sink), SIGUSR1);
    CHECK_EQ(ci_sys_poll(&ready, 1, 0), 0);
    CHECK_EQ(ci_signal_take(&sink), 0);
    ci_signal_give_back(&sink, SIGHUP);
    CHECK_EQ(ci_sys_poll(&ready, 1, 0), 1);
    CHECK_EQ(ci_signal_take(&sink), SIGHUP);
    ci_signal_detach(&sink);
    ci_sys_close(sink.eventfd);
}

/* ---- a handler runs at any point of a take ---- */

enum { SENT = 30000 };
static int handled, sender_done;
static pthread_t taker;

static void count_handled(int number)
{
    (void)number;
    __atomic_add_fetch(&handled, 1, __ATOMIC_SEQ_CST);
}

static void *send_all(void *arg)
{
    for (int i = 0; i < SENT; i++)
        pthread_kill(taker, SIGUSR1);
    __atomic_store_n(&sender_done, 1, __ATOMIC_SEQ_CST);
    return arg;
}

/* The system merges signals, so what counts is how often the handler ran. */
TEST(none_is_lost_that_comes_during_a_take)
{
    struct ci_signal_sink sink = {.wanted = (uint64_t)1 << SIGUSR1, .eventfd = ci_sys_eventfd()};
    pthread_t thread;
    int taken = 0;
    taker = pthread_self();
    signal(SIGUSR1, count_handled);
    CHECK_EQ(ci_signal_attach(&sink), 0);
    CHECK_EQ(pthread_create(&thread, NULL, send_all, NULL), 0);
    while (!__atomic_load_n(&sender_done, __ATOMIC_SEQ_CST)) {
        taken += ci_signal_take(&sink) != 0;
        bool counted = __atomic_load_n(&sink.counts[SIGUSR1], __ATOMIC_SEQ_CST);
        CHECK(!counted || __atomic_load_n(&sink.pending, __ATOMIC_SEQ_CST));
    }
    pthread_join(thread, NULL);
    while (ci_signal_take(&sink))
        taken++;
    CHECK_EQ(taken, handled);
    ci_signal_detach(&sink);
    ci_sys_close(sink.eventfd);
}
