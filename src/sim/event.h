/* The scheduled events of a simulated world.
 *
 * 1. Events happen in the order of their time, then of their scheduling. No order depends on an
 *    address.
 */
#ifndef CI_SIM_EVENT_H
#define CI_SIM_EVENT_H

#include "sim/world.h"

typedef void ci_call_fn(void *arg, size_t amount);

/* Calls fn(arg, amount) at `when`. If the world ends before, `data` (which may be NULL) is freed;
 * otherwise the function has to free it. */
void ci_world_call(struct ci_world *world, coir_time when, ci_call_fn *fn, void *arg, size_t amount,
                   void *data);

/* An event of a socket. The function gets NULL if the socket has been closed, even if its
 * descriptor has been reused. It owns `data`. */
struct ci_socket;
typedef void ci_socket_event_fn(struct ci_world *world, struct ci_socket *socket, size_t amount,
                                void *data);

struct ci_event {
    coir_time when;
    uint64_t order; /* of scheduling */
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

/* Schedules `event`, and sets its `order`. */
void ci_world_schedule(struct ci_world *world, const struct ci_event *event);

/* The time of the next event; COIR_NEVER: there is none. */
coir_time ci_world_next_event(const struct ci_world *world);

/* Runs all events that are due. */
void ci_world_run_due(struct ci_world *world);

void ci_world_free_events(struct ci_world *world);

#endif
