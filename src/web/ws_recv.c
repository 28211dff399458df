/* Receiving: frames to messages, control frames answered on the way. */
#include <errno.h>
#include <string.h>

#include "task/completed.h"
#include "web/ws.h"
#include "web/ws_deflate.h"

/* Reads in a row, before other tasks run; a payload longer than this is read to where it is to be;
 * the first piece of memory for a message whose length is only announced. */
enum { READS_MAX = 16, DIRECT_MIN = 4096, PIECE = 16 * 1024, DIRECT_MAX = 256 * 1024 };

/* Of a message that is received in parts. */
enum { COMPRESSED_AT_ONCE = 128, LONG_PART = 64 * 1024 };

/* ---- the end ---- */

void ci_ws_end(coir_ws *ws, int code, int result)
{
    if (ws->over)
        return;
    ci_check(result <= 0 && result != -EINPROGRESS, "web/ws.h 4");
    ws->over = true;
    ws->awake->close_code = (int16_t)code;
    ws->awake->result = result;
    coir_ws_message_unref(ws->awake->message);
    ws->awake->message = NULL;
    ws->awake->in_at = ws->awake->in_end;
    ci_ws_inflate_end(ws);
    ci_ws_sender_finish(ws); /* unless a close frame has done so */
    ci_worker_cancel_timer(ci_ws_http(ws)->worker, &ws->timer);
}

/* The peer is told why, and receives return the error. */
static int fail(coir_ws *ws, int code)
{
    ci_ws_send_close(ws, code, NULL, 0);
    ci_ws_end(ws, code, code == CI_WS_TOO_LARGE ? -COIR_ETOOLARGE : -COIR_EPROTOCOL);
    return ws->awake->result;
}

/* Memory is out here, which is not the peer's fault; but what has come cannot be put anywhere. */
static int fail_without_memory(coir_ws *ws)
{
    ci_ws_send_close(ws, CI_WS_FAILED, NULL, 0);
    ci_ws_end(ws, CI_WS_FAILED, -ENOMEM);
    return -ENOMEM;
}

/* ---- control frames ---- */

/* The answer has the code that came, or none (RFC 6455, 5.5.1). */
static int on_close(coir_ws *ws)
{
    struct ci_ws_awake *awake = ws->awake;
    coir_ws_message *frame = awake->control;
    int code = ci_ws_parse_close(ci_ws_message_payload(frame), frame->len);
    if (code < 0)
        return fail(ws, -code);
    ci_ws_message_payload(frame)[frame->len] = '\0';
    awake->farewell = frame;
    awake->control = NULL;
    ci_ws_send_close(ws, code, NULL, 0);
    ci_ws_end(ws, code, 0);
    return 0;
}

/* -EAGAIN: go on. A pong that the queue has no room for is left out: the peer takes nothing. */
static int on_control(coir_ws *ws)
{
    struct ci_ws_awake *awake = ws->awake;
    struct ci_ws_head head = {.len = awake->frames.head.len, .fin = true};
    uint8_t opcode = awake->frames.head.opcode;
    head.opcode = opcode == CI_WS_PING ? CI_WS_PONG : opcode;
    ci_ws_message_finish(awake->control, &head);
    if (opcode == CI_WS_CLOSE)
        return on_close(ws);
    coir_ws_message *frame = awake->control;
    awake->control = NULL;
    if (opcode == CI_WS_PING && !ci_ws_sent_close(ws))
        ci_ws_push_control(ws, frame);
    else
        coir_ws_message_unref(frame);
    return -EAGAIN;
}

/* ---- messages ---- */

static bool is_control(const coir_ws *ws)
{
    return ci_ws_is_control(ws->awake->frames.head.opcode);
}

/* The bytes of the message in progress; they are counted in its len. */
static size_t got(const coir_ws *ws)
{
    return ws->awake->message ? ws->awake->message->len : 0;
}

/* How long a part may get: in fixed memory, as long as a reserved block has room for. */
static size_t part_max(const coir_ws *ws)
{
    size_t room = ci_ws_memory_room(&ci_ws_http(ws)->messages);
    return room && room < LONG_PART ? room : LONG_PART;
}

