/* Several datagrams in one system call, and the readiness of a UDP socket. A call is attempted, and
 * where it would wait, attempted again when poll(2) says so: io_uring has no such operations, and
 * what a poll was not told of stays in the socket. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "io/udp.h"
#include "task/completed.h"
#include "task/sleep.h"

struct many_op {
    coir_future future;
    union {
        struct ci_io_op io;
        struct ci_sleep_op pause;
    };
    coir_datagram *datagrams;
    size_t count;
    coir_udp *udp;
    uint8_t kind;
    bool would_wait; /* the last attempt returned -EAGAIN */
    bool polls;      /* waits by poll(2); otherwise by pauses */
};
CI_LEAVES_SPARE_WORDS(struct many_op, coir_udp_op);

static struct ci_op attempt_of(const struct many_op *op)
{
    size_t most = op->count < COIR_DATAGRAMS_MAX ? op->count : COIR_DATAGRAMS_MAX;
    return (struct ci_op){.fd = op->udp->fd,
                          .kind = op->kind,
                          .datagrams = op->datagrams,
                          .count = (int32_t)most,
                          .no_wait = true,
                          .exact = true,
                          .ancillary = op->udp->ancillary};
}

static struct ci_op poll_of(coir_fd fd, int events)
{
    return (struct ci_op){.fd = fd, .kind = CI_OP_POLL, .events = (uint8_t)events, .exact = true};
}

/* The system tells the address that a datagram was sent to, without the port. */
static int64_t complete(const struct many_op *op, int64_t result)
{
    for (int64_t i = 0; op->udp->local_port && i < result; i++) {
        struct sockaddr_in local; /* the port is where it is in a sockaddr_in6 */
        coir_address *told = &ci_datagram_at(op->datagrams, (size_t)i)->local;
        memcpy(&local, told, sizeof local);
        local.sin_port = op->udp->local_port;
        if (op->kind == CI_OP_RECEIVE_MANY && local.sin_family != AF_UNSPEC)
            memcpy(told, &local, sizeof local);
    }
    return result;
}

static coir_future *many_poll(coir_future *future)
{
    struct many_op *self = ci_container_of(future, struct many_op, future);
    coir_udp *udp = self->udp;
    int64_t rc = 0;
    COIR_BEGIN(future);
    if (udp->worker != ci_worker_current)
        COIR_RETURN(future, ci_misused_elsewhere(udp->worker, "datagrams", NULL));
    udp->holds++;
    for (; rc >= 0; self->would_wait = false) {
        if (!self->would_wait) {
            struct ci_op attempt = attempt_of(self);
            COIR_AWAIT(future, ci_io_init(&self->io, NULL, &attempt));
            if (self->io.future.result != -EAGAIN)
                COIR_RETURN(future, ci_udp_leave(udp, complete(self, self->io.future.result)));
            if (udp->closed) /* its turn may have ended with the attempt */
                COIR_RETURN(future, ci_udp_leave(udp, -ECANCELED));
        }
        if (self->polls) {
            struct ci_op poll =
                poll_of(udp->fd, self->kind == CI_OP_SEND_MANY ? COIR_WRITE : COIR_READ);
            COIR_AWAIT(future, ci_io_init(&self->io, NULL, &poll));
            rc = self->io.future.result;
        } else {
            COIR_AWAIT(future,
                       coir_sleep_for_op((coir_sleep_op *)(void *)&self->pause, ci_udp_full_pause));
            rc = self->pause.future.result;
        }
        rc = udp->closed ? -ECANCELED : rc;
    }
    COIR_RETURN(future, ci_udp_leave(udp, rc));
}

static const coir_future_kind many_kind = COIR_FUTURE_KIND("datagrams", many_poll, NULL);

/* The size of the first version, without padding: later versions are longer. */
enum { SIZE_LEAST = offsetof(coir_datagram, ecn) + 1 };

/* 0, or the misuse. */
static int check(const coir_udp *udp, const coir_datagram *datagrams, size_t count,
                 const char *call, const void *place)
{
    if (!udp || !datagrams || !count)
        return ci_misused(-EINVAL, "udp or datagrams is NULL, or count is 0", call, place);
    return datagrams->size < SIZE_LEAST || datagrams->size % _Alignof(coir_datagram)
               ? ci_misused(-COIR_EUNSIZED, "", call, place)
               : 0;
}

/* An error if the datagram asks for what the system would ignore, or take for something else. */
static int refused(const coir_udp *udp, const coir_datagram *datagram)
{
    if (datagram->ecn > 3)
        return -EINVAL;
    return udp->is_unix && (datagram->segment_len || datagram->ecn || datagram->local.opaque[0])
               ? -EOPNOTSUPP
               : 0;
}

