/* The names of a runtime: a table of questions for the addresses of a host, and of answers that are
 * kept. Tasks ask by lookups (name_lookup.c); threads (name_threads.c) or c-ares (name_cares.c) get
 * the answers.
 *
 * 1. A question is a name and a family, and the table has at most one of each: a task that asks the
 *    same question waits for the same answer.
 * 2. The lock of the runtime's names guards all of it. No task suspends while holding it.
 * 3. A question in the table, or with a task waiting, is answered or is being asked: by a thread
 * (or it is queued for one), or by its leader. That is one of the waiting tasks: with c-ares, and
 * in the simulated world. A leader that is cancelled passes the question on to the next task.
 * 4. A question is answered once. It is freed when its last holder drops it: the table, the tasks
 *    that ask it, the thread that it is queued for or that asks it.
 * 5. The names of a runtime are freed after it has ended and the last thread has left: a thread may
 *    be in getaddrinfo(3) for a long time, and nothing waits for it.
 *
 *    OPEN -- answered --> ANSWERED -- too old, too many, files changed --> not in the table
 *      `-- the last task leaves, and no thread has begun to ask --> not in the table
 */
#ifndef CI_IO_NAME_CACHE_H
#define CI_IO_NAME_CACHE_H

#include "base/list.h"
#include "sys/lookup.h"
#include "sys/thread.h"
#include "task/extension.h"
#include "task/runtime.h"

struct ci_cares;
struct ci_lookup;

/* What gets the answer: the simulated world, which knows it; a thread; or the leader, by c-ares. */
enum ci_asker { CI_ASKED_OF_WORLD, CI_ASKED_OF_THREADS, CI_ASKED_OF_CARES };

struct ci_question {
    struct ci_list link;    /* in its bucket; empty: it is not in the table */
    struct ci_list used;    /* in `answers` of the names */
    struct ci_list queued;  /* for a thread */
    struct ci_list waiting; /* struct ci_lookup not woken yet, oldest first */
    size_t holders;
    bool answered;
    struct ci_lookup *leader; /* NULL: threads ask it, or nothing does */
    uint8_t asker;
    int family;
    int error; /* the answer: 0 or an error */
    struct ci_ips ips;
    coir_time expires;      /* the answer */
    coir_time due;          /* when the simulated world answers */
    struct ci_cares *cares; /* the leader's, without the lock */
    size_t size;            /* of this struct */
    char host[];
};

/* The names of a runtime. */
struct ci_names {
    struct ci_mutex lock;
    bool locked;
    struct ci_runtime_extension extension;
    const coir_allocator *allocator;
    bool closed; /* the runtime has ended */
    size_t refs; /* the runtime, and each thread */

    struct ci_list *buckets;
    struct ci_list answers; /* the answers that are kept, least recently used first */
    size_t kept, kept_max;
    bool by_cares;
    const char *servers; /* for c-ares */
    coir_time keep_time; /* for an answer without a TTL */
    uint64_t stamp;      /* ci_sys_lookup_stamp when the files were last looked at */
    coir_time stamp_time;
    size_t awaited; /* tasks that wait for threads */

    struct ci_condition work, left;
    struct ci_list queue;  /* questions for the threads, oldest first */
    struct ci_list asking; /* struct asking: lookups in progress on threads */
    size_t queued, threads, idle, threads_max;
};

/* New names, which the caller holds; NULL: out of memory. */
struct ci_names *ci_names_new(coir_runtime *runtime);

void ci_names_lock(struct ci_names *names);
void ci_names_unlock(struct ci_names *names);

/* Waits for a condition, releasing the lock while it waits. As ci_condition_wait. */
int ci_names_wait(struct ci_names *names, struct ci_condition *condition, coir_time deadline);

/* Drops a reference, and unlocks. */
void ci_names_unref(struct ci_names *names);

/* The functions from here on are called with the lock held. */

/* The runtime ends, and the threads are closed: frees the table, drops a reference, and unlocks. */
void ci_names_end(struct ci_names *names);

/* Empties the table. Tasks that wait for an answer still get it; it is not kept. */
void ci_names_forget(struct ci_names *names);

/* The question of a name and a family, unless its answer is too old; NULL: there is none. */
struct ci_question *ci_question_find(struct ci_names *names, const char *host, int family,
                                     coir_time now);

/* Adds a question that is not in the table; NULL: out of memory. */
struct ci_question *ci_question_add(struct ci_names *names, const char *host, int family);

/* Takes a question out of the table, if it is there. */
void ci_question_unlist(struct ci_names *names, struct ci_question *question);

/* Marks the question's answer as used: it will be the last to be dropped when the table is full. */
void ci_question_touch(struct ci_names *names, struct ci_question *question);

/* Sets the answer, which is kept for `ttl` from now on, and wakes all that wait for it. */
void ci_question_answer(struct ci_names *names, struct ci_question *question, int error,
                        const struct ci_ips *ips, coir_time now, coir_time ttl);

/* The leader leaves: makes the task that has waited longest, if any, the leader. */
void ci_question_pass(struct ci_names *names, struct ci_question *question);

/* Checks invariant 3; called for each question that a task joins or leaves. */
void ci_question_check(const struct ci_question *question);

/* Drops one holder; frees the question with the last. */
void ci_question_drop(struct ci_names *names, struct ci_question *question);

#endif
