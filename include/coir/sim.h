/* The simulated world: the same program, unchanged, on a network and a clock that come from a seed. No system call is made, no time
 * passes but by itself, and a run with the same seed does the same again.
 *
 *   static int scenario(coir_sim *sim, void *arg)
 *   {
 *       coir_host *server = coir_sim_host(sim, "server", start, NULL);
 *       coir_sim_link(sim, server, NULL, (coir_link){.latency = 2 * COIR_MS, .loss = 0.05});
 *       return coir_sim_host_main(sim, "client", talk_to_it, NULL);
 *   }
 *
 * Each host is a runtime with a name that the others can connect to ("server:7777"). A loopback address reaches its own host first, then
 * any host of the world, so that programs written for loopback run unchanged. */
#ifndef COIR_SIM_H
#define COIR_SIM_H

#include <coir/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct coir_sim coir_sim;
typedef struct coir_host coir_host;
typedef int coir_scenario_fn(coir_sim *sim, void *arg);

/* What a connection between two hosts suffers. All zero: a perfect network. */
typedef struct coir_link {
    coir_time latency; /* one way */
    coir_time jitter;  /* added to it: anything from 0 to this */
    double loss;       /* probability that a segment comes 200 ms late, as after a retransmission */
    double reset;      /* probability, for each segment sent, that the connection is reset */
    double short_io;   /* probability that a read or a write moves less than it could */
} coir_link;

typedef struct coir_sim_options {
    size_t size; /* sizeof(coir_sim_options), set by COIR_SIM_OPTIONS */
    uint64_t seed;
    unsigned workers;                               /* [1] workers of each host */
    coir_time time_max;                             /* [1 hour of virtual time] when to give up */
    void (*trace)(void *context, const char *line); /* [none] what happens, a line each */
    void *trace_context;
} coir_sim_options;

#define COIR_SIM_OPTIONS                        \
    {                                           \
        sizeof(coir_sim_options), 1, 0, 0, 0, 0 \
    }

typedef struct coir_sim_result {
    uint64_t trace_hash; /* equal for equal runs */
    uint64_t steps;
    coir_time time; /* virtual time at the end */
} coir_sim_result;

/* Runs a scenario to its end; the hosts that are still up are stopped then. `ret_result` may be NULL.
 * Suspends: no (it blocks).  Threads: a plain one.
 * Errors: what the scenario returned; -ENOMEM. */
COIR_API int coir_sim_run(const coir_sim_options *options, coir_scenario_fn *scenario, void *arg, coir_sim_result *ret_result);

/* Starts a host whose first task is `fn(arg)`. It runs while coir_sim_host_main does. NULL when memory is out.
 * Suspends: no.  Threads: the scenario's.  Owns: it is the simulation's. */
COIR_API coir_host *coir_sim_host(coir_sim *sim, const char *name, coir_task_fn *fn, void *arg);

/* Starts a host and runs the world until it has no task left; its result.
 * Suspends: no (it blocks).  Threads: the scenario's.
 * Errors: -EDEADLK nothing can ever happen again; -ETIME time_max has passed; -ENOMEM. */
COIR_API int coir_sim_host_main(coir_sim *sim, const char *name, coir_task_fn *fn, void *arg);

/* Sets what connections between `a` and `b` suffer from now on; NULL stands for every host.
 * Suspends: no.  Threads: the scenario's. */
COIR_API void coir_sim_link(coir_sim *sim, const coir_host *a, const coir_host *b, coir_link link);

/* A number from the seed, for scenarios.
 * Suspends: no.  Threads: the scenario's. */
COIR_API uint64_t coir_sim_random(coir_sim *sim);

#ifdef __cplusplus
}
#endif

#endif
