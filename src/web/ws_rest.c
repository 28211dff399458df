/* Rest: a connection without a fiber that has waited for a while gives back what it needs only
 * while something moves (ws.h 5). And silence: a peer that sends nothing is pinged, and given up.
 */
#include <errno.h>

#include "base/check.h"
#include "task/rest.h"
#include "task/scope.h"
#include "web/connection.h"
#include "web/ws.h"

/* Memory is out: when it is tried again. The program has to be told of the connection's end, for
 * which a task is needed; so the connection does not end without one. */
static const coir_time retry_delay = 100 * COIR_MS;

/* Memory is out: when a ping is tried again. */
static const coir_time ping_retry_delay = 1 * COIR_S;

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

/* Whether nothing is kept between two messages: then nothing has come of one either, and what was
 * complete has been handed out before the wait. */
static bool has_nothing(const struct ci_ws_awake *awake)
{
    return !awake->in && !awake->in_frame && !awake->frames.have && !awake->frames.in_message &&
           !awake->inflater;
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
    ci_check(!ws->awake->message && !ws->awake->ready, "web/ws.h 5");
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

/* ---- silence ---- */

/* A queue that is full takes no ping: if the peer reads on, the next one may go. False: memory is
 * out, and the peer was not asked. */
static bool ping(coir_ws *ws)
{
    coir_ws_message *frame = ci_ws_control(ws, CI_WS_PING, NULL, 0);
    return frame && ci_ws_push_control(ws, frame) != -ENOMEM;
}

void ci_ws_on_silence(struct ci_timer *timer)
{
    coir_ws *ws = ci_container_of(timer, coir_ws, timer);
    coir_time now = ci_ws_now(ws), next, silent;
    if (ws->starved)
        ci_ws_session_retry(ws);
    if (!ws->waiting)
        return; /* the next wait starts it again */
    if (ws->rouse_is_due && !ci_ws_rouse(ws))
        return;
    if (now >= ci_ws_silence_ends(ws)) {
        bool reads = ci_ws_sender_is_read(ws); /* it may not have come to the ping yet */
        if ((ws->pinged && !reads) || now >= ws->close_by) {
            if (ci_ws_rouse(ws))
                ci_stream_break(ws->stream, -ETIMEDOUT);
            return;
        }
        if (ping(ws) || ws->pinged) {
            ws->since = now;
            ws->pinged = true;
        }
    }
    next = ci_ws_rest(ws) ? COIR_NEVER : ci_time_after(now, CI_WS_REST_DELAY);
    silent = ci_ws_silence_ends(ws);
    if (silent <= now) /* there was no memory for the ping */
        silent = ci_time_after(now, ping_retry_delay);
    next = next < silent ? next : silent;
    if (next != COIR_NEVER)
        ci_worker_set_timer(ci_ws_http(ws)->worker, timer, next);
}

/* ---- the end of the server ---- */

/* The server's scope may be cancelled later, which reaches only tasks that do not rest. */
void ci_ws_drain(coir_ws *ws)
{
    ci_ws_send_close(ws, CI_WS_GOING_AWAY, NULL, 0);
    ci_ws_rouse(ws);
}
