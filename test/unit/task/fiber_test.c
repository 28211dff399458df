/* What a fiber does about itself: defer, locals, names, yields, generators; and its stack. */
#include <coir.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "harness.h"
#include "task/task.h"

/* ---- defer ---- */

static char ran[32];

static void note(void *arg)
{
    strcat(ran, arg);
}

static void slow_note(void *arg)
{
    strcat(ran, coir_sleep_for(COIR_S) == 0 ? "slept " : "refused ");
    strcat(ran, arg);
}

static int with_defers(void *arg)
{
    (void)arg;
    CHECK_EQ(coir_defer(note, "a"), 0);
    CHECK_EQ(coir_defer(note, "b"), 0);
    CHECK_EQ(coir_defer(slow_note, "c"), 0);
    CHECK_EQ(coir_defer(note, "d"), 0);
    CHECK(coir_defer_disarm(note, "b"));
    CHECK(!coir_defer_disarm(note, "b"));
    CHECK(!coir_defer_disarm(note, "c"));
    return coir_sleep_for(100 * COIR_S);
}

TEST_SIM(deferred_callbacks_run_last_in_first_out_and_shielded)
{
    COIR_SCOPE(scope);
    coir_go(scope, with_defers, NULL);
    coir_yield();
    coir_scope_cancel(scope);
    coir_scope_wait(scope);
    CHECK(strcmp(ran, "dslept ca") == 0);
}

static void defer_again(void *arg)
{
    strcat(ran, "again ");
    coir_defer(note, arg);
}

/* In the task function's own frame, whose locals are gone when the callbacks run. */
static int defer_and_return(void *arg)
{
    char *copies[8];
    for (int i = 0; i < 8; i++) {
        CHECK((copies[i] = strdup(arg)));
        CHECK_EQ(coir_defer(free, copies[i]), 0);
    }
    CHECK_EQ(coir_defer(defer_again, arg), 0);
    CHECK(coir_defer_disarm(free, copies[3]));
    free(copies[3]);
    return 0;
}

