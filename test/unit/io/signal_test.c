/* Signals as events, alone and in a select. */
#include <coir.h>
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "harness.h"

static volatile int earlier;

static void on_earlier(int number)
{
    (void)number;
    earlier++;
}

/* Runs when the waiting task has suspended. */
static int send_soon(void *arg)
{
    return kill(getpid(), (int)(intptr_t)arg);
}

TEST_REAL(a_signal_wakes_who_waits_for_it)
{
    static const int numbers[] = {SIGUSR1, SIGUSR2, SIGHUP};
    coir_signals *signals, *other;
    int bad = SIGKILL;
    signal(SIGUSR1, on_earlier);
    CHECK_EQ(coir_signals_open(&bad, 1, &signals), -EINVAL);
    bad = 64;
    CHECK_EQ(coir_signals_open(&bad, 1, &signals), -EINVAL);
    CHECK_EQ(coir_signals_open(numbers, 3, &signals), 0);
    CHECK_EQ(coir_signals_open(numbers, 1, &other), 0);
    COIR_SCOPE(scope);
    coir_go(scope, send_soon, (void *)SIGUSR2);
    CHECK_EQ(coir_signals_wait(signals), SIGUSR2);
    raise(SIGHUP);
    raise(SIGUSR1);
    raise(SIGUSR1);
    CHECK_EQ(earlier, 2); /* the handler that was there */
    CHECK_EQ(coir_signals_wait(other), SIGUSR1);
    CHECK_EQ(coir_signals_wait(signals), SIGHUP);
    for (int i = 0; i < 2; i++) /* each of them is there */
        CHECK_EQ(coir_signals_wait(signals), SIGUSR1);
    CHECK_EQ(coir_signals_wait(other), SIGUSR1);
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(coir_signals_wait(signals), -ETIME);
    }
    coir_go(scope, send_soon, (void *)SIGUSR1);
    coir_case waits[] = {coir_case_signal(signals), coir_case_after(10 * COIR_S)};
    CHECK_EQ(coir_select(waits, 2), 0);
    CHECK_EQ(waits[0].result, SIGUSR1);
    raise(SIGHUP);
    waits[1] = coir_case_signal(other); /* both have one: exactly one is taken */
    int which = coir_select(waits, 2);
    CHECK_EQ(waits[which].result, which == 0 ? SIGHUP : SIGUSR1);
    CHECK_EQ(coir_signals_wait(which == 0 ? other : signals), which == 0 ? SIGUSR1 : SIGHUP);
    coir_signals_close(other);
    coir_signals_close(signals);
    coir_signals_close(NULL);
    int before = earlier;
    raise(SIGUSR1); /* the earlier handler is back */
    CHECK_EQ(earlier, before + 1);
    struct sigaction now;
    CHECK(sigaction(SIGUSR2, NULL, &now) == 0 && now.sa_handler == SIG_DFL);
}

static int wait_for_one(void *signals)
{
    return coir_signals_wait(signals);
}

TEST_REAL(signals_that_a_task_waits_for_are_not_closed_under_it)
{
    static const int numbers[] = {SIGUSR1};
    coir_signals *signals;
    COIR_HANDLE(handle);
    COIR_SERVING_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    CHECK_EQ(coir_signals_open(numbers, 1, &signals), 0);
    CHECK_EQ(coir_go_with(scope, &options, wait_for_one, signals), 0);
    coir_yield();
    coir_signals_close(signals);
    raise(SIGUSR1);
    CHECK_EQ(coir_join(handle), SIGUSR1);
    coir_signals_close(signals);
}

TEST_SIM(the_simulator_has_no_signals)
{
    static const int number = SIGUSR1;
    coir_signals *signals;
    CHECK_EQ(coir_signals_open(&number, 1, &signals), -ENOTSUP);
}

TEST_REAL(a_signal_is_awaited_as_a_future)
{
    static const int number = SIGUSR1;
    coir_signals *signals;
    coir_signals_op op;
    CHECK_EQ(coir_signals_open(&number, 1, &signals), 0);
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(coir_await(coir_signals_wait_op(&op, signals)), -ETIME);
    }
    raise(SIGUSR1);
    CHECK_EQ(coir_await(coir_signals_wait_op(&op, signals)), SIGUSR1);
    coir_signals_close(signals);
}

/* ---- a signal in a select that loses ---- */

static coir_event rival;

static void set_rival(void *arg)
{
    coir_event_set(arg);
}

/* A posted call is made after the driver was asked, and before what the driver has woken runs. */
static int raise_and_post(void *arg)
{
    (void)arg;
    raise(SIGUSR1);
    return coir_runtime_post(coir_runtime_current(), 0, set_rival, &rival);
}

/* The select is decided by the event after the signal's eventfd was found readable: the signal was
 * not taken, and is there for the next. */
TEST_REAL(a_signal_that_loses_a_select_is_kept)
{
    static const int number = SIGUSR1;
    int lost = 0;
    for (int i = 0; i < 50; i++) {
        coir_signals *signals;
        rival = (coir_event)COIR_EVENT_INIT;
        CHECK_EQ(coir_signals_open(&number, 1, &signals), 0);
        COIR_SCOPE(scope);
        CHECK_EQ(coir_go(scope, raise_and_post, NULL), 0);
        coir_case waits[] = {coir_case_signal(signals), coir_case_event(&rival)};
        int which = coir_select_in_order(waits, 2);
        CHECK_EQ(coir_scope_wait(scope), 0);
        if (which == 0) {
            CHECK_EQ(waits[0].result, SIGUSR1);
            CHECK_EQ(coir_event_wait(&rival), 0);
        } else {
            COIR_DEADLINE(coir_in(10 * COIR_S));
            CHECK_EQ(which, 1);
            CHECK_EQ(coir_signals_wait(signals), SIGUSR1);
            lost++;
        }
        coir_signals_close(signals);
    }
    CHECK(lost > 0);
}

/* ---- tasks of several workers take one set of signals ---- */

enum { SENT = 1000 };
static coir_signals *shared;
static int taken;
static coir_event all_taken;

static int take_until_cancelled(void *arg)
{
    (void)arg;
    for (;;) {
        int number = coir_signals_wait(shared);
        if (number < 0)
            return number;
        CHECK_EQ(number, SIGUSR1);
        if (__atomic_add_fetch(&taken, 1, __ATOMIC_SEQ_CST) == SENT)
            coir_event_set(&all_taken);
    }
}

static void share_signals(void)
{
    static const int number = SIGUSR1;
    taken = 0;
    all_taken = (coir_event)COIR_EVENT_INIT;
    CHECK_EQ(coir_signals_open(&number, 1, &shared), 0);
    for (int i = 0; i < 10; i++)
        raise(SIGUSR1); /* before anybody waits */
    {
        COIR_SERVING_SCOPE(scope);
        for (int i = 1; i < 3; i++)
            CHECK_EQ(coir_go_on(scope, i, take_until_cancelled, NULL), 0);
        for (int i = 10; i < SENT; i++) {
            raise(SIGUSR1);
            if (i % 3 == 0)
                coir_yield();
        }
        CHECK_EQ(coir_event_wait(&all_taken), 0);
        coir_scope_cancel(scope);
        coir_scope_wait(scope);
    }
    CHECK_EQ(taken, SENT);
    coir_signals_close(shared);
}

TEST(signals_are_counted_and_each_goes_to_one_of_those_who_wait)
{
    test_in_runtime(share_signals, 3);
}