/* Reduces the count to the datagrams before one that is refused; its error, if it is the first. */
static int check_sent(const coir_udp *udp, const coir_datagram *datagrams, size_t *count)
{
    int rc = 0;
    for (size_t i = 0; i < *count && i < COIR_DATAGRAMS_MAX; i++) {
        if ((rc = refused(udp, ci_datagram_at(datagrams, i))) == 0)
            continue;
        *count = i;
        return i ? 0 : rc;
    }
    return 0;
}

static coir_future *init(struct many_op *op, coir_udp *udp, enum ci_op_kind kind,
                         coir_datagram *datagrams, size_t count)
{
    op->udp = udp;
    op->kind = (uint8_t)kind;
    op->polls = !udp->is_unix || udp->has_peer || kind == CI_OP_RECEIVE_MANY;
    op->would_wait = false;
    op->datagrams = datagrams;
    op->count = count;
    return coir_future_init(&op->future, &many_kind);
}

/* If the first attempt completes, no future is awaited. */
static ssize_t run(coir_udp *udp, enum ci_op_kind kind, coir_datagram *datagrams, size_t count,
                   const char *call, const void *place)
{
    struct many_op op;
    int rc = 0;
    if (!ci_fiber_enter_in(&rc, call, place))
        return rc;
    struct ci_worker *worker = ci_worker_current;
    if ((rc = ci_elsewhere(udp->worker, call, place)) < 0)
        return rc;
    coir_future *future = init(&op, udp, kind, datagrams, count);
    struct ci_op attempt = attempt_of(&op);
    ci_driver_start(worker->loop.driver, &attempt);
    if (ci_unlikely(attempt.result == -EAGAIN)) {
        op.would_wait = true;
        return ci_await(worker, future);
    }
    int64_t result = complete(&op, attempt.result);
    ci_spend(worker); /* may switch: the socket may be gone afterwards */
    return result;
}

/* ---- the calls ---- */

ssize_t coir_udp_send_many(coir_udp *udp, const coir_datagram *datagrams, size_t count)
{
    int rc = check(udp, datagrams, count, CI_CALL, CI_PLACE);
    if (rc < 0 || (rc = check_sent(udp, datagrams, &count)) < 0)
        return rc;
    return run(udp, CI_OP_SEND_MANY, (coir_datagram *)(uintptr_t)datagrams, count, CI_CALL,
               CI_PLACE);
}

ssize_t coir_udp_recv_many(coir_udp *udp, coir_datagram *datagrams, size_t count)
{
    int rc = check(udp, datagrams, count, CI_CALL, CI_PLACE);
    if (rc < 0)
        return rc;
    return run(udp, CI_OP_RECEIVE_MANY, datagrams, count, CI_CALL, CI_PLACE);
}

coir_future *coir_udp_send_many_op(coir_udp_op *op, coir_udp *udp, const coir_datagram *datagrams,
                                   size_t count)
{
    int rc =
        op ? check(udp, datagrams, count, CI_CALL, CI_PLACE) : CI_MISUSE(-EINVAL, "op is NULL");
    if (rc < 0 || (rc = check_sent(udp, datagrams, &count)) < 0)
        return ci_completed_op(op, rc);
    return init((struct many_op *)(void *)op, udp, CI_OP_SEND_MANY,
                (coir_datagram *)(uintptr_t)datagrams, count);
}

coir_future *coir_udp_recv_many_op(coir_udp_op *op, coir_udp *udp, coir_datagram *datagrams,
                                   size_t count)
{
    int rc =
        op ? check(udp, datagrams, count, CI_CALL, CI_PLACE) : CI_MISUSE(-EINVAL, "op is NULL");
    if (rc < 0)
        return ci_completed_op(op, rc);
    return init((struct many_op *)(void *)op, udp, CI_OP_RECEIVE_MANY, datagrams, count);
}

/* ---- readiness ---- */

static coir_future *make_wait(const coir_case *self, void *op)
{
    const coir_udp *udp = self->object;
    coir_io_op *io = op;
    if (!udp || udp->worker != ci_worker_current)
        return ci_completed_op(io, udp ? ci_misused_elsewhere(udp->worker, "coir_case_udp", NULL)
                                       : -EINVAL);
    struct ci_op poll = poll_of(udp->fd, (int)self->number);
    return ci_io_init((struct ci_io_op *)(void *)io, NULL, &poll);
}

coir_case coir_case_udp(coir_udp *udp, int events)
{
    if (!udp)
        return ci_completed_case(CI_MISUSE(-EINVAL, "udp is NULL"));
    if (ci_events_unknown(events))
        return ci_completed_case(CI_MISUSE(-EINVAL, CI_UNKNOWN_EVENTS));
    return (coir_case){.make = make_wait, .object = udp, .number = events};
}
