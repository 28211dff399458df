/* Log lines: formatted here, written by the program's log function. */
#include "task/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/character.h"
#include "sys/fork.h"
#include "sys/misuse.h"
#include "task/current.h"
#include "task/runtime.h"
#include "task/worker.h"

enum { LINE = 512 };

/* Names of tasks and words of peers may have any bytes: they make no line of their own, and obey no
 * terminal. */
static void log_args(const coir_config *config, enum coir_log_level level, const char *format,
                     va_list args)
{
    char line[LINE];
    if (!config->log)
        return;
    vsnprintf(line, sizeof line, format, args);
    ci_character_make_plain(line);
    config->log(level, line, config->log_arg);
}

void ci_log(const coir_runtime *runtime, enum coir_log_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_args(&runtime->config, level, format, args);
    va_end(args);
}

void ci_log_to(const coir_config *config, enum coir_log_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_args(config, level, format, args);
    va_end(args);
}

void coir_log(enum coir_log_level level, const char *format, ...)
{
    const struct ci_worker *worker = ci_worker_current;
    char line[LINE];
    va_list args;
    if (CI_REFUSED(!format, "format is NULL") || ci_forked() || !worker)
        return;
    const coir_config *config = &worker->runtime->config;
    if (!config->log)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    config->log(level, line, config->log_arg);
}

/* Misuse that does not abort. */
static bool log_misuse(const coir_runtime *runtime, const char *line)
{
    if (!runtime && ci_worker_current)
        runtime = ci_worker_current->runtime;
    if (!runtime || !runtime->config.log)
        return false;
    if (line)
        ci_log(runtime, COIR_LOG_ERROR, "%s", line);
    return true;
}

__attribute__((constructor)) static void hear_of_misuse(void)
{
    ci_misuse_log = log_misuse;
}
