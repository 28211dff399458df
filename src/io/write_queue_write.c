/* Writing a queue on the owner of its stream, and ending it. */
#include <errno.h>

#include "io/write_queue.h"
#include "sync/allocator.h"
#include "task/run_state.h"

enum { WRITES_MAX = 16 /* in a row, before other tasks of the worker run */ };

/* ---- telling the owner ---- */

bool ci_write_queue_schedule(coir_write_queue *queue)
{
    bool idle = queue->state == CI_WRITE_QUEUE_IDLE && queue->ring.count;
    if (!idle && !(queue->state == CI_WRITE_QUEUE_BLOCKED && queue->error))
        return false;
    queue->state = CI_WRITE_QUEUE_SCHEDULED;
    return true;
}

void ci_write_queue_send(coir_write_queue *queue)
{
    if (ci_run_send(queue->worker, &queue->message) == 0)
        return;
    /* the run has ended: the items fail when the queue is freed */
    ci_write_queue_lock(queue);
    queue->state = CI_WRITE_QUEUE_IDLE;
    ci_lock_give(&queue->lock);
}

/* ---- the end ---- */

void ci_write_queue_release(coir_write_queue *queue)
{
    if (!queue->freed || queue->holds || queue->state == CI_WRITE_QUEUE_SCHEDULED)
        return;
    ci_check(!queue->unreported, "write_queue.h 2");
    ci_check(!queue->ring.count && !queue->op.io.pending && !queue->stream && !queue->taken,
             "write_queue.h 6");
    coir_allocator allocator = queue->allocator;
    ci_item_ring_done(&queue->ring);
    ci_free(&allocator, queue, sizeof *queue);
}

void ci_write_queue_stop_polling(coir_write_queue *queue)
{
    if (queue->op.io.pending && queue->stream->kind->cancel(queue->stream, &queue->op.io))
        queue->holds--;
}

void ci_write_queue_wait_anew(coir_write_queue *queue)
{
    ci_write_queue_stop_polling(queue);
    ci_write_queue_lock(queue);
    bool send = queue->state == CI_WRITE_QUEUE_BLOCKED && !queue->op.io.pending;
    if (send)
        queue->state = CI_WRITE_QUEUE_SCHEDULED;
    ci_lock_give(&queue->lock);
    if (send)
        ci_write_queue_send(queue);
}

void ci_write_queue_end(coir_write_queue *queue, int error)
{
    struct ci_write_gone gone = {.count = 0};
    struct ci_list granted;
    bool more = true;
    ci_list_init(&granted);
    queue->holds++; /* the last outcome may free it */
    while (more) {
        ci_write_queue_lock(queue);
        queue->error = error = queue->error ? queue->error : error;
        while (queue->ring.count && gone.count < CI_WRITE_PIECES) {
            ci_write_queue_take_out(queue, 0, &gone);
            queue->failed++;
        }
        more = queue->ring.count;
        ci_wait_grant_all(&queue->pushers, -EPIPE, &granted);
        ci_lock_give(&queue->lock);
        ci_write_queue_report(queue, &gone, error);
    }
    ci_write_queue_lock(queue);
    ci_write_queue_grant_flushers(queue, &granted);
    ci_lock_give(&queue->lock);
    ci_wait_wake_all(&granted);
    queue->holds--;
    ci_write_queue_release(queue);
}

/* On the owner. After -COIR_EFULL and -ETIMEDOUT the stream could still be read: it is broken, so
 * that a task that reads from it gets an error instead of waiting. */
static void end_with_stream(coir_write_queue *queue, int error)
{
    ci_write_queue_stop_polling(queue);
    ci_write_queue_lock(queue);
    error = queue->error ? queue->error : error;
    ci_lock_give(&queue->lock);
    if (error == -COIR_EFULL || error == -ETIMEDOUT) /* before outcomes, which may close it */
        ci_stream_break(queue->stream, -ECONNABORTED);
    ci_write_queue_end(queue, error);
}

/* ---- writing ---- */

static void change(coir_write_queue *queue, enum ci_write_queue_state to)
{
    ci_write_queue_lock(queue);
    queue->state = to;
    ci_lock_give(&queue->lock);
}

/* Sets the pieces of the next write and returns their number; 0, and idle: there are none; -1: the
 * queue has ended. */
static int gather(coir_write_queue *queue, struct iovec *pieces, size_t *ret_len)
{
    ci_write_queue_lock(queue);
    size_t most = queue->ring.count < CI_WRITE_PIECES ? queue->ring.count : CI_WRITE_PIECES;
    int count = queue->error ? -1 : (int)most;
    queue->state = count ? CI_WRITE_QUEUE_WRITING : CI_WRITE_QUEUE_IDLE;
    queue->taken = count > 0 ? (size_t)count : 0;
    queue->first_taken = count > 0 ? ci_write_queue_at(queue, 0)->number : 0;
    *ret_len = 0;
    for (int i = 0; i < count; i++) {
        const coir_buffer *buffer = ci_write_queue_at(queue, (size_t)i)->buffer;
        size_t skip = i == 0 ? queue->begun : 0;
        pieces[i].iov_base = (char *)(uintptr_t)coir_buffer_data(buffer) + skip;
        pieces[i].iov_len = coir_buffer_len(buffer) - skip;
        *ret_len += pieces[i].iov_len;
    }
    ci_lock_give(&queue->lock);
    return count;
}

