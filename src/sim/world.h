/* A world without a kernel: a clock, a network, and what happens next, all from one seed.
 *
 * 1. Time moves only when every worker of every host is parked, and then to the next event.
 * 2. Events happen in the order of their time, then of their making. No order depends on an
 * address.
 * 3. Every choice is drawn from the one generator, in an order that the program's own steps fix.
 */
#ifndef CI_SIM_WORLD_H
#define CI_SIM_WORLD_H

#include "base/random.h"
#include "base/time.h"
#include "coir/sim.h"
#include "driver/driver.h"

/* Each occasion for a fault has a number; those that were taken are the run's fault schedule, and
 * can be replayed without some. */
struct ci_fault_log {
    struct ci_random random; /* their own: what is left out changes nothing else that is drawn */
    uint32_t asked;
    /* the caller's, as taken[], who sees them also when the run does not come to its end; or NULL
     */
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
    struct ci_fault_log faults;
    struct ci_event *events; /* a heap */
    size_t event_count, event_capacity;
    uint64_t event_serial;
    struct ci_socket **sockets; /* by descriptor */
    size_t socket_capacity;
    struct ci_open_file *open_files;
    coir_faults everywhere; /* what goes wrong on hosts that are not there yet */
    struct ci_node *nodes;  /* the hosts' ends of the network, oldest first */
    struct ci_node **nodes_tail;
    int node_count;
    struct ci_rule *rules; /* links, newest first */
    uint16_t next_port;
    uint64_t trace_hash;
    uint64_t steps;
    void (*trace)(const char *line, void *arg);
    void *trace_arg;
    unsigned left_count; /* of what ci_world_leave was told */
    char left[COIR_SIM_LEFT_MAX];
};

/* A host, as the world sees it. */
struct ci_node {
    struct ci_node *next;
    struct ci_world *world;
    int number;   /* its address is 10.0.0.number; 0: another has it now */
    bool dead;    /* nothing reaches it any more: it has lost its power, or was replaced */
    bool crashed; /* it has lost its power: what it had open went with it */
    bool boots;   /* no fault befalls it yet */
    coir_faults faults;
    coir_time wall_offset;
    struct ci_file *files; /* its disk */
    coir_allocator allocator;
    size_t memory; /* bytes that its runtime has */
    char name[64];
};

/* Something that will happen. `what` is called once, at its time, also when the socket is gone by
 * then (NULL); it owns `data`. */
struct ci_socket;
typedef void ci_call_fn(void *arg, size_t amount);
typedef void ci_event_fn(struct ci_world *world, struct ci_socket *socket, size_t amount,
                         void *data);
struct ci_event {
    coir_time when;
    uint64_t order; /* of making */
    ci_event_fn *what;
    uint64_t serial; /* of the socket: descriptors are reused */
    coir_fd fd;
    size_t amount;
    void *data;
    ci_call_fn *call; /* instead of `what`, with `arg`; NULL: `what` */
    void *arg;
};

void ci_world_init(struct ci_world *world, uint64_t seed);
void ci_world_done(struct ci_world *world);

struct ci_node *ci_world_add_node(struct ci_world *world, const char *name);
/* It dies: its disk is left as a loss of power leaves it, and its files, address and name go to the
 * next node of that name. */
void ci_world_kill(struct ci_world *world, struct ci_node *node);

/* An occasion for a fault: whether it happens. */
bool ci_world_fault(struct ci_world *world, const struct ci_node *node, double probability,
                    const char *what);

void ci_world_link(struct ci_world *world, const struct ci_node *a, const struct ci_node *b,
                   const coir_link *link);
/* From `a` to `b`. */
const coir_link *ci_world_find_link(const struct ci_world *world, const struct ci_node *a,
                                    const struct ci_node *b);
bool ci_world_is_cut(const struct ci_world *world, const struct ci_node *a,
                     const struct ci_node *b);

