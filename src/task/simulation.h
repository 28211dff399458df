/* What hosts and scenarios are, for simulation.c (hosts that the world steps, on the simulated
 * driver) and kernel_host.c (hosts whose workers are threads of a simulated kernel, on a real
 * driver). */
#ifndef CI_TASK_SIMULATION_H
#define CI_TASK_SIMULATION_H

#include "coir/sim.h"
#include "sim/audit.h"
#include "sim/disk.h"
#include "sim/driver.h"
#include "sim/event.h"
#include "sim/link.h"
#include "sim/node.h"
#include "sim/socket.h"
#include "sim/trace.h"

struct ci_worker;
struct ci_kprocess;

struct coir_sim {
    struct ci_world world;
    coir_sim_options options;
    coir_config config; /* of hosts to come */
    bool on_kernel;
    coir_host *hosts, **hosts_tail;
};

struct coir_host {
    coir_host *next;
    struct coir_sim *sim;
    struct ci_node *node;
    coir_runtime *runtime; /* on a kernel: NULL before its process has made it, and after its end */

    /* on a kernel */
    struct ci_kprocess *process;
    coir_task_fn *fn;
    void *arg;
    int result;
    bool stopped; /* also before there was a runtime */
};

/* 0; -EINVAL an unknown driver; -ENOTSUP the library was not built over a simulated kernel. */
int ci_kernel_hosts_open(struct coir_sim *sim);
void ci_kernel_hosts_close(void);

/* Makes the host's process. -ENOMEM. */
int ci_kernel_host_start(coir_host *host);
bool ci_kernel_host_ended(const coir_host *host);
void ci_kernel_host_stop(coir_host *host);
void ci_kernel_host_cancel(coir_host *host);

/* Runs all hosts until the process of one ends: 0, -EDEADLK, -ETIME. */
int ci_kernel_hosts_run(void);
void ci_kernel_hosts_dump(void);
void ci_kernel_host_audit(const coir_host *host); /* of one that has ended */

/* How many timers a worker's wheel holds that are not its own: an audit's business. */
size_t ci_worker_stray_timers(const struct ci_worker *worker);

#endif
