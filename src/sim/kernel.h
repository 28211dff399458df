/* The simulated kernel, as the simulator of hosts sees it. There is one where the library was built
 * over it (sim/kernel/kernel.h): then hosts may run on the real drivers. */
#ifndef CI_SIM_KERNEL_H
#define CI_SIM_KERNEL_H

#include "sim/world.h"

struct ci_kprocess;

struct ci_sim_kernel {
    /* For a world. `locals` are the thread-locals that each simulated thread has for itself. */
    void (*open)(struct ci_world *world, coir_time time_max, void **const *locals, int local_count);
    void (*close)(void); /* what is still alive is given up */

    /* A process, and its first thread. NULL: memory is out. */
    struct ci_kprocess *(*start)(struct ci_node *node, void *(*fn)(void *arg), void *arg);
    bool (*ended)(const struct ci_kprocess *process);

    /* Runs the world until a process ends: 0; -EDEADLK nothing will ever happen again; -ETIME. */
    int (*run)(void);

    /* Calls fn(arg), which makes system calls that do not sleep, as the process. */
    void (*as)(struct ci_kprocess *process, void (*fn)(void *arg), void *arg);

    /* Says in the trace what each thread waits for. */
    void (*dump)(void);

    /* What the process has left open, now that it has ended. */
    void (*audit)(const struct ci_kprocess *process);
};

extern const struct ci_sim_kernel *const ci_sim_kernel; /* NULL: there is none */

#endif
