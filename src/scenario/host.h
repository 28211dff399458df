/* Hosts of a simulated world: each is a runtime that runs a program. There are two kinds. A stepped
 * host (stepped_host.c) uses the simulated driver, and the world steps its workers. A kernel host
 * (kernel_host.c) uses a real driver, and its workers are threads of a simulated kernel.
 *
 * All hosts of a simulation are of one kind.
 *
 * 1. Steps do not nest: a task of a host cannot run another host to its end.
 */
#ifndef CI_SCENARIO_HOST_H
#define CI_SCENARIO_HOST_H

#include "coir/sim.h"
#include "sim/world.h"

struct ci_host_kind {
    /* Before the first host, and after the last. */
    int (*open)(struct coir_sim *sim);
    void (*close)(void); /* may be NULL */

    /* Makes the host's runtime, and begins its run. */
    int (*start)(coir_host *host);
    bool (*is_down)(const coir_host *host);
    int (*result)(const coir_host *host); /* of a run that has ended */
    void (*stop)(coir_host *host);
    void (*cancel)(coir_host *host); /* without time for draining */

    void (*links_changed)(struct coir_sim *sim); /* or a host is dead */

    /* Runs one step of some host: 0; -EDEADLK nothing will ever happen again; -ETIME. */
    int (*step)(struct coir_sim *sim);

    /* traces what each thread waits for. NULL: hosts of this kind have no threads */
    void (*dump)(void);
    void (*audit)(coir_host *host); /* of a host that is down */
};

extern const struct ci_host_kind ci_stepped_host, ci_kernel_host;

struct coir_sim {
    struct ci_world world;
    coir_sim_options options;
    coir_config config; /* of hosts that are started from now on */
    const struct ci_host_kind *kind;
    coir_host *hosts, **hosts_tail;
    bool stepping; /* inside of a step: no host may be run to its end */
};

struct coir_host {
    coir_host *next;
    struct coir_sim *sim;
    struct ci_node *node;
    coir_task_fn *fn;
    void *arg;
    coir_runtime *runtime; /* on a kernel: NULL before its process has made it, and after its end */

    /* on a kernel */
    coir_config config; /* that of the simulation when it was started */
    struct ci_kprocess *process;
    int32_t result;
    unsigned stops;    /* requested before there was a runtime */
    unsigned stopping; /* calls that stop the runtime just now: it is freed after them */
};

/* Ends all hosts, audits and frees them: 0; -COIR_ELEFT; another error if a host does not end. Its
 * stacks are in use then, so no host is freed. */
int ci_hosts_end(struct coir_sim *sim);

/* Reports objects that are still in use at the end of a run; `arg` is the host's node. */
void ci_host_leave(void *arg, const char *what, size_t count);

#endif
