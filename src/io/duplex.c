/* Two streams that are each other's peer, in memory: for tests, and for tasks that exchange bytes.
 *
 * 1. Each direction is a ring of `capacity` bytes, written by one end and read by the other: the
 * bytes in it are those written and not read yet.
 * 2. A closed end has no operation in flight. The pair is freed when both ends are closed and
 * look_again does not run.
 *
 * After one end is closed, the other reads the end of the stream, and its writes return -EPIPE.
 */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "driver/count.h"
#include "io/io.h"

enum { CAPACITY = 64 * 1024 };

struct ring {
    char *data;
    size_t start, len;
    bool ended; /* its writer has closed */
};

struct end {
    coir_stream stream;
    struct pair *pair;
    struct end *peer;
    struct ring in;
    struct ci_op *ops; /* in flight */
    bool closed;
};

struct pair {
    struct end ends[2];
    size_t capacity;
    const coir_allocator *allocator;
    unsigned looking; /* look_again or shutdown_write runs: the pair is freed after them */
};

static struct end *end_of(coir_stream *stream)
{
    return ci_container_of(stream, struct end, stream);
}

static size_t copy_from(const struct ring *ring, size_t capacity, char *to, size_t len)
{
    if (len > ring->len)
        len = ring->len;
    size_t first = len < capacity - ring->start ? len : capacity - ring->start;
    memcpy(to, ring->data + ring->start, first);
    memcpy(to + first, ring->data, len - first);
    return len;
}

static size_t copy_out(struct ring *ring, size_t capacity, char *to, size_t len)
{
    len = copy_from(ring, capacity, to, len);
    ring->start = (ring->start + len) % capacity;
    ring->len -= len;
    ci_check(ring->len <= capacity, "duplex.c 1");
    return len;
}

static size_t copy_in(struct ring *ring, size_t capacity, const char *from, size_t len)
{
    if (len > capacity - ring->len)
        len = capacity - ring->len;
    size_t at = (ring->start + ring->len) % capacity,
           first = len < capacity - at ? len : capacity - at;
    memcpy(ring->data + at, from, first);
    memcpy(ring->data, from + first, len - first);
    ring->len += len;
    ci_check(ring->len <= capacity, "duplex.c 1");
    return len;
}

static int events_now(const struct end *end)
{
    int events = 0;
    if (end->in.len || end->in.ended)
        events |= COIR_READ;
    if (end->peer->in.len < end->pair->capacity || end->peer->in.ended || end->peer->closed)
        events |= COIR_WRITE; /* a write would not wait; it may fail */
    if (end->peer->closed)
        events |= COIR_HANGUP;
    return events;
}

/* Carries the operation out as far as possible now. True: it is complete. */
static bool attempt(struct end *end, struct ci_op *op)
{
    struct iovec one = {op->buf, op->len};
    bool vector = op->kind == CI_OP_READV || op->kind == CI_OP_WRITEV;
    const struct iovec *iov = vector ? op->iov : &one;
    size_t count = vector ? (size_t)op->count : 1, capacity = end->pair->capacity, moved = 0;
    struct ring *out = &end->peer->in;
    switch ((enum ci_op_kind)op->kind) {
    case CI_OP_READ:
    case CI_OP_READV:
        if (!end->in.len && !end->in.ended)
            return false;
        if (op->peek)
            return ci_op_complete(op, (int32_t)copy_from(&end->in, capacity, op->buf, op->len));
        for (size_t i = 0; i < count; i++)
            moved += copy_out(&end->in, capacity, iov[i].iov_base, iov[i].iov_len);
        break;
    case CI_OP_WRITE:
    case CI_OP_WRITEV:
        if (out->ended || end->peer->closed) {
            op->result = -EPIPE;
            return true;
        }
        if (out->len == capacity)
            return false;
        for (size_t i = 0; i < count; i++)
            moved += copy_in(out, capacity, iov[i].iov_base, iov[i].iov_len);
        break;
    default: op->result = events_now(end) & (op->events | COIR_HANGUP); return op->result != 0;
    }
    op->result = (int32_t)moved;
    return true;
}

