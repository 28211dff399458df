/* Questions for the addresses of a host, and what was answered to them.
 *
 * 1. A question is a name and a family. Equal ones are one: whoever asks what is asked already
 * waits for the same answer.
 * 2. Everything here is under the lock of its runtime's names, which is never held while anybody
 * waits.
 * 3. A question that threads ask goes on when nobody waits for it any more, once a thread has
 * begun; before that it is withdrawn. One that a waiter asks (in the simulator, and with c-ares)
 * has a leader among those who wait. A leader that leaves hands it to the next; the last one takes
 * it along.
 * 4. An answered question does not change. Who was told about it holds it.
 * 5. Names outlive their runtime while a thread is asking: it may take as long as it likes, and
 * nobody waits for it.
 *
 *    OPEN -- answer --> ANSWERED -- too old, too many, files changed --> (gone, with its last
 * holder)
 *      `-- nobody waits, and it is not being asked --> (gone)
 */
#ifndef CI_IO_QUESTION_H
#define CI_IO_QUESTION_H

#include "base/inbox.h"
#include "io/cares.h"
#include "sys/lookup.h"
#include "sys/thread.h"
#include "task/extension.h"
#include "task/runtime.h"
#include "task/sleep.h"

struct ci_names;

/* Who asks: the simulated world, which knows; the threads; or the waiter that leads. */
enum ci_asker { CI_ASKED_OF_WORLD, CI_ASKED_OF_THREADS, CI_ASKED_OF_CARES };

struct ci_question {
    struct ci_list link;    /* in its bucket; alone: it is asked anew from now on */
    struct ci_list used;    /* of the answers that are kept */
    struct ci_list queued;  /* for a thread */
    struct ci_list waiting; /* struct ci_lookup that were not told yet, oldest first */
    size_t holders;         /* the table, those who wait or were told, a thread that asks */
    bool answered;
    uint8_t asker;
    int family;
    int error; /* the answer: 0, or why there is none */
    struct ci_ips ips;
    coir_time expires; /* of the answer */
    coir_time due;     /* when the world answers */
    struct ci_cares *cares;
    size_t size; /* of this struct */
    char host[];
};

/* The future of an answer: its result is 0 or an error. Addresses are in `ips` then. */
struct ci_lookup {
    coir_future future;
    const char *host; /* borrowed */
    int family;
    int result;
    struct ci_ips ips;

    struct ci_names *names;
    struct ci_question *question;
    coir_future wait;
    struct ci_runnable *runnable; /* suspended in `wait` */
    struct ci_worker *worker;
    struct ci_message message;
    struct ci_list link;
    bool told, leads;
    coir_future *asking; /* what it waits for as the leader */
    struct ci_sleep_op pause;
};

coir_future *ci_lookup_init(struct ci_lookup *lookup, const char *host, int family);

/* What two errors say together: that a name is unknown only where both do. */
static inline int ci_lookup_error(int six, int four)
{
    return four == -COIR_ENAME ? six : four;
}

/* ---- for the askers ---- */

struct ci_names {
    struct ci_mutex lock;
    struct ci_runtime_extension extension;
    const coir_allocator *allocator;
    bool closed; /* the runtime has ended */
    size_t refs; /* the runtime, and each thread */

    struct ci_list *buckets;
    struct ci_list answers; /* that are kept, the one that was used last at the end */
    size_t kept, kept_max;
    bool by_cares;
    const char *servers; /* for c-ares */
    coir_time keep_time; /* an answer that does not say how long it holds */
    uint64_t stamp;      /* of the files that say what names mean */
    coir_time stamp_time;
    size_t awaited; /* how many wait for threads */

    struct ci_condition work, left;
    struct ci_list queue;  /* questions for the threads, oldest first */
    struct ci_list asking; /* what threads are asking */
    size_t queued, threads, idle, threads_max;
};

/* With the lock held: the answer to a question, which holds for `ttl` from now on. */
void ci_question_answer(struct ci_names *names, struct ci_question *question, int error,
                        const struct ci_ips *ips, coir_time now, coir_time ttl);

/* With the lock held: one holder less. */
void ci_question_drop(struct ci_names *names, struct ci_question *question);

/* With the lock held: has a thread ask. -EAGAIN, -ENOMEM: there is none, and none can be made. */
int ci_name_threads_ask(struct ci_names *names, struct ci_question *question);

/* With the lock held: nobody waits for it any more. Nothing happens when a thread has begun to ask.
 */
void ci_name_threads_withdraw(struct ci_names *names, struct ci_question *question);

/* With the lock held, the runtime ends: threads leave, or are left to themselves. */
void ci_name_threads_close(struct ci_names *names);

/* With the lock held, which is given back: one who knows the names less. */
void ci_names_unref(struct ci_names *names);

#endif