/* Room for `more` bytes behind what has come, in a message that the peer has announced `left`
 * bytes of. Memory follows what has come, not what was announced. */
static bool make_room(coir_ws *ws, size_t more)
{
    struct ci_ws_awake *awake = ws->awake;
    size_t have = got(ws), want = have + more;
    if (awake->message && ci_ws_message_room(awake->message) >= want)
        return true;
    size_t announced = awake->left < SIZE_MAX / 4 ? have + (size_t)awake->left : SIZE_MAX / 4;
    size_t wider = 2 * have > PIECE ? 2 * have : PIECE;
    if (announced < wider || awake->deflated)
        wider = announced;
    if (awake->in_parts && wider > part_max(ws))
        wider = part_max(ws);
    if (!ci_ws_message_grow(&ci_ws_http(ws)->messages, &awake->message, have,
                            wider > want ? wider : want))
        return false;
    awake->message->len = have;
    return true;
}

/* Text is checked as it comes: an error shows as early as it can (RFC 6455, 8.1). */
static int check_text(coir_ws *ws, const char *text, size_t len)
{
    bool valid = ws->awake->opcode != CI_WS_TEXT || ci_utf8_check(&ws->awake->utf8, text, len);
    return valid ? 0 : fail(ws, CI_WS_BAD_DATA);
}

static bool is_too_large(const coir_ws *ws, uint64_t len)
{
    return !ws->awake->in_parts && len > ws->terms->message_max;
}

/* The head of a frame is complete. */
static int begin_frame(coir_ws *ws)
{
    struct ci_ws_awake *awake = ws->awake;
    const struct ci_ws_head *head = &awake->frames.head;
    awake->in_frame = true;
    awake->left = head->len;
    if (is_control(ws)) {
        size_t room = (size_t)head->len + 1; /* a reason is handed out as a string */
        awake->control = ci_ws_message_take(&ci_ws_http(ws)->messages, room);
        return awake->control ? 0 : fail_without_memory(ws);
    }
    if (head->opcode != CI_WS_CONTINUATION) {
        awake->opcode = head->opcode;
        awake->deflated = head->deflated;
        awake->utf8 = (struct ci_utf8){0};
    }
    if (!awake->deflated && is_too_large(ws, got(ws) + head->len))
        return fail(ws, CI_WS_TOO_LARGE);
    return 0;
}

/* The message, or its part, is handed out; or dropped, -EAGAIN. */
static int finish_message(coir_ws *ws, bool last)
{
    struct ci_ws_awake *awake = ws->awake;
    if (ws->closed) {
        coir_ws_message_unref(awake->message);
        awake->message = NULL;
        return -EAGAIN;
    }
    struct ci_ws_head head = {.opcode = awake->opcode, .fin = true, .len = got(ws)};
    if (!awake->message && !make_room(ws, 0))
        return fail_without_memory(ws);
    ci_ws_message_finish(awake->message, &head);
    awake->ready = awake->message;
    awake->ready_last = last;
    awake->message = NULL;
    return CI_WS_MESSAGE;
}

/* Bytes that a compressed message may expand to. */
static size_t expanded_max(const coir_ws *ws)
{
    bool any = ws->awake->in_parts || ws->terms->message_max > SIZE_MAX / 4;
    return any ? SIZE_MAX / 4 : ws->terms->message_max;
}

/* Unmasks what has come of a payload that is compressed, and expands it. */
static int take_deflated(coir_ws *ws, char *data, size_t len)
{
    size_t before = got(ws);
    int rc = ci_ws_inflate(ws, data, len, expanded_max(ws));
    if (rc == -ENOMEM)
        return fail_without_memory(ws);
    if (rc < 0)
        return fail(ws, rc == -COIR_ETOOLARGE ? CI_WS_TOO_LARGE : CI_WS_BAD_DATA);
    return got(ws) > before ? check_text(ws, ci_ws_message_payload(ws->awake->message) + before,
                                         got(ws) - before)
                            : 0;
}

