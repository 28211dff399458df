/* The stack of another thread, by a signal: taken, not answered, and the handler from before. */
#include "sys/thread_trace.h"

#include <errno.h>
#include <string.h>

#include "base/atomic.h"
#include "base/sanitizer.h"
#include "coir/base.h"
#include "harness.h"
#include "sys/symbol.h"

static struct ci_traced traced, second;
static int32_t ready, done, noted, urgent;

static bool on_signal_stack;

static void note(struct ci_traced *own)
{
    stack_t stack;
    CHECK(own == &traced || own == &second);
    on_signal_stack = sigaltstack(NULL, &stack) == 0 && stack.ss_flags & SS_ONSTACK;
    noted++;
}

static __attribute__((noinline)) void spin_in_a_thread(void)
{
    ci_store(&ready, true);
    while (!ci_load(&done))
        (void)coir_now(); /* where TSan lets signals in */
}

static void *spinner(void *arg)
{
    CHECK_EQ(ci_thread_trace_enter(&traced, true, note), 0);
    CHECK_EQ(ci_thread_trace_enter(&second, true, note), 0);
    spin_in_a_thread();
    ci_thread_trace_leave(&traced); /* in any order */
    ci_thread_trace_leave(&second);
    return arg;
}

static void start(pthread_t *thread, void *(*fn)(void *arg))
{
    ci_store(&ready, false);
    ci_store(&done, false);
    CHECK_EQ(pthread_create(thread, NULL, fn, NULL), 0);
    while (!ci_load(&ready))
        continue;
}

static void end(pthread_t thread)
{
    ci_store(&done, true);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void take_stack(struct ci_traced *own)
{
    int rc;
    while ((rc = ci_thread_trace_take(own, COIR_S)) == -ETIMEDOUT) /* the machine is slow */
        continue;
    CHECK_EQ(rc, 0);
}

static void check_stack(struct ci_traced *own)
{
    static char text[16 * 1024];
    take_stack(own);
    CHECK(own->count > 1);
    CHECK(ci_symbol_write(own, text, sizeof text) == strlen(text));
    if (!ci_has_symbols)
        return;
    if (!strstr(text, "spin_in_a_thread") || !strstr(text, "spinner"))
        test_fail(__FILE__, __LINE__, "%s", text);
}

TEST(a_thread_tells_where_it_is)
{
    pthread_t thread;
    start(&thread, spinner);
    for (int i = 0; i < 20; i++) {
        check_stack(&traced);
        check_stack(&second);
    }
    end(thread);
    CHECK(noted >= 40);
}

static void *deaf(void *arg)
{
    sigset_t all;
    CHECK_EQ(ci_thread_trace_enter(&traced, true, note), 0);
    sigfillset(&all);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &all, NULL), 0);
    spin_in_a_thread();
    ci_thread_trace_leave(&traced); /* the pending signal finds nothing to do */
    return arg;
}

TEST(a_thread_that_blocks_the_signal_does_not_answer)
{
    pthread_t thread;
    start(&thread, deaf);
    CHECK_EQ(ci_thread_trace_take(&traced, COIR_MS), -ETIMEDOUT);
    CHECK_EQ(ci_thread_trace_take(&traced, COIR_MS), -ETIMEDOUT);
    end(thread);
    CHECK_EQ(noted, 0);
}

static void on_urgent(int number)
{
    CHECK_EQ(number, SIGURG);
    urgent++;
}

TEST(a_signal_of_the_program_goes_to_its_own_handler)
{
    struct sigaction own = {.sa_handler = on_urgent}, now;
    sigset_t before, after;
    CHECK_EQ(sigaction(SIGURG, &own, NULL), 0);
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    CHECK_EQ(ci_thread_trace_enter(&traced, true, note), 0);
    raise(SIGURG);
    CHECK_EQ(urgent, 1);
    ci_thread_trace_leave(&traced);
    raise(SIGURG);
    CHECK_EQ(urgent, 2);
    CHECK_EQ(sigaction(SIGURG, NULL, &now), 0);
    CHECK(now.sa_handler == on_urgent);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    CHECK_EQ(sigismember(&before, SIGURG), sigismember(&after, SIGURG));
    CHECK_EQ(noted, 0);
}

/* Whether this thread has a stack for signals, and where. */
static void *signal_stack(void)
{
    stack_t stack;
    CHECK_EQ(sigaltstack(NULL, &stack), 0);
    return stack.ss_flags & SS_DISABLE ? NULL : stack.ss_sp;
}

static void *check_signal_stack(void *arg)
{
    void *before = signal_stack(); /* of a sanitizer */
    CHECK_EQ(ci_thread_trace_enter(&traced, true, note), 0);
    void *made = signal_stack();
    CHECK(made && (!before || made == before));
    CHECK_EQ(ci_thread_trace_enter(&second, true, note), 0);
    CHECK(signal_stack() == made);
    spin_in_a_thread();
    ci_thread_trace_leave(&traced);
    CHECK(signal_stack() == made);
    ci_thread_trace_leave(&second);
    CHECK(signal_stack() == before);
    return arg;
}

/* What it runs may be the function of a fiber, without room for a handler. */
TEST(a_thread_is_asked_on_a_stack_for_signals)
{
    pthread_t thread;
    start(&thread, check_signal_stack);
    take_stack(&traced);
    CHECK(on_signal_stack || CI_TSAN); /* which calls handlers later, where the thread is */
    end(thread);
}

static void *replace_signal_stack(void *arg)
{
    static char memory[64 * 1024];
    stack_t own = {.ss_sp = memory, .ss_size = sizeof memory}, before;
    CHECK_EQ(ci_thread_trace_enter(&traced, true, note), 0);
    CHECK_EQ(sigaltstack(&own, &before), 0);
    ci_thread_trace_leave(&traced);
    CHECK(signal_stack() == own.ss_sp);
    memset(before.ss_sp, 0, before.ss_size); /* it is there still */
    CHECK_EQ(sigaltstack(&before, NULL), 0);
    return arg;
}

TEST(a_signal_stack_that_may_be_put_back_stays)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, replace_signal_stack, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}