TEST_SIM(a_task_that_returns_at_once_runs_what_it_deferred)
{
    for (int i = 0; i < 2; i++) {
        COIR_SCOPE(scope);
        coir_go(scope, defer_and_return, "x");
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    CHECK(strcmp(ran, "again xagain x") == 0);
}

TEST(outside_of_a_fiber_nothing_is_deferred)
{
    CHECK_EQ(coir_defer(free, NULL), -ESRCH);
    CHECK(!coir_defer_disarm(free, NULL));
}

static void far_too_slow(void *arg)
{
    *(int *)arg = coir_sleep_for(1000 * COIR_S);
}

static int defer_slow(void *arg)
{
    return coir_defer(far_too_slow, arg);
}

TEST_SIM(deferred_callbacks_have_a_deadline_of_their_own)
{
    int rc = 0;
    coir_time start = coir_now();
    COIR_SCOPE(scope);
    coir_go(scope, defer_slow, &rc);
    coir_scope_wait(scope);
    CHECK_EQ(rc, -ETIME);
    CHECK_EQ(coir_now() - start, 5 * COIR_S);
}

/* ---- locals and names ---- */

static const char user_key, trace_key;

static int child_of_locals(void *arg)
{
    (void)arg;
    CHECK(strcmp(coir_local_get(&user_key), "ann") == 0);
    coir_local_set(&user_key, "child");
    CHECK(strcmp(coir_local_get(&user_key), "child") == 0);
    CHECK(strcmp(coir_task_name(), "kid") == 0);
    return 0;
}

TEST_SIM(locals_follow_into_children)
{
    CHECK(coir_local_get(&user_key) == NULL);
    CHECK_EQ(coir_local_set(&user_key, "bob"), 0);
    CHECK_EQ(coir_local_set(&user_key, "ann"), 0);
    COIR_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = "kid";
    coir_go_with(scope, &options, child_of_locals, NULL);
    coir_scope_wait(scope);
    CHECK(strcmp(coir_local_get(&user_key), "ann") == 0);
    CHECK(coir_local_get(&trace_key) == NULL);
    coir_task_set_name("renamed");
    CHECK(strcmp(coir_task_name(), "renamed") == 0);
}

/* ---- generators ---- */

static int squares(coir_generator *generator, uint64_t first, void *arg)
{
    uint64_t sent = first;
    int rc;
    for (uint64_t i = 1;; i++) {
        if (i % 3 == 0 && (rc = coir_sleep_for(COIR_MS)) < 0)
            return rc; /* a generator may suspend: the task that resumed it is parked */
        if ((rc = coir_generator_yield(generator, i * i + sent, &sent)) < 0) {
            *(int *)arg = rc;
            return 0;
        }
        if (sent == UINT64_MAX)
            return -EDOM;
    }
}

static int use_generator(void *arg)
{
    coir_generator *generator;
    uint64_t value = 0, offset = (uint64_t)(intptr_t)arg;
    int closed = 0;
    CHECK_EQ(coir_generator_new(squares, &closed, &generator), 0);
    for (uint64_t i = 1; i <= 10; i++) {
        CHECK_EQ(coir_generator_next(generator, offset, &value), 1);
        CHECK_EQ(value, i * i + offset);
    }
    coir_generator_free(generator);
    CHECK_EQ(closed, -ECANCELED);
    CHECK_EQ(coir_generator_new(squares, &closed, &generator), 0);
    CHECK_EQ(coir_generator_next(generator, 0, &value), 1);
    CHECK_EQ(coir_generator_next(generator, UINT64_MAX, &value), -EDOM);
    CHECK_EQ(coir_generator_next(generator, 0, &value), -EDOM);
    coir_generator_free(generator);
    coir_generator_free(NULL);
    return 0;
}

TEST_SIM(generators_carry_values_both_ways_and_may_suspend)
{
    COIR_SCOPE(scope);
    for (intptr_t i = 0; i < 20; i++)
        coir_go(scope, use_generator, (void *)i);
    CHECK_EQ(coir_scope_wait(scope), 0);
}

/* ---- fairness ---- */

static int spin_on_yield(void *arg)
{
    int *count = arg;
    while (coir_task_interrupted() == 0)
        if (coir_yield() == 0)
            ++*count;
    return 0;
}

TEST_REAL(the_driver_is_polled_though_the_run_queue_never_empties)
{
    int counts[2] = {0, 0};
    COIR_SCOPE(scope);
    coir_go(scope, spin_on_yield, &counts[0]);
    coir_go(scope, spin_on_yield, &counts[1]);
    do
        CHECK_EQ(coir_sleep_for(5 * COIR_MS), 0); /* the timer fires between their yields */
    while (counts[0] == 0 || counts[1] == 0);
    coir_scope_cancel(scope);
}

static int read_for_ever(void *arg)
{
    char byte;
    coir_stream *stream = arg;
    while (coir_read(stream, &byte, 1) == 1) /* always ready: never parks by itself */
        continue;
    return 0;
}

TEST_REAL(a_fiber_that_is_always_ready_yields_after_its_budget)
{
    coir_stream *a, *b;
    char data[1000] = "";
    int flag = 0;
    CHECK_EQ(coir_duplex(1000, &a, &b), 0);
    CHECK_EQ(coir_try_write(a, data, sizeof data), 1000);
    COIR_SCOPE(scope);
    coir_go(scope, read_for_ever, b);
    coir_yield();
    flag = (int)coir_try_write(a, data, sizeof data);
    CHECK(flag > 0 && flag < 1000); /* it was stopped in the middle */
    coir_close(a);
    coir_scope_wait(scope);
    coir_close(b);
}

static int set_flag(void *arg)
{
    *(bool *)arg = true;
    return 0;
}

TEST_REAL(a_fiber_that_awaits_what_is_complete_yields_after_its_budget)
{
    coir_event event = COIR_EVENT_INIT;
    coir_event_set(&event);
    bool flag = false;
    COIR_SCOPE(scope);
    coir_go(scope, set_flag, &flag);
    int rounds = 0;
    while (!flag && rounds < 10000) {
        coir_wait_op wait;
        coir_branch branch = COIR_BRANCH(coir_event_wait_op(&wait, &event));
        CHECK_EQ(coir_any(&branch, 1), 0);
        rounds++;
    }
    CHECK(rounds > 1 && rounds < 10000);
}

/* ---- stacks ---- */

static CI_NOINLINE int recurse(int depth)
{
    volatile char frame[1024];
    frame[0] = (char)depth;
    return depth ? recurse(depth - 1) + frame[0] : 0;
}

static int overflow(void *arg)
{
    coir_task_set_name("greedy");
    return recurse((int)(intptr_t)arg);
}

static int overflowing_generator(coir_generator *generator, uint64_t first, void *arg)
{
    (void)generator;
    (void)first;
    return overflow(arg);
}

static int overflow_in_generator(void *arg)
{
    coir_generator *generator;
    uint64_t value;
    coir_generator_new(overflowing_generator, arg, &generator);
    return coir_generator_next(generator, 0, &value);
}

/* A frame that is larger than the whole stack. */
static CI_NOINLINE int large_frame(void)
{
    char frame[200 * 1024];
    frame[0] = 1;
    /* all of it is used, for all the compiler knows */
    __asm__ volatile("" : : "r"(frame) : "memory");
    return frame[0];
}

static int call_large_frame(void *arg)
{
    (void)arg;
    coir_task_set_name("greedy");
    return large_frame();
}

#if defined(__x86_64__)
/* What a function of that size does which is compiled without probes: it steps over the guard, into
 * what somebody else protects. */
static int steps_over_the_guard(void *arg)
{
    (void)arg;
    coir_task_set_name("greedy");
    char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    __asm__ volatile("movq %%rsp, %%rbx\n\t"
                     "leaq 2048(%0), %%rsp\n\t"
                     "pushq $0\n\t"
                     "movq %%rbx, %%rsp"
                     :
                     : "r"(page)
                     : "rbx", "memory");
    return 0;
}
#endif

/* Runs `fn` in a child, which a signal ends: that signal, and the first bytes of what the child
 * said. */
static int end_of(coir_task_fn *fn, char *text, size_t size)
{
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        coir_main(fn, (void *)1000000);
        _exit(0);
    }
    close(ends[1]);
    size_t len = 0;
    for (ssize_t n; (n = read(ends[0], text + len, size - 1 - len)) > 0;)
        len += (size_t)n;
    text[len] = '\0';
    close(ends[0]);
    int status;
    waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status));
    return WTERMSIG(status);
}

