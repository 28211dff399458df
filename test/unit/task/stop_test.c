/* Stop signals and several runtimes: each hears, and the end of one leaves the others' handler
 * where it is. */
#include <coir.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "harness.h"

struct side {
    pthread_t thread;
    coir_event *until; /* NULL: until it is stopped */
    bool opens;        /* SIGINT, as coir_signals */
    int runs, result;
};

static int run_with_signals(struct side *side)
{
    coir_signals *signals;
    CHECK_EQ(coir_signals_open((const int[]){SIGINT}, 1, &signals), 0);
    __atomic_store_n(&side->runs, 1, __ATOMIC_RELEASE);
    int rc = coir_sleep_until(COIR_NEVER);
    COIR_SHIELD;
    CHECK_EQ(coir_signals_wait(signals), SIGINT);
    coir_signals_close(signals);
    return rc;
}

static int run_until(void *arg)
{
    struct side *side = arg;
    if (side->opens)
        return run_with_signals(side);
    __atomic_store_n(&side->runs, 1, __ATOMIC_RELEASE);
    return side->until ? coir_event_wait(side->until) : coir_sleep_until(COIR_NEVER);
}

static void *run_side(void *arg)
{
    struct side *side = arg;
    coir_config config = COIR_CONFIG;
    coir_runtime *runtime;
    config.workers = 1;
    config.stop_signals = 1;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    side->result = coir_runtime_run(runtime, run_until, side);
    coir_runtime_free(runtime);
    return NULL;
}

/* The same, driven by a loop of the program's own. */
static void *drive_side(void *arg)
{
    struct side *side = arg;
    coir_config config = COIR_CONFIG;
    coir_runtime *runtime;
    config.workers = 1;
    config.stop_signals = 1;
    config.driver = "epoll";
    unsetenv("COIR_DRIVER");
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    CHECK_EQ(coir_runtime_begin(runtime, run_until, side), 0);
    while (coir_runtime_step(runtime))
        sched_yield();
    side->result = coir_runtime_end(runtime);
    coir_runtime_free(runtime);
    return NULL;
}

static void start_as(struct side *side, coir_event *until, void *(*run)(void *arg))
{
    bool opens = side->opens;
    *side = (struct side){.until = until, .result = 1, .opens = opens};
    CHECK_EQ(pthread_create(&side->thread, NULL, run, side), 0);
    while (!__atomic_load_n(&side->runs, __ATOMIC_ACQUIRE))
        sched_yield();
}

static void start(struct side *side, coir_event *until)
{
    start_as(side, until, run_side);
}

static void end(struct side *side, int result)
{
    CHECK_EQ(pthread_join(side->thread, NULL), 0);
    CHECK_EQ(side->result, result);
}

static int earlier;

static void on_earlier(int number)
{
    (void)number;
    __atomic_fetch_add(&earlier, 1, __ATOMIC_RELAXED);
}

static void check_handler(int number, void (*handler)(int))
{
    struct sigaction now;
    CHECK(sigaction(number, NULL, &now) == 0);
    CHECK(now.sa_handler == handler);
}

TEST(every_runtime_hears_a_stop_signal)
{
    struct side sides[3] = {{0}};
    signal(SIGTERM, on_earlier);
    signal(SIGINT, SIG_DFL); /* which a shell may have us ignore */
    for (int i = 0; i < 3; i++)
        start_as(&sides[i], NULL, i == 1 ? drive_side : run_side);
    kill(getpid(), SIGTERM);
    for (int i = 0; i < 3; i++)
        end(&sides[i], -ECANCELED);
    CHECK_EQ(earlier, 1);
    check_handler(SIGTERM, on_earlier);
    check_handler(SIGINT, SIG_DFL);
}

TEST(the_end_of_one_leaves_the_others_their_handler)
{
    coir_event first = COIR_EVENT_INIT, middle = COIR_EVENT_INIT;
    struct side sides[3] = {{0}};
    signal(SIGINT, SIG_IGN);
    start(&sides[0], &first);
    start(&sides[1], NULL);
    start(&sides[2], &middle);
    coir_event_set(&first);
    end(&sides[0], 0);
    coir_event_set(&middle);
    end(&sides[2], 0);
    kill(getpid(), SIGINT);
    end(&sides[1], -ECANCELED);
    check_handler(SIGINT, SIG_IGN);
    check_handler(SIGTERM, SIG_DFL);
}

