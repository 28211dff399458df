/* Accepting, and the choice of the worker that gets a connection (listener.h). */
#include <errno.h>

#include "io/listener.h"
#include "task/completed.h"
#include "task/log.h"

enum {
    PROBES = 8,       /* other seats that are looked at for each connection */
    STREAK = 16,      /* this many connections in a row without a wait are a burst */
    IN_VAIN_MOST = 4, /* pauses in a row that may bring nothing */
    REFUSALS = 16,    /* this many errors of connections in a row are one of the listener */
};

/* How long a worker that has taken more than its share of a burst pauses, so that workers that are
 * awake already reach their accept. */
static const coir_time catch_up_time = 5 * COIR_MS;

const coir_time ci_accept_pause = 100 * COIR_MS;

/* ---- the choice of the worker that gets a connection ---- */

static bool has_fewer(const struct ci_seat *other, const struct ci_seat *seat)
{
    uint32_t reserved = ci_load_relaxed(&other->reserved);
    uint32_t theirs = ci_load_relaxed(&other->live) + reserved, ours = seat->live;
    return theirs < ours ||
           (theirs == ours && ci_load_relaxed(&other->taken) + reserved < seat->taken);
}

/* A seat that has fewer connections, and whose worker sleeps in the kernel with an accept waiting;
 * NULL: none among the PROBES seats looked at. */
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

/* ---- the wait for a connection ---- */

static bool is_closed(const coir_listener *listener)
{
    return ci_load_relaxed(&listener->closed) || ci_load_relaxed(&listener->fd) < 0;
}

static void on_unwanted(struct ci_driver *driver, coir_fd fd);

/* The worker may be woken for the listener from now on. Without memory nobody looks whether it was
 * woken in vain. */
static void enter_list(struct ci_seat *seat)
{
    struct ci_io *io;
    seat->worker->loop.driver->unwanted = on_unwanted;
    if (ci_likely(seat->listed) || is_closed(seat->listener) || !(io = ci_io_of(seat->worker)))
        return;
    seat->listed = true;
    ci_list_push(&io->seats, &seat->link);
    ci_seat_use(seat);
}

static void begin_wait(struct ci_seat *seat, struct ci_accept_op *op)
{
    enter_list(seat);
    op->next = seat->accepts;
    seat->accepts = op;
    op->withdrawn = false;
    ci_bump(&seat->waiting);
    ci_fence(); /* pairs with the fence in ci_seat_end_all */
}

static coir_future *accept_op(struct ci_accept_op *op)
{
    op->io.runnable = NULL;
    op->io.io.pending = false;
    if (ci_unlikely(is_closed(op->listener)))
        return ci_completed_op(&op->io, -ECANCELED);
    struct ci_op io = {.fd = op->listener->fd,
                       .kind = CI_OP_ACCEPT,
                       .len = op->listener->serial,
                       .shared = ci_load_relaxed(&op->listener->is_shared)};
    return ci_io_init(&op->io, NULL, &io);
}

static coir_future *sleep_op(struct ci_accept_op *op, coir_time duration)
{
    return coir_sleep_for_op((coir_sleep_op *)(void *)&op->pause, duration);
}

/* The result of the wait is in op->fd then. */
static void end_wait(struct ci_seat *seat, struct ci_accept_op *op)
{
    struct ci_accept_op **at = &seat->accepts;
    while (*at != op)
        at = &(*at)->next;
    *at = op->next;
    ci_drop(&seat->waiting);
    seat->streak = op->io.runnable ? 0 : seat->streak + 1;
    op->withdrawn = op->io.future.result == -ECANCELED;
    if (!op->withdrawn || op->fd != CI_LOOKS_AGAIN)
        op->fd = (coir_fd)op->io.future.result;
}

/* ---- errors ---- */

/* Errors that go away when the process or the system has closed something. */
static bool is_shortage(int error)
{
    return error == -EMFILE || error == -ENFILE || ci_lacks_memory(error);
}