static void expect_end(coir_task_fn *fn, int signal, const char *words)
{
    char text[1024];
    CHECK_EQ(end_of(fn, text, sizeof text), signal);
    CHECK(strstr(text, "stack overflow in task greedy on worker "));
    CHECK(strstr(text, words));
}

TEST(an_overflow_names_the_task_and_aborts)
{
    if (CI_ASAN || CI_TSAN)
        return; /* the sanitizers have reports of their own */
    expect_end(overflow, SIGABRT,
               "is in the guard of a stack of 65536 bytes (coir_config.stack_size sets them)\n");
    expect_end(overflow_in_generator, SIGABRT, "is in the guard");
    expect_end(call_large_frame, SIGABRT, "is in the guard");
}

#if defined(__x86_64__)
TEST(a_stack_pointer_outside_of_the_stack_names_the_task)
{
    if (CI_ASAN || CI_TSAN)
        return;
    expect_end(steps_over_the_guard, SIGSEGV, "lies outside of its stack of 65536 bytes");
}
#endif

/* ---- nested generators: which stacks are the task's ---- */

enum inner { YIELDED, FREED, RUNS };

static enum inner inner_is;
static coir_task_fn *then_do;

static int fault(void *arg)
{
    (void)arg;
    volatile int *volatile nowhere = NULL;
    *nowhere = 1;
    return 0;
}

static int yield_or_do(coir_generator *generator, uint64_t first, void *arg)
{
    (void)first;
    if (inner_is == RUNS)
        return then_do(arg);
    coir_generator_yield(generator, 1, NULL);
    return 0;
}

/* Resumes a generator of its own first. */
static int resume_then_do(coir_generator *generator, uint64_t first, void *arg)
{
    coir_generator *inner;
    uint64_t value;
    (void)generator;
    (void)first;
    CHECK_EQ(coir_generator_new(yield_or_do, arg, &inner), 0);
    CHECK_EQ(coir_generator_next(inner, 0, &value), 1);
    if (inner_is == FREED)
        coir_generator_free(inner);
    return then_do(arg);
}

static int nest(void *arg)
{
    coir_generator *outer;
    uint64_t value;
    coir_task_set_name("greedy");
    CHECK_EQ(coir_generator_new(resume_then_do, arg, &outer), 0);
    return coir_generator_next(outer, 0, &value);
}

TEST(in_nested_generators_only_an_overflow_is_reported_as_one)
{
    if (CI_ASAN || CI_TSAN)
        return;
    for (inner_is = YIELDED; inner_is <= RUNS; inner_is++) {
        char text[1024];
        then_do = fault;
        CHECK_EQ(end_of(nest, text, sizeof text), SIGSEGV);
        CHECK(!strstr(text, "overflow"));
        then_do = overflow;
        expect_end(nest, SIGABRT, "is in the guard");
    }
}

static int return_at_once(void *arg)
{
    (void)arg;
    return 0;
}

