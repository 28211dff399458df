/* Warnings about what clients, handlers and tasks do: so many a second, the rest is counted. Whoever can cause a warning can cause a
 * million, and a log that is full, or written by every worker all the time, is a failure of its own.
 *
 *    QUIET -- warning --> COUNTING (LINES_MOST a second) -- more --> LEAVING OUT -- the second is over: "n more" --> QUIET
 */
#include <stdarg.h>
#include <stdio.h>

#include "base/time.h"
#include "task/task.h"

enum { LINES_MOST = 10 };

static void tell_rest(struct ci_worker *worker)
{
    struct ci_warnings *warnings = &worker->warnings;
    if (warnings->left_out)
        ci_log(worker->runtime, COIR_LOG_WARNING, "worker %d: %llu more warnings in that second, left out", worker->index,
               (unsigned long long)warnings->left_out);
    warnings->left_out = 0;
    warnings->lines = 0;
}

static void on_second(struct ci_timer *timer)
{
    tell_rest(ci_container_of(timer, struct ci_worker, warnings.timer));
}

void ci_warn(struct ci_worker *worker, const char *format, ...)
{
    struct ci_warnings *warnings = &worker->warnings;
    struct coir_loop *loop = &worker->loop;
    if (!worker->runtime->config.log)
        return;
    if (loop->now >= ci_time_after(warnings->since, COIR_S)) {
        tell_rest(worker);
        warnings->since = loop->now;
    }
    if (warnings->lines == LINES_MOST) {
        if (warnings->left_out++ == 0 && !ci_timer_started(&warnings->timer))
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
    tell_rest(worker);
    if (ci_timer_started(&worker->warnings.timer))
        ci_wheel_cancel(&worker->loop.wheel, &worker->warnings.timer);
}
