/* A selector reports which descriptors are ready: epoll, kqueue, poll(2), polls on io_uring.
 * readiness.c builds a driver over any of them, poller.c the public poller.
 *
 * A registration carries a generation, which comes back with each event: so an event of an earlier
 * user of the same descriptor number can be recognised.
 *
 * A registration ends with the last copy of its open file, and the selector does not notice: modify
 * may then return -ENOENT. Where `keeps` is set it does not end, and must be removed before the
 * descriptor is closed: it keeps the file open (io_uring), or would apply to the next file with
 * that number (poll).
 */
#ifndef CI_DRIVER_SELECTOR_H
#define CI_DRIVER_SELECTOR_H

#include <stdbool.h>

#include "base/memory.h"
#include "coir/base.h"
#include "driver/event.h"

enum ci_trigger {
    CI_EDGE,      /* when something changed */
    CI_EXCLUSIVE, /* edge, and one of the selectors that share the descriptor is enough */
    CI_LEVEL,     /* as long as it holds */
    CI_ONE_SHOT,  /* once, until modified */
};

struct ci_ready {
    coir_fd fd;
    uint32_t generation;
    uint32_t events; /* enum coir_events and event.h */
};

/* The first member of each kind's own struct. */
struct ci_selector {
    const struct ci_selector_kind *kind;
    const coir_allocator *allocator;
    coir_fd wakeup; /* an eventfd; -1: it wakes in another way */
};

struct ci_selector_kind {
    const char *name;
    size_t size; /* of its own struct */
    bool keeps;  /* a registration outlives its descriptor */
    bool levels; /* an event of a level that holds no more costs little, and is not reported */

    /* The rest of a new struct, which is zero; `done` is called also where `init` fails. */
    int (*init)(struct ci_selector *selector);
    void (*done)(struct ci_selector *selector);

    int (*add)(struct ci_selector *selector, coir_fd fd, uint32_t generation, unsigned events,
               enum ci_trigger trigger);
    int (*modify)(struct ci_selector *selector, coir_fd fd, uint32_t generation, unsigned events,
                  enum ci_trigger trigger);
    void (*remove)(struct ci_selector *selector, coir_fd fd);

    /* These events of an edge-triggered descriptor are waited for again. NULL: edges need no
     * re-arming. */
    void (*rearm)(struct ci_selector *selector, coir_fd fd, unsigned events);

    /* Fills `ready`; waits `timeout` at most (negative: without end). How many, or a negative
     * error. */
    int (*wait)(struct ci_selector *selector, struct ci_ready *ready, int ready_max,
                coir_time timeout);

    /* Makes the wait in progress, or the next one, return. Any thread may call it. */
    void (*wake)(struct ci_selector *selector);

    /* As that of ci_driver_kind. */
    int (*reserve)(struct ci_selector *selector, size_t count);

    /* A descriptor that is readable when wait would return at once; NULL: there is none. */
    coir_fd (*descriptor)(struct ci_selector *selector);
};

extern const struct ci_selector_kind ci_epoll_selector, ci_kqueue_selector, ci_poll_selector,
    ci_uring_selector;

/* 0, -ENOMEM, -EMFILE, or what `init` returns. */
int ci_selector_new(const struct ci_selector_kind *kind, const coir_allocator *allocator,
                    struct ci_selector **ret_selector);
void ci_selector_free(struct ci_selector *selector);

/* For kinds that wake by an eventfd: opens it; writes to it (the kind's `wake`). */
int ci_selector_open_wakeup(struct ci_selector *selector);
void ci_selector_wake(struct ci_selector *selector);

#endif
