/* Write queues: a ring of counted buffers under a lock, which any worker feeds and the stream's
 * worker empties.
 *
 *   IDLE -- push --> SCHEDULED -- message came --> WRITING -- empty --> IDLE
 *                       ^                           |   ^
 *                       `-- its share is used up ---'   |
 *                                                   |   | room
 *                                                   v   |
 *                                                  BLOCKED
 *
 *   IDLE -> SCHEDULED:             schedule: whoever finds it idle sends its message to the owner,
 *                                  which wakes the owner only if that sleeps
 *   SCHEDULED, BLOCKED -> WRITING: write_on, on the owner
 *   WRITING -> IDLE:               gather, which finds nothing to write
 *   WRITING -> BLOCKED:            wait_for_room: a poll of the stream is in flight
 *
 * A write never waits: it takes what the stream has room for, and the rest of the queue is polled
 * for. So what has not begun to be written is in nobody's hands but for the length of a system
 * call, and can be dropped.
 *
 * 1. Of the ring's first item `begun` bytes are written, and the first `taken` items are being
 * written at the moment: these are not dropped. `waiting_bytes` are those of all items but one that
 * has begun; no other counts against the bounds.
 * 2. An item leaves the ring once, with its outcome, which is reported without the lock.
 * 3. While tasks wait to push, the queue has no room for the first of them; when it has ended,
 * nobody waits.
 * 4. The stream's `writer` is the queue's operation from its making until it leaves the stream.
 * 5. The queue's memory goes when it is freed and nothing holds it: its message, its poll, and the
 * function that writes.
 */
#include "io/write_queue.h"
#include "task/completed.h"

#include <errno.h>

#include "base/check.h"
#include "io/io.h"
#include "sync/allocator.h"
#include "sync/item_ring.h"
#include "sync/wait.h"
#include "task/run_state.h"

enum {
    ITEMS_MAX = 1024,
    BYTES_MAX = 1024 * 1024,
    PIECES = 64,    /* that are written at once */
    WRITES_MAX = 16 /* before others on the worker run */
};

enum state { IDLE, SCHEDULED, WRITING, BLOCKED };

struct item {
    coir_buffer *buffer;
    uint64_t number; /* of the push: what a flush waits for */
};

struct coir_write_queue {
    /* the owner's */
    struct ci_worker *worker;
    coir_stream *stream; /* NULL: the queue has left it */
    struct ci_io_op op;  /* in the stream's `writer`; its driver operation polls for room */
    unsigned holds;
    bool freed;

    /* what is set once */
    size_t items_max, bytes_max;
    enum coir_overflow overflow;
    coir_outcome_fn *on_outcome;
    void *arg;
    coir_allocator allocator;

    /* under the lock */
    struct ci_lock lock;
    enum state state;
    struct ci_message message; /* the owner is to write; SCHEDULED */
    struct ci_item_ring ring;
    size_t taken, begun, waiting_bytes;
    size_t unreported; /* items that have left the ring, and whose outcome is being reported */
    uint64_t pushed, written, dropped, failed, sent;
    int error; /* why it has ended */
    struct ci_list pushers, flushers;
};

static struct item *item_at(const coir_write_queue *queue, size_t index)
{
    return (struct item *)(void *)ci_item_ring_slot(&queue->ring, index);
}

static size_t len_at(const coir_write_queue *queue, size_t index)
{
    return coir_buffer_len(item_at(queue, index)->buffer);
}

/* How many of the first items cannot be dropped. */
static size_t kept(const coir_write_queue *queue)
{
    return queue->taken ? queue->taken : queue->begun > 0;
}

static bool has_room(const coir_write_queue *queue, size_t len)
{
    size_t items = queue->ring.count - (queue->begun > 0);
    return items < queue->items_max && len <= queue->bytes_max - queue->waiting_bytes &&
           queue->waiting_bytes <= queue->bytes_max;
}

static void lock(coir_write_queue *queue)
{
    ci_lock_take(&queue->lock);
    const struct ci_wait *first = ci_wait_first(&queue->pushers);
    ci_debug_check(queue->taken <= queue->ring.count, "write_queue.c 1");
    ci_debug_check(!first || queue->error || !has_room(queue, coir_buffer_len(first->item)),
                   "write_queue.c 3");
}

/* ---- outcomes ---- */

