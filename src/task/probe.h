/* The probes at the events of a trace: see docs/debugging.md. A worker that finds one attached
 * (ci_probes_wanted) traces, and fires them where it records. */
#ifndef CI_TASK_PROBE_H
#define CI_TASK_PROBE_H

#include "sys/probe.h"
#include "task/trace.h"

/* Before a turn; after it, by the task's name before (it may have ended), with what it waits for
 * now, or NULL. */
CI_COLD void ci_probe_turn_begin(const struct ci_trace_turn *turn);
CI_COLD void ci_probe_turn_end(const struct ci_trace_turn *turn, const char *awaits);

/* A task was spawned or woken in a turn, or by the loop (NULL). */
CI_COLD void ci_probe_woken(const struct ci_task *task, bool spawned,
                            const struct ci_trace_turn *by);

/* An operation, as it is noted in the trace. */
CI_COLD void ci_probe_noted(enum ci_trace_kind kind, const struct ci_task *task, const void *op,
                            union ci_trace_detail detail);

#endif
