/* Asking name servers by c-ares, in the worker of the waiter that leads; cares.c, or no_cares.c in
 * a build without it.
 *
 * 1. A question has a channel of its own: sockets, ports and time-outs are its alone, and
 * resolv.conf is read for each. It goes from leader to leader, and is used by one at a time.
 * 2. c-ares is called while none of its sockets is polled, from ask_poll alone, and to make and to
 * free a channel.
 * 3. Its callback only notes what it was given: no ares_ function is called from it.
 */
#ifndef CI_IO_CARES_H
#define CI_IO_CARES_H

#include "sys/lookup.h"
#include "task/runtime.h"

struct ci_cares;

struct ci_cares_answer {
    int error;
    struct ci_ips ips;
    coir_time ttl; /* COIR_NEVER: it did not say */
};

/* NULL in a build without c-ares. */
extern const struct ci_cares_calls {
    /* Begins to ask. -COIR_EADDRESS the servers cannot be understood; -ENOMEM; others. */
    int (*start)(const coir_allocator *allocator, const char *servers, const char *host, int family,
                 struct ci_cares **ret_cares);
    /* The future of the answer: 0, or why its leader was interrupted. */
    coir_future *(*ask)(struct ci_cares *cares);
    const struct ci_cares_answer *(*answer)(const struct ci_cares *cares);
    void (*free)(struct ci_cares *cares, const coir_allocator *allocator); /* takes NULL */
} *const ci_cares;

#endif
