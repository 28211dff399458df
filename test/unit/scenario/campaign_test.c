/* Campaigns: seeds that are run twice, and in a new process; how hosts are configured. */
#include <coir.h>
#include <coir/sim.h>
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"
#include "sys/mapping_keep.h"

/* What no seed decides: it survives from one run to the next. */
static int runs;

static int yield_some(void *arg)
{
    int count = *(int *)arg;
    for (int i = 0; i < count; i++)
        coir_sleep_for(COIR_MS);
    return 0;
}

static int remember(coir_sim *sim, void *arg)
{
    int same = 3;
    runs++;
    return coir_sim_host_main(sim, "host", yield_some, arg ? &runs : &same);
}

static int campaign(char *seeds, void *arg)
{
    char *arguments[] = {"program", "--seeds", seeds, "--jobs", "1", NULL};
    return coir_sim_main(5, arguments, remember, arg);
}

/* ---- a system that makes no more processes ---- */

static bool counts_forks;
static int forks_left;

/* In place of the C library's. */
pid_t fork(void)
{
    pid_t (*real)(void) = (pid_t(*)(void))dlsym(RTLD_NEXT, "fork");
    if (counts_forks && forks_left-- <= 0) {
        errno = EAGAIN;
        return -1;
    }
    return real();
}

/* Seeds 101 to 200 are a second process's, and a third one runs seed 200 again. */
TEST(a_campaign_that_lacks_a_process_fails)
{
    counts_forks = true;
    for (int forks = 0; forks <= 3; forks++) {
        forks_left = forks;
        CHECK_EQ(campaign("1-200", NULL), forks < 3);
    }
    counts_forks = false;
}

/* ---- what no seed decides ---- */

TEST(mappings_are_kept_for_no_longer_than_a_replay)
{
    char *arguments[] = {"test", "--seed", "1", NULL};
    CHECK_EQ(coir_sim_main(3, arguments, remember, NULL), 0);
    CHECK(!ci_mapping_is_kept());
}

TEST(a_second_run_that_differs_fails_its_seed)
{
    CHECK_EQ(campaign("1-99", &runs), 0); /* not looked at */
    CHECK_EQ(campaign("100-100", &runs), 1);
    CHECK_EQ(campaign("100-100", NULL), 0);
}

/* What a process keeps from its first run on. */
static int keep(coir_sim *sim, void *arg)
{
    static bool kept;
    int count = kept ? 3 : 2;
    kept = arg != NULL;
    return coir_sim_host_main(sim, "host", yield_some, &count);
}

static int campaign_of_one_that_keeps(char *seeds, void *arg)
{
    char *arguments[] = {"program", "--seeds", seeds, "--jobs", "1", NULL};
    return coir_sim_main(5, arguments, keep, arg);
}