static void free_pair(struct pair *pair)
{
    ci_free(pair->allocator, pair->ends[0].in.data, pair->capacity);
    ci_free(pair->allocator, pair->ends[1].in.data, pair->capacity);
    ci_free(pair->allocator, pair, sizeof *pair);
}

static void free_if_unused(struct pair *pair)
{
    if (pair->ends[0].closed && pair->ends[1].closed && !pair->looking)
        free_pair(pair);
}

/* Completes the operations that a change at `end` makes possible. Transferred bytes change the
 * other end, which is looked at next. */
static void look_again(struct end *end)
{
    bool moved = false;
    end->pair->looking++;
    for (struct ci_op **at = &end->ops; *at;) {
        struct ci_op *op = *at;
        if (attempt(end, op)) {
            *at = op->next;
            op->pending = false;
            moved |= op->kind != CI_OP_POLL && op->result > 0;
            op->done(op);
            at = &end->ops; /* `done` may start, cancel and close anything */
        } else {
            at = &op->next;
        }
    }
    if (moved)
        look_again(end->peer);
    end->pair->looking--;
    free_if_unused(end->pair);
}

static bool start(coir_stream *stream, struct ci_op *op)
{
    struct end *end = end_of(stream);
    ci_check(!end->closed, "duplex.c 2");
    if (ci_count_trim(op))
        return true;
    if (attempt(end, op)) {
        if (op->result > 0 && op->kind != CI_OP_POLL && !op->peek)
            look_again(end->peer);
        return true;
    }
    if (op->no_wait) {
        op->result = -EAGAIN;
        return true;
    }
    op->pending = true;
    op->next = end->ops;
    end->ops = op;
    return false;
}

static bool cancel(coir_stream *stream, struct ci_op *op)
{
    ci_op_remove(&end_of(stream)->ops, op);
    op->pending = false;
    op->result = -ECANCELED;
    return true;
}

static int shutdown_write(coir_stream *stream)
{
    struct end *end = end_of(stream);
    struct pair *pair = end->pair;
    pair->looking++;
    end->peer->in.ended = true;
    look_again(end->peer);
    look_again(end); /* what waits for room */
    pair->looking--;
    free_if_unused(pair);
    return 0;
}

static void close_end(coir_stream *stream)
{
    struct end *end = end_of(stream);
    ci_check(!end->closed, "duplex.c 2");
    end->closed = true;
    while (end->ops) {
        struct ci_op *op = end->ops;
        cancel(stream, op);
        op->done(op);
    }
    ci_check(!end->ops && (!end->peer->closed || !end->peer->ops), "duplex.c 2");
    if (end->peer->closed)
        free_if_unused(end->pair);
    else
        shutdown_write(stream);
}

static const struct ci_stream_kind duplex_kind = {
    .name = "duplex",
    .start = start,
    .cancel = cancel,
    .shutdown_write = shutdown_write,
    .close = close_end,
};

int coir_duplex(size_t capacity, coir_stream **ret_a, coir_stream **ret_b)
{
    struct ci_worker *worker = ci_worker_current;
    if (!worker)
        return ci_no_worker();
    if (!ret_a || !ret_b)
        return CI_MISUSE(-EINVAL, "ret_a or ret_b is NULL");
    const coir_allocator *allocator = &worker->runtime->allocator;
    struct pair *pair = ci_alloc_zero(allocator, sizeof *pair);
    if (!pair)
        return -ENOMEM;
    pair->allocator = allocator;
    pair->capacity = capacity ? capacity : CAPACITY;
    for (int i = 0; i < 2; i++) {
        struct end *end = &pair->ends[i];
        end->stream = (coir_stream){.kind = &duplex_kind, .worker = worker, .fd = -1};
        end->pair = pair;
        end->peer = &pair->ends[!i];
        if (!(end->in.data = ci_alloc(allocator, pair->capacity))) {
            free_pair(pair);
            return -ENOMEM;
        }
    }
    *ret_a = &pair->ends[0].stream;
    *ret_b = &pair->ends[1].stream;
    return 0;
}
