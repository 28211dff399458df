/* A world without a kernel: a clock, a network, disks, and what happens next, all from one seed.
 *
 * Every choice is drawn from the world's one generator (faults: from one of their own), in an order
 * that the program's own steps fix; no order depends on an address or on a clock. That is why a run
 * with the same seed does the same again.
 *
 * 1. Time moves only when no worker of any host has anything to do, and then to the next event or
 * timer: forwards.
 * 2. The simulator has its own memory from the system; when there is none, the program ends.
 */
#ifndef CI_SIM_WORLD_H
#define CI_SIM_WORLD_H

#include "base/random.h"
#include "base/time.h"
#include "coir/sim_faults.h"
#include "driver/driver.h"

struct ci_fault_log {
    struct ci_random random;
    uint32_t asked; /* occasions so far */
    /* the caller's, as taken[], who sees them also when the run does not come to its end; or
     * NULL */
    size_t *count;
    uint32_t *taken; /* the first `room` of them */
    size_t room;
    const uint32_t *chosen; /* instead of drawing */
    size_t chosen_count;
    bool choose;
};

struct ci_world {
    coir_time now;
    struct ci_random random;
    struct ci_fault_log faults; /* fault.c */
    struct ci_event *events;    /* event.c: a heap */
    size_t event_count, event_capacity;
    uint64_t event_serial;
    struct ci_socket **sockets; /* socket.c: by descriptor */
    size_t socket_capacity;
    uint16_t next_port;
    struct ci_open_file *open_files; /* disk.c */
    coir_faults everywhere;          /* what goes wrong on hosts that are not there yet */
    struct ci_node *nodes;           /* node.c: oldest first */
    struct ci_node **nodes_tail;
    int node_count;
    struct ci_rule *rules;     /* link.c: newest first */
    struct ci_sim_name *names; /* name.c */
    uint64_t trace_hash;       /* trace.c */
    void (*trace)(const char *line, void *arg);
    void *trace_arg;
    char line[256]; /* of the trace, which is written on the stacks of the program's fibers */
    uint64_t steps;
    unsigned left_count; /* audit.c: of what was left open */
    char left[COIR_SIM_LEFT_MAX];
};

void ci_world_init(struct ci_world *world, uint64_t seed);
void ci_world_done(struct ci_world *world);

#endif
