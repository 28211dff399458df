/* The stream over another stream: turns the functions of a filter, which never wait, into
 * operations that do.
 *
 * An operation is tried; where the filter answers -EAGAIN it is put into `ops`, and a poll of the
 * transport is armed for what the filter wants. When the poll completes, every operation in the
 * list is tried again. The polls move no data, so a cancelled operation has moved none either.
 *
 * Where the transport is ready again and again and the filter makes nothing of it (a flood of what
 * carries no data), the next try is left to a timer that is due at once: other tasks run first.
 *
 * 1. An operation in `ops` has a poll armed, or the timer started, that leads to its next try.
 * 2. While flush answers -EAGAIN, the poll for writing is armed, or the timer started, or the
 * stream is closed and its farewell task waits.
 * 3. The memory of a filter is freed after both polls have completed.
 * 4. No poll is armed while the stream is detached.
 * 5. `done` may start, cancel and close anything. So try_all_again moves the operations that are
 *    complete to `ended`, and then calls `done` for one after the other; if that closes the stream,
 *    the close calls it for the rest, and the memory is freed by try_all_again.
 *
 * A program cannot read what is not data, such as a ticket of TLS: what arrives after the close is
 * discarded (linger.h), so that the transport's close does not reset the connection and lose what
 * the program has written.
 */
#include "coir/filter.h"

#include <errno.h>

#include "base/check.h"
#include "coir/deadline.h"
#include "coir/scope.h"
#include "driver/count.h"
#include "io/linger.h"
#include "sys/fork.h"
#include "sys/misuse.h"

/* How often the filter is asked in a row before other tasks run. */
enum { TRIES_MOST = 2 };

/* How long what was written before the close may take to arrive; and the first pause between two
 * looks whether it has. */
static const coir_time farewell_time = 5 * COIR_S, first_pause = 5 * COIR_MS;

struct filter {
    coir_stream stream; /* fd: the transport's, for polls that are handed down as they are */
    coir_filter_kind kind;
    void *arg;
    coir_stream *transport;
    struct ci_op *ops, *ended;        /* those that wait; those that are complete (5) */
    struct ci_op can_read, can_write; /* polls of the transport; armed while pending */
    struct ci_timer again;            /* started: it was ready TRIES_MOST times in a row */
    bool unsent;                      /* flush has answered -EAGAIN */
    int failed;                       /* flush's error: it is not called again; 0: none */
    bool closed;                      /* a poll that completes late is ignored */
    bool trying, freed;               /* try_all_again runs, and is to free the filter (5) */
    struct ci_linger linger;
    const coir_allocator *allocator;
};

static struct filter *filter_of(coir_stream *stream)
{
    return ci_container_of(stream, struct filter, stream);
}

/* ---- the transport ---- */

static void try_all_again(struct filter *filter);

static void on_ready(struct filter *filter)
{
    if (!filter->closed)
        try_all_again(filter);
}

static void on_can_read(struct ci_op *op)
{
    on_ready(ci_container_of(op, struct filter, can_read));
}

static void on_can_write(struct ci_op *op)
{
    on_ready(ci_container_of(op, struct filter, can_write));
}

/* Arms a poll. True: the transport is ready at once. */
static bool arm(struct filter *filter, struct ci_op *poll, int event, void (*done)(struct ci_op *))
{
    if (poll->pending)
        return false;
    *poll = (struct ci_op){
        .done = done, .fd = filter->transport->fd, .kind = CI_OP_POLL, .events = (uint8_t)event};
    return filter->transport->kind->start(filter->transport, poll);
}

/* Arms the polls for `events`. True: one of them holds at once. */
static bool arm_for(struct filter *filter, int events)
{
    return (events & COIR_READ && arm(filter, &filter->can_read, COIR_READ, on_can_read)) ||
           (events & COIR_WRITE && arm(filter, &filter->can_write, COIR_WRITE, on_can_write));
}

