/* Runs each case inside a process of the simulated kernel, on a quiet machine, from a few seeds.
 * SEED=N in the environment is that one alone, with its trace. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "sim/kernel.h"
#include "sim/kernel/kernel.h"
#include "task/current.h"
#include "task/local.h"
#include "task/runtime.h"

enum { SEEDS = 3 };

static uint64_t seed_now;

static void say_seed(void)
{
    fprintf(stderr, "  over the simulated kernel: SEED=%llu\n", (unsigned long long)seed_now);
}

static void *call_body(void *arg)
{
    (*(void (**)(void))arg)();
    return NULL;
}

static void print_line(const char *line, void *arg)
{
    (void)arg;
    puts(line);
}

static void run_from(uint64_t seed, void (*body)(void))
{
    struct ci_world world;
    void **locals[] = {(void **)&ci_worker_current, (void **)&ci_carried_locals};
    uint64_t asked;
    seed_now = seed;
    test_on_fail = say_seed;
    ci_world_init(&world, seed);
    if (test_one_seed(&asked))
        world.trace = print_line;
    ci_sim_kernel->open(&world, 3600 * COIR_S, locals, ci_countof(locals));
    ci_kcalm();
    struct ci_kprocess *process =
        ci_sim_kernel->start(ci_world_add_node(&world, "here"), call_body, &body);
    int rc = ci_sim_kernel->run();
    if (rc < 0) {
        world.trace = print_line;
        ci_sim_kernel->dump();
        test_fail(__FILE__, __LINE__, "nothing ever happens again: %s", coir_strerror(rc));
    }
    ci_sim_kernel->audit(process);
    if (world.left[0] && !strstr(world.left, "file fd=")) /* tmpfile() has no close */
        test_fail(__FILE__, __LINE__, "left open: %s", world.left);
    ci_sim_kernel->close();
    ci_world_done(&world);
}

/* Each in a (real) process of its own, as every case is: tests keep things in static variables. */
static void run_from_seeds(void (*body)(void))
{
    uint64_t seed;
    if (test_one_seed(&seed)) {
        run_from(seed, body);
        return;
    }
    for (seed = 1; seed <= SEEDS; seed++) {
        int status = 0;
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            run_from(seed, body);
            exit(0);
        }
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        if (status != 0)
            test_fail(__FILE__, __LINE__, "SEED=%llu ended with status %x",
                      (unsigned long long)seed, (unsigned)status);
    }
}

__attribute__((constructor)) static void run_cases_here(void)
{
    test_around = run_from_seeds;
}
