/* Asks name servers by c-ares, on the worker of the task that leads a question (name_cache.h). A
 * build without c-ares has name_no_cares.c instead of name_cares.c.
 *
 * Each question has a c-ares channel of its own: it shares no sockets, ports or timeouts with
 * others, and resolv.conf is read for each. Making one takes 19 us of the 40 that a question takes
 * until it is sent (c-ares 1.18), copying one would take 13.
 *
 * 1. The channel passes from leader to leader, and is used by one at a time.
 * 2. c-ares is called only while none of its sockets is polled: to make a channel, by ask_poll, and
 * to free it.
 * 3. The callback is called once for a question, and only stores its arguments: an ares_ function
 *    called from it may free memory that c-ares still uses.
 */
#ifndef CI_IO_NAME_CARES_H
#define CI_IO_NAME_CARES_H

#include "sys/lookup.h"
#include "task/runtime.h"

struct ci_cares;

struct ci_cares_answer {
    int error;
    struct ci_ips ips;
    coir_time ttl; /* COIR_NEVER: the answer has no TTL */
};

/* NULL in a build without c-ares. */
extern const struct ci_cares_calls {
    /* Begins to ask. -COIR_EADDRESS `servers` cannot be parsed; -ENOMEM; -COIR_ENAMESERVER. */
    int (*start)(const coir_allocator *allocator, const char *servers, const char *host, int family,
                 struct ci_cares **ret_cares);
    /* The future of the answer. Its result is 0 when there is an answer, be it an error; otherwise
     * the interrupt of the leader. */
    coir_future *(*ask)(struct ci_cares *cares);
    const struct ci_cares_answer *(*answer)(const struct ci_cares *cares);
    void (*free)(struct ci_cares *cares, const coir_allocator *allocator); /* `cares` may be NULL */
} *const ci_cares;

#endif
