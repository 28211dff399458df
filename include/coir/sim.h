/* The simulated world: the same program, unchanged, on a network and a clock that come from a seed.
 * No system call is made, no time passes but by itself, and a run with the same seed does the same
 * again.
 *
 *   static int scenario(coir_sim *sim, void *arg)
 *   {
 *       coir_host *server = coir_sim_host(sim, "server", start, NULL);
 *       coir_sim_link(sim, server, NULL, (coir_link){.latency = 2 * COIR_MS, .loss = 0.05});
 *       return coir_sim_host_main(sim, "client", talk_to_it, NULL);
 *   }
 *
 * Each host is a runtime with a name that the others can connect to ("server:7777"; coir_sim_name
 * gives it others). A loopback address reaches its own host first, then any host of the world, so
 * that programs written for loopback run unchanged. */
#ifndef COIR_SIM_H
#define COIR_SIM_H

#include <coir/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct coir_sim coir_sim;
typedef struct coir_host coir_host;
typedef int coir_scenario_fn(coir_sim *sim, void *arg);

/* What goes from one host to another suffers. All zero: a perfect network. */
typedef struct coir_link {
    size_t size;        /* set by coir_sim_link */
    coir_time latency;  /* one way; COIR_NEVER: nothing arrives */
    coir_time jitter;   /* added to it: anything from 0 to this; datagrams overtake each other so */
    uint64_t bandwidth; /* [COIR_UNLIMITED] bytes a second, in each direction */
    /* probability that a datagram is lost, or a segment comes 200 ms late, as after a
     * retransmission */
    double loss;
    double duplicate; /* probability that a datagram comes twice */
    double reset;     /* probability, for each segment sent, that the connection is reset */
    double short_io;  /* probability that a read or a write moves less than it could */
    /* probability that a connection's first segment is dropped, as by a listener whose backlog is
     * full */
    double no_answer;
    /* nothing arrives: the streams' bytes wait for another link, and after some 40 s for an
     * -ETIMEDOUT */
    bool cut;
    bool one_way; /* this is from `a` to `b` alone */
} coir_link;

/* What else can go wrong on a host: probabilities, each for one call or one operation. */
typedef struct coir_faults {
    size_t size;          /* set by coir_sim_faults */
    double no_descriptor; /* a socket, an accept or an open fails with -EMFILE or -ENFILE */
    double no_buffers;    /* a write or a send fails with -ENOBUFS */
    double no_memory;     /* an allocation fails; so does an operation, with -ENOMEM */
    /* an operation is complete for up to a millisecond before its task is told: cancels come too
     * late */
    double late;
    /* the time of day jumps, when it is asked for, by up to an hour either way */
    double clock_jump;
    double disk_error; /* a read, write or sync of a file fails with -EIO */
    double disk_full;  /* a write to a file fails with -ENOSPC */
    double disk_short; /* a read or write of a file moves less than it could */
} coir_faults;