/* Whether something leads to the next try of what waits for `events`. */
static bool is_armed(const struct filter *filter, int events)
{
    return ci_timer_started(&filter->again) ||
           ((!(events & COIR_READ) || filter->can_read.pending) &&
            (!(events & COIR_WRITE) || filter->can_write.pending));
}

static void on_again(struct ci_timer *timer)
{
    on_ready(ci_container_of(timer, struct filter, again));
}

static void try_later(struct filter *filter)
{
    struct coir_loop *loop = &filter->stream.worker->loop;
    if (!ci_timer_started(&filter->again))
        ci_loop_start_timer(loop, &filter->again, ci_loop_update_now(loop));
}

static void disarm(struct filter *filter)
{
    if (ci_timer_started(&filter->again))
        ci_wheel_cancel(&filter->stream.worker->loop.wheel, &filter->again);
    struct ci_op *polls[] = {&filter->can_read, &filter->can_write};
    for (int i = 0; i < 2; i++)
        if (polls[i]->pending)
            filter->transport->kind->cancel(filter->transport, polls[i]);
}

/* ---- operations ---- */

/* Writes that wait for the transport end with its error. */
static void flush(struct filter *filter)
{
    if (filter->failed)
        return;
    int rc = filter->kind.flush(filter->arg);
    filter->unsent = rc == -EAGAIN;
    filter->failed = rc == -EAGAIN ? 0 : rc;
    if (ci_unlikely(filter->failed) && filter->ops)
        try_later(filter);
}

/* Sends what is kept, now and whenever the transport takes more. */
static void send_kept(struct filter *filter)
{
    bool ready = true;
    for (int tries = 0; ready && tries < TRIES_MOST; tries++) {
        flush(filter);
        ready = filter->unsent && arm_for(filter, COIR_WRITE);
    }
    if (ready)
        try_later(filter);
    ci_check(!filter->unsent || is_armed(filter, COIR_WRITE), "filter.c 2");
}

static ssize_t read_into(struct filter *filter, const struct iovec *iov, int count, int *events)
{
    ssize_t done = 0, n = 0;
    for (int i = 0; i < count; i++) {
        if (iov[i].iov_len == 0)
            continue;
        n = filter->kind.read(iov[i].iov_base, iov[i].iov_len, events, filter->arg);
        filter->linger.input_ended |= n == 0;
        if (n <= 0)
            break;
        done += n;
        if ((size_t)n < iov[i].iov_len)
            break;
    }
    return done ? done : n;
}

static ssize_t write_from(struct filter *filter, const struct iovec *iov, int count, int *events)
{
    ssize_t done = 0, n = 0;
    for (int i = 0; i < count; i++) {
        if (iov[i].iov_len == 0)
            continue;
        n = filter->kind.write(iov[i].iov_base, iov[i].iov_len, events, filter->arg);
        if (n < 0)
            break;
        done += n;
        if ((size_t)n < iov[i].iov_len)
            break;
    }
    return done ? done : n;
}

static ssize_t write_unless_kept(struct filter *filter, const struct iovec *iov, int count,
                                 int *events)
{
    if (filter->unsent)
        return -EAGAIN;
    ssize_t n = write_from(filter, iov, count, events);
    return filter->failed && (n >= 0 || n == -EAGAIN) ? filter->failed : n;
}

static bool is_writable(struct filter *filter, int *events)
{
    if (filter->failed)
        return true; /* a write fails at once */
    return !filter->unsent &&
           (!filter->kind.writable || filter->kind.writable(events, filter->arg));
}

static int events_now(struct filter *filter, const struct ci_op *op, int *events)
{
    int found = 0, wanted = 0;
    if (op->events & COIR_READ) {
        int wants = COIR_READ;
        if (filter->kind.readable(&wants, filter->arg))
            found |= COIR_READ;
        wanted |= wants;
    }
    if (op->events & COIR_WRITE) {
        int wants = COIR_WRITE;
        if (is_writable(filter, &wants))
            found |= COIR_WRITE;
        wanted |= wants;
    }
    *events = wanted;
    return found;
}

