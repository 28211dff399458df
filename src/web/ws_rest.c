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

static void set_timer(coir_ws *ws, coir_time delay)
{
    ci_worker_set_timer(ci_ws_http(ws)->worker, &ws->timer, ci_time_after(ci_ws_now(ws), delay));
}

/* The scope was cancelled while there was no memory for the task. */
static void cancel_late(coir_ws *ws)
{
    const struct ci_scope *scope = ci_scope_of(ws->terms->scope);
    struct ci_runnable *runnable = &ws->awake->task->runnable;
    if (!scope->cancelled)
        return;
    if (runnable->cancelled)
        ci_io_withdraw(&ws->io, runnable);
    else
        ci_runnable_cancel(runnable, scope->interrupt ? scope->interrupt : -ECANCELED);
}

/* `awake` with a task that waits as before. */
static bool take_task(coir_ws *ws)
{
    if (!ci_ws_wake(ws))
        return false;
    ws->awake->task = ci_task_rouse(ws->terms->scope, CI_HTTP_CONNECTION_TASK,
                                    ci_ws_session_resume(ws), &ws->io.future);
    if (!ws->awake->task)
        ci_ws_lull(ws);
    return ws->awake;
}

bool ci_ws_rouse(coir_ws *ws)
{
    if (ws->awake)
        return true;
    ws->rouse_is_due = !take_task(ws);
    if (ws->rouse_is_due) {
        set_timer(ws, retry_delay);
        return false;
    }
    ci_io_rouse(&ws->io, &ws->awake->task->runnable);
    if (ws->wait_is_over)
        ws->io.io.done(&ws->io.io);
    cancel_late(ws);
    return true;
}

static void on_ready_at_rest(struct ci_op *io)
{
    coir_ws *ws = ci_container_of(io, coir_ws, io.io);
    ci_check(!ws->awake && ws->waiting, "web/ws.h 5");
    ws->wait_is_over = true;
    ci_ws_rouse(ws);
}

/* Whether nothing is kept between two messages. */
static bool has_nothing(const struct ci_ws_awake *awake)
{
    return !awake->in && !awake->in_frame && !awake->frames.have && !awake->frames.in_message &&
           !awake->message && !awake->ready && !awake->inflater;
}

/* The function has begun to send a message in parts, which its task is known by. */
static bool sends_parts(const coir_ws *ws)
{
    const struct ci_ws_sender *sender = ci_ws_sender_of(ws);
    return sender && ci_load_relaxed(&sender->parts_by);
}

/* One that is about to end stays awake. */
static bool may_rest(const coir_ws *ws)
{
    return ws->awake && ws->awake->task && ws->waiting && !ws->over && !ws->closed &&
           !ci_ws_sent_close(ws) && has_nothing(ws->awake) && !sends_parts(ws) &&
           !ci_scope_of(ws->terms->scope)->cancelled &&
           ci_task_may_rest(ws->awake->task, &ws->io.future);
}

static void give_task_back(coir_ws *ws)
{
    ws->wait_is_over = false;
    ci_io_rest(&ws->io, on_ready_at_rest);
    ci_task_rest(ws->awake->task);
    ci_ws_lull(ws);
}

bool ci_ws_rest(coir_ws *ws)
{
    if (may_rest(ws))
        give_task_back(ws);
    return ws->awake || ci_ws_sender_rest(ws);
}
