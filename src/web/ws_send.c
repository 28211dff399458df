/* Sending: frames of messages, of their parts, and of control, through the write queue. */
#include <errno.h>
#include <string.h>

#include "coir/fiber.h"
#include "io/write_queue.h"
#include "sync/mutex.h"
#include "task/completed.h"
#include "web/ws.h"
#include "web/ws_deflate.h"

/* ---- frames ---- */

/* Where the calling worker takes its messages. NULL: out of memory. */
static struct ci_ws_memory *memory_here(void)
{
    struct ci_http_worker *http = ci_http_worker_of(ci_worker_current);
    return http ? &http->messages : NULL;
}

/* The key of a client's frame, by the driver's random numbers (RFC 6455, 10.3). */
static void draw_key(uint8_t key[CI_WS_KEY])
{
    struct ci_driver *driver = ci_worker_current->loop.driver;
    uint64_t number = driver->kind->random(driver);
    memcpy(key, &number, CI_WS_KEY);
}

/* A client's frames are masked: takes the reference to `frame`, and returns one to what is to be
 * pushed. NULL: out of memory. */
static coir_ws_message *mask(const coir_ws *ws, coir_ws_message *frame)
{
    if (!ws->terms->client || !frame)
        return frame;
    uint8_t key[CI_WS_KEY];
    struct ci_ws_memory *memory = memory_here();
    draw_key(key);
    coir_ws_message *masked = memory ? ci_ws_message_mask(memory, frame, key) : NULL;
    coir_ws_message_unref(frame);
    return masked;
}

static coir_ws_message *make_frame(struct ci_ws_head *head, const void *data, size_t len)
{
    struct ci_ws_memory *memory = memory_here();
    coir_ws_message *frame = memory ? ci_ws_message_take(memory, len) : NULL;
    if (!frame)
        return NULL;
    head->len = len;
    if (len)
        memcpy(ci_ws_message_payload(frame), data, len);
    ci_ws_message_finish(frame, head);
    return frame;
}

/* ---- control frames ---- */

coir_ws_message *ci_ws_control(coir_ws *ws, enum ci_ws_opcode opcode, const void *data, size_t len)
{
    struct ci_ws_head head = {.opcode = (uint8_t)opcode, .fin = true};
    return mask(ws, make_frame(&head, data, len));
}

coir_ws_message *ci_ws_close_frame(coir_ws *ws, int code, const char *reason, size_t len)
{
    char payload[CI_WS_CONTROL_MAX] = {(char)(code >> 8), (char)code};
    if (code == CI_WS_NO_CODE)
        return ci_ws_control(ws, CI_WS_CLOSE, NULL, 0);
    if (len)
        memcpy(payload + 2, reason, len);
    return ci_ws_control(ws, CI_WS_CLOSE, payload, len + 2);
}

/* A control frame takes the place of no message, nor does it end the connection where the policy of
 * a full queue is to do so. */
static int push_now(coir_ws *ws, coir_ws_message *frame)
{
    struct ci_ws_sender *sender;
    int rc = frame ? ci_ws_sender_enter(ws, &sender) : -ENOMEM;
    if (rc == 0) {
        rc = ci_write_queue_push_if_room(sender->queue, &frame->frame);
        ci_ws_sender_leave(ws);
    }
    coir_ws_message_unref(frame);
    return rc;
}

int ci_ws_push_control(coir_ws *ws, coir_ws_message *message)
{
    return push_now(ws, mask(ws, message));
}

int ci_ws_send_close(coir_ws *ws, int code, const char *reason, size_t len)
{
    if (ci_ws_sent_close(ws))
        return 0;
    ci_store_relaxed(&ws->sent_close, true);
    coir_ws_message *frame = ci_ws_close_frame(ws, code, reason, len);
    struct ci_ws_sender *sender;
    int rc = ci_ws_sender_enter(ws, &sender);
    if (rc == 0) {
        rc = ci_ws_sender_finish_with(sender, frame);
        ci_ws_sender_leave(ws);
    } else {
        ci_ws_sender_finish(ws);
    }
    coir_ws_message_unref(frame);
    return frame ? rc : -ENOMEM;
}

int coir_ws_ping(coir_ws *ws)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!ws)
        return CI_MISUSE(-EINVAL, "ws is NULL");
    if (!ci_worker_current)
        return ci_no_worker();
    if (CI_ELSEWHERE(ci_ws_http(ws)->worker))
        return -EXDEV;
    if (ci_ws_sent_close(ws) || ws->over)
        return -EPIPE;
    if (!ws->pinged)
        ci_ws_sender_is_read(ws); /* what is read from now on counts */
    int rc = push_now(ws, ci_ws_control(ws, CI_WS_PING, NULL, 0));
    if (rc < 0 || ws->pinged) /* the first ping without an answer counts */
        return rc;
    ws->since = ci_ws_now(ws);
    ws->pinged = true;
    if (ws->waiting)
        ci_ws_begin_wait(ws); /* for a shorter time */
    return 0;
}

/* ---- messages; with the turn ---- */

/* The frame of a message, as this connection sends it: a reference. */
static coir_ws_message *frame_of(coir_ws *ws, struct ci_ws_sender *sender, coir_ws_message *message)
{
    struct ci_http_worker *here =
        ws->terms->deflate.on ? ci_http_worker_of(ci_worker_current) : NULL;
    coir_ws_message *frame = here ? ci_ws_deflate(ws, sender, here, message) : NULL;
    return mask(ws, frame ? frame : coir_ws_message_ref(message));
}

