/* Halting the workers of the process, so that another thread can read their tasks.
 *
 * A worker halts between turns of tasks, where its inbox is delivered. One that calls for a dump is
 * halted by that; so is one that the calling thread drives. A worker that does not answer in time
 * goes on, and nothing of it is read.
 *
 *    RUNS -- asked --> ASKED -- its inbox is delivered --> HALTED -- released --> RUNS
 *     |                  `-- too late --> RUNS
 *     `-- calls for a dump --> CALLS -- its dump is written --> RUNS
 *
 * 1. One thread at a time halts workers.
 * 2. The runtimes whose workers are asked are not freed before the release: the halt counts itself
 *    among their keepers. They are not visitors, which would hide a deadlock: a worker that was too
 *    late may look for one during the halt, and does not look again after it. A halt makes nothing
 *    runnable, and a worker that gets its message looks once more before it sleeps.
 *
 * Who waits sleeps at ci_halt_answers or ci_halt_releases, which change after the state that is
 * waited for has.
 */
#ifndef CI_TASK_HALT_H
#define CI_TASK_HALT_H

#include "base/inbox.h"
#include "coir/runtime.h"
#include "sys/context.h"
#include "sys/thread_trace.h"
#include "task/describe.h"

struct ci_worker;

enum ci_halt_state { CI_HALT_RUNS, CI_HALT_ASKED, CI_HALT_HALTED, CI_HALT_CALLS };

enum { CI_HALT_NAME = 64 };

/* A worker's part. */
struct ci_halt {
    struct ci_message message;
    struct ci_worker *next; /* of those that are halted */
    int32_t sent;           /* the message is in the worker's inbox */
    int32_t state;          /* enum ci_halt_state */
    const char *thread;     /* the mark (ci_thread_mark) of its thread; NULL: it has none */
    struct ci_context here; /* where a worker that CALLS does that */
    int32_t native;         /* whether its thread can be asked for its stack, or is */
    struct ci_traced traced;
    struct ci_holder running; /* with `traced`: the task that it was taken from */
    const void *running_fn;   /* its function; NULL: it has none */
    char running_name[CI_HALT_NAME];
};

enum { CI_HALTED_RUNTIMES = 64 };

struct ci_halted {
    const char *thread;      /* the mark of the thread that wants it */
    struct ci_worker *self;  /* the worker that CALLS, or NULL */
    struct ci_worker *first; /* of those that have answered */
    coir_time asked;         /* when the workers were: after the waits for other halts */
    int count, left_out;     /* runtimes: those beyond CI_HALTED_RUNTIMES are not asked */
    coir_runtime *runtimes[CI_HALTED_RUNTIMES];
};

/* How often a worker has halted, and how often workers were released. */
extern uint32_t ci_halt_answers, ci_halt_releases;
void ci_halt_tell(uint32_t *word);

void ci_halt_init(struct ci_worker *worker);

/* The worker's thread begins and ends; between them it can be asked for its stack. If it has SIGURG
 * blocked it does not answer, unless `answers`: then that is unblocked. */
void ci_halt_enter_thread(struct ci_worker *worker, bool answers);
void ci_halt_leave_thread(struct ci_worker *worker);

/* Halts the workers of every run in progress; `thread` and `self` are set. Waits for other halts,
 * and then for the workers, for `timeout` at most. */
void ci_halt_all(struct ci_halted *halted, coir_time timeout);
void ci_halt_release(struct ci_halted *halted);

/* The calling worker calls for a dump: it is halted until the release of the halt that has it as
 * `self`. If there will be none, it goes on after `failed`. */
void ci_halt_call(struct ci_worker *worker);
void ci_halt_call_failed(struct ci_worker *worker);

/* Whether the worker can be read, until the release. */
bool ci_is_halted(const struct ci_halted *halted, const struct ci_worker *worker);

/* Asks a worker that does not answer for the stack of its thread: 0, or -ENOTSUP. It must be
 * awaited then, until `end` at most: 0, or -ETIMEDOUT. So the stacks of several are taken in the
 * time of one. What was taken stays until the worker is asked again. */
int ci_halt_ask_stack(struct ci_worker *worker);
int ci_halt_await_stack(struct ci_worker *worker, coir_time end);

#endif
