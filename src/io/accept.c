/* Accepting, and the choice of the worker that gets a connection (listener.h). */
#include <errno.h>

#include "io/listener.h"

enum {
    PROBES = 8,       /* other seats that are looked at for each connection */
    STREAK = 16,      /* this many connections in a row without a wait are a burst */
    IN_VAIN_MOST = 4, /* pauses in a row that may be in vain */
};

/* How long a worker that has taken more than its share of a burst pauses, so that workers that are
 * awake already reach their accept. */
static const coir_time catch_up_time = 5 * COIR_MS;

/* ---- who gets a connection ---- */

static bool has_fewer(const struct ci_seat *other, const struct ci_seat *seat)
{
    uint32_t reserved = ci_load_relaxed(&other->reserved);
    uint32_t theirs = ci_load_relaxed(&other->live) + reserved, ours = seat->live;
    return theirs < ours ||
           (theirs == ours && ci_load_relaxed(&other->taken) + reserved < seat->taken);
}

/* A seat that has fewer connections, and whose worker waits in the kernel with an accept; NULL:
 * none among those that were looked at. */
static struct ci_seat *find_idle(struct ci_seat *seat)
{
    coir_listener *listener = seat->listener;
    int others = listener->seat_count - 1;
    for (int i = 0; i < PROBES && i < others; i++) {
        struct ci_seat *other = &listener->seats[seat->probe++ % (uint32_t)listener->seat_count];
        if (other == seat)
            other = &listener->seats[seat->probe++ % (uint32_t)listener->seat_count];
        if (ci_load_relaxed(&other->waiting) && ci_load_relaxed(&other->worker->loop.idle) &&
            has_fewer(other, seat))
            return other;
    }
    return NULL;
}

/* In a burst one worker could empty the backlog before the others, which the kernel has woken too,
 * reach their accept. True: the worker has a sixteenth more than its share and pauses. It does not
 * when the last pauses were in vain: workers that took nothing in them are busy. */
static bool runs_ahead(struct ci_seat *seat)
{
    const coir_listener *listener = seat->listener;
    uint64_t sum = 0, taken = 0;
    if (ci_likely(seat->streak < STREAK))
        return false;
    seat->streak = 0;
    for (int i = 0; i < listener->seat_count; i++) {
        sum += ci_load_relaxed(&listener->seats[i].live);
        taken += ci_load_relaxed(&listener->seats[i].taken);
    }
    uint64_t share = sum / (uint64_t)listener->seat_count;
    taken -= seat->taken;
    if (seat->live <= share + share / 16)
        return false;
    seat->in_vain = taken == seat->taken_by_others ? seat->in_vain + 1 : 0;
    seat->taken_by_others = taken;
    return seat->in_vain < IN_VAIN_MOST;
}

/* Reserves a connection for an idle worker that has fewer. False: the caller keeps it. */
static bool hand_over(struct ci_seat *seat, coir_fd fd)
{
    struct ci_seat *other = find_idle(seat);
    return other && ci_spare_put(seat->listener, fd, other) == 0;
}

/* ---- accepting ---- */

static void begin_wait(struct ci_seat *seat, struct ci_accept_op *op)
{
    op->next = seat->accepts;
    seat->accepts = op;
    ci_bump(&seat->waiting);
}

static void end_wait(struct ci_seat *seat, const struct ci_accept_op *op)
{
    struct ci_accept_op **at = &seat->accepts;
    while (*at != op)
        at = &(*at)->next;
    *at = op->next;
    ci_drop(&seat->waiting);
}

static int make_stream(struct ci_seat *seat, coir_fd fd, coir_stream **ret_stream)
{
    int rc = ci_socket_stream_new(seat->worker, fd, seat->listener->is_unix, ret_stream);
    if (rc < 0)
        ci_driver_close(seat->worker->loop.driver, fd);
    else
        ci_seat_take(seat, *ret_stream);
    return rc;
}

