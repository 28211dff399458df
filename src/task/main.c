/* coir_main: what most programs call, and the only place where coir prints or installs anything by itself. */
#include <errno.h>
#include <stdio.h>

#include "task/task.h"

static void log_to_stderr(void *context, enum coir_log_level level, const char *line)
{
    (void)context;
    static const char *const names[] = {"error", "warning", "info", "debug"};
    if (level < COIR_LOG_DEBUG)
        fprintf(stderr, "coir: %s: %s\n", names[level], line);
}

int coir_main(coir_task_fn *start, void *arg)
{
    coir_config config = COIR_CONFIG;
    config.log = log_to_stderr;
    config.report_overflow = 1;
    config.stop_signals = 1;
    config.deadlock = COIR_DEADLOCK_END;
    coir_runtime *runtime;
    int rc = coir_runtime_new(&config, &runtime);
    if (rc < 0) {
        fprintf(stderr, "coir: error: the runtime cannot be made: %s (error %u)\n", coir_strerror(rc), ci_error_number(rc));
        return 1;
    }
    rc = coir_runtime_run(runtime, start, arg);
    bool was_asked_to = rc == -ECANCELED && runtime->asked_to_stop;
    coir_runtime_free(runtime);
    if (rc >= 0 || was_asked_to)
        return 0;
    fprintf(stderr, "coir: error: the program ended with an error of its first task: %s (error %u)\n", coir_strerror(rc),
            ci_error_number(rc));
    return 1;
}
