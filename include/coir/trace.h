/* Tracing: what the workers of a runtime do, in a ring of events per worker that keeps the newest.
 *
 *   coir_trace_start(0);
 *   ...
 *   coir_trace_write(fd);
 *
 * The file opens in https://ui.perfetto.dev and in chrome://tracing: a row per worker, a slice for
 * each time that a task ran, with what it waited for next, an arrow from who woke it, and a span
 * for each I/O operation, wait for a lock and offloaded call that did not complete at once. While
 * nothing is traced it costs one branch for each of the latter; a traced turn costs a look at the
 * processor's clock, and a traced program switches between fibers by way of the worker's own stack.
 */
#ifndef COIR_TRACE_H
#define COIR_TRACE_H

#include <coir/future.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Begins to trace every worker of the calling runtime. Each keeps its newest `events_max` events
 * of 32 bytes (0: 65,536; at most 2^24). What an earlier trace recorded is dropped.
 * Suspends: yes, until the workers have begun.  Threads: worker.
 * Errors: -EBUSY it is traced already; -EINVAL events_max; -ENOMEM; those of coir_call_on: some
 * workers may be traced, and it may be called again, or coir_trace_stop.
 * Cancel safety: it is not traced then. */
COIR_SUSPENDS int coir_trace_start(size_t events_max);

/* Ends tracing. What was recorded stays until the next coir_trace_start, and can be written.
 * Without a trace it does nothing.
 * Suspends: yes, until the workers have ended it.  Threads: worker.
 * Errors: -EBUSY the flight recorder runs (coir_recorder_stop ends it), or another task is
 * starting or stopping a trace; those of coir_call_on.
 * Cancel safety: some workers may be traced still; it may be called again. */
COIR_SUSPENDS int coir_trace_stop(void);

/* Writes what the trace holds to a descriptor, as JSON in the trace event format. The trace goes
 * on: as a flight recorder it is started once, and written when something was slow. The text is
 * made and written on a thread of coir_offload, which waits for room where the descriptor does not
 * block.
 * Suspends: yes.  Threads: worker.  Owns: the descriptor is borrowed until the call returns.
 * Errors: those of write(2); -ENOENT nothing was traced; -ENOMEM; those of coir_call_on and
 * coir_offload.
 * Cancel safety: a part may have been written. */
COIR_SUSPENDS int coir_trace_write(coir_fd fd);

#ifdef __cplusplus
}
#endif

#endif