/* One that starts while others are still on their way down hears the next signal; the handlers
 * of before are still known. */
TEST(one_that_starts_after_a_signal_hears_the_next)
{
    coir_event until = COIR_EVENT_INIT;
    struct side sides[2] = {{0}};
    signal(SIGTERM, on_earlier);
    start(&sides[0], NULL);
    kill(getpid(), SIGTERM);
    start(&sides[1], NULL);
    kill(getpid(), SIGTERM);
    end(&sides[0], -ECANCELED);
    end(&sides[1], -ECANCELED);
    CHECK_EQ(earlier, 2);
    check_handler(SIGTERM, on_earlier);
    start(&sides[0], &until);
    signal(SIGTERM, SIG_IGN); /* the program's own, put in the place of ours: it stays */
    coir_event_set(&until);
    end(&sides[0], 0);
    check_handler(SIGTERM, SIG_IGN);
}

/* One signal a run. In odd rounds at any moment of it: before it watches, while it runs, as it
 * goes. In even rounds while its task runs, which does not end by itself: that one must be
 * cancelled. None reaches a run that is gone. */
enum { ROUNDS = 500 };
static int armed, sent;

static void *send_signals(void *arg)
{
    for (int i = 1; i <= ROUNDS; i++) {
        while (__atomic_load_n(&armed, __ATOMIC_ACQUIRE) != i)
            sched_yield();
        for (volatile int pause = 0; pause < i * 100; pause = pause + 1)
            continue;
        pthread_kill(*(pthread_t *)arg, SIGINT);
        __atomic_store_n(&sent, i, __ATOMIC_RELEASE);
    }
    return NULL;
}

static int yield_until_sent(void *arg)
{
    int rc = 0;
    while (rc == 0 && __atomic_load_n(&sent, __ATOMIC_ACQUIRE) != *(int *)arg)
        rc = coir_yield();
    return rc;
}

static int yield_until_cancelled(void *arg)
{
    int rc = 0;
    __atomic_store_n(&armed, *(int *)arg, __ATOMIC_RELEASE);
    while (rc == 0)
        rc = coir_yield();
    return rc;
}

TEST(a_signal_at_any_moment_of_a_run)
{
    coir_config config = COIR_CONFIG;
    pthread_t sender, self = pthread_self();
    config.workers = 1;
    config.stop_signals = 1;
    signal(SIGINT, on_earlier);
    pthread_create(&sender, NULL, send_signals, &self);
    for (int i = 1; i <= ROUNDS; i++) {
        coir_runtime *runtime;
        CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
        if (i % 2 == 1 || CI_TSAN) {
            /* TSan may keep a signal for the fiber that it came to, which does not run again */
            __atomic_store_n(&armed, i, __ATOMIC_RELEASE);
            int rc = coir_runtime_run(runtime, yield_until_sent, &i);
            CHECK(rc == 0 || rc == -ECANCELED);
        } else {
            CHECK_EQ(coir_runtime_run(runtime, yield_until_cancelled, &i), -ECANCELED);
        }
        while (__atomic_load_n(&sent, __ATOMIC_ACQUIRE) != i)
            sched_yield();
        coir_runtime_free(runtime);
        CHECK_EQ(__atomic_load_n(&earlier, __ATOMIC_RELAXED), i);
        check_handler(SIGINT, on_earlier);
    }
    pthread_join(sender, NULL);
}

/* Signals are opened in some of them, so that the handlers are installed in every order. */
TEST(signals_are_opened_between_the_starts_of_runtimes)
{
    signal(SIGINT, on_earlier);
    for (int opens = 0; opens < 8; opens++) {
        struct side sides[3] = {{0}};
        for (int i = 0; i < 3; i++) {
            sides[i].opens = opens >> i & 1;
            start(&sides[i], NULL);
        }
        kill(getpid(), SIGINT);
        for (int i = 0; i < 3; i++)
            end(&sides[i], -ECANCELED);
        CHECK_EQ(earlier, opens + 1);
        check_handler(SIGINT, on_earlier);
        check_handler(SIGTERM, SIG_DFL);
    }
}

