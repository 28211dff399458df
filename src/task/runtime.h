/* The runtime: what its workers share. */
#ifndef CI_TASK_RUNTIME_H
#define CI_TASK_RUNTIME_H

#include "base/list.h"
#include "coir/runtime.h"
#include "sys/gate.h"
#include "sys/lock.h"
#include "sys/signal.h"
#include "task/offload.h"
#include "task/task.h"
#include "task/waker.h"
#include "task/worker.h"

struct coir_runtime {
    struct ci_list link; /* in ci_runtimes */
    coir_config config;  /* defaults filled in */
    coir_allocator allocator;
    int worker_count;
    struct ci_worker *workers;
    uint32_t run;       /* the state of its run, in one word: see run_state.h */
    bool asked_to_stop; /* by coir_runtime_stop, in this run or before it */
    bool simulated;
    bool answers; /* its threads unblock what asks for their stacks */

    struct ci_handle first; /* of the run's first task */
    struct ci_offload offload;
    struct ci_wakers *wakers;
    struct ci_runtime_extension *extensions; /* newest first */
    int32_t holds;                           /* plain threads that are going to send */
    int32_t keepers;        /* threads that keep it from being freed, and wake no task of it */
    bool was_visited;       /* a plain thread has sent, and may do so again */
    uint32_t stuck_changes; /* how often a worker became stuck or ceased to be stuck */
    /* a boolean; int32_t because not every processor has an atomic exchange of bytes */
    int32_t deadlocked;
    int32_t traced; /* enum ci_tracing */
    int32_t told;   /* workers that have logged their tasks */
    struct ci_signal_stop stop;
    int started;                  /* threads, in a run; 0 outside of one */
    struct ci_gate start;         /* where the threads wait until all have started */
    struct ci_recorder *recorder; /* NULL: none */
    struct ci_watchdog *watchdog; /* of slow turns, in a run; NULL: none */
    struct ci_stalls *stalls;     /* stall.c, in a run; NULL: none */

    struct ci_lock shared_lock; /* guards `shared`, and `worker` of the tasks in it */
    struct ci_runnable *shared; /* tasks that any worker may take, oldest first */
    struct ci_runnable **shared_tail;
    int32_t shared_count;

    /* a line of their own: plain threads write it for each message */
    CI_CACHE_ALIGNED int32_t visitors; /* threads that are sending, mostly not of this runtime */

    CI_CACHE_ALIGNED struct ci_mutex metered_lock; /* guards the following */
    struct ci_list metered;                        /* struct ci_metered */
    uint32_t metered_count;                        /* that were ever added */
};

/* Every runtime of the process, oldest first, and the lock of the list. A debugger finds the tasks
 * from here. */
extern struct ci_list ci_runtimes;
extern struct ci_lock ci_runtimes_lock;

/* Makes a runtime on drivers that `open` makes, without a look at the machine or the environment.
 * `allocator` NULL: malloc. */
typedef int ci_open_driver_fn(void *arg, int worker, const coir_allocator *allocator,
                              struct ci_driver **ret_driver);
int ci_runtime_new_on(const coir_config *config, const coir_allocator *allocator,
                      ci_open_driver_fn *open, void *arg, coir_runtime **ret_runtime);

#endif
