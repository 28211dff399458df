#include "harness.h"

#include "sys/misuse.h"
#include <coir.h>
#include <coir/sim.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faults.h"
#include "task/runtime.h"

static struct test *tests, **tests_tail = &tests;

void test_register(struct test *test)
{
    *tests_tail = test;
    tests_tail = &test->next;
}

void (*test_on_fail)(void);
void (*test_around)(void (*body)(void));

void test_fail(const char *file, int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "  %s:%d: ", file, line);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    if (test_on_fail)
        test_on_fail();
    fflush(NULL);
    _exit(1);
}

static int call_body(void *arg)
{
    void (*body)(void) = *(void (**)(void))arg;
    body();
    return 0;
}

struct sim_body {
    void (*body)(void);
};

static int one_host(coir_sim *sim, void *arg)
{
    return coir_sim_host_main(sim, "host", call_body, arg);
}

bool test_one_seed(uint64_t *ret_seed)
{
    const char *seed = getenv("SEED");
    if (seed)
        *ret_seed = strtoull(seed, NULL, 0);
    return seed != NULL;
}

static void print_line(const char *line, void *context)
{
    (void)context;
    puts(line);
}

coir_sim_options test_sim_options(uint64_t seed, unsigned workers)
{
    coir_sim_options options = COIR_SIM_OPTIONS;
    uint64_t asked;
    options.seed = seed;
    options.workers = workers;
    if (test_one_seed(&asked) && asked == seed)
        options.trace = print_line;
    return options;
}

void test_in_sim(void (*body)(void), unsigned workers, uint64_t seed)
{
    coir_sim_options options = test_sim_options(seed, workers);
    struct sim_body arg = {body};
    coir_sim_result result = COIR_SIM_RESULT;
    int rc = coir_sim_run(&options, one_host, &arg, &result);
    if (rc < 0)
        test_fail(__FILE__, __LINE__, "the simulation ended with: %s %s", coir_strerror(rc),
                  result.left);
}

static int open_faulty(void *arg, int worker, const coir_allocator *allocator,
                       struct ci_driver **ret_driver)
{
    struct ci_driver *real;
    const char *name = getenv("COIR_DRIVER");
    int rc = ci_driver_open(name ? name : "epoll", allocator, &real);
    if (rc == 0)
        *ret_driver =
            faults_around(real, (uint64_t)strtoull(arg, NULL, 0) + (uint64_t)(unsigned)worker);
    return rc;
}

/* FAULTS=N in the environment: drivers that are late, as the seed N says; around epoll, or what
 * COIR_DRIVER names. */
static int new_runtime(unsigned workers, coir_runtime **ret_runtime)
{
    coir_config config = COIR_CONFIG;
    config.workers = workers;
    unsetenv("COIR_WORKERS");
    char *faults = getenv("FAULTS");
    return faults ? ci_runtime_new_on(&config, NULL, open_faulty, faults, ret_runtime)
                  : coir_runtime_new(&config, ret_runtime);
}

void test_in_runtime(void (*body)(void), unsigned workers)
{
    coir_runtime *runtime;
    struct sim_body arg = {body};
    int rc = new_runtime(workers, &runtime);
    if (rc == 0) {
        rc = coir_runtime_run(runtime, call_body, &arg);
        coir_runtime_free(runtime);
    }
    if (rc < 0)
        test_fail(__FILE__, __LINE__, "the runtime ended with: %s", coir_strerror(rc));
}

int test_run(const coir_config *config, coir_task_fn *fn, void *arg)
{
    coir_runtime *runtime;
    CHECK_EQ(coir_runtime_new(config, &runtime), 0);
    int rc = coir_runtime_run(runtime, fn, arg);
    coir_runtime_free(runtime);
    return rc;
}

void test_own_loopback(char ret_text[16])
{
    unsigned pid = (unsigned)getpid();
#ifdef __linux__
    snprintf(ret_text, 16, "127.%u.%u.%u", 1 + pid / 62500 % 250, pid / 250 % 250, 1 + pid % 250);
#else
    (void)pid;
    snprintf(ret_text, 16, "127.0.0.1");
#endif
}

/* 0: passed. */
static int run_apart(const struct test *test)
{
    const char *limit = getenv("TEST_LIMIT_S");
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGPIPE, SIG_IGN);
        alarm(limit ? (unsigned)atoi(limit) : 120);
        if (test_around)
            test_around(test->run);
        else
            test->run();
        exit(0); /* leak checks run here */
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) < 0)
        return 1;
    if (WIFSIGNALED(status))
        fprintf(stderr, "  ended by signal %d%s\n", WTERMSIG(status),
                WTERMSIG(status) == SIGALRM ? " (took too long)" : "");
    return status != 0;
}

int main(int argc, char **argv)
{
    ci_misuse_aborts = false; /* tests ask for the errors */
    const char *suite = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
    int passed = 0, failed = 0;
    for (struct test *test = tests; test; test = test->next) {
        if (argc > 1 && strcmp(argv[1], test->name) != 0)
            continue;
        if (run_apart(test) == 0) {
            passed++;
            continue;
        }
        failed++;
        printf("FAILED %s %s    again: %s %s\n", suite, test->name, argv[0], test->name);
    }
    printf("%s: %d passed, %d failed\n", suite, passed, failed);
    return failed != 0;
}
