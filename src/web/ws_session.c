/* A WebSocket connection without a fiber: a task without a stack waits for its stream. When a
 * message is complete, it calls a function on a stack, which hands messages to the program until
 * there is none, and gives the stack back.
 *
 *    state     what happened                 next state
 *    WAITING   bytes, and no message yet     WAITING
 *    WAITING   nothing for a while           WAITING, and it rests (ws.h 5)
 *    WAITING   a message, or the end         CALLING
 *    CALLING   no message is left            WAITING
 *    CALLING   the connection has ended      (freed)
 *    CALLING   no memory for a stack         STARVED
 *    STARVED   after a while                 CALLING
 *
 * The program has to be told of messages and of the end, for which a stack is needed: the
 * connection does not end without one.
 */
#include <errno.h>

#include "coir/deadline.h"
#include "coir/fiber.h"
#include "web/ws.h"

enum state { WAITING, CALLING, STARVED };

/* Memory is out for a stack: when it is tried again. */
static const coir_time retry_delay = 100 * COIR_MS;

static coir_future *session_poll(coir_future *future);

static const coir_future_kind session_kind =
    COIR_FUTURE_KIND("a WebSocket message", session_poll, NULL);

/* ---- on a stack ---- */

/* The peer's end of the connection: what it still sends would turn the close into a reset, in which
 * the close frame could be lost. */
static void linger(coir_ws *ws)
{
    char bytes[512];
    COIR_DEADLINE(coir_in(ws->terms->close_timeout));
    if (coir_shutdown_write(ws->stream) == 0)
        while (coir_read(ws->stream, bytes, sizeof bytes) > 0)
            ;
}

static void end_session(coir_ws *ws, int code)
{
    ws->receiving = false;
    ci_ws_finish(ws, code);
    if (!ws->over)
        ci_ws_end(ws, CI_WS_NO_CLOSE, coir_task_interrupted() ? -ECANCELED : -ETIMEDOUT);
    ci_ws_sender_drop(ws); /* the function may wait for tasks that flush */
    ws->terms->fn(ws, NULL, ws->arg);
    ci_ws_sender_end(ws);
    linger(ws);
}

/* Hands out what is there: until nothing is, or the connection has ended. */
static int run(void *arg)
{
    coir_ws *ws = arg;
    int rc;
    ws->starved = false;
    while ((rc = ci_ws_advance(ws)) == CI_WS_MESSAGE) {
        coir_ws_message *message = ws->awake->ready;
        ws->awake->ready = NULL;
        rc = ws->terms->fn(ws, message, ws->arg);
        coir_ws_message_unref(message);
        if (rc < 0)
            break;
        ci_spend(ci_worker_current);
    }
    if ((rc == -EAGAIN || rc == CI_WS_YIELD) && !coir_task_interrupted())
        return 0;
    end_session(ws, rc < 0 && !ws->over ? CI_WS_FAILED : CI_WS_NORMAL);
    return 1;
}

/* ---- without one ---- */

static coir_future *wait_for_message(coir_ws *ws)
{
    ci_ws_begin_wait(ws);
    ws->awake->future.state = WAITING;
    return ci_stream_await_readable(&ws->io, ws->stream, &ws->awake->future);
}

static coir_future *begin_call(coir_ws *ws)
{
    coir_future *call = ci_call_init(&ws->awake->call, run, ws);
    ws->awake->future.state = CALLING;
    call->caller = &ws->awake->future;
    return call;
}

/* A cancelled task waits, too: it has the end to tell. */
static coir_future *starve_poll(coir_future *future)
{
    const coir_ws *ws = ci_container_of(future, struct ci_ws_awake, call.future)->ws;
    ci_leaf_suspend(ci_ws_http(ws)->worker, future);
    return NULL;
}

static const coir_future_kind starve_kind =
    COIR_FUTURE_KIND("memory for a stack", starve_poll, NULL);

static coir_future *call_later(coir_ws *ws)
{
    struct ci_worker *worker = ci_ws_http(ws)->worker;
    if (!ws->starved)
        ci_warn(worker, "a WebSocket connection waits: no memory for a stack");
    ws->starved = true;
    ws->awake->future.state = STARVED;
    ws->awake->call.future = (coir_future){&starve_kind, &ws->awake->future, 0, 0};
    ci_worker_set_timer(worker, &ws->timer, ci_time_after(ci_ws_now(ws), retry_delay));
    return &ws->awake->call.future;
}

void ci_ws_session_retry(coir_ws *ws)
{
    ci_wake(ci_ws_http(ws)->worker, &ws->awake->task->runnable, &ws->awake->call.future);
}

static coir_future *finish(coir_ws *ws)
{
    coir_future *caller = ws->awake->future.caller;
    coir_stream *stream = ws->stream;
    struct ci_http_worker *http = ci_ws_http(ws);
    ci_ws_free(ws);
    ci_stream_close_soon(stream);
    ci_drop(&http->live);
    caller->result = 0;
    return caller;
}

static coir_future *session_poll(coir_future *future)
{
    coir_ws *ws = ci_container_of(future, struct ci_ws_awake, future)->ws;
    int rc;
    if (ci_unlikely((enum state)future->state == STARVED))
        return begin_call(ws);
    if ((enum state)future->state == CALLING) {
        if (ci_unlikely(ws->awake->call.future.result < 0))
            return call_later(ws);
        return ws->awake->call.future.result ? finish(ws) : wait_for_message(ws);
    }
    rc = ci_ws_end_wait(ws, ws->io.future.result);
    if (rc < 0) { /* the task was cancelled, or the stream has failed */
        ci_ws_send_close(ws, CI_WS_GOING_AWAY, NULL, 0);
        ci_ws_end(ws, CI_WS_NO_CLOSE, rc);
    } else {
        rc = ci_ws_advance(ws);
    }
    return rc == -EAGAIN ? wait_for_message(ws) : begin_call(ws);
}

coir_future *ci_ws_session_begin(coir_ws *ws, coir_future *caller, struct ci_task *task)
{
    ws->awake->future = (coir_future){&session_kind, caller, 0, WAITING};
    ws->awake->task = task;
    ci_check(ws->receiving, "web/ws.h 1");
    int rc = ci_ws_advance(ws); /* what came behind the request */
    return rc == -EAGAIN ? wait_for_message(ws) : begin_call(ws);
}

coir_future *ci_ws_session_resume(coir_ws *ws)
{
    ws->awake->future = (coir_future){&session_kind, NULL, 0, WAITING};
    ws->io.future.caller = &ws->awake->future;
    return &ws->awake->future;
}