/* Items that have left the ring, on their way to being reported. */
struct gone {
    coir_buffer *buffers[PIECES];
    size_t count;
};

/* With the lock held: takes the item at `index` out of the ring. Those before it stay in order. */
static void take_out(coir_write_queue *queue, size_t index, struct gone *gone)
{
    struct item item = *item_at(queue, index);
    if (index > 0 || queue->begun == 0)
        queue->waiting_bytes -= coir_buffer_len(item.buffer);
    else
        queue->begun = 0;
    for (; index > 0; index--)
        *item_at(queue, index) = *item_at(queue, index - 1);
    ci_item_ring_drop(&queue->ring);
    queue->unreported++;
    gone->buffers[gone->count++] = item.buffer;
}

/* With the lock held: wakes those whose flush is over. */
static void grant_flushers(coir_write_queue *queue, struct ci_list *granted)
{
    struct ci_wait *first;
    while ((first = ci_wait_first(&queue->flushers)) && !queue->unreported &&
           (!queue->ring.count || item_at(queue, 0)->number >= first->amount))
        if (ci_wait_decide(first)) {
            first->future.result = queue->error;
            ci_list_push(granted, &first->link);
        }
}

static void report_one(const coir_write_queue *queue, coir_buffer *buffer, int result)
{
    if (queue->on_outcome)
        queue->on_outcome(buffer, result, queue->arg);
}

/* Without the lock. */
static void report(coir_write_queue *queue, struct gone *gone, int result)
{
    if (!gone->count)
        return;
    for (size_t i = 0; i < gone->count; i++) {
        report_one(queue, gone->buffers[i], result);
        coir_buffer_unref(gone->buffers[i]);
    }
    struct ci_list granted;
    ci_list_init(&granted);
    lock(queue);
    ci_check(queue->unreported >= gone->count, "write_queue.c 2");
    queue->unreported -= gone->count;
    grant_flushers(queue, &granted);
    ci_lock_give(&queue->lock);
    ci_wait_wake_all(&granted);
    gone->count = 0;
}

/* ---- pushing ---- */

/* With the lock held, and room. */
static int put(coir_write_queue *queue, coir_buffer *buffer)
{
    struct item item = {buffer, queue->pushed};
    int rc = ci_item_ring_put(&queue->ring, &item);
    if (rc < 0)
        return rc;
    coir_buffer_ref(buffer);
    queue->pushed++;
    queue->waiting_bytes += coir_buffer_len(buffer);
    return 0;
}

/* With the lock held: drops the oldest items until there is room for `len` bytes, or all of them.
 */
static void make_room(coir_write_queue *queue, size_t len, struct gone *gone)
{
    bool all = queue->overflow == COIR_OVERFLOW_KEEP_LATEST;
    while (gone->count < PIECES && queue->ring.count > kept(queue) &&
           (all || !has_room(queue, len))) {
        take_out(queue, kept(queue), gone);
        queue->dropped++;
    }
}

/* With the lock held, when the system has taken what it takes: drops what was let in beyond the
 * bounds meanwhile. */
static void trim(coir_write_queue *queue, struct gone *gone)
{
    while (queue->ring.count > kept(queue) &&
           (queue->ring.count - (queue->begun > 0) > queue->items_max ||
            queue->waiting_bytes > queue->bytes_max)) {
        take_out(queue, kept(queue), gone);
        queue->dropped++;
    }
}

/* What a push comes to, beside errors. */
enum { DROPPED = 1, MORE = 2 };

/* With the lock held: 0 it is in the queue; DROPPED; MORE has to be dropped before; -EAGAIN; or an
 * error. */
static int admit(coir_write_queue *queue, coir_buffer *buffer, struct gone *gone)
{
    size_t len = coir_buffer_len(buffer);
    if (queue->error)
        return -EPIPE;
    if (!ci_list_empty(&queue->pushers))
        return -EAGAIN;
    if (has_room(queue, len))
        return put(queue, buffer);
    switch (queue->overflow) {
    case COIR_OVERFLOW_WAIT: return -EAGAIN;
    case COIR_OVERFLOW_DROP_NEWEST:
        queue->pushed++;
        queue->dropped++;
        return DROPPED;
    case COIR_OVERFLOW_CLOSE: queue->error = -COIR_EFULL; return -EPIPE;
    case COIR_OVERFLOW_DROP_OLDEST:
    case COIR_OVERFLOW_KEEP_LATEST: make_room(queue, len, gone); break;
    }
    /* while a system call takes all there is, one more is let in */
    return has_room(queue, len) || queue->ring.count == kept(queue) ? put(queue, buffer) : MORE;
}