/* The next `len` bytes of a payload, in the input buffer. */
static int take_payload(coir_ws *ws, char *data, size_t len)
{
    struct ci_ws_awake *awake = ws->awake;
    const struct ci_ws_head *head = &awake->frames.head;
    uint64_t offset = head->len - awake->left;
    if (is_control(ws)) {
        ci_ws_mask(ci_ws_message_payload(awake->control) + offset, data, len, head->key, offset);
        return 0;
    }
    if (awake->deflated) {
        ci_ws_mask(data, data, len, head->key, offset);
        return take_deflated(ws, data, len);
    }
    if (!make_room(ws, len))
        return fail_without_memory(ws);
    char *to = ci_ws_message_payload(awake->message) + got(ws);
    ci_ws_mask(to, data, len, head->key, offset);
    awake->message->len += len;
    return check_text(ws, to, len);
}

/* The payload of a frame is complete. -EAGAIN: go on. */
static int end_frame(coir_ws *ws)
{
    struct ci_ws_awake *awake = ws->awake;
    awake->in_frame = false;
    if (is_control(ws))
        return on_control(ws);
    if (!awake->frames.head.fin)
        return -EAGAIN;
    if (awake->deflated) {
        static const char tail[] = {0, 0, (char)0xff, (char)0xff}; /* RFC 7692, 7.2.2 */
        char bytes[sizeof tail];
        memcpy(bytes, tail, sizeof tail);
        int rc = take_deflated(ws, bytes, sizeof bytes);
        if (rc < 0)
            return rc;
        ci_ws_inflate_end(ws);
    }
    if (awake->opcode == CI_WS_TEXT && !ci_utf8_is_whole(&awake->utf8))
        return fail(ws, CI_WS_BAD_DATA);
    return finish_message(ws, true);
}

/* ---- bytes ---- */

/* Of a message that is received in parts, few compressed bytes are expanded at once (a byte to 1032
 * at most), so that no part is long. */
static size_t use_at_once(const coir_ws *ws, size_t len)
{
    if (!ws->awake->in_parts || is_control(ws))
        return len;
    size_t most = ws->awake->deflated ? (size_t)COMPRESSED_AT_ONCE : part_max(ws) - got(ws);
    return len < most ? len : most;
}

static int hand_out_long_part(coir_ws *ws)
{
    return ws->awake->in_parts && got(ws) >= part_max(ws) ? finish_message(ws, false) : -EAGAIN;
}

/* Parses what is in the input buffer. -EAGAIN: all of it was used. */
static int consume(coir_ws *ws)
{
    struct ci_ws_awake *awake = ws->awake;
    int rc = -EAGAIN;
    while (rc == -EAGAIN && (awake->in_at < awake->in_end || (awake->in_frame && !awake->left))) {
        char *at = awake->in ? awake->in + awake->in_at : NULL;
        size_t len = awake->in_end - awake->in_at, used = 0;
        if (!awake->in_frame) {
            rc = ci_ws_parse_head(&awake->frames, at, len, &used);
            awake->in_at += (uint32_t)used;
            rc = rc < 0 ? fail(ws, -rc) : rc == 0 ? -EAGAIN : begin_frame(ws);
            if (rc == 0)
                rc = -EAGAIN;
            continue;
        }
        used = use_at_once(ws, awake->left < len ? (size_t)awake->left : len);
        rc = used ? take_payload(ws, at, used) : 0;
        awake->in_at += (uint32_t)used;
        awake->left -= used;
        if (rc == 0)
            rc = awake->left ? -EAGAIN : end_frame(ws);
        if (rc == -EAGAIN)
            rc = hand_out_long_part(ws);
    }
    return rc;
}