/* While signals are open a second one does not end the program; when they are closed it does. */
static int open_for_a_while(void *arg)
{
    coir_signals *signals;
    (void)arg;
    CHECK_EQ(coir_signals_open((const int[]){SIGINT}, 1, &signals), 0);
    raise(SIGINT);
    CHECK_EQ(coir_sleep_until(COIR_NEVER), -ECANCELED);
    raise(SIGINT);
    coir_signals_close(signals);
    raise(SIGINT);
    CHECK_EQ(earlier, 3);
    raise(SIGINT);
    return 0;
}

TEST(open_signals_take_the_default_effect_from_the_second)
{
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        coir_config config = COIR_CONFIG;
        coir_runtime *runtime;
        config.stop_signals = 1;
        signal(SIGINT, on_earlier);
        CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
        coir_runtime_run(runtime, open_for_a_while, NULL);
        _exit(1);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(WTERMSIG(status), SIGINT);
}

/* Handlers of the program, each of which calls the one that it found. */
enum { FOREIGN = 6 };
static struct sigaction found[FOREIGN];
static int called[FOREIGN];

static void call_found(int i, int number, siginfo_t *info, void *context)
{
    called[i]++;
    if (found[i].sa_flags & SA_SIGINFO)
        found[i].sa_sigaction(number, info, context);
    else
        found[i].sa_handler(number);
}

#define CALLS(i)                                                      \
    static void calls_##i(int number, siginfo_t *info, void *context) \
    {                                                                 \
        call_found(i, number, info, context);                         \
    }
CALLS(0)
CALLS(1)
CALLS(2)
CALLS(3)
CALLS(4)
CALLS(5)

static void (*const calls[])(int, siginfo_t *, void *) = {calls_0, calls_1, calls_2,
                                                          calls_3, calls_4, calls_5};

TEST(a_chaining_handler_between_two_runtimes)
{
    struct side sides[FOREIGN + 1] = {{0}};
    signal(SIGINT, on_earlier);
    for (int i = 0; i <= FOREIGN; i++) {
        sides[i].opens = i % 3 == 1;
        start(&sides[i], NULL);
        if (i < FOREIGN)
            CHECK_EQ(
                sigaction(SIGINT,
                          &(struct sigaction){.sa_sigaction = calls[i], .sa_flags = SA_SIGINFO},
                          &found[i]),
                0);
    }
    kill(getpid(), SIGINT);
    for (int i = 0; i <= FOREIGN; i++)
        end(&sides[i], -ECANCELED);
    CHECK_EQ(earlier, 1);
    for (int i = 0; i < FOREIGN; i++)
        CHECK_EQ(called[i], 1);
    /* the last of the program's is back, and finds the first through what is left of ours */
    raise(SIGINT);
    CHECK_EQ(called[FOREIGN - 1], 2);
    CHECK_EQ(called[0], 2);
    CHECK_EQ(earlier, 2);
    signal(SIGINT, on_earlier);
    /* all levels may be in use: the signal is received again once no other handler is installed */
    start(&sides[0], NULL);
    signal(SIGINT, SIG_DFL);
    start(&sides[1], NULL);
    kill(getpid(), SIGINT);
    end(&sides[0], -ECANCELED);
    end(&sides[1], -ECANCELED);
}

/* One that does not: who comes after it is heard all the same. */
TEST(a_handler_that_calls_nobody_between_two_runtimes)
{
    struct side sides[2] = {{0}};
    start(&sides[0], NULL);
    signal(SIGINT, on_earlier);
    start(&sides[1], NULL);
    kill(getpid(), SIGINT);
    end(&sides[0], -ECANCELED);
    end(&sides[1], -ECANCELED);
    CHECK_EQ(earlier, 1);
    check_handler(SIGINT, on_earlier);
}
