/* A model of threads: a scenario is run under every order of its atomic operations, up to a
 * number of preemptions. The order is sequentially consistent: fences that are missing are not
 * found here, but under the thread sanitizer and by reading. The exception are stores that their
 * thread does not wait for (ci_store_buffered): others see one at any time until the thread's next
 * store, or a barrier everywhere.
 *
 * Each worker of a runtime is a thread of the model, and so is each plain thread of the scenario.
 * Its drivers only sleep and wake: a wake-up that is lost is a run in which every thread sleeps. A
 * thread that waits at a gate (sys/gate.h) waits for the thread that opens it.
 */
#ifndef TEST_MODEL_H
#define TEST_MODEL_H

#include <coir.h>
#include <stdbool.h>

struct model {
    const char *name;
    unsigned workers;
    int preemptions;        /* per run, at most */
    void (*reset)(void);    /* before each run */
    coir_task_fn *start;    /* the first task, on worker 0; its result must be `result` */
    void (*plain[2])(void); /* plain threads, or NULL */
    void (*check)(void);    /* after each run */
    int result;
    enum coir_deadlock deadlock;
};

enum { MODEL_ANY_RESULT = 12345 };

/* The runtime of the run in progress, for plain threads. */
extern coir_runtime *model_runtime;

/* Runs it in every order, and prints how many there were. Fails the test on the first bad one,
 * with the choices that lead there. */
void model_run(const struct model *model);

/* The same on a runtime of its own for each order; its begin, and what comes after its end, are run
 * in every order too. `frees`: worker 0 frees it at once, even if another thread is still inside of
 * a call. */
void model_run_whole(const struct model *model, bool frees);

/* Set: barriers everywhere do nothing, which the model has to find. */
extern bool model_without_barrier;

/* Lets other threads of the model run: for plain threads that wait for something. */
void model_pause(void);

#endif
