/* coir_stream_set_timeout: a kind of stream that is laid over another one (`base`), and limits the
 * time for which a peer keeps each direction waiting.
 *
 * An operation is started as a copy of the record's own, so that its completion passes through here
 * and counts the time and the bytes. The timer is started only while an operation waits.
 *
 * 1. A direction has at most one operation that waits: `waiting`, whose timer is started.
 * 2. `own` is in flight for `waiting`; or it is an orphan: a poll, which moves no data, that the
 * driver could not withdraw. `deferred` is set while `waiting` waits for the orphan to complete; it
 * is started then.
 */
#include <errno.h>

#include "base/check.h"
#include "io/io.h"
#include "io/pace.h"
#include "io/write_queue.h"
#include "sys/fork.h"

enum { READING, WRITING, DIRECTIONS, RATE_MAX = 1 << 30 };

struct direction {
    struct timed *timed;
    struct ci_pace pace;
    coir_time timeout;
    size_t rate_min;
    struct ci_op *waiting, own;
    struct ci_timer timer;
    coir_time since;     /* when it began to wait */
    bool deferred, late; /* late: the timer has fired */
};

struct timed {
    struct ci_stream_kind kind; /* the base's, but for start, cancel and close */
    coir_stream *stream;
    const coir_allocator *allocator;
    struct direction directions[DIRECTIONS];
};

static bool start(coir_stream *stream, struct ci_op *op);

/* NULL: the stream has no timeouts. */
static struct timed *timed_of(const coir_stream *stream)
{
    const struct ci_stream_kind *kind = stream->error ? stream->under : stream->kind;
    return kind->start == start ? ci_container_of(kind, struct timed, kind) : NULL;
}

/* The direction that an operation waits for; NULL: neither. */
static struct direction *direction_of(coir_stream *stream, struct timed *timed,
                                      const struct ci_op *op)
{
    struct ci_io_op **slot = ci_stream_slot(stream, op);
    return slot ? &timed->directions[slot == &stream->reader ? READING : WRITING] : NULL;
}

static struct coir_loop *loop_of(const struct direction *direction)
{
    return &direction->timed->stream->worker->loop;
}

/* ---- the account ---- */

static void count(struct direction *direction, const struct ci_op *op, int32_t result)
{
    bool moved = result > 0 && op->kind != CI_OP_POLL && !op->peek;
    if (direction->pace.behind && moved)
        ci_pace_add(&direction->pace, direction->rate_min, 0, (size_t)result);
}

static void begin_wait(struct direction *direction, struct ci_op *op)
{
    struct coir_loop *loop = loop_of(direction);
    direction->waiting = op;
    direction->late = false;
    op->pending = 1;
    direction->since = ci_loop_update_now(loop);
    ci_loop_start_timer(
        loop, &direction->timer,
        ci_time_after(direction->since, ci_pace_left(&direction->pace, direction->timeout)));
}

/* Returns the operation that has waited. */
static struct ci_op *end_wait(struct direction *direction, int32_t result)
{
    struct ci_op *op = direction->waiting;
    struct coir_loop *loop = loop_of(direction);
    ci_check(op, "stream_timeout.c 1");
    if (ci_timer_started(&direction->timer))
        ci_wheel_cancel(&loop->wheel, &direction->timer);
    direction->waiting = NULL;
    direction->deferred = false;
    direction->pace.behind =
        ci_time_after(direction->pace.behind, ci_loop_update_now(loop) - direction->since);
    count(direction, op, result);
    op->pending = 0;
    op->result = result;
    return op;
}

static void finish(struct direction *direction, int32_t result)
{
    struct ci_op *op = end_wait(direction, result);
    op->done(op);
}

/* ---- operations ---- */

static void on_done(struct ci_op *own);

/* Starts the copy of an operation. True: it has completed. */
static bool start_own(struct direction *direction, const struct ci_op *op)
{
    struct timed *timed = direction->timed;
    direction->own = *op;
    direction->own.pending = 0;
    direction->own.done = on_done;
    return timed->kind.base->start(timed->stream, &direction->own);
}

static void on_done(struct ci_op *own)
{
    struct direction *direction = ci_container_of(own, struct direction, own);
    if (!direction->waiting)
        return; /* an orphan */
    if (direction->deferred) {
        direction->deferred = false;
        if (!start_own(direction, direction->waiting))
            return;
    }
    bool expired = direction->late && own->result == -ECANCELED;
    finish(direction, expired ? -ETIMEDOUT : own->result);
}

/* Requests that `waiting` is given up. False: on_done will be called for it. */
static bool withdraw(struct direction *direction)
{
    struct timed *timed = direction->timed;
    return direction->deferred || timed->kind.base->cancel(timed->stream, &direction->own) ||
           direction->own.kind == CI_OP_POLL;
}

static void on_timer(struct ci_timer *timer)
{
    struct direction *direction = ci_container_of(timer, struct direction, timer);
    direction->late = true;
    if (withdraw(direction))
        finish(direction, -ETIMEDOUT);
}