TEST(a_thread_keeps_its_signal_stack_and_its_handler)
{
    static char memory[64 * 1024];
    stack_t own = {.ss_sp = memory, .ss_size = sizeof memory}, after;
    struct sigaction before, handler;
    CHECK_EQ(sigaltstack(&own, NULL), 0);
    sigaction(SIGSEGV, NULL, &before);
    CHECK_EQ(coir_main(return_at_once, NULL), 0);
    CHECK_EQ(sigaltstack(NULL, &after), 0);
    CHECK(after.ss_sp == own.ss_sp && after.ss_size == own.ss_size);
    sigaction(SIGSEGV, NULL, &handler);
    CHECK(handler.sa_handler == before.sa_handler);
}

static int on_the_fiber = -1;

static void see_stack(int number)
{
    (void)number;
    const struct ci_worker *worker = ci_worker_current;
    char here = 0;
    on_the_fiber = ci_stack_holds(&worker->stacks, worker->fiber, &here);
}

static int raise_term(void *arg)
{
    raise(SIGTERM);
    return return_at_once(arg);
}

TEST(signal_handlers_do_not_run_on_the_stacks_of_fibers)
{
    signal(SIGTERM, see_stack);
    coir_main(raise_term, NULL);
    CHECK_EQ(on_the_fiber, 0);
}

static int use_half(void *arg)
{
    (void)arg;
    return recurse(30) == 465 ? 0 : -1;
}

TEST_REAL(stacks_are_reused)
{
    coir_counters counters = COIR_COUNTERS;
    for (int i = 0; i < 1000; i++) {
        COIR_SCOPE(scope);
        coir_go(scope, use_half, NULL);
        coir_go(scope, use_half, NULL);
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    coir_counters_get(coir_runtime_current(), &counters);
    CHECK(counters.stacks_live + counters.stacks_cached <= 3);
}

static int blocked_signal;

static void on_fault(int number)
{
    blocked_signal = number;
    _exit(7);
}

/* One thread drives several runtimes, which end in any order. */
TEST(runtimes_that_end_in_any_order_leave_the_threads_signal_stack)
{
    enum { RUNTIMES = 3, ORDERS = 6 };
    static const int orders[ORDERS][RUNTIMES] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                                 {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    static char memory[64 * 1024];
    stack_t own = {.ss_sp = memory, .ss_size = sizeof memory}, now;
    CHECK_EQ(sigaltstack(&own, NULL), 0);
    for (int order = 0; order < ORDERS; order++) {
        coir_config config = COIR_CONFIG;
        coir_runtime *runtimes[RUNTIMES];
        config.workers = 1;
        config.report_overflow = 1;
        unsetenv("COIR_WORKERS");
        unsetenv("COIR_DRIVER");
        for (int i = 0; i < RUNTIMES; i++) {
            CHECK_EQ(coir_runtime_new(&config, &runtimes[i]), 0);
            CHECK_EQ(coir_runtime_begin(runtimes[i], return_at_once, NULL), 0);
        }
        for (int i = 0; i < RUNTIMES; i++) {
            coir_runtime *runtime = runtimes[orders[order][i]];
            while (coir_runtime_step(runtime))
                continue;
            CHECK_EQ(coir_runtime_end(runtime), 0);
            coir_runtime_free(runtime);
            CHECK_EQ(sigaltstack(NULL, &now), 0);
            memset(now.ss_sp, 0, now.ss_size); /* AddressSanitizer sees whether it was freed */
            CHECK((now.ss_sp == own.ss_sp) == (i == RUNTIMES - 1));
        }
    }
}

/* A fault that is no overflow goes to the handler that was there before. */
TEST(other_faults_are_passed_on)
{
    if (CI_ASAN || CI_TSAN)
        return;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, on_fault);
        coir_main(fault, NULL);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

/* ---- fork ---- */

static int fork_in_fiber(void *arg)
{
    (void)arg;
    pid_t child = fork();
    if (child == 0) {
        int refused =
            coir_sleep_for(1) == -COIR_EFORKED && coir_go(NULL, fault, NULL) == -COIR_EFORKED;
        if (!refused)
            _exit(9);
        return 0; /* returning ends the child: the other fibers are its parent's */
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return 0;
}

static int count_ticks(void *arg)
{
    for (int i = 0; i < 5; i++) {
        coir_sleep_for(COIR_MS);
        ++*(int *)arg;
    }
    return 0;
}

TEST_REAL(a_fork_in_a_fiber_is_harmless)
{
    int ticks = 0;
    COIR_SCOPE(scope);
    coir_go(scope, count_ticks, &ticks);
    coir_go(scope, fork_in_fiber, NULL);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(ticks, 5);
}
