/* Rate-limited warnings of a worker. */
#ifndef CI_TASK_WARN_H
#define CI_TASK_WARN_H

#include "coir/runtime.h"
#include "loop/timer_wheel.h"

struct ci_worker;

struct ci_warnings {
    struct ci_timer timer; /* started while warnings are suppressed */
    coir_time since;       /* start of the second in which `lines` were logged */
    unsigned lines;
    uint64_t suppressed;
};

void ci_warnings_init(struct ci_warnings *warnings);
void ci_warnings_done(struct ci_worker *worker);

/* Logs a warning, or counts it. Only on the worker's thread. */
CI_COLD void ci_warn(struct ci_worker *worker, const char *format, ...) COIR_PRINTF(2, 3);

#endif