/* With the lock held: whether the owner has to be told that there is something to do. */
static bool schedule(coir_write_queue *queue)
{
    bool idle = queue->state == IDLE && queue->ring.count;
    if (!idle && !(queue->state == BLOCKED && queue->error))
        return false;
    queue->state = SCHEDULED;
    return true;
}

/* Without the lock, after schedule. */
static void send_word(coir_write_queue *queue)
{
    if (ci_run_send(queue->worker, &queue->message) == 0)
        return;
    lock(queue); /* the run has ended: what lies in the queue fails when it is freed */
    queue->state = IDLE;
    ci_lock_give(&queue->lock);
}

/* What follows a push that was tried under the lock, which it gives back. True: it is over. */
static bool finish_push(coir_write_queue *queue, coir_buffer *buffer, int rc, struct gone *gone)
{
    bool send = schedule(queue);
    ci_lock_give(&queue->lock);
    if (send)
        send_word(queue);
    report(queue, gone, -COIR_EFULL);
    if (rc == DROPPED)
        report_one(queue, buffer, -COIR_EFULL);
    return rc != MORE;
}

static int check(const coir_write_queue *queue, const coir_buffer *buffer)
{
    if (!queue || !buffer)
        return -EINVAL;
    return coir_buffer_len(buffer) > queue->bytes_max ? -COIR_ETOOLARGE : 0;
}

int coir_write_queue_try_push(coir_write_queue *queue, coir_buffer *buffer)
{
    if (ci_forked())
        return -COIR_EFORKED;
    int rc = check(queue, buffer);
    if (rc < 0)
        return CI_MISUSE_IF(-EINVAL, rc, "queue or buffer is NULL");
    struct gone gone = {.count = 0};
    do {
        lock(queue);
        rc = admit(queue, buffer, &gone);
    } while (!finish_push(queue, buffer, rc, &gone));
    return rc < 0 ? rc : 0;
}

static bool would_wait(const coir_write_queue *queue, size_t len)
{
    return !queue->error && queue->overflow == COIR_OVERFLOW_WAIT &&
           (!ci_list_empty(&queue->pushers) || !has_room(queue, len));
}

static bool start_push(struct ci_worker *worker, struct ci_wait *wait)
{
    coir_write_queue *queue = wait->object;
    coir_buffer *buffer = wait->item;
    struct gone gone = {.count = 0};
    bool claimed = false;
    int rc;
    do {
        lock(queue);
        if (would_wait(queue, coir_buffer_len(buffer))) {
            ci_wait_queue(worker, wait, &queue->pushers);
            ci_lock_give(&queue->lock);
            return false;
        }
        claimed = claimed || ci_claim(worker->runnable, &wait->future);
        rc = claimed ? admit(queue, buffer, &gone) : -ECANCELED;
    } while (!finish_push(queue, buffer, rc, &gone));
    wait->future.result = rc < 0 ? rc : 0;
    return true;
}

/* With the lock held: lets those in who wait, while there is room. */
static void grant_pushers(coir_write_queue *queue, struct ci_list *granted)
{
    struct ci_wait *first;
    while ((first = ci_wait_first(&queue->pushers)) && !queue->error &&
           has_room(queue, coir_buffer_len(first->item)))
        if (ci_wait_decide(first)) {
            first->future.result = put(queue, first->item);
            ci_list_push(granted, &first->link);
        }
}

/* Those behind one that is withdrawn may need less room. */
static int cancel_push(coir_future *future, int reason)
{
    struct ci_wait *wait = ci_container_of(future, struct ci_wait, future);
    coir_write_queue *queue = wait->object;
    struct ci_list granted;
    ci_list_init(&granted);
    lock(queue);
    bool withdrawn = ci_wait_withdraw(wait, reason);
    grant_pushers(queue, &granted);
    bool send = schedule(queue);
    ci_lock_give(&queue->lock);
    if (send)
        send_word(queue);
    ci_wait_wake_all(&granted);
    return withdrawn;
}

static const struct ci_wait_kind push_kind =
    CI_WAIT_KIND("room in a write queue", start_push, cancel_push);

