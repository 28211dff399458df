/* The flight recorder: a trace that is written to a file when something goes wrong. */
#ifndef CI_TASK_RECORDER_H
#define CI_TASK_RECORDER_H

#include "coir/recorder.h"
#include "task/trace.h"

struct ci_recorder;

/* Asks for a file: as coir_recorder_write. */
CI_COLD int ci_recorder_tell(struct ci_recorder *recorder, const char *reason);

/* With the runtime, when no thread runs any more. */
void ci_recorder_free(struct coir_runtime *runtime);

/* Around a request: the time when it begins, in ticks; 0: it is not measured. */
CI_INLINE uint64_t ci_recorder_begin(const struct ci_worker *worker)
{
    bool wanted = ci_unlikely(worker->trace != NULL) && worker->trace->slow_request;
    return wanted ? ci_clock_ticks() : 0;
}

static inline void ci_recorder_end(const struct ci_worker *worker, uint64_t began)
{
    const struct ci_trace *trace = worker->trace;
    if (ci_unlikely(began && trace && trace->slow_request) &&
        ci_clock_ticks() > began + trace->slow_request)
        ci_recorder_tell(trace->recorder, "a slow request");
}

#endif