/* Tries an operation: true, it is complete. Otherwise *events is what to wait for. */
static bool attempt(struct filter *filter, struct ci_op *op, int *events)
{
    struct iovec one = {op->buf, op->len};
    bool vector = op->kind == CI_OP_READV || op->kind == CI_OP_WRITEV;
    const struct iovec *iov = vector ? op->iov : &one;
    int count = vector ? op->count : 1;
    ssize_t n;
    switch ((enum ci_op_kind)op->kind) {
    case CI_OP_READ:
    case CI_OP_READV:
        *events = COIR_READ;
        n = read_into(filter, iov, count, events);
        break;
    case CI_OP_WRITE:
    case CI_OP_WRITEV:
        *events = COIR_WRITE;
        n = write_unless_kept(filter, iov, count, events);
        break;
    default:
        n = events_now(filter, op, events);
        if (n == 0)
            n = -EAGAIN;
    }
    op->result = (int32_t)n;
    flush(filter);
    return n != -EAGAIN;
}

/* Tries each operation that waits once, and moves those that are complete to `ended`. */
static void try_each(struct filter *filter)
{
    struct ci_op **last = &filter->ended;
    for (struct ci_op **at = &filter->ops; *at;) {
        struct ci_op *op = *at;
        int events;
        if (attempt(filter, op, &events)) {
            *at = op->next;
            op->next = NULL;
            *last = op;
            last = &op->next;
        } else {
            op->result = events; /* what it waits for */
            at = &op->next;
        }
    }
}

static void complete_ended(struct filter *filter)
{
    for (struct ci_op *op; (op = filter->ended);) {
        filter->ended = op->next;
        op->pending = false;
        op->done(op);
    }
}

/* What the operations that wait want from the transport. */
static int wanted_by_all(const struct filter *filter)
{
    int wanted = filter->unsent ? COIR_WRITE : 0;
    for (const struct ci_op *op = filter->ops; op; op = op->next)
        wanted |= op->result;
    return wanted;
}

/* Tries what waits until the transport is ready for none of it. */
static void try_all_again(struct filter *filter)
{
    bool ready = true;
    ci_check(!filter->ended && !filter->trying, "filter.c 5");
    filter->trying = true;
    for (int tries = 0; ready && tries < TRIES_MOST && !filter->closed; tries++) {
        flush(filter);
        try_each(filter);
        complete_ended(filter);
        ready = !filter->closed && arm_for(filter, wanted_by_all(filter));
    }
    filter->trying = false;
    if (filter->closed) {
        if (filter->freed)
            ci_free(filter->allocator, filter, sizeof *filter);
        return;
    }
    if (ready)
        try_later(filter);
    ci_check(is_armed(filter, wanted_by_all(filter)), "filter.c 1");
    ci_check(!filter->unsent || is_armed(filter, COIR_WRITE), "filter.c 2");
}

/* A wait for neither reading nor writing, such as for a hang-up, is the transport's. */
static bool is_transports(const struct ci_op *op)
{
    return op->kind == CI_OP_POLL && !(op->events & (COIR_READ | COIR_WRITE));
}

static bool start(coir_stream *stream, struct ci_op *op)
{
    struct filter *filter = filter_of(stream);
    if (is_transports(op))
        return filter->transport->kind->start(filter->transport, op);
    if (ci_count_trim(op))
        return true;
    int events, tries = 0;
    bool ready;
    do {
        if (attempt(filter, op, &events) || op->no_wait) {
            if (filter->unsent)
                send_kept(filter);
            return true;
        }
        ready = arm_for(filter, events | (filter->unsent ? COIR_WRITE : 0));
    } while (ready && ++tries < TRIES_MOST);
    if (ready || filter->failed) /* which a write is told then */
        try_later(filter);
    ci_check(is_armed(filter, events), "filter.c 1");
    ci_check(!filter->unsent || is_armed(filter, COIR_WRITE), "filter.c 2");
    op->pending = true;
    op->result = events;
    op->next = filter->ops;
    filter->ops = op;
    return false;
}