/* After a read of `n` bytes. -EAGAIN also for those, unless the peer has gone on for too long. */
static int after_read(coir_ws *ws, ssize_t n)
{
    coir_time now = ci_ws_now(ws);
    if (n > 0) {
        ws->since = now;
        ws->pinged = false;
    }
    if ((n > 0 && now < ws->close_by) || n == -EAGAIN || n == -EINTR)
        return -EAGAIN;
    if (ci_lacks_memory(n))
        return (int)n; /* nothing is lost: the next receive reads again */
    ci_ws_end(ws, CI_WS_NO_CLOSE, n < 0 ? (int)n : n == 0 ? -COIR_EEND : -ETIMEDOUT);
    return ws->awake->result;
}

/* Reads a long payload to where it is to be. */
static int read_payload(coir_ws *ws, ssize_t *ret_n)
{
    struct ci_ws_awake *awake = ws->awake;
    const struct ci_ws_head *head = &awake->frames.head;
    size_t some = awake->left < DIRECT_MAX ? (size_t)awake->left : DIRECT_MAX;
    size_t most = 2 * got(ws) > PIECE ? 2 * got(ws) : PIECE;
    if (awake->in_parts && most > part_max(ws) - got(ws))
        most = part_max(ws) - got(ws);
    some = some < most ? some : most;
    if (!make_room(ws, some))
        return fail_without_memory(ws);
    char *to = ci_ws_message_payload(awake->message) + got(ws);
    ssize_t n = *ret_n = coir_try_read(ws->stream, to, some);
    if (n <= 0)
        return after_read(ws, n);
    ci_ws_mask(to, to, (size_t)n, head->key, head->len - awake->left);
    awake->left -= (uint64_t)n;
    awake->message->len += (size_t)n;
    return check_text(ws, to, (size_t)n) < 0 ? awake->result : after_read(ws, n);
}

/* Reads what has come. -EAGAIN: it was read, and *ret_n > 0; or there was nothing. */
static int fill(coir_ws *ws, ssize_t *ret_n)
{
    struct ci_ws_awake *awake = ws->awake;
    if (awake->in_frame && awake->left >= DIRECT_MIN && !is_control(ws) && !awake->deflated)
        return read_payload(ws, ret_n);
    if (!awake->in && !(awake->in = ci_pool_take(&ci_ws_http(ws)->buffers)))
        return -ENOMEM;
    awake->in_at = awake->in_end = 0;
    ssize_t n = *ret_n = coir_try_read(ws->stream, awake->in, CI_HTTP_BUFFER);
    if (n > 0)
        awake->in_end = (uint32_t)n;
    return after_read(ws, n);
}

/* What has come of a message that is received in parts. */
static int hand_out_part(coir_ws *ws)
{
    return ws->awake->in_parts && got(ws) ? finish_message(ws, false) : -EAGAIN;
}

int ci_ws_advance(coir_ws *ws)
{
    if (ws->awake->ready)
        return CI_WS_MESSAGE;
    for (int reads = 0; !ws->over; reads++) {
        ssize_t n = 0;
        int rc = consume(ws);
        if (rc == -EAGAIN)
            rc = hand_out_part(ws);
        if (rc == -EAGAIN && reads == READS_MAX)
            return CI_WS_YIELD;
        if (rc == -EAGAIN && (rc = fill(ws, &n)) == -EAGAIN && n <= 0)
            return -EAGAIN;
        if (rc != -EAGAIN)
            return rc;
    }
    return ws->awake->result;
}

/* ---- waiting ---- */

int ci_ws_end_wait(coir_ws *ws, int64_t result)
{
    ws->waiting = false;
    if (result >= 0)
        return 0;
    if (result != -ECANCELED && result != -ETIME && result != -EBUSY)
        ci_ws_end(ws, CI_WS_NO_CLOSE, (int)result);
    return (int)result;
}

/* ---- the future ---- */

struct ws_op {
    coir_future future;
    struct ci_io_op io;
    coir_ws *ws;
    coir_ws_message **ret_message;
    bool *ret_last; /* NULL: whole messages */
};
CI_LEAVES_SPARE_WORDS(struct ws_op, coir_ws_op);
_Static_assert(sizeof(struct ws_op) <= CI_FIBER_OP_WORDS * sizeof(uint64_t), "it is a case");

static coir_io_op *io_of(struct ws_op *op)
{
    return (coir_io_op *)(void *)&op->io;
}

