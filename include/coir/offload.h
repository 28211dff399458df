/* Offloading work that blocks, or computes for long: it runs on a thread of the runtime's pool
 * while the fiber is parked. */
#ifndef COIR_OFFLOAD_H
#define COIR_OFFLOAD_H

#include <coir/future.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Calls a function on a thread of the runtime's pool, waits for it, and returns its result. At
 * most offload_threads_max calls run at a time; the others wait for their turn, in order. A call
 * that waits is withdrawn when its task is cancelled or a deadline passes; one that runs is waited
 * for, because it uses the caller's memory. In the simulator it runs at once, at a time from the
 * seed. `fn` must not call anything that suspends; the caller's task-locals are there for it.
 * Suspends: yes.  Threads: worker.
 * Errors: what `fn` returns; -EINVAL no function; -EAGAIN no thread could be made, or
 * offload_queue_max calls wait already.
 * Cancel safety: an error of coir's own means that `fn` was not called. */
COIR_SUSPENDS int coir_offload(coir_task_fn *fn, void *arg);

/* Storage for the future of an offloaded call. */
typedef struct coir_offload_job {
    coir_future future;
    uint64_t opaque[18];
} coir_offload_job;
COIR_API coir_future *coir_offload_op(coir_offload_job *job, coir_task_fn *fn, void *arg);

#ifdef __cplusplus
}
#endif

#endif