static struct ci_wait_for to_push(coir_write_queue *queue, coir_buffer *buffer)
{
    return (struct ci_wait_for){&push_kind, &queue->lock, queue, .item = buffer};
}

coir_future *coir_write_queue_push_op(coir_wait_op *op, coir_write_queue *queue,
                                      coir_buffer *buffer)
{
    int rc = op ? check(queue, buffer) : -EINVAL;
    if (rc < 0)
        return ci_completed_op(op, CI_MISUSE_IF(-EINVAL, rc, "op, queue or buffer is NULL"));
    return ci_wait_op(op, to_push(queue, buffer));
}

int coir_write_queue_push(coir_write_queue *queue, coir_buffer *buffer)
{
    int rc = check(queue, buffer);
    if (rc == -EINVAL)
        return CI_MISUSE(rc, "queue or buffer is NULL");
    coir_wait_op op;
    return rc < 0 ? (int)ci_await_in_fiber(ci_completed_op(&op, rc))
                  : (int)ci_wait_in_fiber(to_push(queue, buffer));
}

static coir_future *make_push(const coir_case *self, void *op)
{
    return coir_write_queue_push_op(op, self->object, self->data);
}

coir_case coir_case_push(coir_write_queue *queue, coir_buffer *buffer)
{
    if (!queue || !buffer)
        return ci_completed_case(CI_MISUSE(-EINVAL, "queue or buffer is NULL"));
    return (coir_case){.make = make_push, .object = queue, .data = buffer};
}

/* ---- flushing ---- */

static bool start_flush(struct ci_worker *worker, struct ci_wait *wait)
{
    coir_write_queue *queue = wait->object;
    lock(queue);
    bool complete = !queue->ring.count && !queue->unreported;
    wait->future.result = queue->error;
    wait->amount = queue->pushed;
    if (!complete)
        ci_wait_queue(worker, wait, &queue->flushers);
    ci_lock_give(&queue->lock);
    return complete;
}

static const struct ci_wait_kind flush_kind =
    CI_WAIT_KIND("a write queue to be written", start_flush, ci_wait_cancel);

static struct ci_wait_for to_flush(coir_write_queue *queue)
{
    return (struct ci_wait_for){.kind = &flush_kind, .lock = &queue->lock, .object = queue};
}

coir_future *coir_write_queue_flush_op(coir_wait_op *op, coir_write_queue *queue)
{
    return op && queue ? ci_wait_op(op, to_flush(queue))
                       : ci_completed_op(op, CI_MISUSE(-EINVAL, "op or queue is NULL"));
}

int coir_write_queue_flush(coir_write_queue *queue)
{
    return queue ? (int)ci_wait_in_fiber(to_flush(queue)) : CI_MISUSE(-EINVAL, "queue is NULL");
}

static coir_future *make_flush(const coir_case *self, void *op)
{
    return coir_write_queue_flush_op(op, self->object);
}

coir_case coir_case_flush(coir_write_queue *queue)
{
    if (!queue)
        return ci_completed_case(CI_MISUSE(-EINVAL, "queue is NULL"));
    return (coir_case){.make = make_flush, .object = queue};
}

/* ---- the end ---- */

/* Frees it if nothing holds it any more. */
static void release(coir_write_queue *queue)
{
    if (!queue->freed || queue->holds || queue->state == SCHEDULED)
        return;
    ci_check(!queue->ring.count && !queue->op.io.pending, "write_queue.c 5");
    coir_allocator allocator = queue->allocator;
    ci_item_ring_done(&queue->ring);
    ci_free(&allocator, queue, sizeof *queue);
}

static void stop_polling(coir_write_queue *queue)
{
    if (queue->op.io.pending && queue->stream->kind->cancel(queue->stream, &queue->op.io))
        queue->holds--;
}

/* On the owner: everything in the queue fails with `error`, or with the reason why it has ended
 * already. */
static void end(coir_write_queue *queue, int error)
{
    struct gone gone = {.count = 0};
    struct ci_list granted;
    bool more = true;
    ci_list_init(&granted);
    while (more) {
        lock(queue);
        queue->error = error = queue->error ? queue->error : error;
        while (queue->ring.count && gone.count < PIECES) {
            take_out(queue, 0, &gone);
            queue->failed++;
        }
        more = queue->ring.count;
        ci_wait_grant_all(&queue->pushers, -EPIPE, &granted);
        ci_lock_give(&queue->lock);
        report(queue, &gone, error);
    }
    lock(queue);
    grant_flushers(queue, &granted);
    ci_lock_give(&queue->lock);
    ci_wait_wake_all(&granted);
}

