/* A simulated world: a clock, a network, disks and scheduled events, all driven by one seed.
 *
 * Every choice is drawn from the world's random generator (faults: from a generator of their own),
 * in an order that depends only on the program's steps, never on a memory address or a real clock.
 * So runs with the same seed are identical.
 *
 * 1. Time advances only when no worker of any host has anything to do, and then to the next event
 *    or timer.
 * 2. The simulator allocates its own memory from the system; if that fails, the program ends.
 */
#ifndef CI_SIM_WORLD_H
#define CI_SIM_WORLD_H

#include "base/random.h"
#include "base/time.h"
#include "coir/sim_faults.h"
#include "driver/driver.h"

struct ci_fault_log {
    struct ci_random random;
    uint32_t asked; /* points where a fault could happen, so far */
    /* memory of the caller, as taken[], so that it can read them even if the run does not finish;
     * or NULL */
    size_t *count;
    uint32_t *taken; /* the first `room` numbers of the fault schedule */
    size_t room;
    const uint32_t *chosen; /* the schedule to replay instead of drawing */
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
    uint16_t next_port; /* address.c */
    uint8_t bound_ports[(UINT16_MAX + 1) / 8];
    struct ci_open_file *open_files; /* disk.c */
    struct ci_disk_job *disk_jobs;
    coir_faults everywhere; /* faults of hosts that will be started */
    struct ci_node *nodes;  /* node.c: oldest first */
    struct ci_node **nodes_tail;
    int node_count;
    struct ci_rule *rules;     /* link.c: newest first */
    struct ci_sim_name *names; /* name.c */
    uint64_t trace_hash;       /* trace.c */
    void (*trace)(const char *line, void *arg);
    void *trace_arg;
    /* of the trace; not on the stack: it is formatted on the small stacks of fibers */
    char line[256];
    uint64_t steps;
    unsigned left_count; /* audit.c: how many things were left open */
    char left[COIR_SIM_LEFT_MAX];
};

void ci_world_init(struct ci_world *world, uint64_t seed);
void ci_world_done(struct ci_world *world);

#endif
