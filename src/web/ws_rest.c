/* Rest: a connection without a fiber that has waited for a while gives back what it needs only
 * while something moves (ws.h 5). */
#include <errno.h>

#include "base/check.h"
#include "task/rest.h"
#include "task/scope.h"
#include "web/connection.h"
#include "web/ws.h"

/* Memory is out: when it is tried again. The program has to be told of the connection's end, for
 * which a task is needed; so the connection does not end without one. */
static const coir_time retry_delay = 100 * COIR_MS;

static coir_time now_of(const coir_ws *ws)
{
    return ci_worker_now(ws->http->worker);
}

static void set_timer(coir_ws *ws, coir_time delay)
{
    ci_worker_set_timer(ws->http->worker, &ws->timer, ci_time_after(now_of(ws), delay));
}

/* ---- the task ---- */

/* The scope was cancelled while there was no memory for the task. */
static void cancel_late(coir_ws *ws)
{
    const struct ci_scope *scope = ci_scope_of(ws->scope);
    struct ci_runnable *runnable = &ws->task->runnable;
    if (!scope->cancelled)
        return;
    if (runnable->cancelled)
        ci_io_withdraw(&ws->io, runnable);
    else
        ci_runnable_cancel(runnable, scope->interrupt ? scope->interrupt : -ECANCELED);
}

bool ci_ws_rouse(coir_ws *ws)
{
    if (!ws->scope || ws->task)
        return true;
    ws->task = ci_task_rouse(ws->scope, CI_HTTP_CONNECTION_TASK, &ws->future, &ws->io.future);
    ws->rouse_is_due = !ws->task;
    if (!ws->task) {
        set_timer(ws, retry_delay);
        return false;
    }
    ci_io_rouse(&ws->io, &ws->task->runnable);
    if (ws->wait_is_over)
        ws->io.io.done(&ws->io.io);
    cancel_late(ws);
    return true;
}

static void on_ready_at_rest(struct ci_op *io)
{
    coir_ws *ws = ci_container_of(io, coir_ws, io.io);
    ci_check(!ws->task && ws->waiting, "web/ws.h 5");
    ws->wait_is_over = true;
    ci_ws_rouse(ws);
}

/* One that is about to end keeps its task, as does one whose function has begun to send a message
 * in parts, which the task is known by. */
static bool may_rest(const coir_ws *ws)
{
    return ws->task && ws->waiting && !ws->over && !ws->closed && !ci_ws_sent_close(ws) &&
           !ci_load_relaxed(&ws->parts_by) && !ci_scope_of(ws->scope)->cancelled &&
           ci_task_may_rest(ws->task, &ws->io.future);
}

static void give_task_back(coir_ws *ws)
{
    ws->wait_is_over = false;
    ci_io_rest(&ws->io, on_ready_at_rest);
    ci_task_rest(ws->task);
    ws->task = NULL;
}

bool ci_ws_rest(coir_ws *ws)
{
    if (may_rest(ws))
        give_task_back(ws);
    return !ws->scope || ws->task || ci_ws_queue_rest(ws);
}