bool ci_accept_is_of_client(int error)
{
    return error == -ECONNABORTED || error == -EPROTO || error == -EPERM || error == -ENETDOWN ||
           error == -ENOPROTOOPT || error == -EHOSTDOWN || error == -EHOSTUNREACH ||
           error == -EOPNOTSUPP || error == -ENETUNREACH || error == -ENONET;
}

bool ci_accept_refused_again(uint32_t *refused)
{
    return ++*refused % REFUSALS == 0;
}

enum ci_accept_error ci_accept_judge(coir_listener *listener, int error, uint32_t *refused)
{
    bool of_client = ci_accept_is_of_client(error);
    ci_fetch_add_relaxed(&listener->errors, 1);
    if (of_client && !ci_accept_refused_again(refused))
        return CI_ACCEPT_AGAIN;
    if (!of_client && !is_shortage(error))
        return CI_ACCEPT_FAILED;
    if (ci_listener_may_report(listener))
        ci_log(coir_runtime_current(), COIR_LOG_WARNING,
               "cannot accept connections: %s; retrying every %d ms", coir_strerror(error),
               (int)(ci_accept_pause / COIR_MS));
    return CI_ACCEPT_LATER;
}

/* ---- what becomes of a connection ---- */

static CI_COLD void close_beyond_limit(struct ci_seat *seat, coir_fd fd)
{
    if (ci_listener_may_report(seat->listener))
        ci_log(seat->worker->runtime, COIR_LOG_WARNING,
               "closing new connections: the listener's limit of %zu is reached",
               seat->listener->connections_max);
    ci_fetch_add_relaxed(&seat->listener->refused, 1);
    ci_driver_close(seat->worker->loop.driver, fd);
}

/* Makes the connection in op->fd a stream. An error is in op->fd afterwards: CI_LOOKS_AGAIN when
 * the connection is not this accept's any more. -ENOMEM leaves it there: it is tried again. */
static int take(struct ci_seat *seat, struct ci_accept_op *op)
{
    coir_stream *stream;
    coir_fd fd = op->fd;
    enum ci_admission admission = ci_admission_ask(seat->listener, false);
    if (ci_unlikely(admission == CI_ADMITTED_NEVER)) {
        close_beyond_limit(seat, fd);
        return op->fd = CI_LOOKS_AGAIN;
    }
    if (ci_unlikely(admission == CI_ADMITTED_LATER))
        return ci_spare_put(seat->listener, fd, NULL) < 0 ? -ENOMEM : (op->fd = CI_LOOKS_AGAIN);
    if (ci_socket_stream_new(seat->worker, fd, seat->listener->is_unix, &stream) < 0) {
        ci_seat_free_place(seat);
        return -ENOMEM;
    }
    if (ci_likely(ci_claim(seat->worker->runnable, &op->future))) {
        ci_seat_take(seat, stream);
        seat->refused = 0;
        *op->ret_stream = stream;
        return 0;
    }
    ci_socket_stream_free(stream);
    ci_seat_free_place(seat);
    return -ECANCELED;
}

/* Gives a connection to the next accept: the accept that it was for has ended without it. */
static void pass_on(struct ci_seat *seat, coir_fd fd)
{
    if (ci_spare_put(seat->listener, fd, NULL) < 0)
        ci_driver_close(seat->worker->loop.driver, fd);
    ci_spare_tell_all(seat->listener);
}

enum step { ENDS, GOES_ON, PAUSES };

