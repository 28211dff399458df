/* Whole programs, as coir_main runs them: with what the environment says, signals that stop them or
 * ask for a dump, a fault that is no stack overflow, and an end of each kind. Only over the
 * simulated kernel, on a thread of a host.
 *
 * What must hold:
 * 1. The exit status is 0 where the first task was successful, or cancelled as a signal asked for
 *    it; otherwise it is 1, and the last line on standard error says why.
 * 2. The environment chooses the workers; what it may not choose is refused, with a line that names
 *    the variable.
 * 3. Each line that the program logs is printed once, where COIR_LOG lets it, and no other is.
 * 4. Each SIGQUIT prints a dump, soon: whole, with the task that waits.
 * 5. A fault elsewhere than in the guard of a stack goes to the handler of the program, on a stack
 *    of its own; that handler and that stack are there again at the end.
 * 6. A program in which every task waits for ever ends with an error that says so. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim/chance.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { RUNS_MOST = 2, DUMPS_MOST = 3, LEVELS = 4, PAGE = 4096 };
static const coir_time patience = 10 * COIR_S;

/* How the first task ends. */
enum end { SUCCEEDS, FAILS, IS_CANCELLED, IS_STOPPED, WAITS_FOR_EVER, ENDS };

static struct {
    enum end end;
    const char *log, *workers, *driver; /* of the environment; NULL: not set */
    char printed[1 << 14];              /* standard error: what the C library has written */
    char dumped[1 << 16];               /* what was written to the number 2 */
    size_t dumped_len;
    int quits, dumps; /* asked for; seen to the end */
    bool faults, ran;
    char *page; /* that cannot be read at first */
    int faulted;
} w;

/* ---- standard error ---- */

/* A dump is written in pieces. */
static void hear_console(const void *bytes, size_t len)
{
    MUST(w.dumped_len + len < sizeof w.dumped);
    memcpy(w.dumped + w.dumped_len, bytes, len);
    w.dumped_len += len;
}

static void begin_printing(void)
{
    static char *buffer; /* for good */
    if (!buffer) {
        buffer = w.printed;
        MUST_BE(setvbuf(stderr, w.printed, _IOFBF, sizeof w.printed), 0);
    }
    __fpurge(stderr);
    memset(w.printed, 0, sizeof w.printed);
}

static int printed(const char *what)
{
    int count = 0;
    for (const char *at = w.printed; (at = strstr(at, what)); at++)
        count++;
    return count;
}

/* ---- the environment ---- */

static const char *const level_names[LEVELS] = {"error", "warning", "info", "debug"};

/* How many of the levels are printed. */
static int levels(void)
{
    for (int i = 0; w.log && i < LEVELS; i++)
        if (strcmp(w.log, level_names[i]) == 0)
            return i + 1;
    return !w.log || !*w.log ? COIR_LOG_INFO + 1 : strcmp(w.log, "none") == 0 ? 0 : LEVELS;
}

static void set(const char *name, const char *value)
{
    if (value)
        MUST_BE(setenv(name, value, 1), 0);
    else
        MUST_BE(unsetenv(name), 0);
}

static void set_all(void)
{
    static const char *const stack_uses[] = {NULL, "0", "1"};
    set("COIR_LOG", w.log);
    set("COIR_WORKERS", w.workers);
    set("COIR_DRIVER", w.driver);
    set("COIR_STACK_USE", stack_uses[below(3)]);
}

static void unset_all(void)
{
    w.log = w.workers = w.driver = NULL;
    set_all();
    set("COIR_STACK_USE", NULL);
}

/* NULL: it can be run. */
static const char *refused(void)
{
    if (w.workers && *w.workers && (atoi(w.workers) < 1 || atoi(w.workers) > 1024))
        return "COIR_WORKERS is \"";
    return w.driver && strcmp(w.driver, "steam") == 0 ? "steam" : NULL;
}

/* ---- faults ---- */

/* Not on a fiber's stack, which may be too small; on the C library's own, without coir. */
static void on_fault(int number, siginfo_t *info, void *context)
{
    stack_t stack;
    (void)context;
    MUST_BE(number, SIGSEGV);
    MUST(info->si_addr == w.page);
    MUST_BE(sigaltstack(NULL, &stack), 0);
    MUST(stack.ss_flags & SS_ONSTACK);
    w.faulted++;
    MUST_BE(mprotect(w.page, PAGE, PROT_READ), 0);
}

static void fault_once(void)
{
    int before = w.faulted;
    MUST_BE(mprotect(w.page, PAGE, PROT_NONE), 0);
    MUST_BE(*(volatile char *)w.page, 0);
    MUST_BE(w.faulted, before + 1); /* 5 */
}

static void run_with_handler(void (*run)(void))
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    struct sigaction before, now;
    stack_t stack_before, stack_now;
    w.page = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(w.page != MAP_FAILED);
    sigemptyset(&action.sa_mask);
    MUST_BE(sigaction(SIGSEGV, &action, &before), 0);
    MUST_BE(sigaltstack(NULL, &stack_before), 0);
    run();
    MUST_BE(sigaltstack(NULL, &stack_now), 0);
    MUST(stack_now.ss_sp == stack_before.ss_sp && stack_now.ss_flags == stack_before.ss_flags);
    MUST_BE(sigaction(SIGSEGV, &before, &now), 0);
    MUST(now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_fault); /* 5 */
    MUST_BE(munmap(w.page, PAGE), 0);
}

/* ---- the program ---- */

static coir_event never;

static coir_time moment(void)
{
    return (coir_time)below((uint64_t)(20 * COIR_MS) >> below(8));
}

static void log_at_each_level(void)
{
    for (int level = 0; level < LEVELS; level++)
        coir_log((enum coir_log_level)level, "a line of level %d", level);
}

