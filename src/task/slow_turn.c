#include "task/slow_turn.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "loop/watchdog.h"
#include "task/log.h"

static const char *what_is_slow(const coir_slow_turn *turn)
{
    return turn->task ? turn->task : turn->callback ? "(a callback)" : "(without a name)";
}

/* On the watchdog's thread. */
static void log_slow_turn(const coir_slow_turn *turn, void *arg)
{
    const struct ci_worker *worker = arg;
    ci_log(worker->runtime, COIR_LOG_WARNING,
           "worker %d has not looked at its events for %" PRId64 " ms; %s runs%s", worker->index,
           turn->busy / COIR_MS, what_is_slow(turn),
           *turn->stack ? ":" : ". Its thread does not answer, so its stack is unknown");
    for (const char *line = turn->stack, *end; (end = strchr(line, '\n')); line = end + 1)
        ci_log(worker->runtime, COIR_LOG_WARNING, "%.*s", (int)(end - line), line);
}

int ci_slow_turn_begin(coir_runtime *runtime)
{
    return runtime->config.slow_turn ? ci_watchdog_new(&runtime->allocator, &runtime->watchdog) : 0;
}

void ci_slow_turn_end(coir_runtime *runtime)
{
    ci_watchdog_free(runtime->watchdog, &runtime->allocator);
    runtime->watchdog = NULL;
}

void ci_slow_turn_enter(struct ci_worker *worker)
{
    coir_runtime *runtime = worker->runtime;
    if (!runtime->watchdog)
        return;
    struct ci_watched *watched = ci_alloc_zero(&runtime->allocator, sizeof *watched);
    int rc = -ENOMEM;
    if (watched) {
        watched->loop = &worker->loop;
        watched->limit = runtime->config.slow_turn;
        watched->fn = log_slow_turn;
        watched->arg = worker;
        rc = ci_watchdog_add(runtime->watchdog, watched);
    }
    if (rc == 0) {
        worker->watched = watched;
        return;
    }
    ci_free(&runtime->allocator, watched, sizeof *watched);
    ci_log(runtime, COIR_LOG_WARNING, "worker %d: its slow turns are not reported: %s",
           worker->index, coir_strerror(rc));
}

void ci_slow_turn_leave(struct ci_worker *worker)
{
    coir_runtime *runtime = worker->runtime;
    if (!worker->watched)
        return;
    ci_watchdog_remove(runtime->watchdog, worker->watched);
    ci_free(&runtime->allocator, worker->watched, sizeof *worker->watched);
    worker->watched = NULL;
}
