/* The simulated kernel, as the simulator of hosts sees it. Only the library built as coir_simulated
 * has it (sim/kernel/kernel.h); hosts may run on the real drivers there. */
#ifndef CI_SIM_KERNEL_H
#define CI_SIM_KERNEL_H

#include "sim/world.h"

struct ci_kprocess;

struct ci_sim_kernel {
    /* Makes the kernel of a world. `locals` are the thread-local variables of which each simulated
     * thread has its own copy. */
    void (*open)(struct ci_world *world, coir_time time_max, void **const *locals, int local_count);
    void (*close)(void); /* abandons threads that are still alive */

    /* Starts a process with its first thread. NULL: out of memory. */
    struct ci_kprocess *(*start)(struct ci_node *node, void *(*fn)(void *arg), void *arg);
    bool (*ended)(const struct ci_kprocess *process);

    /* Runs the world until a process ends: 0; -EDEADLK nothing will ever happen again; -ETIME. */
    int (*run)(void);

    /* Calls fn(arg), which makes system calls that do not sleep, as the process. */
    void (*as)(struct ci_kprocess *process, void (*fn)(void *arg), void *arg);

    /* Links have changed, or a host is dead. */
    void (*links_changed)(void);

    /* Traces what each thread waits for. */
    void (*dump)(void);

    /* Reports what a process that has ended has left open. */
    void (*audit)(const struct ci_kprocess *process);
};

extern const struct ci_sim_kernel *const ci_sim_kernel; /* NULL: there is none */

#endif
