/* coir_main: the entry point of most programs, and the only place where coir prints or installs
 * signal handlers by itself. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/misuse.h"
#include "sys/stdio.h"
#include "task/log.h"
#include "task/runtime.h"

static const char *const level_names[] = {"error", "warning", "info", "debug"};

/* `arg`: the number of levels that are logged. */
static void log_to_stderr(enum coir_log_level level, const char *line, void *arg)
{
    if ((int)level < *(const int *)arg)
        fprintf(stderr, "coir: %s: %s\n", level_names[level], line);
}

static int levels_to_log(void)
{
    const char *wanted = getenv("COIR_LOG");
    if (!wanted || !*wanted)
        return COIR_LOG_INFO + 1;
    for (int level = COIR_LOG_ERROR; level <= COIR_LOG_DEBUG; level++)
        if (strcmp(wanted, level_names[level]) == 0)
            return level + 1;
    if (strcmp(wanted, "none") != 0)
        fprintf(stderr,
                "coir: warning: COIR_LOG is \"%s\"; it may be none, error, warning, info or debug: "
                "nothing is left out\n",
                wanted);
    return strcmp(wanted, "none") == 0 ? 0 : COIR_LOG_DEBUG + 1;
}

int coir_main(coir_task_fn *start, void *arg)
{
    if (CI_REFUSED(!start, "start is NULL"))
        return 1;
    int rc = ci_stdio_reserve();
    if (rc < 0) {
        fprintf(stderr,
                "coir: error: the standard input, output or error is closed, and /dev/null cannot "
                "be opened in its place: %s (error %u)\n",
                coir_strerror(rc), ci_error_number(rc));
        return 1;
    }
    coir_config config = COIR_CONFIG;
    int levels = levels_to_log();
    config.log = log_to_stderr;
    config.log_arg = &levels;
    config.report_overflow = true;
    config.stop_signals = true;
    config.environment = COIR_ENVIRONMENT_WORKERS | COIR_ENVIRONMENT_DRIVER;
    config.deadlock = COIR_DEADLOCK_END;
    coir_runtime *runtime;
    rc = coir_runtime_new(&config, &runtime);
    if (rc < 0) {
        fprintf(stderr, "coir: error: the runtime cannot be made: %s (error %u)\n",
                coir_strerror(rc), ci_error_number(rc));
        return 1;
    }
    rc = coir_runtime_run(runtime, start, arg);
    bool was_asked_to = rc == -ECANCELED && runtime->asked_to_stop;
    coir_runtime_free(runtime);
    if (rc >= 0 || was_asked_to)
        return 0;
    fprintf(stderr,
            "coir: error: the program ended with an error of its first task: %s (error %u)\n",
            coir_strerror(rc), ci_error_number(rc));
    return 1;
}
