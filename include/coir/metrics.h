/* What a runtime counts, as text in the format of Prometheus: per worker, pool, listener and named
 * lock, and, while the workers are traced (coir/trace.h, coir/recorder.h), histograms and the turns
 * of tasks by name. */
#ifndef COIR_METRICS_H
#define COIR_METRICS_H

#include <coir/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes the metrics of a runtime into `text`, cut at `size` - 1 bytes and ended by a NUL. Returns
 * the length of the whole, which may be more by the next call. They are approximate while the
 * runtime runs.
 *
 * Counters: tasks, stacks, turns and wake-ups of each worker, objects of its pools and their bytes
 * (streams and task-locals may end on another worker than they were made on: then these are right
 * as a sum over the workers, and one may be negative), threads of coir_offload. Of each listener,
 * by the address that coir_tcp_listen was given, and by a number of its own:
 * coir_listener_accepted_total, coir_listener_refused_total (closed beyond a limit),
 * coir_listener_accept_errors_total, coir_listener_connections_live, _max and _held (accepted, but
 * not taken by a worker yet), coir_listener_paused, coir_listener_full. Of locks that have a name
 * (coir_mutex_set_name, also those of other runtimes): coir_lock_waits_total, the waits for one
 * that was not free; and the histogram coir_lock_wait_seconds, how long those took that got it.
 * Taking a lock that is free is not counted.
 *
 * From the first trace on also histograms of each worker: coir_turn_seconds, how
 * long a turn takes; coir_scheduling_delay_seconds, how long a task that another one has woken
 * waits for its turn; coir_poll_delay_seconds, the same for one that I/O, a timer or another
 * worker has woken. And by the names of tasks, at most 64 of each worker and 255 in all (31 bytes
 * of each), the others as "(others)": coir_task_begins_total and coir_task_ends_total,
 * coir_task_turns_total, coir_task_seconds_total, coir_task_turn_seconds_max, and the histograms
 * coir_task_turn_seconds and coir_task_scheduling_delay_seconds, whoever has woken it. What was not
 * traced is not in them.
 * With coir_config.stack_use also coir_stack_used_bytes_max by the names of tasks: of the size of a
 * stack, without its guard; and coir_stack_size_suggested_bytes.
 * Suspends: no.  Threads: any, while the runtime is not freed.
 * Errors: -EINVAL no runtime, or no text and a size; -ENOMEM. */
COIR_API int64_t coir_metrics_text(coir_runtime *runtime, char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