static bool has_ended(const struct filter *filter, const struct ci_op *op)
{
    const struct ci_op *ended = filter->ended;
    while (ended && ended != op)
        ended = ended->next;
    return ended;
}

static bool cancel(coir_stream *stream, struct ci_op *op)
{
    struct filter *filter = filter_of(stream);
    if (is_transports(op))
        return filter->transport->kind->cancel(filter->transport, op);
    if (has_ended(filter, op))
        return false;
    ci_op_remove(&filter->ops, op);
    op->pending = false;
    op->result = -ECANCELED;
    return true;
}

/* ---- the stream as a whole ---- */

/* The filter writes to its transport, which makes it the worker's: both are adopted. */
static int shutdown_write(coir_stream *stream)
{
    struct filter *filter = filter_of(stream);
    int rc = 0;
    if (!ci_worker_current)
        return ci_no_worker();
    if (!stream->worker && (rc = ci_stream_adopt(stream, ci_worker_current)) < 0)
        return rc;
    if ((rc = filter->kind.end(filter->arg)) < 0)
        return rc;
    send_kept(filter);
    return filter->failed;
}

static int address(const coir_stream *stream, bool peer, struct sockaddr_storage *ret_address,
                   socklen_t *ret_len)
{
    const coir_stream *transport = ci_container_of(stream, const struct filter, stream)->transport;
    return transport->kind->address
               ? transport->kind->address(transport, peer, ret_address, ret_len)
               : -EOPNOTSUPP;
}

static coir_stream *transport_of(coir_stream *stream)
{
    return filter_of(stream)->transport;
}

static int detach(coir_stream *stream)
{
    struct filter *filter = filter_of(stream);
    disarm(filter);
    bool polls = filter->can_read.pending || filter->can_write.pending;
    int rc = polls ? -EBUSY : coir_stream_detach(filter->transport);
    if (rc < 0 && filter->unsent)
        send_kept(filter); /* it goes on here */
    ci_check(rc < 0 || (!filter->can_read.pending && !filter->can_write.pending), "filter.c 4");
    return rc;
}

static int adopt(coir_stream *stream, struct ci_worker *worker)
{
    struct filter *filter = filter_of(stream);
    int rc = ci_stream_adopt(filter->transport, worker);
    if (rc < 0)
        return rc;
    stream->worker = worker; /* whose timer it may take */
    if (filter->unsent)
        try_all_again(filter);
    return 0;
}

/* ---- the close ---- */

/* A poll that the driver would not withdraw completes in coir_close. */
static void finish(struct filter *filter)
{
    filter->kind.free(filter->arg);
    filter->transport->is_transport = false;
    coir_close(filter->transport);
    ci_check(!filter->can_read.pending && !filter->can_write.pending, "filter.c 3");
    filter->freed = true;
    if (!filter->trying)
        ci_free(filter->allocator, filter, sizeof *filter);
}

/* Waits until the transport is ready, for *pause at most, which then grows. False: the task is to
 * end. */
static bool wait_for_peer(struct filter *filter, coir_time *pause)
{
    int events = (filter->unsent ? COIR_WRITE : 0) | (filter->linger.input_ended ? 0 : COIR_READ);
    COIR_DEADLINE_AS(limit, coir_in(*pause));
    if (coir_stream_wait(filter->transport, events) >= 0)
        return true;
    *pause *= 2;
    return coir_deadline_passed(limit);
}

/* Whether what was written has arrived, as far as that matters. */
static bool is_delivered(struct filter *filter)
{
    if (filter->unsent)
        flush(filter);
    ci_linger_discard(&filter->linger, filter->transport);
    return !filter->unsent && ci_linger_is_over(&filter->linger, filter->transport);
}