/* On the owner. The stream's other direction may be waited on by a task that is to hear of it. */
static void end_with_stream(coir_write_queue *queue, int error)
{
    stop_polling(queue);
    end(queue, error);
    if (queue->stream && (queue->error == -COIR_EFULL || queue->error == -ETIMEDOUT))
        ci_stream_break(queue->stream, -ECONNABORTED);
}

/* ---- writing, on the owner ---- */

static void change(coir_write_queue *queue, enum state to)
{
    lock(queue);
    queue->state = to;
    ci_lock_give(&queue->lock);
}

/* What is to be written next: the number of pieces; 0, and idle, if there is none; -1 the queue has
 * ended. */
static int gather(coir_write_queue *queue, struct iovec *pieces, size_t *ret_len)
{
    lock(queue);
    int count = queue->error ? -1 : (int)(queue->ring.count < PIECES ? queue->ring.count : PIECES);
    queue->state = count ? WRITING : IDLE;
    queue->taken = count > 0 ? (size_t)count : 0;
    *ret_len = 0;
    for (int i = 0; i < count; i++) {
        const coir_buffer *buffer = item_at(queue, (size_t)i)->buffer;
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

/* The stream has taken `n` bytes. */
static void account(coir_write_queue *queue, size_t n)
{
    struct gone written = {.count = 0}, dropped = {.count = 0};
    struct ci_list granted;
    ci_list_init(&granted);
    lock(queue);
    queue->sent += n;
    while (queue->ring.count && n >= len_at(queue, 0) - queue->begun) {
        n -= len_at(queue, 0) - queue->begun;
        take_out(queue, 0, &written);
        queue->written++;
    }
    if (n && !queue->begun)
        queue->waiting_bytes -= len_at(queue, 0);
    queue->begun += n;
    queue->taken = 0;
    trim(queue, &dropped);
    grant_pushers(queue, &granted);
    ci_lock_give(&queue->lock);
    ci_wait_wake_all(&granted);
    report(queue, &written, 0);
    report(queue, &dropped, -COIR_EFULL);
}

static void on_room(struct ci_op *io);

/* Polls the stream for room. True: it will be told of. */
static bool wait_for_room(coir_write_queue *queue)
{
    coir_stream *stream = queue->stream;
    queue->op.io =
        (struct ci_op){.done = on_room, .fd = stream->fd, .kind = CI_OP_POLL, .events = COIR_WRITE};
    if (!stream->kind->start(stream, &queue->op.io)) {
        queue->holds++;
        lock(queue);
        bool ended = queue->error; /* by a push on another worker: the next look at it sees that */
        queue->state = ended ? WRITING : BLOCKED;
        ci_lock_give(&queue->lock);
        return !ended;
    }
    if (queue->op.io.result < 0)
        end_with_stream(queue, queue->op.io.result);
    return queue->op.io.result < 0;
}

/* One write. False: there is nothing more to do for now. */
static bool write_once(coir_write_queue *queue)
{
    struct iovec pieces[PIECES];
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

static void write_on(coir_write_queue *queue)
{
    queue->holds++;
    int writes = 0;
    while (queue->stream && write_once(queue))
        if (++writes == WRITES_MAX) {
            change(queue, SCHEDULED);
            send_word(queue);
            break;
        }
    queue->holds--;
    release(queue);
}

static void word_came(struct ci_message *message)
{
    coir_write_queue *queue = ci_container_of(message, coir_write_queue, message);
    change(queue, WRITING);
    if (ci_worker_current) /* otherwise the run is being settled */
        write_on(queue);
    else
        release(queue);
}

static void on_room(struct ci_op *io)
{
    coir_write_queue *queue = ci_container_of(io, coir_write_queue, op.io);
    queue->holds--;
    lock(queue);
    bool ended = queue->error; /* what ended it deals with the rest */
    if (!ended)
        queue->state = WRITING;
    ci_lock_give(&queue->lock);
    if (!ended && io->result < 0)
        end_with_stream(queue, io->result);
    if (ended || io->result < 0)
        release(queue);
    else
        write_on(queue);
}

/* ---- making and freeing ---- */

static const coir_future_kind writer_kind = COIR_FUTURE_KIND("a write queue", NULL, NULL);

coir_write_queue *ci_write_queue_of(const coir_stream *stream)
{
    return stream->writer && stream->writer->future.kind == &writer_kind
               ? ci_container_of(stream->writer, coir_write_queue, op)
               : NULL;
}

void ci_write_queue_leave(coir_write_queue *queue)
{
    coir_stream *stream = queue->stream;
    stop_polling(queue);
    ci_check(stream->writer == &queue->op, "write_queue.c 4");
    stream->writer = NULL;
    queue->stream = NULL;
    end(queue, -ECANCELED);
}

static void init(coir_write_queue *queue, struct ci_worker *worker, coir_stream *stream,
                 const coir_write_queue_options *options)
{
    queue->worker = worker;
    queue->stream = stream;
    queue->op.future.kind = &writer_kind;
    queue->items_max = options->items_max ? options->items_max : ITEMS_MAX;
    queue->bytes_max = options->bytes_max ? options->bytes_max : BYTES_MAX;
    queue->overflow = options->overflow;
    queue->on_outcome = options->on_outcome;
    queue->arg = options->arg;
    queue->allocator = worker->runtime->allocator;
    queue->message.deliver = word_came;
    ci_list_init(&queue->pushers);
    ci_list_init(&queue->flushers);
    ci_item_ring_init(&queue->ring, &queue->allocator, sizeof(struct item), COIR_UNLIMITED);
    stream->writer = &queue->op;
}

static int make(coir_stream *stream, const coir_write_queue_options *given,
                coir_write_queue **ret_queue)
{
    struct ci_worker *worker = ci_worker_current;
    if (!worker)
        return ci_no_worker();
    coir_write_queue_options options = COIR_WRITE_QUEUE_OPTIONS;
    int rc = ci_options_read(&options, sizeof options, given);
    if (rc == 0 && (unsigned)options.overflow > COIR_OVERFLOW_KEEP_LATEST)
        rc = -EINVAL;
    if (rc == 0 && stream->worker != worker)
        rc = ci_stream_adopt(stream, worker);
    if (rc == 0 && stream->writer)
        rc = -EBUSY;
    if (rc < 0)
        return rc;
    coir_write_queue *queue = ci_alloc_zero(&worker->runtime->allocator, sizeof *queue);
    if (!queue)
        return -ENOMEM;
    init(queue, worker, stream, &options);
    *ret_queue = queue;
    return 0;
}

int coir_write_queue_new_with(coir_stream *stream, const coir_write_queue_options *options,
                              coir_write_queue **ret_queue)
{
    if (ci_forked())
        return -COIR_EFORKED;
    return stream && ret_queue ? make(stream, options, ret_queue)
                               : CI_MISUSE(-EINVAL, "stream or ret_queue is NULL");
}

int coir_write_queue_new(coir_stream *stream, coir_write_queue **ret_queue)
{
    if (ci_forked())
        return -COIR_EFORKED;
    return stream && ret_queue ? make(stream, NULL, ret_queue)
                               : CI_MISUSE(-EINVAL, "stream or ret_queue is NULL");
}

void coir_write_queue_free(coir_write_queue *queue)
{
    if (!queue || ci_forked())
        return;
    lock(queue);
    ci_check(ci_list_empty(&queue->pushers) && ci_list_empty(&queue->flushers), "write_queue.c 3");
    ci_lock_give(&queue->lock);
    if (queue->stream)
        ci_write_queue_leave(queue);
    queue->freed = true;
    release(queue);
}

int coir_write_queue_stats_get(coir_write_queue *queue, coir_write_queue_stats *ret_stats)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!queue || !ret_stats)
        return CI_MISUSE(-EINVAL, "queue or ret_stats is NULL");
    lock(queue);
    coir_write_queue_stats stats = {
        .size = sizeof stats,
        .items = queue->ring.count,
        .written = queue->written,
        .dropped = queue->dropped,
        .failed = queue->failed,
        .bytes = queue->waiting_bytes + (queue->begun ? len_at(queue, 0) - queue->begun : 0),
        .sent = queue->sent,
        .error = queue->error,
    };
    ci_lock_give(&queue->lock);
    return ci_result_write(ret_stats, &stats, sizeof stats);
}
