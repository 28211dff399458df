/* Log lines. They go to the log function of the configuration; without one nothing is formatted. */
#ifndef CI_TASK_LOG_H
#define CI_TASK_LOG_H

#include "coir/runtime.h"

void ci_log(const coir_runtime *runtime, enum coir_log_level level, const char *format, ...)
    COIR_PRINTF(3, 4);

/* Logs before there is a runtime. */
void ci_log_to(const coir_config *config, enum coir_log_level level, const char *format, ...)
    COIR_PRINTF(3, 4);

/* The number of a negative error, logged beside its text, which does not identify an unknown
 * error. */
static inline unsigned ci_error_number(int error)
{
    return 0u - (unsigned)error;
}

#endif