TEST(a_seed_that_differs_in_a_new_process_fails)
{
    CHECK_EQ(campaign_of_one_that_keeps("90-99", &runs), 0); /* not looked at */
    CHECK_EQ(campaign_of_one_that_keeps("90-110", &runs), 1);
    CHECK_EQ(campaign_of_one_that_keeps("90-310", NULL), 0);
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int be_refused(coir_sim *sim, void *arg)
{
    (void)sim, (void)arg;
    return -ENOTSUP;
}

TEST(a_driver_that_a_scenario_cannot_run_on_is_not_a_failure)
{
    char *all[] = {"program", "--seeds", "1-50", "--jobs", "3", "--keep-going", NULL};
    char *one[] = {"program", "--seed", "1", NULL};
    CHECK_EQ(coir_sim_main(6, all, be_refused, NULL), 77);
    CHECK_EQ(coir_sim_main(3, one, be_refused, NULL), 77);
}

/* What one seed is refused, after others have passed, is its failure. */
static int be_refused_late(coir_sim *sim, void *arg)
{
    (void)arg;
    return ++runs < 10 ? coir_sim_host_main(sim, "host", nothing, NULL) : -ENOTSUP;
}

TEST(a_seed_that_finds_nothing_supported_after_others_fails)
{
    char *arguments[] = {"program", "--seeds", "1-50", "--jobs", "1", NULL};
    CHECK_EQ(coir_sim_main(5, arguments, be_refused_late, NULL), 1);
}

/* ---- what a failure needs ---- */

static uint64_t seed_three_draws, seed_five_draws;

static int draw(coir_sim *sim, void *arg)
{
    *(uint64_t *)arg = coir_sim_random(sim);
    return 0;
}

static uint64_t drawn_by(uint64_t seed)
{
    uint64_t number;
    coir_sim_options options = test_sim_options(seed, 1);
    CHECK_EQ(coir_sim_run(&options, draw, &number, NULL), 0);
    return number;
}

/* Fails in each process after seed 3. */
static int fail_later(coir_sim *sim, void *arg)
{
    static bool third;
    (void)arg;
    uint64_t number = coir_sim_random(sim);
    third |= number == seed_three_draws;
    return third && number == seed_five_draws ? -EIO
                                              : coir_sim_host_main(sim, "host", nothing, NULL);
}

TEST(the_command_that_repeats_a_failure_has_the_seeds_that_it_needs)
{
    char *arguments[] = {"program", "--seeds", "1-5", "--jobs", "1", NULL}, out[1000] = "";
    int fds[2], kept = dup(1);
    seed_three_draws = drawn_by(3);
    seed_five_draws = drawn_by(5);
    CHECK_EQ(pipe(fds), 0);
    fflush(stdout);
    CHECK_EQ(dup2(fds[1], 1), 1);
    int rc = coir_sim_main(5, arguments, fail_later, NULL);
    fflush(stdout);
    CHECK_EQ(dup2(kept, 1), 1);
    close(kept);
    close(fds[1]);
    CHECK_EQ(rc, 1);
    CHECK(read(fds[0], out, sizeof out - 1) > 0);
    close(fds[0]);
    CHECK(strstr(out, "--seed 5 --after 3\n"));
}

/* ---- scenarios that end their process ---- */

static uint64_t *seeds_run; /* of seed 5; shared with the processes of the campaign */

static int end_process(coir_sim *sim, void *arg)
{
    int number = arg ? *(int *)arg : 0;
    if (coir_sim_random(sim) != seed_five_draws)
        return coir_sim_host_main(sim, "host", nothing, NULL);
    ++*seeds_run;
    coir_sim_faults(sim, NULL, (coir_faults){.late = 1});
    coir_sim_host_main(sim, "host", yield_some, (int[]){20});
    if (number == SIGALRM)
        raise(SIGALRM); /* as after two minutes */
    exit(number);
}

static int campaign_that_ends(int number)
{
    char *arguments[] = {"program", "--seeds", "1-20", "--jobs", "1", NULL};
    seed_five_draws = drawn_by(5);
    *seeds_run = 0;
    return coir_sim_main(5, arguments, end_process, &number);
}

TEST(a_process_that_a_scenario_ends_is_a_failure_whatever_its_status)
{
    void *memory =
        mmap(NULL, sizeof *seeds_run, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    seeds_run = memory;
    for (int number = 0; number <= 6; number++)
        CHECK_EQ(campaign_that_ends(number), 1);
    CHECK_EQ(campaign_that_ends(SIGALRM), 1);
    CHECK_EQ(*seeds_run, 1); /* a try without some of the faults might take as long again */
    munmap(memory, sizeof *seeds_run);
}

static int spawn_two(void *arg)
{
    (void)arg;
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, nothing, NULL), 0);
    CHECK_EQ(coir_go(scope, nothing, NULL), -EAGAIN);
    return coir_scope_wait(scope);
}

static int with_few_tasks(coir_sim *sim, void *arg)
{
    (void)arg;
    coir_config config = COIR_CONFIG;
    config.deadlock = 99;
    CHECK_EQ(coir_sim_configure(sim, &config), -EINVAL);
    config.deadlock = 0;
    config.resolver = "none such";
    CHECK_EQ(coir_sim_configure(sim, &config), -EINVAL);
    config.resolver = NULL;
    config.tasks_max = 2;
    CHECK_EQ(coir_sim_configure(sim, &config), 0);
    return coir_sim_host_main(sim, "host", spawn_two, NULL);
}

TEST(hosts_are_configured)
{
    coir_sim_options options = test_sim_options(1, 2);
    CHECK_EQ(coir_sim_run(&options, with_few_tasks, NULL, NULL), 0);
}

static int count_workers(void *arg)
{
    (void)arg;
    return (int)coir_worker_count(coir_runtime_current());
}

static int with_environment(coir_sim *sim, void *arg)
{
    (void)arg;
    coir_config config = COIR_CONFIG;
    config.environment = COIR_ENVIRONMENT_WORKERS | COIR_ENVIRONMENT_DRIVER;
    CHECK_EQ(coir_sim_configure(sim, &config), 0);
    return coir_sim_host_main(sim, "host", count_workers, NULL);
}

TEST(the_environment_does_not_choose_the_workers_of_hosts)
{
    coir_sim_options options = test_sim_options(1, 2);
    setenv("COIR_WORKERS", "3", 1);
    CHECK_EQ(coir_sim_run(&options, with_environment, NULL, NULL), 2);
    unsetenv("COIR_WORKERS");
}