static int say_farewell(void *arg)
{
    struct filter *filter = arg;
    {
        COIR_DEADLINE(coir_in(farewell_time));
        coir_time pause = first_pause;
        while (!is_delivered(filter) && wait_for_peer(filter, &pause))
            continue;
    }
    finish(filter);
    return 0;
}

static void close_filter(coir_stream *stream)
{
    struct filter *filter = filter_of(stream);
    filter->closed = true;
    while (filter->ops) {
        struct ci_op *op = filter->ops;
        cancel(stream, op);
        op->done(op);
    }
    complete_ended(filter);
    disarm(filter);
    if (stream->error) { /* broken (broken.c): the transport is reset */
        ci_stream_break(filter->transport, stream->error);
        finish(filter);
        return;
    }
    bool at_risk = ci_linger_at_risk(&filter->linger, filter->transport);
    if (filter->kind.end(filter->arg) == 0)
        flush(filter);
    ci_linger_discard(&filter->linger, filter->transport);
    if (filter->unsent || (at_risk && !filter->linger.input_ended)) {
        COIR_SHIELD;
        coir_go_options options = COIR_GO_OPTIONS;
        options.name = "farewell";
        if (coir_go_with(NULL, &options, say_farewell, filter) == 0)
            return;
    }
    finish(filter);
}

static const struct ci_stream_kind filter_kind = {
    .name = "filter",
    .start = start,
    .cancel = cancel,
    .shutdown_write = shutdown_write,
    .address = address,
    .detach = detach,
    .adopt = adopt,
    .close = close_filter,
    .transport = transport_of,
};

int coir_filter_new(const coir_filter_kind *kind, void *arg, coir_stream *transport,
                    coir_stream **ret_stream)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!kind || !transport || !ret_stream)
        return CI_MISUSE(-EINVAL, "kind, transport or ret_stream is NULL");
    coir_filter_kind own = {0};
    int rc = ci_options_read(&own, sizeof own, kind);
    if (rc == 0 &&
        (!own.read || !own.write || !own.flush || !own.readable || !own.end || !own.free))
        rc = CI_MISUSE(-EINVAL, "a function of kind is NULL");
    struct ci_worker *worker = ci_worker_current;
    if (rc == 0 && !worker)
        rc = ci_no_worker();
    if (rc == 0 && transport->worker != worker)
        rc = transport->worker ? CI_ELSEWHERE(transport->worker)
                               : ci_stream_adopt(transport, worker);
    if (rc == 0 && transport->is_transport)
        rc = CI_MISUSE(-EBUSY, "another stream stands on the transport");
    if (rc == 0 && ci_stream_used(transport))
        rc = -EBUSY;
    const coir_allocator *allocator = rc == 0 ? &worker->runtime->allocator : NULL;
    struct filter *filter = rc == 0 ? ci_alloc_zero(allocator, sizeof *filter) : NULL;
    if (!filter)
        return rc < 0 ? rc : -ENOMEM;
    filter->stream = (coir_stream){.kind = &filter_kind, .worker = worker, .fd = transport->fd};
    filter->kind = own;
    filter->arg = arg;
    filter->transport = transport;
    filter->allocator = allocator;
    ci_linger_init(&filter->linger, transport);
    ci_timer_init(&filter->again, on_again);
    if ((rc = ci_stream_move_timeouts(transport, &filter->stream)) < 0) {
        ci_free(allocator, filter, sizeof *filter);
        return rc;
    }
    transport->is_transport = true; /* only now: until then the caller may close it */
    send_kept(filter);              /* of a handshake, say */
    *ret_stream = &filter->stream;
    return 0;
}

void *coir_filter_arg(const coir_stream *stream, const coir_filter_kind *kind)
{
    if (!stream || !kind || ci_stream_base(stream) != &filter_kind)
        return NULL;
    const struct filter *filter = ci_container_of(stream, const struct filter, stream);
    return filter->kind.free == kind->free ? filter->arg : NULL;
}