static ssize_t write_now(coir_write_queue *queue, const struct iovec *pieces, int count)
{
    coir_stream *stream = queue->stream;
    struct ci_op op = {.fd = stream->fd, .kind = CI_OP_WRITEV, .iov = pieces, .count = count};
    struct ci_op one = {
        .fd = stream->fd, .kind = CI_OP_WRITE, .data = pieces->iov_base, .len = pieces->iov_len};
    struct ci_op *which = count == 1 ? &one : &op;
    which->no_wait = true;
    stream->kind->start(stream, which);
    return which->result == -EINTR ? -EAGAIN : which->result;
}

/* After a write: the stream has taken `n` bytes. */
static void account(coir_write_queue *queue, size_t n)
{
    struct ci_write_gone written = {.count = 0}, dropped = {.count = 0};
    struct ci_list granted;
    ci_list_init(&granted);
    ci_write_queue_lock(queue);
    queue->sent += n;
    while (queue->ring.count && n >= ci_write_queue_len_at(queue, 0) - queue->begun) {
        n -= ci_write_queue_len_at(queue, 0) - queue->begun;
        ci_write_queue_take_out(queue, 0, &written);
        queue->written++;
    }
    if (n && !queue->begun)
        queue->waiting_bytes -= ci_write_queue_len_at(queue, 0);
    queue->begun += n;
    queue->taken = 0;
    ci_write_queue_trim(queue, &dropped);
    ci_write_queue_grant_pushers(queue, &granted);
    ci_lock_give(&queue->lock);
    ci_wait_wake_all(&granted);
    ci_write_queue_report(queue, &written, 0);
    ci_write_queue_report(queue, &dropped, -COIR_EFULL);
}

static void on_room(struct ci_op *io);

/* Polls the stream for room. True: the queue is BLOCKED, or the poll has failed and the queue has
 * ended. False: write again. */
static bool wait_for_room(coir_write_queue *queue)
{
    coir_stream *stream = queue->stream;
    queue->op.io =
        (struct ci_op){.done = on_room, .fd = stream->fd, .kind = CI_OP_POLL, .events = COIR_WRITE};
    if (!stream->kind->start(stream, &queue->op.io)) {
        queue->holds++;
        ci_write_queue_lock(queue);
        bool ended = queue->error; /* by a push on another worker: the next write finds it */
        queue->state = ended ? CI_WRITE_QUEUE_WRITING : CI_WRITE_QUEUE_BLOCKED;
        ci_lock_give(&queue->lock);
        return !ended;
    }
    if (queue->op.io.result < 0)
        end_with_stream(queue, queue->op.io.result);
    return queue->op.io.result < 0;
}

/* Makes one write. False: the ring is empty, the stream has no room, or the queue has ended. */
static bool write_once(coir_write_queue *queue)
{
    struct iovec pieces[CI_WRITE_PIECES];
    size_t len;
    int count = gather(queue, pieces, &len);
    if (count < 0)
        end_with_stream(queue, 0);
    if (count <= 0)
        return false;
    ssize_t n = write_now(queue, pieces, count);
    account(queue, n > 0 ? (size_t)n : 0);
    if (!queue->stream)
        return false;
    if (n < 0 && n != -EAGAIN) {
        end_with_stream(queue, (int)n);
        return false;
    }
    return n == (ssize_t)len || !wait_for_room(queue);
}

/* Writes until write_once is false; after WRITES_MAX writes it goes on by a new message. */
static void write_on(coir_write_queue *queue)
{
    queue->holds++;
    int writes = 0;
    while (queue->stream && write_once(queue))
        if (++writes == WRITES_MAX) {
            change(queue, CI_WRITE_QUEUE_SCHEDULED);
            ci_write_queue_send(queue);
            break;
        }
    queue->holds--;
    ci_write_queue_release(queue);
}

void ci_write_queue_deliver(struct ci_message *message)
{
    coir_write_queue *queue = ci_container_of(message, coir_write_queue, message);
    change(queue, CI_WRITE_QUEUE_WRITING);
    if (queue->stream) /* it may be the first write: write_queue.h 4 */
        queue->stream->writer = &queue->op;
    if (ci_worker_current) /* NULL: the run has ended */
        write_on(queue);
    else
        ci_write_queue_release(queue);
}

static void on_room(struct ci_op *io)
{
    coir_write_queue *queue = ci_container_of(io, coir_write_queue, op.io);
    /* -ECANCELED: the wait is to begin anew */
    int rc = io->result == -ECANCELED ? 0 : io->result;
    ci_write_queue_lock(queue);
    bool ended = queue->error; /* its items fail where it is ended */
    if (!ended)
        queue->state = CI_WRITE_QUEUE_WRITING;
    ci_lock_give(&queue->lock);
    if (!ended && rc < 0)
        end_with_stream(queue, rc);
    queue->holds--;
    if (ended || rc < 0)
        ci_write_queue_release(queue);
    else
        write_on(queue);
}