/* After a wait, whose result, a connection or an error, is in op->fd. */
static enum step decide(struct ci_seat *seat, struct ci_accept_op *op, int *rc)
{
    if (op->fd == CI_LOOKS_AGAIN || (op->fd >= 0 && hand_over(seat, op->fd)))
        return op->fd = CI_LOOKS_AGAIN, GOES_ON;
    *rc = op->fd < 0 ? op->fd : take(seat, op);
    if (ci_likely(*rc == 0) || *rc == -ECANCELED || *rc == -ETIME)
        return ENDS;
    if (*rc == CI_LOOKS_AGAIN)
        return GOES_ON;
    if (is_closed(seat->listener)) { /* while the accept waited */
        *rc = -ECANCELED;
        return ENDS;
    }
    if (op->fd < 0)
        op->fd = CI_LOOKS_AGAIN;
    switch (ci_accept_judge(seat->listener, *rc, &seat->refused)) {
    case CI_ACCEPT_AGAIN: return GOES_ON;
    case CI_ACCEPT_LATER: return PAUSES;
    case CI_ACCEPT_FAILED: break;
    }
    return ENDS;
}

/* Before the accept waits for something else than a connection. */
static void step_back(struct ci_seat *seat)
{
    ci_seat_pass_on(seat);
    if (!seat->accepts)
        ci_listener_forget(seat->listener); /* so that new clients wake the other workers */
}

/* Whether an accept waits for the driver, on any worker. */
static bool is_waited_for(const coir_listener *listener)
{
    for (int i = 0; i < listener->seat_count; i++)
        if (ci_load_relaxed(&listener->seats[i].waiting))
            return true;
    return false;
}

/* A connection of the backlog, or an error. */
static coir_fd accept_now(struct ci_seat *seat)
{
    const coir_listener *listener = seat->listener;
    struct ci_op io = {.fd = listener->fd,
                       .kind = CI_OP_ACCEPT,
                       .len = listener->serial,
                       .no_wait = true,
                       .shared = ci_load_relaxed(&listener->is_shared)};
    ci_driver_start(seat->worker->loop.driver, &io);
    return (coir_fd)io.result;
}

/* The kernel wakes one waiter for each connection: it may have been an accept of this seat, just
 * before that was withdrawn. Another accept gets the connection then. */
static void take_for_others(struct ci_seat *seat)
{
    coir_listener *listener = seat->listener;
    bool paused = ci_load_relaxed(&listener->shut) & CI_LISTENER_PAUSED;
    if (!is_waited_for(listener) || paused || listener->is_shared)
        return;
    ci_bump(&seat->waiting);
    ci_fence(); /* as in begin_wait: the descriptor is not closed meanwhile */
    coir_fd fd = is_closed(listener) ? -ECANCELED : accept_now(seat);
    ci_drop(&seat->waiting);
    if (fd >= 0)
        pass_on(seat, fd);
}

/* An accept ends without a connection. */
static void give_up(struct ci_seat *seat)
{
    coir_listener *listener = seat->listener;
    take_for_others(seat);
    if (!seat->accepts && (listener->seat_count > 1 || listener->was_passed))
        ci_listener_forget(listener); /* so that new clients wake others */
}

/* The worker was woken for a connection, and none of its accepts waits. */
static void on_unwanted(struct ci_driver *driver, coir_fd fd)
{
    const struct ci_io *io = ci_io_of(ci_worker_current);
    (void)driver;
    ci_list_for_each (node, &io->seats) {
        struct ci_seat *seat = ci_container_of(node, struct ci_seat, link);
        if (ci_load_relaxed(&seat->listener->fd) == fd && !seat->accepts) {
            give_up(seat);
            return;
        }
    }
}

/* The accept ends with `rc`. */
static int finish(struct ci_seat *seat, struct ci_accept_op *op, int rc)
{
    if (op->fd >= 0 && rc < 0)
        pass_on(seat, op->fd);
    if (rc < 0)
        give_up(seat);
    else if (ci_unlikely(op->withdrawn))
        take_for_others(seat);
    ci_seat_pass_on(seat);
    ci_seat_unuse(seat);
    return rc;
}

/* ---- accepting ---- */

