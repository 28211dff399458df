#include "task/probe.h"

#include "task/task.h"

CI_PROBE_LISTENERS;
CI_PROBE_DECLARE(turn__begin);
CI_PROBE_DECLARE(turn__end);
CI_PROBE_DECLARE(spawn);
CI_PROBE_DECLARE(wake);
CI_PROBE_DECLARE(steal);
CI_PROBE_DECLARE(io__begin);
CI_PROBE_DECLARE(io__end);
CI_PROBE_DECLARE(object__wait);
CI_PROBE_DECLARE(offload__begin);
CI_PROBE_DECLARE(offload__end);

/* Its own, or that of the kind of its outermost future; "": it has none. */
static const char *name_of(const struct ci_task *task)
{
    const coir_future *root = task->root.fn ? NULL : task->root.arg;
    return task->name ? task->name : root ? root->kind->name : "";
}

static const char *name_of_turn(const struct ci_trace_turn *turn)
{
    return turn->name ? turn->name : turn->kind == CI_TRACE_RAN_FUTURE ? turn->root : "";
}

/* NULL: the task has no stack. */
static const void *function_of_turn(const struct ci_trace_turn *turn)
{
    return turn->fn;
}

void ci_probe_turn_begin(const struct ci_trace_turn *turn)
{
    CI_PROBE3(turn__begin, turn->task, name_of_turn(turn), function_of_turn(turn));
}

void ci_probe_turn_end(const struct ci_trace_turn *turn, const char *awaits)
{
    CI_PROBE4(turn__end, turn->task, name_of_turn(turn), function_of_turn(turn), awaits);
}

void ci_probe_woken(const struct ci_task *task, bool spawned, const struct ci_trace_turn *by)
{
    const char *name = name_of(task), *by_name = by ? name_of_turn(by) : "the loop";
    const void *function = (const void *)(uintptr_t)task->root.fn, *by_task = by ? by->task : NULL;
    if (spawned)
        CI_PROBE5(spawn, task, name, function, by_task, by_name);
    else
        CI_PROBE5(wake, task, name, function, by_task, by_name);
}

void ci_probe_noted(enum ci_trace_kind kind, const struct ci_task *task, const void *op,
                    union ci_trace_detail detail)
{
    const char *name = name_of(task);
    const void *fn = (const void *)(uintptr_t)detail.fn;
    switch (kind) {
    case CI_TRACE_TAKEN: CI_PROBE2(steal, task, name); break;
    case CI_TRACE_WAITS: CI_PROBE4(object__wait, task, name, op, detail.what); break;
    case CI_TRACE_IO_BEGAN: CI_PROBE5(io__begin, task, name, op, detail.kind, detail.value); break;
    case CI_TRACE_IO_ENDED: CI_PROBE5(io__end, task, name, op, detail.kind, detail.value); break;
    case CI_TRACE_OFFLOAD_BEGAN: CI_PROBE4(offload__begin, task, name, op, fn); break;
    case CI_TRACE_OFFLOAD_ENDED: CI_PROBE4(offload__end, task, name, op, fn); break;
    default: break;
    }
}