typedef struct coir_sim_options {
    size_t size;    /* sizeof(coir_sim_options), set by COIR_SIM_OPTIONS */
    uint64_t seed;  /* [0] */
    size_t workers; /* [1] workers of each host; at most 256 */
    /* [1 hour; COIR_NEVER: none] virtual time at which to give up */
    coir_time time_max;
    void (*trace)(const char *line, void *arg); /* [none] what happens, a line each */
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

enum { COIR_SIM_FAULTS_KEPT = 4096, COIR_SIM_LEFT_MAX = 256 };
typedef struct coir_sim_result {
    size_t size;         /* sizeof(coir_sim_result), set by COIR_SIM_RESULT: so much is filled in */
    uint64_t trace_hash; /* equal for equal runs */
    uint64_t steps;
    coir_time time; /* virtual time at the end */
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

/* Runs a scenario to its end; the hosts that are still up are stopped then. A host that did not
 * crash must have closed its sockets and files and stopped its timers by then, and have no stack,
 * stream, waker or memory of its runtime left. `ret_result` may be NULL. On the driver "sim" the
 * world steps the workers and completes their operations itself. On "epoll", "poll" or "io_uring"
 * each host has a runtime on that driver, over a simulated kernel in which its workers are threads
 * that sleep and are chosen by the seed; for that the program is linked with the library
 * coir_simulated.
 * Suspends: no (it blocks).  Threads: a plain one.
 * Errors: what the scenario returned; -COIR_ELEFT a host left something open; -EINVAL bad
 * options; -COIR_EUNSIZED; -ENOTSUP the library is not coir_simulated; -ENOMEM. */
COIR_API int coir_sim_run(const coir_sim_options *options, coir_scenario_fn *scenario, void *arg,
                          coir_sim_result *ret_result);

/* Starts a host whose first task is `fn(arg)`. It runs while coir_sim_host_main does. NULL when
 * memory is out.
 * Suspends: no.  Threads: the scenario's.  Owns: it is the simulation's. */
COIR_API coir_host *coir_sim_host(coir_sim *sim, const char *name, coir_task_fn *fn, void *arg);

/* Starts a host and runs the world until it has no task left; its result.
 * Suspends: no (it blocks).  Threads: the scenario's.
 * Errors: -EDEADLK nothing can ever happen again; -ETIME time_max has passed; -ENOMEM. */
COIR_API int coir_sim_host_main(coir_sim *sim, const char *name, coir_task_fn *fn, void *arg);

/* Sets how the runtimes of hosts that are started from now on are configured, as coir_runtime_new
 * would: sizes as small as they go make rare things common. Workers, driver and allocator are the
 * simulation's. A scenario does this, or a task of one of its hosts.
 * Suspends: no.  Threads: the simulation's.
 * Errors: -EINVAL what coir_runtime_new refuses. */
COIR_API int coir_sim_configure(coir_sim *sim, const coir_config *config);

/* Sets what goes between `a` and `b` from now on; NULL stands for every host. The last link that
 * was set counts. A scenario does this, or a task of one of its hosts.
 * Suspends: no.  Threads: the simulation's. */
COIR_API void coir_sim_set_link(coir_sim *sim, const coir_host *a, const coir_host *b,
                                const coir_link *link);
static inline void coir_sim_link(coir_sim *sim, const coir_host *a, const coir_host *b,
                                 coir_link link)
{
    link.size = sizeof link;
    coir_sim_set_link(sim, a, b, &link);
}

/* Sets what else goes wrong on `host` from now on; NULL: on every host.
 * Suspends: no.  Threads: the simulation's. */
COIR_API void coir_sim_set_faults(coir_sim *sim, const coir_host *host, const coir_faults *faults);
static inline void coir_sim_faults(coir_sim *sim, const coir_host *host, coir_faults faults)
{
    faults.size = sizeof faults;
    coir_sim_set_faults(sim, host, &faults);
}

/* What the name servers of the world say about a name. A host that nothing was said about is found
 * by its name, at once, at its IPv4 address; every other name is unknown. */
typedef struct coir_name_answer {
    size_t size; /* set by coir_sim_name */
    /* [those of the host of that name] numbers and names of hosts, separated by spaces:
     * "10.0.0.2 fd00::2 web". Host N of the world is 10.0.0.N and fd00::N; 192.0.2.0/24 and
     * 2001:db8::/32 never answer. "": there is none */
    const char *addresses;
    /* before the IPv4 addresses are known; 0: no task waits for them, and nothing is cached */
    coir_time latency;
    coir_time latency_ipv6; /* the same for IPv6 */
    int error;              /* [0] instead of the IPv4 addresses, as -COIR_ENAMESERVER */
    int error_ipv6;
} coir_name_answer;

/* Sets what is said about `name` from now on.
 * Suspends: no.  Threads: the simulation's.
 * Errors: -ENOMEM. */
COIR_API int coir_sim_set_name(coir_sim *sim, const char *name, const coir_name_answer *answer);
static inline int coir_sim_name(coir_sim *sim, const char *name, coir_name_answer answer)
{
    answer.size = sizeof answer;
    return coir_sim_set_name(sim, name, &answer);
}

/* The host loses its power: nothing that it does is seen by anybody from now on, its peers are not
 * told, and of what its files were written since their last sync each sector may be old or new. Its
 * tasks are cancelled. A host that is started later under the same name has its address and its
 * disk.
 * Suspends: no.  Threads: the simulation's. */
COIR_API void coir_sim_crash(coir_sim *sim, coir_host *host);

/* Asks the host's run to end: coir_runtime_stop, called inside of the host. What belongs to another
 * host than the caller's is not to be called directly: its descriptors have a meaning there alone.
 * Suspends: no.  Threads: the simulation's. */
COIR_API void coir_sim_stop(coir_sim *sim, coir_host *host);

/* Whether the host's run has ended: no task of it is left.
 * Suspends: no.  Threads: the simulation's. */
COIR_API bool coir_host_is_down(const coir_host *host);

/* A number from the seed, for scenarios.
 * Suspends: no.  Threads: the simulation's. */
COIR_API uint64_t coir_sim_random(coir_sim *sim);

/* A whole test program: runs the scenario with many seeds, in several processes, says which seeds
 * failed (the scenario returned an error, or the process died), drops the faults that a failure
 * does not need, and prints the command that shows it again. Options:
 *   --seeds FROM-TO [1-1000]   --jobs N [one per CPU]   --workers N [1]   --driver NAME [sim]
 * --keep-going (past the first failure)
 *   --seed N [--faults 3,7,...]   that one alone, with its trace
 * One seed in a hundred is run twice, and fails when the second run differs from the first.
 * Returns an exit status: 0 when no seed failed.
 * Suspends: no (it blocks).  Threads: main, alone: it forks. */
COIR_API int coir_sim_main(int argc, char **argv, coir_scenario_fn *scenario, void *arg);

#ifdef __cplusplus
}
#endif

#endif
