/* Rate-limited warnings. A worker logs at most LINES_MAX a second and counts the rest: what causes
 * one warning can cause a million of them. The count is logged when the second is over, or when the
 * runtime is freed. */
#include "task/warn.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/time.h"
#include "task/log.h"
#include "task/runtime.h"

enum { LINES_MAX = 10 };

static void log_suppressed(struct ci_worker *worker)
{
    struct ci_warnings *warnings = &worker->warnings;
    if (warnings->suppressed)
        ci_log(worker->runtime, COIR_LOG_WARNING,
               "worker %d: %llu more warnings suppressed within one second", worker->index,
               (unsigned long long)warnings->suppressed);
    warnings->suppressed = 0;
    warnings->lines = 0;
}

static void on_second(struct ci_timer *timer)
{
    log_suppressed(ci_container_of(timer, struct ci_worker, warnings.timer));
}

void ci_warn(struct ci_worker *worker, const char *format, ...)
{
    struct ci_warnings *warnings = &worker->warnings;
    struct coir_loop *loop = &worker->loop;
    if (!worker->runtime->config.log)
        return;
    if (loop->now >= ci_time_after(warnings->since, COIR_S)) {
        log_suppressed(worker);
        warnings->since = loop->now;
    }
    if (warnings->lines == LINES_MAX) {
        if (warnings->suppressed++ == 0 && !ci_timer_started(&warnings->timer))
            ci_loop_start_timer(loop, &warnings->timer, ci_time_after(warnings->since, COIR_S));
        return;
    }
    warnings->lines++;
    char line[400];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    ci_log(worker->runtime, COIR_LOG_WARNING, "%s", line);
}

void ci_warnings_init(struct ci_warnings *warnings)
{
    ci_timer_init(&warnings->timer, on_second);
}

void ci_warnings_done(struct ci_worker *worker)
{
    log_suppressed(worker);
    ci_wheel_cancel(&worker->loop.wheel, &worker->warnings.timer);
}
