/* Tests: each case runs in a process of its own, under a time limit; a failed check ends it. A
 * failure prints the command that repeats it.
 *
 *   TEST(name) { ... }       in plain code
 *   TEST_SIM(name) { ... }   in the main fiber of a host of the simulated world, until that returns
 *   TEST_REAL(name) { ... }  in the main fiber of a runtime of one worker on the real driver
 */
#ifndef TEST_HARNESS_H
#define TEST_HARNESS_H

#include <coir/sim.h>
#include <stdbool.h>
#include <stdint.h>

struct test {
    const char *name;
    void (*run)(void);
    struct test *next;
};

void test_register(struct test *test);

/* Run `body` as the first task of a simulated host, or of a real runtime with `workers` workers;
 * the test fails unless the run ends well. */
void test_in_sim(void (*body)(void), unsigned workers, uint64_t seed);
/* FAULTS=N in the environment: on drivers that are late (faults.h) */
void test_in_runtime(void (*body)(void), unsigned workers);

/* Makes a runtime, runs `fn(arg)` on it as the first task, and frees it: returns what that did. */
int test_run(const coir_config *config, coir_task_fn *fn, void *arg);

/* An address of the loopback that is this process's, "127.1.2.3": for datagram sockets that are to
 * share a port. Linux may give one that asks for any port, and may share it, the port of another
 * process's at the same address. Elsewhere there is one address for all. */
void test_own_loopback(char ret_text[16]);

/* SEED=N in the environment asks for one seed alone, with its trace: true, and *ret_seed is it. */
bool test_one_seed(uint64_t *ret_seed);

/* Options for a run of this seed: prints the trace when it was asked for alone. */
coir_sim_options test_sim_options(uint64_t seed, unsigned workers);

/* Options that say on what, in one expression. */
#define TCP_ON(its_listener) \
    (&(coir_serve_tcp_options){.size = sizeof(coir_serve_tcp_options), .listener = (its_listener)})
#define HTTP_ON(its_listener)                                            \
    (&(coir_serve_http_options){.size = sizeof(coir_serve_http_options), \
                                .listener = (its_listener)})
#define POLLER_ON(its_driver) \
    (&(coir_poller_options){.size = sizeof(coir_poller_options), .driver = (its_driver)})

/* What runs a case; NULL: it is called. */
extern void (*test_around)(void (*body)(void));

/* Called before a failed check ends the test. */
extern void (*test_on_fail)(void);

void test_fail(const char *file, int line, const char *format, ...)
    __attribute__((noreturn, format(printf, 3, 4)));

#define CHECK(cond)                                     \
    do {                                                \
        if (!(cond))                                    \
            test_fail(__FILE__, __LINE__, "%s", #cond); \
    } while (0)

#define CHECK_EQ(got, want)                                                           \
    do {                                                                              \
        long long got_ = (long long)(got), want_ = (long long)(want);                 \
        if (got_ != want_)                                                            \
            test_fail(__FILE__, __LINE__, "%s is %lld, not %lld", #got, got_, want_); \
    } while (0)

#define TEST(name)                                                 \
    static void name(void);                                        \
    __attribute__((constructor)) static void register_##name(void) \
    {                                                              \
        static struct test test = {#name, name, 0};                \
        test_register(&test);                                      \
    }                                                              \
    static void name(void)

#define TEST_IN_(name, how)        \
    static void name##_body(void); \
    TEST(name)                     \
    {                              \
        how;                       \
    }                              \
    static void name##_body(void)

#define TEST_SIM(name) TEST_IN_(name, test_in_sim(name##_body, 1, 1))
#define TEST_REAL(name) TEST_IN_(name, test_in_runtime(name##_body, 1))

#endif