static bool start(coir_stream *stream, struct ci_op *op)
{
    struct timed *timed = timed_of(stream);
    struct direction *direction = direction_of(stream, timed, op);
    if (!direction || direction->timeout == COIR_NEVER)
        return timed->kind.base->start(stream, op);
    if (op->no_wait) {
        timed->kind.base->start(stream, op);
        count(direction, op, op->result);
        return true;
    }
    ci_check(!direction->waiting, "stream_timeout.c 1");
    direction->deferred = direction->own.pending;
    if (!direction->deferred && start_own(direction, op)) {
        count(direction, op, direction->own.result);
        return ci_op_complete(op, direction->own.result);
    }
    begin_wait(direction, op);
    return false;
}

static bool cancel(coir_stream *stream, struct ci_op *op)
{
    struct timed *timed = timed_of(stream);
    struct direction *direction = direction_of(stream, timed, op);
    if (!direction || direction->waiting != op) /* it was started without a timeout */
        return timed->kind.base->cancel(stream, op);
    if (!withdraw(direction))
        return false;
    end_wait(direction, -ECANCELED);
    return true;
}

/* ---- laying it over a stream ---- */

/* Whether an operation of the record's own is in flight. */
static bool is_in_flight(const struct timed *timed)
{
    return timed->directions[READING].own.pending || timed->directions[WRITING].own.pending;
}

static void close_timed(coir_stream *stream)
{
    struct timed *timed = timed_of(stream);
    const struct ci_stream_kind *base = timed->kind.base;
    for (int i = 0; i < DIRECTIONS; i++)
        if (timed->directions[i].deferred)
            finish(&timed->directions[i], -ECANCELED);
    stream->kind = base; /* a filter's stream is there until its farewell is over */
    base->close(stream); /* completes the others */
    ci_check(!is_in_flight(timed), "stream_timeout.c 2");
    ci_free(timed->allocator, timed, sizeof *timed);
}

static void lay_over(struct timed *timed, coir_stream *stream)
{
    timed->kind = *stream->kind;
    timed->kind.base = stream->kind;
    timed->kind.start = start;
    timed->kind.starts_in_driver = false;
    timed->kind.cancel = cancel;
    timed->kind.close = close_timed;
    timed->stream = stream;
    stream->kind = &timed->kind;
}

static struct timed *make(coir_stream *stream)
{
    const coir_allocator *allocator = &ci_worker_current->runtime->allocator;
    struct timed *timed = ci_alloc_zero(allocator, sizeof *timed);
    if (!timed)
        return NULL;
    timed->allocator = allocator;
    for (int i = 0; i < DIRECTIONS; i++) {
        timed->directions[i].timed = timed;
        timed->directions[i].timeout = COIR_NEVER;
        ci_timer_init(&timed->directions[i].timer, on_timer);
    }
    lay_over(timed, stream);
    return timed;
}

int coir_stream_set_timeout(coir_stream *stream, int events, coir_time timeout, size_t rate_min)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!stream)
        return CI_MISUSE(-EINVAL, "stream is NULL");
    bool valid = events && !(events & ~(COIR_READ | COIR_WRITE));
    if (!valid || timeout <= 0 || (rate_min > RATE_MAX && rate_min != COIR_UNLIMITED))
        return -EINVAL;
    int rc = ci_stream_refused(stream, CI_CALL, CI_PLACE);
    if (rc < 0)
        return rc;
    if (stream->error)
        return stream->error;
    struct timed *timed = timed_of(stream);
    if (!timed && !(timed = make(stream)))
        return -ENOMEM;
    coir_write_queue *queue = events & COIR_WRITE ? ci_write_queue_of(stream) : NULL;
    if (queue)
        ci_write_queue_wait_anew(queue);
    for (int i = 0; i < DIRECTIONS; i++)
        if (events & (i == READING ? COIR_READ : COIR_WRITE)) {
            timed->directions[i].timeout = timeout;
            timed->directions[i].rate_min = rate_min ? rate_min : COIR_UNLIMITED;
            timed->directions[i].pace.behind = 0;
            if (timed->directions[i].waiting)
                timed->directions[i].since = ci_loop_update_now(&stream->worker->loop);
        }
    return 0;
}

void ci_stream_drop_timeouts(coir_stream *stream)
{
    struct timed *timed = timed_of(stream);
    if (!timed)
        return;
    ci_check(!is_in_flight(timed), "stream_timeout.c 2");
    stream->kind = timed->kind.base;
    ci_free(timed->allocator, timed, sizeof *timed);
}

int ci_stream_move_timeouts(coir_stream *from, coir_stream *to)
{
    struct timed *old = timed_of(from), *timed = old ? make(to) : NULL;
    if (!timed)
        return old ? -ENOMEM : 0;
    for (int i = 0; i < DIRECTIONS; i++) {
        timed->directions[i].timeout = old->directions[i].timeout;
        timed->directions[i].rate_min = old->directions[i].rate_min;
        old->directions[i].timeout = COIR_NEVER;
    }
    if (!is_in_flight(old))
        ci_stream_drop_timeouts(from);
    return 0;
}

void ci_stream_count_moved(coir_stream *stream, int event, size_t bytes)
{
    struct timed *timed = timed_of(stream);
    struct direction *direction = timed ? &timed->directions[event == COIR_WRITE] : NULL;
    if (direction && direction->pace.behind)
        ci_pace_add(&direction->pace, direction->rate_min, 0, bytes);
}