/* The seat of the calling worker; NULL: the listener belongs to another runtime. */
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
    enum step step = GOES_ON;
    int rc = 0;
    COIR_BEGIN(future);
    if (!seat)
        COIR_RETURN(future, ci_misused_elsewhere(listener->seats[0].worker, "coir_accept", NULL));
    ci_seat_use(seat);
    self->fd = CI_LOOKS_AGAIN;
    self->withdrawn = false;
    if (runs_ahead(seat)) {
        COIR_AWAIT(future, sleep_op(self, catch_up_time));
        rc = (int)self->pause.future.result;
    }
    while (rc == 0 && step != ENDS) {
        if (ci_unlikely(ci_load_relaxed(&listener->shut))) {
            step_back(seat);
            COIR_AWAIT(future, ci_opening_init(&self->opening, seat));
            if ((rc = (int)self->opening.future.result) < 0)
                break;
        } else if (self->fd < 0 && (self->fd = ci_spare_take(seat, false)) < 0) {
            begin_wait(seat, self);
            COIR_AWAIT(future, accept_op(self));
            end_wait(seat, self);
        }
        step = decide(seat, self, &rc);
        if (step == PAUSES) {
            step_back(seat);
            COIR_AWAIT(future, sleep_op(self, ci_accept_pause));
            rc = (int)self->pause.future.result;
        } else if (step == GOES_ON) {
            rc = 0;
        }
    }
    COIR_RETURN(future, finish(seat, self, rc));
}

static const coir_future_kind accept_kind = COIR_FUTURE_KIND("a connection", accept_poll, NULL);

coir_future *coir_accept_op(coir_open_op *opaque, coir_listener *listener, coir_stream **ret_stream)
{
    struct ci_accept_op *op = (struct ci_accept_op *)(void *)opaque;
    if (!opaque || !listener || !ret_stream)
        return ci_completed_op(op, CI_MISUSE(-EINVAL, "op, listener or ret_stream is NULL"));
    op->listener = listener;
    op->ret_stream = ret_stream;
    return coir_future_init(&op->future, &accept_kind);
}

int coir_accept(coir_listener *listener, coir_stream **ret_stream)
{
    coir_open_op op;
    if (!listener || !ret_stream)
        return CI_MISUSE(-EINVAL, "listener or ret_stream is NULL");
    return (int)ci_await_in_fiber(coir_accept_op(&op, listener, ret_stream));
}

static coir_future *make_accept(const coir_case *self, void *op)
{
    return coir_accept_op(op, self->object, self->data);
}

coir_case coir_case_accept(coir_listener *listener, coir_stream **ret_stream)
{
    if (!listener || !ret_stream)
        return ci_completed_case(CI_MISUSE(-EINVAL, "listener or ret_stream is NULL"));
    return (coir_case){.make = make_accept, .object = listener, .data = ret_stream};
}

static int make_stream(struct ci_seat *seat, coir_fd fd, coir_stream **ret_stream)
{
    int rc = ci_socket_stream_new(seat->worker, fd, seat->listener->is_unix, ret_stream);
    if (rc < 0) {
        ci_seat_free_place(seat);
        pass_on(seat, fd);
        return rc;
    }
    ci_seat_take(seat, *ret_stream);
    return 0;
}

static coir_fd take_now(struct ci_seat *seat)
{
    coir_fd fd = ci_spare_take(seat, true);
    return fd != -EAGAIN || seat->listener->is_shared ? fd : accept_now(seat);
}

int ci_accept_now(coir_listener *listener, bool has_room, coir_stream **ret_stream)
{
    struct ci_seat *seat = &listener->seats[ci_worker_current->index];
    coir_fd fd = take_now(seat);
    if (fd < 0)
        return fd;
    switch (has_room ? ci_admission_ask(listener, true) : CI_ADMITTED_LATER) {
    case CI_ADMITTED: return make_stream(seat, fd, ret_stream);
    case CI_ADMITTED_LATER: pass_on(seat, fd); return -EBUSY;
    case CI_ADMITTED_NEVER: break;
    }
    close_beyond_limit(seat, fd);
    return -ECONNABORTED;
}
