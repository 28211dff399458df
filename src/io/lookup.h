/* The future of the addresses of one family of a host: a task that asks a question (question.h). */
#ifndef CI_IO_LOOKUP_H
#define CI_IO_LOOKUP_H

#include "base/inbox.h"
#include "io/question.h"
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
    coir_future wait;             /* for somebody else's answer */
    struct ci_runnable *runnable; /* suspended in `wait` */
    struct ci_worker *worker;
    struct ci_message message;
    struct ci_list link; /* in `waiting` of the question */
    bool told;           /* it has been woken: there is an answer, or it is the leader */
    bool leads;
    coir_future *asking; /* what the leader waits for */
    struct ci_sleep_op pause;
};

coir_future *ci_lookup_init(struct ci_lookup *lookup, const char *host, int family);

/* The error of a name from those of its two families: it is unknown only if both say so. */
static inline int ci_lookup_error(int six, int four)
{
    return four == -COIR_ENAME ? six : four;
}

#endif