static int push(struct ci_ws_sender *sender, coir_ws_message *frame, bool waits)
{
    if (!frame)
        return -ENOMEM;
    int rc = waits ? coir_write_queue_push(sender->queue, &frame->frame)
                   : coir_write_queue_try_push(sender->queue, &frame->frame);
    coir_ws_message_unref(frame);
    return rc;
}

static int send_in_turn(coir_ws *ws, struct ci_ws_sender *sender, coir_ws_message *message,
                        bool waits)
{
    ci_debug_check(ci_mutex_is_held(&sender->turn), "web/ws.h 3");
    if (ci_ws_sent_close(ws))
        return -EPIPE;
    int rc = push(sender, frame_of(ws, sender, message), waits);
    if (rc < 0)
        ci_ws_deflate_forget(sender);
    return rc;
}

/* There is no sender: what the wait for the turn would say first, or why. */
static CI_NOINLINE int refuse(int why)
{
    int rc = 0;
    if (!ci_fiber_enter(&rc))
        return rc;
    ci_spend(ci_worker_current);
    return why;
}

static int send_message(coir_ws *ws, coir_ws_message *message)
{
    struct ci_ws_sender *sender;
    int rc = ci_ws_sender_enter(ws, &sender);
    if (ci_unlikely(rc < 0))
        return refuse(rc);
    rc = ci_worker_current && ci_ws_sends_parts(sender) ? -EBUSY : coir_mutex_lock(&sender->turn);
    if (rc == 0) {
        rc = send_in_turn(ws, sender, message, true);
        coir_mutex_unlock(&sender->turn);
    }
    ci_ws_sender_leave(ws);
    return rc;
}

int coir_ws_send(coir_ws *ws, coir_ws_message *message)
{
    if (!ws || !message)
        return CI_MISUSE(-EINVAL, "ws or message is NULL");
    return send_message(ws, message);
}

int coir_ws_try_send(coir_ws *ws, coir_ws_message *message)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!ws || !message)
        return CI_MISUSE(-EINVAL, "ws or message is NULL");
    if (!ci_worker_current)
        return ci_no_worker();
    struct ci_ws_sender *sender;
    int rc = ci_ws_sender_enter(ws, &sender);
    if (rc < 0)
        return rc;
    if ((rc = coir_mutex_try_lock(&sender->turn)) == 0) {
        rc = send_in_turn(ws, sender, message, false);
        coir_mutex_unlock(&sender->turn);
    }
    ci_ws_sender_leave(ws);
    return rc;
}

static int send_copy(coir_ws *ws, enum coir_ws_type type, const void *data, size_t len)
{
    coir_ws_message *message;
    int rc = 0;
    if (!ci_fiber_enter(&rc) || (rc = coir_ws_message_new(type, data, len, &message)) < 0)
        return rc;
    rc = send_message(ws, message);
    coir_ws_message_unref(message);
    return rc;
}

int coir_ws_send_text(coir_ws *ws, const char *text)
{
    if (!ws || !text)
        return CI_MISUSE(-EINVAL, "ws or text is NULL");
    return send_copy(ws, COIR_WS_TEXT, text, strlen(text));
}

int coir_ws_send_binary(coir_ws *ws, const void *data, size_t len)
{
    if (!ws || (!data && len))
        return CI_MISUSE(-EINVAL, "ws or data is NULL");
    return send_copy(ws, COIR_WS_BINARY, data, len);
}

/* ---- parts ---- */

/* Parts are not compressed, which RFC 7692 leaves to the sender. After an error the turn is kept if
 * the message has begun, unless the connection has ended: the task may try again. */
static int send_part(coir_ws *ws, struct ci_ws_sender *sender, struct ci_ws_head *head,
                     const void *data, size_t len)
{
    bool begun = ci_ws_sends_parts(sender), last = head->fin;
    int rc = begun ? 0 : coir_mutex_lock(&sender->turn);
    if (rc < 0)
        return rc;
    if (begun)
        head->opcode = CI_WS_CONTINUATION;
    rc = ci_ws_sent_close(ws) ? -EPIPE : push(sender, mask(ws, make_frame(head, data, len)), true);
    bool keeps = rc == 0 ? !last : begun && rc != -EPIPE;
    if (begun && !keeps)
        ci_ws_sender_end_turn(sender, ci_worker_current->runnable);
    else if (!begun && keeps)
        ci_ws_sender_keep_turn(sender);
    else if (!begun)
        coir_mutex_unlock(&sender->turn);
    return rc;
}

int coir_ws_send_part(coir_ws *ws, enum coir_ws_type type, const void *data, size_t len, bool last)
{
    struct ci_ws_head head = {.opcode = (uint8_t)type, .fin = last};
    struct ci_ws_sender *sender;
    int rc = 0;
    if (!ci_fiber_enter(&rc))
        return rc;
    if (!ws || (!data && len) || (type != COIR_WS_TEXT && type != COIR_WS_BINARY))
        return CI_MISUSE(-EINVAL, "ws or data is NULL, or type is none");
    if (ws->terms->drops_frames)
        return -EOPNOTSUPP;
    if ((rc = ci_ws_sender_enter(ws, &sender)) < 0)
        return refuse(rc);
    rc = send_part(ws, sender, &head, data, len);
    ci_ws_sender_leave(ws);
    return rc;
}

int coir_ws_flush(coir_ws *ws)
{
    return ws ? ci_ws_sender_flush(ws) : CI_MISUSE(-EINVAL, "ws is NULL");
}
