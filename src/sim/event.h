/* What will happen in a simulated world.
 *
 * 1. Events happen in the order of their time, then of their making. No order depends on an
 * address.
 */
#ifndef CI_SIM_EVENT_H
#define CI_SIM_EVENT_H

#include "sim/world.h"

typedef void ci_call_fn(void *arg, size_t amount);

/* Calls fn(arg, amount) at `when`. `data` (or NULL) is freed if the world ends before; afterwards
 * it is the function's own business. */
void ci_world_call(struct ci_world *world, coir_time when, ci_call_fn *fn, void *arg, size_t amount,
                   void *data);

/* An event of a socket: the function gets NULL if the socket is gone by then, for its descriptor
 * may be another's. It owns `data`. */
struct ci_socket;
typedef void ci_socket_event_fn(struct ci_world *world, struct ci_socket *socket, size_t amount,
                                void *data);

struct ci_event {
    coir_time when;
    uint64_t order; /* of making */
    void (*happen)(struct ci_world *world, const struct ci_event *event);
    size_t amount;
    void *data;

    /* of ci_world_call */
    ci_call_fn *fn;
    void *arg;

    /* of ci_socket_schedule */
    ci_socket_event_fn *what;
    uint64_t serial;
    coir_fd fd;
};

/* Lets `event` happen once, at its time; `order` is set. */
void ci_world_schedule(struct ci_world *world, const struct ci_event *event);

/* The time of the next event; COIR_NEVER: there is none. */
coir_time ci_world_next_event(const struct ci_world *world);

/* Lets everything happen that is due. */
void ci_world_run_due(struct ci_world *world);

void ci_world_free_events(struct ci_world *world);

#endif
