/* Closing a WebSocket connection in due form (RFC 6455, 7). */
#include <errno.h>
#include <string.h>

#include "coir/deadline.h"
#include "coir/fiber.h"
#include "web/ws.h"

/* Receives until the peer has closed, too; a client waits until the server ends the connection
 * (RFC 6455, 7.1.1). */
static int wait_for_end(coir_ws *ws)
{
    coir_ws_message *message;
    char bytes[256];
    int rc;
    while ((rc = coir_ws_recv(ws, &message)) > 0)
        coir_ws_message_unref(message);
    int flushed = coir_ws_flush(ws); /* the close frame, also where the peer was refused */
    rc = rc < 0 ? rc : flushed;
    while (rc == 0 && ws->terms->client && coir_read(ws->stream, bytes, sizeof bytes) > 0)
        ;
    return rc;
}

/* Behind what waits to be sent, if that goes in time. */
static int say_close(coir_ws *ws, int code, const char *reason)
{
    struct ci_ws_sender *sender;
    if (ws->over || ci_ws_sent_close(ws))
        return 0;
    int rc = ci_ws_sender_enter(ws, &sender);
    if (rc < 0)
        return ci_ws_send_close(ws, code, reason, strlen(reason));
    bool has_turn = ci_ws_sends_parts(sender);
    rc = has_turn ? 0 : coir_mutex_lock(&sender->turn);
    int said = ci_ws_send_close(ws, code, reason, strlen(reason));
    if (rc == 0 && !has_turn)
        coir_mutex_unlock(&sender->turn);
    ci_ws_sender_leave(ws);
    return rc < 0 ? rc : said;
}

/* Another task receives, which the peer might keep busy for ever. */
static void limit_receive(coir_ws *ws)
{
    if (ws->over || ws->closed)
        return;
    ws->closed = true;
    ws->close_by = ci_time_after(ci_ws_now(ws), ws->terms->close_timeout);
    if (ws->awake) {
        coir_ws_message_unref(ws->awake->ready);
        ws->awake->ready = NULL;
    }
    if (ws->waiting)
        ci_ws_begin_wait(ws); /* for a shorter time */
}

static int close_within(coir_ws *ws, int code, const char *reason)
{
    COIR_DEADLINE_AS(limit, coir_in(ws->terms->close_timeout));
    if (ws->receiving)
        limit_receive(ws); /* also where this call does not get so far */
    int rc = say_close(ws, code, reason);
    if (ws->receiving)
        limit_receive(ws); /* one that has begun meanwhile */
    if (rc == 0 || rc == -EPIPE)
        rc = ws->receiving ? coir_ws_flush(ws) : wait_for_end(ws);
    if (!coir_deadline_passed(limit))
        return rc;
    if (!ws->receiving) {
        ci_ws_end(ws, CI_WS_NO_CLOSE, -ETIMEDOUT);
        ci_ws_sender_drop(ws); /* who flushes would wait for a peer that takes nothing */
    }
    return -ETIMEDOUT;
}

static bool reason_is_valid(const char *reason)
{
    struct ci_utf8 utf8 = {0};
    size_t len = strlen(reason);
    return len <= CI_WS_CONTROL_MAX - 2 && ci_utf8_check(&utf8, reason, len) &&
           ci_utf8_is_whole(&utf8);
}

int coir_ws_close(coir_ws *ws, int code, const char *reason)
{
    int rc = 0;
    if (!ci_fiber_enter(&rc))
        return rc;
    if (!ws || !ci_ws_code_is_valid(code) || (reason && !reason_is_valid(reason)))
        return CI_MISUSE(-EINVAL, "ws is NULL, or code or reason must not be sent");
    if (CI_ELSEWHERE(ci_ws_http(ws)->worker))
        return -EXDEV;
    return close_within(ws, code, reason ? reason : "");
}

void ci_ws_finish(coir_ws *ws, int code)
{
    if (coir_task_interrupted())
        ci_ws_send_close(ws, CI_WS_GOING_AWAY, NULL, 0);
    else
        close_within(ws, code, "");
}
