/* The simulated world: the same program, unchanged, on a network and a clock that come from a
 * seed. No system call is made, no time passes but by itself, and a run with the same seed does
 * the same again.
 *
 *   static int scenario(coir_sim *sim, void *arg)
 *   {
 *       coir_host *server = coir_sim_host(sim, "server", start, NULL);
 *       coir_sim_link(sim, server, NULL, (coir_link){.latency = 2 * COIR_MS, .loss = 0.05});
 *       return coir_sim_host_main(sim, "client", talk_to_it, NULL);
 *   }
 *
 * Each host is a runtime with a name that the others can connect to ("server:7777"; coir_sim_name
 * gives it others). A loopback address reaches its own host first, then, on the driver "sim" alone,
 * any host of the world, so that programs written for loopback run unchanged. */
#ifndef COIR_SIM_H
#define COIR_SIM_H

#include <coir/runtime.h>
#include <coir/sim_faults.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A simulated world, which coir_sim_run gives to its scenario. */
typedef struct coir_sim coir_sim;

/* A host of a simulated world, with a runtime, an address and a disk of its own. */
typedef struct coir_host coir_host;

/* A scenario: it makes hosts and links, and returns 0 or the negative error that the run fails
 * with. */
typedef int coir_scenario_fn(coir_sim *sim, void *arg);

/* Options of a simulated run. */
typedef struct coir_sim_options {
    size_t size;    /* sizeof(coir_sim_options), set by COIR_SIM_OPTIONS */
    uint64_t seed;  /* [0] */
    size_t workers; /* [1] workers of each host; at most 256 */
    /* [1 hour; COIR_NEVER: none] virtual time at which to give up */
    coir_time time_max;
    void (*trace)(const char *line, void *arg); /* [none] called with each line of the trace */
    void *trace_arg;

    /* [all that the seed draws] the faults that happen, by number in ascending order: of the
     * occasions for a fault, those. */
    const uint32_t *faults;
    size_t fault_count; /* [0] of faults[] */
    bool choose_faults; /* [false] faults[] counts, also when it is empty */
    const char *driver; /* ["sim"] what the programs of hosts run on: see coir_sim_run */
} coir_sim_options;

#define COIR_SIM_OPTIONS                                        \
    {                                                           \
        sizeof(coir_sim_options), 0, 0, 0, 0, 0, 0, 0, false, 0 \
    }

/* The outcome of a run by coir_sim_run. */
typedef struct coir_sim_result {
    size_t size;         /* sizeof(coir_sim_result), set by COIR_SIM_RESULT: so much is filled in */
    uint64_t trace_hash; /* equal for equal runs */
    uint64_t steps;      /* turns of workers */
    coir_time time;      /* virtual time at the end */
    /* how many faults happened, of which the first are in faults[] */
    size_t fault_count;
    uint32_t faults[COIR_SIM_FAULTS_KEPT]; /* their numbers */
    char left[COIR_SIM_LEFT_MAX]; /* what was left open at the end, host by host, as far as there is
                                     room; else "" */
} coir_sim_result;

#define COIR_SIM_RESULT                              \
    {                                                \
        sizeof(coir_sim_result), 0, 0, 0, 0, {0}, "" \
    }

/* Runs a scenario in a simulated world to its end. The hosts that are still up are stopped then. A
 * host that did not crash must have closed its sockets and files and stopped its timers by then,
 * and have no stack, stream, waker or memory of its runtime left. `ret_result` may be NULL. On the
 * driver "sim" the world steps the workers and completes their operations itself. On "epoll",
 * "poll", "kqueue" or "io_uring" each host has a runtime on that driver, over a simulated kernel in
 * which its workers are threads that sleep and are chosen by the seed; for that the program is
 * linked with the library coir_simulated.
 * Suspends: no (it blocks).  Threads: a plain one.
 * Errors: what the scenario returned; -COIR_ELEFT a host left something open; -EINVAL bad options;
 * -COIR_EUNSIZED; -COIR_ENEWER; -ENOTSUP the library is not coir_simulated; -EBUSY another run over
 * the simulated kernel has not ended; -EDEADLK, -ETIME a host did not end when it was stopped;
 * -ENOMEM. */
COIR_API int coir_sim_run(const coir_sim_options *options, coir_scenario_fn *scenario, void *arg,
                          coir_sim_result *ret_result);

/* Starts a host whose first task is `fn(arg)`. It runs while coir_sim_host_main does. `name` has 1
 * to 63 bytes. If a host of that name is down or has crashed, the new one has its address and its
 * disk; of several, those of the one that was started first. Links and faults that were set for
 * that host alone do not hold for the new one. A scenario does this, or a task of one of its hosts.
 * Returns NULL when there is no memory, or an argument is missing or too long.
 * Suspends: no.  Threads: the simulation's.  Owns: the host is the simulation's. */
COIR_API coir_host *coir_sim_host(coir_sim *sim, const char *name, coir_task_fn *fn, void *arg);

