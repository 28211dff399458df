/* A lookup: the future of the addresses of one family of a host, by which a task asks a question
 * (name_cache.h). */
#ifndef CI_IO_NAME_LOOKUP_H
#define CI_IO_NAME_LOOKUP_H

#include "base/inbox.h"
#include "io/name_cache.h"
#include "task/sleep.h"

/* Its result is 0 or an error; the addresses are in `ips` then. */
struct ci_lookup {
    coir_future future;
    const char *host; /* borrowed */
    int family;
    int result;
    struct ci_ips ips;

    struct ci_names *names;
    struct ci_question *question;
    coir_future wait;             /* for the answer that another task or a thread gets */
    struct ci_runnable *runnable; /* suspended in `wait` */
    struct ci_worker *worker;
    struct ci_message message;
    struct ci_list link; /* in `waiting` of the question */
    bool told;           /* it has been woken: there is an answer, or it is the leader */
    bool leads;
    coir_future *asking; /* the future that the leader awaits */
    struct ci_sleep_op pause;
};

coir_future *ci_lookup_init(struct ci_lookup *lookup, const char *host, int family);

/* Combines the errors of the two families of a name: it is unknown only if it is unknown in
 * both. */
static inline int ci_lookup_error(int six, int four)
{
    return four == -COIR_ENAME ? six : four;
}

#endif
