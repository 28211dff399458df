/* The points at which a trace learns of operations that wait. Off, each is one branch that is never
 * taken. */
#ifndef CI_TASK_TRACE_POINT_H
#define CI_TASK_TRACE_POINT_H

#include "task/trace.h"

/* On the worker. */
#define ci_trace_point(worker, kind, task, op, ...)                                    \
    (ci_unlikely((worker)->trace != NULL)                                              \
         ? ci_trace_note(worker, kind, task, op, (union ci_trace_detail){__VA_ARGS__}) \
         : (void)0)

#endif