/* When the last of `len` bytes that are sent now has gone out. */
coir_time ci_world_sent_at(struct ci_world *world, const struct ci_node *a, const struct ci_node *b,
                           size_t len);

void ci_world_schedule(struct ci_world *world, const struct ci_event *event);
coir_time ci_world_next_event(const struct ci_world *world);

/* Lets everything happen that is due. */
void ci_world_run_due(struct ci_world *world);

void ci_world_trace(struct ci_world *world, const struct ci_node *node, const char *format, ...)
    COIR_PRINTF(3, 4);

/* The address of a host by its name, or of "localhost". -COIR_ENAME: there is none. */
int ci_world_resolve(const struct ci_world *world, const char *host,
                     struct sockaddr_storage *ret_address, socklen_t *ret_len);

/* At the end of the world: something that a host which did not crash has left open. Traces it, and
 * adds it to `left`. */
void ci_world_leave(struct ci_world *world, const struct ci_node *node, const char *format, ...)
    COIR_PRINTF(3, 4);

/* ---- drivers: one a worker ---- */

struct ci_sim_driver {
    struct ci_driver base;
    struct ci_world *world;
    struct ci_node *node;
    struct ci_op *completed, **completed_tail;
    struct ci_op *late; /* complete, and to be reported later; the oldest last */
    bool woken;
};

int ci_sim_driver_open(struct ci_world *world, struct ci_node *node, struct ci_driver **ret_driver);

/* Whether a wait would do something at once. */
bool ci_sim_driver_busy(const struct ci_driver *driver);

/* The audit of its operations: what is complete but was never reported. */
void ci_sim_driver_audit(const struct ci_driver *driver);

/* Hands a completed operation to the driver that it was started on, which reports it in its next
 * wait. */
void ci_sim_driver_complete(struct ci_sim_driver *driver, struct ci_op *op, int result);

/* ---- files ---- */

/* A file of a node's disk, as open(2) finds or makes it; and what is done with it at once. 0, a
 * count, or a negative error. */
int ci_disk_find(struct ci_node *node, const char *path, int flags, struct ci_file **ret_file);
int64_t ci_disk_length(const struct ci_file *file);
int ci_disk_read(struct ci_node *node, const struct ci_file *file, void *buf, size_t len,
                 int64_t offset);
int ci_disk_write(struct ci_node *node, struct ci_file *file, const void *data, size_t len,
                  int64_t offset);
int ci_disk_sync(struct ci_node *node, struct ci_file *file);

/* The same as operations on descriptors. */
int ci_disk_open(struct ci_node *node, const char *path, int flags);
bool ci_disk_is_file(const struct ci_world *world, coir_fd fd);
bool ci_disk_start(struct ci_sim_driver *driver, struct ci_op *op);
bool ci_disk_cancel(struct ci_sim_driver *driver, struct ci_op *op);
int ci_disk_size(struct ci_world *world, coir_fd fd, int64_t *ret_size);
void ci_disk_close(struct ci_world *world, coir_fd fd);
void ci_disk_close_all(struct ci_world *world);
void ci_disk_lose_power(struct ci_world *world, struct ci_node *node);
void ci_disk_free(struct ci_node *node);
void ci_disk_audit(struct ci_world *world); /* files that are still open */

/* ---- sockets ---- */

struct ci_socket *ci_socket_find(const struct ci_world *world, coir_fd fd, uint64_t serial);
bool ci_socket_start(struct ci_sim_driver *driver, struct ci_op *op);
bool ci_socket_cancel(struct ci_sim_driver *driver, struct ci_op *op);

/* Takes the pending operations of one driver (NULL: of all) off the descriptor; they complete with
 * -ECANCELED. */
void ci_socket_forget(struct ci_world *world, const struct ci_sim_driver *driver, coir_fd fd);
void ci_socket_close(struct ci_world *world, coir_fd fd);
void ci_socket_audit(struct ci_world *world); /* sockets that are still open */

#endif
