/* A selector tells which descriptors are ready: epoll, kqueue, poll(2). readiness.c builds a driver
 * over any of them.
 *
 * 1. A registration carries a generation that comes back with each event, so that an event of an
 * earlier user of the same descriptor number is recognised.
 * 2. Registrations go with the last copy of their open file, which the selector is not told about:
 * modify may answer -ENOENT. Where `keeps` is set they do not: they are removed before the
 * descriptor is closed, because they hold the file open (io_uring), or hold, while another thread
 * waits, the file that has the number by then (poll).
 * 3. wake makes the wait in progress, or the next one, return; any thread may call it.
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
    uint32_t events;
};

struct ci_selector {
    const struct ci_selector_kind *kind;
};

struct ci_selector_kind {
    const char *name;
    bool keeps; /* a registration outlives its descriptor: see 2 */
    int (*add)(struct ci_selector *selector, coir_fd fd, uint32_t generation, unsigned events,
               enum ci_trigger trigger);
    int (*modify)(struct ci_selector *selector, coir_fd fd, uint32_t generation, unsigned events,
                  enum ci_trigger trigger);
    void (*remove)(struct ci_selector *selector, coir_fd fd);

    /* Somebody waits for events of an edge-triggered descriptor. NULL: edges come by themselves. */
    void (*rearm)(struct ci_selector *selector, coir_fd fd, unsigned events);

    /* Fills `ready`; waits `timeout` at most (negative: without end). How many, or a negative
     * error. */
    int (*wait)(struct ci_selector *selector, struct ci_ready *ready, int ready_max,
                coir_time timeout);
    void (*wake)(struct ci_selector *selector);
    /* readable when wait would not wait; -ENOTSUP: there is none */
    coir_fd (*descriptor)(struct ci_selector *selector);
    void (*free)(struct ci_selector *selector);
};

int ci_kqueue_open(const coir_allocator *allocator, struct ci_selector **ret_selector);
int ci_poll_open(const coir_allocator *allocator, struct ci_selector **ret_selector);
int ci_uring_selector_open(const coir_allocator *allocator, struct ci_selector **ret_selector);
int ci_epoll_open(const coir_allocator *allocator, struct ci_selector **ret_selector);

#endif