/* After the wait, whose result, a connection or an error, is in op->fd. */
static int finish(struct ci_seat *seat, struct ci_accept_op *op)
{
    coir_listener *listener = seat->listener;
    ci_seat_pass_on(seat);
    if (op->fd < 0)
        return op->fd;
    if (ci_claim(seat->worker->runnable, &op->future))
        return make_stream(seat, op->fd, op->ret_stream);
    /* of a select that another case has won: the connection is the next accept's */
    if (ci_spare_put(listener, op->fd, NULL) < 0)
        ci_driver_close(seat->worker->loop.driver, op->fd);
    ci_spare_tell_all(listener);
    return -ECANCELED;
}

/* The calling worker's; NULL: it is of another runtime. */
static struct ci_seat *find_seat(coir_listener *listener)
{
    int index = ci_worker_current->index;
    struct ci_seat *seat = index < listener->seat_count ? &listener->seats[index] : NULL;
    return seat && seat->worker == ci_worker_current ? seat : NULL;
}

static coir_future *accept_poll(coir_future *future)
{
    struct ci_accept_op *self = ci_container_of(future, struct ci_accept_op, future);
    coir_listener *listener = self->listener;
    struct ci_seat *seat = find_seat(listener);
    bool again;
    int rc;
    COIR_BEGIN(future);
    if (!seat)
        COIR_RETURN(future, -EXDEV);
    ci_seat_use(seat);
    if (runs_ahead(seat)) {
        COIR_AWAIT(future, coir_sleep_for_op((coir_sleep_op *)(void *)&self->pause, catch_up_time));
        if ((rc = (int)self->pause.future.result) < 0) {
            ci_seat_unuse(seat);
            COIR_RETURN(future, rc);
        }
    }
    while ((self->fd = ci_spare_take(seat, false)) < 0) {
        struct ci_op io = {.fd = listener->fd, .kind = CI_OP_ACCEPT, .len = listener->serial};
        begin_wait(seat, self);
        self->io.runnable = NULL;
        COIR_AWAIT(future, ci_io_init(&self->io, NULL, &io));
        end_wait(seat, self);
        seat->streak = self->io.runnable ? 0 : seat->streak + 1;
        again = self->fd == CI_LOOKS_AGAIN && self->io.future.result == -ECANCELED;
        self->fd = (coir_fd)self->io.future.result;
        if (self->fd >= 0 ? !hand_over(seat, self->fd) : !again)
            break;
    }
    rc = finish(seat, self);
    ci_seat_unuse(seat);
    COIR_RETURN(future, rc);
}

static const coir_future_kind accept_kind = COIR_FUTURE_KIND("a connection", accept_poll, NULL);

coir_future *coir_accept_op(coir_open_op *opaque, coir_listener *listener, coir_stream **ret_stream)
{
    struct ci_accept_op *op = (struct ci_accept_op *)(void *)opaque;
    if (!listener || !ret_stream)
        return ci_io_fail(&op->future, CI_MISUSE(-EINVAL));
    op->listener = listener;
    op->ret_stream = ret_stream;
    return coir_future_init(&op->future, &accept_kind);
}

int coir_accept(coir_listener *listener, coir_stream **ret_stream)
{
    coir_open_op op;
    if (!listener || !ret_stream)
        return CI_MISUSE(-EINVAL);
    return (int)ci_await_in_fiber(coir_accept_op(&op, listener, ret_stream));
}

static coir_future *make_accept(const coir_case *self, void *op)
{
    return coir_accept_op(op, self->object, self->data);
}

coir_case coir_case_accept(coir_listener *listener, coir_stream **ret_stream)
{
    return (coir_case){.make = make_accept, .object = listener, .data = ret_stream};
}

int ci_accept_now(coir_listener *listener, coir_stream **ret_stream)
{
    struct ci_seat *seat = &listener->seats[ci_worker_current->index];
    coir_fd fd = ci_spare_take(seat, true);
    if (fd == -EAGAIN) {
        struct ci_op io = {
            .fd = listener->fd, .kind = CI_OP_ACCEPT, .len = listener->serial, .no_wait = true};
        ci_driver_start(seat->worker->loop.driver, &io);
        fd = io.result;
    }
    return fd < 0 ? fd : make_stream(seat, fd, ret_stream);
}