/* Starts a host, runs the world until it has no task left, and returns its result.
 * Suspends: no (it blocks).  Threads: the scenario's, in none of its hosts' tasks.
 * Errors: -EDEADLK nothing can ever happen again; -ETIME time_max has passed; -EINVAL no function,
 * or a name that coir_sim_host refuses; -EBUSY a task of a host called it; -ENOMEM. */
COIR_API int coir_sim_host_main(coir_sim *sim, const char *name, coir_task_fn *fn, void *arg);

/* Configures the runtimes of hosts that are started from now on, as coir_runtime_new would. Sizes
 * as small as they go make rare things common. Workers, driver, resolver and allocator are the
 * simulation's, whatever the environment says. A scenario does this, or a task of one of its hosts.
 * Suspends: no.  Threads: the simulation's.
 * Errors: -EINVAL what coir_runtime_new refuses; -COIR_EUNSIZED; -COIR_ENEWER. */
COIR_API int coir_sim_configure(coir_sim *sim, const coir_config *config);

/* Sets the link between two hosts from now on: its delays and losses. NULL stands for every host.
 * The last link that was set counts. A scenario does this, or a task of one of its hosts.
 * Suspends: no.  Threads: the simulation's.  Owns: *link is copied. */
COIR_API void coir_sim_set_link(coir_sim *sim, const coir_host *a, const coir_host *b,
                                const coir_link *link);

/* Sets the link between two hosts, given by value. As coir_sim_set_link. */
static inline void coir_sim_link(coir_sim *sim, const coir_host *a, const coir_host *b,
                                 coir_link link)
{
    link.size = sizeof link;
    coir_sim_set_link(sim, a, b, &link);
}

/* Sets what else goes wrong on a host from now on; NULL: on every host.
 * Suspends: no.  Threads: the simulation's.  Owns: *faults is copied. */
COIR_API void coir_sim_set_faults(coir_sim *sim, const coir_host *host, const coir_faults *faults);

/* Sets the faults of a host, given by value. As coir_sim_set_faults. */
static inline void coir_sim_faults(coir_sim *sim, const coir_host *host, coir_faults faults)
{
    faults.size = sizeof faults;
    coir_sim_set_faults(sim, host, &faults);
}

/* Sets what the name servers of the world say about a name from now on.
 * Suspends: no.  Threads: the simulation's.
 * Errors: -EINVAL an argument is missing; -ENOMEM. */
COIR_API int coir_sim_set_name(coir_sim *sim, const char *name, const coir_name_answer *answer);

/* Sets what is said about a name, given by value. As coir_sim_set_name. */
static inline int coir_sim_name(coir_sim *sim, const char *name, coir_name_answer answer)
{
    answer.size = sizeof answer;
    return coir_sim_set_name(sim, name, &answer);
}

/* Makes a host lose its power. Nothing that it does has an effect outside of it from now on, its
 * peers are not told, and each sector of a file that was written since its last sync may be old or
 * new. Its tasks are cancelled. A host that is started later under the same name has its address
 * and its disk, and answers what arrives on the old connections by a reset.
 * Suspends: no.  Threads: the simulation's. */
COIR_API void coir_sim_crash(coir_sim *sim, coir_host *host);

/* Asks a host's run to end: it calls coir_runtime_stop inside of the host. Do not use objects of
 * another host than the caller's directly: their descriptors have a meaning on that host only.
 * Suspends: no.  Threads: the simulation's. */
COIR_API void coir_sim_stop(coir_sim *sim, coir_host *host);

/* Whether a host's run has ended: no task of it is left.
 * Suspends: no.  Threads: the simulation's. */
COIR_API bool coir_host_is_down(const coir_host *host);

/* A number from the seed, for scenarios.
 * Suspends: no.  Threads: the simulation's. */
COIR_API uint64_t coir_sim_random(coir_sim *sim);

/* Runs a scenario with many seeds, as the main function of a test program. It runs them in several
 * processes, says which seeds failed (the scenario returned an error, the process died or ended, or
 * the run took two minutes of real time), drops the faults that a failure does not need (unless it
 * is one of time), and prints the command that shows it again. Options:
 *
 *   --seeds FROM-TO              [1-1000]
 *   --jobs N                     [one per CPU] processes
 *   --workers N                  [1] of each host
 *   --driver NAME                [sim]
 *   --keep-going                 past the first failure
 *   --seed N [--faults 3,7,...]  that one alone, with its trace
 *   --after 5,6,...              with --seed: after these, in the same process
 *
 * One seed in a hundred is run twice, and once more in a new process. It fails when the runs
 * differ.
 * Returns an exit status: 0 when no seed failed; 77 when the scenario cannot run on that driver (it
 * returns -ENOTSUP, and no seed passes).
 * Suspends: no (it blocks).  Threads: main, alone: it forks.
 * Errors: none: the status says it. */
COIR_API int coir_sim_main(int argc, char **argv, coir_scenario_fn *scenario, void *arg);

#ifdef __cplusplus
}
#endif

#endif