/* A yield is made of the same storage as the wait. */
static coir_future *wait_or_yield(struct ws_op *self, int rc)
{
    ci_ws_begin_wait(self->ws);
    return rc == CI_WS_YIELD ? coir_yield_op(&self->io.future)
                             : coir_stream_wait_op(io_of(self), self->ws->stream, COIR_READ);
}

/* The message is taken, unless another case has won the select. */
static int take_ready(struct ws_op *self)
{
    coir_ws *ws = self->ws;
    if (!ci_claim(ci_worker_current->runnable, &self->future))
        return -ECANCELED;
    *self->ret_message = ws->awake->ready;
    if (self->ret_last)
        *self->ret_last = ws->awake->ready_last;
    ws->awake->ready = NULL;
    return 1;
}

static int may_receive(const coir_ws *ws)
{
    int rc = ci_elsewhere(ci_ws_http(ws)->worker, "coir_ws_recv", NULL);
    if (rc < 0)
        return rc;
    return ws->receiving ? -EBUSY : ci_worker_current->runnable->interrupt;
}

static coir_future *recv_poll(coir_future *future)
{
    struct ws_op *self = ci_container_of(future, struct ws_op, future);
    coir_ws *ws = self->ws;
    int rc;
    COIR_BEGIN(future);
    if ((rc = may_receive(ws)) < 0)
        COIR_RETURN(future, rc);
    ws->receiving = true;
    ws->awake->in_parts = self->ret_last;
    while ((rc = ci_ws_advance(ws)) == -EAGAIN || rc == CI_WS_YIELD) {
        COIR_AWAIT(future, wait_or_yield(self, rc));
        if ((rc = ci_ws_end_wait(ws, self->io.future.result)) < 0)
            break;
    }
    ci_check(ws->receiving, "web/ws.h 1");
    ws->receiving = false;
    if (rc == CI_WS_MESSAGE)
        rc = take_ready(self);
    future->result = rc;
    future->state = 0;
    return ci_leaf_complete(ci_worker_current, future);
    COIR_END(future);
}

static const coir_future_kind recv_kind = COIR_FUTURE_KIND("a message", recv_poll, NULL);

static coir_future *init(coir_ws_op *opaque, coir_ws *ws, coir_ws_message **ret_message,
                         bool *ret_last)
{
    struct ws_op *op = (struct ws_op *)(void *)opaque;
    op->ws = ws;
    op->ret_message = ret_message;
    op->ret_last = ret_last;
    return coir_future_init(&op->future, &recv_kind);
}

coir_future *coir_ws_recv_op(coir_ws_op *op, coir_ws *ws, coir_ws_message **ret_message)
{
    if (!op || !ws || !ret_message)
        return ci_completed_op(op, CI_MISUSE(-EINVAL, "op, ws or ret_message is NULL"));
    return init(op, ws, ret_message, NULL);
}

int coir_ws_recv(coir_ws *ws, coir_ws_message **ret_message)
{
    coir_ws_op op;
    if (!ws || !ret_message)
        return CI_MISUSE(-EINVAL, "ws or ret_message is NULL");
    return (int)ci_await_in_fiber(init(&op, ws, ret_message, NULL));
}

int coir_ws_recv_part(coir_ws *ws, coir_ws_message **ret_part, bool *ret_last)
{
    coir_ws_op op;
    if (!ws || !ret_part || !ret_last)
        return CI_MISUSE(-EINVAL, "ws, ret_part or ret_last is NULL");
    return (int)ci_await_in_fiber(init(&op, ws, ret_part, ret_last));
}

static coir_future *make_recv(const coir_case *self, void *op)
{
    return coir_ws_recv_op(op, self->object, self->data);
}

coir_case coir_case_ws_recv(coir_ws *ws, coir_ws_message **ret_message)
{
    if (!ws || !ret_message)
        return ci_completed_case(CI_MISUSE(-EINVAL, "ws or ret_message is NULL"));
    return (coir_case){.make = make_recv, .object = ws, .data = ret_message};
}
