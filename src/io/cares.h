/* Asking name servers by c-ares, in the worker of the task that leads a question (question.h);
 * cares.c, or no_cares.c in a build without it.
 *
 * A question has a channel of its own: it shares no sockets, ports and time-outs with others, and
 * resolv.conf is read for each.
 *
 * 1. The channel goes from leader to leader, and is used by one at a time.
 * 2. c-ares is called only while none of its sockets is polled: to make a channel, by ask_poll, and
 * to free it.
 * 3. The callback is called once for a question, and only stores what it was given: an ares_
 * function called from it may free what c-ares still uses.
 */
#ifndef CI_IO_CARES_H
#define CI_IO_CARES_H

#include "sys/lookup.h"
#include "task/runtime.h"

struct ci_cares;

struct ci_cares_answer {
    int error;
    struct ci_ips ips;
    coir_time ttl; /* COIR_NEVER: it has none */
};

/* NULL in a build without c-ares. */
extern const struct ci_cares_calls {
    /* Begins to ask. -COIR_EADDRESS `servers` cannot be parsed; -ENOMEM; -COIR_ENAMESERVER. */
    int (*start)(const coir_allocator *allocator, const char *servers, const char *host, int family,
                 struct ci_cares **ret_cares);
    /* The future of the answer. Its result is 0 if there is one, whatever it says; or why the
     * leader was interrupted. */
    coir_future *(*ask)(struct ci_cares *cares);
    const struct ci_cares_answer *(*answer)(const struct ci_cares *cares);
    void (*free)(struct ci_cares *cares, const coir_allocator *allocator); /* takes NULL */
} *const ci_cares;

#endif