static bool is_dumped(void)
{
    return w.dumped_len > 0 && w.dumped[w.dumped_len - 1] == '\n' &&
           strstr(w.dumped, "who waits 0x");
}

/* 4 */
static void ask_for_dump(void)
{
    memset(w.dumped, 0, w.dumped_len);
    w.dumped_len = 0;
    MUST_BE(raise(SIGQUIT), 0);
    for (coir_time end = coir_in(patience); !is_dumped();) {
        MUST(coir_now() < end);
        MUST_BE(coir_sleep_for(COIR_MS), 0);
    }
    MUST(strncmp(w.dumped, "coir ", 5) == 0 && strstr(w.dumped, ", process 1001: "));
    MUST(!strstr(w.dumped + 1, "\ncoir ")); /* one */
}

static int wait_until_cancelled(void *arg)
{
    (void)arg;
    MUST_BE(coir_task_set_name("who waits"), 0);
    return coir_event_wait(&never);
}

static int be_quick(void *arg)
{
    (void)arg;
    for (uint64_t steps = below(8); steps; steps--)
        MUST_BE(coir_sleep_for(moment()), 0);
    if (w.faults && below(2))
        fault_once();
    return 0;
}

static void work(void)
{
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = "who waits";
    COIR_SERVING_SCOPE(scope);
    MUST_BE(coir_go_with(scope, &options, wait_until_cancelled, NULL), 0);
    {
        COIR_SCOPE(others);
        for (uint64_t count = below(4); count; count--)
            MUST_BE(coir_go_anywhere(others, be_quick, NULL), 0);
        MUST_BE(coir_scope_wait(others), 0);
    }
    for (uint64_t count = below(DUMPS_MOST); count; count--)
        ask_for_dump();
    coir_scope_cancel(scope);
    MUST_BE(coir_scope_wait(scope), 0);
}

/* The worker that takes the other task is one of those that sleep. */
static int wait_for_ever(void)
{
    MUST_BE(coir_sleep_for(moment()), 0);
    COIR_SCOPE(scope);
    if (below(2))
        MUST_BE(coir_go_anywhere(scope, wait_until_cancelled, NULL), 0);
    int rc = wait_until_cancelled(NULL);
    MUST_BE(coir_scope_wait(scope), -ECANCELED);
    return rc;
}

static int first_task(void *arg)
{
    MUST(arg == &w);
    w.ran = true;
    if (w.workers && *w.workers)
        MUST_BE(coir_worker_count(coir_runtime_current()), atoi(w.workers)); /* 2 */
    log_at_each_level();
    if (w.faults)
        fault_once();
    work();
    switch (w.end) {
    case FAILS: return -EPIPE;
    case IS_CANCELLED: return -ECANCELED;
    case IS_STOPPED:
        MUST_BE(raise(below(2) ? SIGTERM : SIGINT), 0);
        return wait_until_cancelled(NULL);
    case WAITS_FOR_EVER: return wait_for_ever();
    default: return (int)below(2);
    }
}

/* 3: each of those that may be printed, once. */
static void check_lines(void)
{
    for (int level = 0; level < LEVELS; level++) {
        char line[60];
        snprintf(line, sizeof line, "coir: %s: a line of level %d\n", level_names[level], level);
        MUST_BE(printed(line), w.ran && level < levels());
    }
    MUST_BE(printed("COIR_LOG is \"loud\""), w.log && strcmp(w.log, "loud") == 0);
}

static void check_status(int status)
{
    static const char ended[] = "coir: error: the program ended with an error of its first task: ";
    static const int errors[ENDS] = {
        [FAILS] = -EPIPE, [IS_CANCELLED] = -ECANCELED, [WAITS_FOR_EVER] = -EDEADLK};
    int error = refused() ? 0 : errors[w.end];
    MUST_BE(status, refused() || error); /* 1 */
    MUST_BE(w.ran, !refused());
    MUST_BE(printed("coir: error: the runtime cannot be made: "), refused() != NULL);
    MUST_BE(printed(ended), error != 0);
    if (error)
        MUST_BE(printed(coir_strerror(error)), 1);
    if (refused() && levels() > 0)
        MUST(printed(refused()) > 0); /* 2 */
}

static void run_once(void)
{
    w.ran = false;
    set_all();
    begin_printing();
    int status = coir_main(first_task, &w);
    check_lines();
    check_status(status);
    __fpurge(stderr);
    unset_all();
}

static void draw(void)
{
    static const char *const logs[] = {NULL,   "",      "none", "error", "warning",
                                       "info", "debug", "loud", "none",  "none"};
    static const char *const workers[] = {NULL, "", "1", "2", "3", "0", "x", "1025"};
    static const char *const drivers[] = {NULL, "", "epoll", "poll", "kqueue", "io_uring", "steam"};
    w.log = logs[below(10)];
    w.workers = workers[below(below(2) ? 5 : 8)];
    w.driver = drivers[below(below(2) ? 6 : 7)];
    w.end = (enum end)below(ENDS);
    w.faults = below(2);
}

static int run_programs(void *arg)
{
    (void)arg;
    for (uint64_t runs = 1 + below(RUNS_MOST); runs; runs--) {
        draw();
        if (w.faults)
            run_with_handler(run_once);
        else
            run_once();
    }
    return 0;
}

static int play(void *arg)
{
    return coir_offload(run_programs, arg);
}

int scenario(coir_sim *sim)
{
    static const coir_event unset = COIR_EVENT_INIT;
    if (!posix_has_kernel())
        return -ENOTSUP;
    memset(&w, 0, sizeof w);
    never = unset;
    posix_console(hear_console);
    return coir_sim_host_main(sim, "host", play, NULL);
}
