/* Threads take no signals but their own faults; a condition is waited for until its deadline. */
#include "sys/thread.h"

#include <errno.h>
#include <signal.h>

#include "harness.h"
#include "sys/clock.h"

static void *read_mask(void *arg)
{
    pthread_sigmask(SIG_SETMASK, NULL, arg);
    return NULL;
}

TEST(a_started_thread_blocks_all_signals_its_starter_none)
{
    struct ci_thread thread;
    sigset_t mask, own;
    CHECK_EQ(ci_thread_start(&thread, read_mask, &mask), 0);
    ci_thread_join(&thread);
    CHECK(sigismember(&mask, SIGINT) && sigismember(&mask, SIGTERM) && sigismember(&mask, SIGUSR1));
    pthread_sigmask(SIG_SETMASK, NULL, &own);
    CHECK(!sigismember(&own, SIGINT));
}

static volatile int faults;

static void count_fault(int number)
{
    (void)number;
    faults++;
}

static void *raise_fault(void *arg)
{
    raise(SIGFPE);
    return arg;
}

TEST(a_fault_of_a_started_thread_has_its_handler)
{
    static const int raised[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    struct ci_thread thread;
    sigset_t mask;
    CHECK_EQ(ci_thread_start(&thread, read_mask, &mask), 0);
    ci_thread_join(&thread);
    for (size_t i = 0; i < ci_countof(raised); i++)
        CHECK(!sigismember(&mask, raised[i]));
    signal(SIGFPE, count_fault);
    CHECK_EQ(ci_thread_start(&thread, raise_fault, NULL), 0);
    ci_thread_join(&thread);
    CHECK_EQ(faults, 1);
}

static struct ci_mutex mutex;
static struct ci_condition condition;
static bool told;

static void *tell(void *arg)
{
    ci_mutex_lock(&mutex);
    told = true;
    ci_condition_signal(&condition);
    ci_mutex_unlock(&mutex);
    return arg;
}

TEST(a_condition_is_signalled_or_its_deadline_passes)
{
    struct ci_thread thread;
    ci_mutex_init(&mutex);
    ci_condition_init(&condition);
    ci_mutex_lock(&mutex);
    coir_time deadline = ci_clock_now() + COIR_MS;
    int rc;
    while ((rc = ci_condition_wait(&condition, &mutex, deadline)) == 0)
        continue;
    CHECK_EQ(rc, -ETIMEDOUT);
    CHECK(ci_clock_now() >= deadline);
    CHECK_EQ(ci_thread_start(&thread, tell, NULL), 0);
    while (!told)
        CHECK_EQ(ci_condition_wait(&condition, &mutex, COIR_NEVER), 0);
    ci_mutex_unlock(&mutex);
    ci_thread_join(&thread);
    ci_condition_done(&condition);
    ci_mutex_done(&mutex);
}
