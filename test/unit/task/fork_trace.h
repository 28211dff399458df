/* What test/unit/task/fork_test.c asks of what looks into a program: traces, the flight recorder,
 * metrics, dumps, debug routes. */
#ifndef TEST_UNIT_TASK_FORK_TRACE_H
#define TEST_UNIT_TASK_FORK_TRACE_H

#include <coir.h>
#include <coir/debug.h>

/* See CALLS in fork_test.c. */
#define TRACE_CALLS(R)                                                      \
    R(coir_trace_start, coir_trace_start(0))                                \
    R(coir_trace_stop, coir_trace_stop())                                   \
    R(coir_trace_write, coir_trace_write(-1))                               \
    R(coir_recorder_start, coir_recorder_start())                           \
    R(coir_recorder_start_with, coir_recorder_start_with(NULL))             \
    R(coir_recorder_write, coir_recorder_write("x"))                        \
    R(coir_recorder_stop, coir_recorder_stop())                             \
    R(coir_dump, coir_dump(-1, COIR_DUMP_TEXT))                             \
    R(coir_metrics_text, coir_metrics_text(o.runtime, NULL, 0))             \
    R(coir_route_debug, coir_route_debug(o.router, "/debug/", NULL, false)) \
    R(coir_route_metrics, coir_route_metrics(o.router, "/metrics"))

#endif
