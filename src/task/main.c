/* coir_main: what most programs call, and the only place where coir prints or installs anything by itself. */
#include <errno.h>
#include <stdio.h>

#include "coir/runtime.h"

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
    if (rc == 0) {
        rc = coir_runtime_run(runtime, start, arg);
        coir_runtime_free(runtime);
    }
    if (rc == 0 || rc == -ECANCELED)
        return 0;
    fprintf(stderr, "coir: %s\n", coir_strerror(rc));
    return 1;
}
