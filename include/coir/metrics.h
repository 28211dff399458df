/* What a runtime counts, as text in the format of Prometheus: per worker, per pool, and, while the
 * workers are traced (coir/trace.h, coir/recorder.h), histograms and the turns of tasks by name. */
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
 * Counters: tasks, stacks, turns and wake-ups of each worker, objects of its pools, threads of
 * coir_offload. From the first trace on also histograms of each worker: coir_turn_seconds, how
 * long a turn takes; coir_scheduling_delay_seconds, how long a task that another one has woken
 * waits for its turn; coir_poll_delay_seconds, the same for one that I/O, a timer or another
 * worker has woken; and coir_task_turns_total, coir_task_seconds_total, coir_task_turn_seconds_max
 * by the names of tasks, 64 of each worker (31 bytes of each), the others as "(others)". With
 * coir_config.stack_use also coir_stack_used_bytes_max by the names of tasks: of the size of a
 * stack, without its guard; and coir_stack_size_suggested_bytes.
 * Suspends: no.  Threads: any, while the runtime is not freed.
 * Errors: -EINVAL no runtime, or no text and a size; -ENOMEM. */
COIR_API int64_t coir_metrics_text(coir_runtime *runtime, char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
