/* The report of overflowed stacks. */
#include <coir.h>
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
#include "task/current.h"
#include "task/runtime.h"

static CI_NOINLINE int recurse(int depth)
{
    volatile char frame[1024];
    frame[0] = (char)depth;
    return depth ? recurse(depth - 1) + frame[0] : 0;
}

static int overflow(void *arg)
{
    coir_task_set_name("gree\ndy");
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
    coir_task_set_name("gree\ndy");
    return large_frame();
}

#if defined(__x86_64__)
/* What a function of that size does which is compiled without probes: it steps over the guard, into
 * what another runtime or library protects. */
static int steps_over_the_guard(void *arg)
{
    (void)arg;
    coir_task_set_name("gree\ndy");
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
    CHECK(strstr(text, "stack overflow in task gree?dy on worker "));
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
    coir_task_set_name("gree\ndy");
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
