/* Attempts at operations: the system call is made, and what it returned goes into the slot's cache.
 *
 * A short read or write clears its bit, as EAGAIN does: that saves the call that would only return
 * EAGAIN. But not once the end of the stream, a hang-up, an error or an urgent byte was reported:
 * data and end can share one edge, and no other would come. */
#include <errno.h>

#include "driver/nonblocking.h"
#include "driver/poll_mask.h"
#include "driver/readiness_slot.h"
#include "sys/call.h"
#include "sys/socket_call.h"

/* The result of a connect in progress is the socket's error. */
static ssize_t call(const struct ci_op *op)
{
    return op->kind == CI_OP_CONNECT ? ci_sys_socket_error(op->fd) : ci_op_attempt(op);
}

static size_t total(const struct ci_op *op)
{
    size_t sum = op->kind == CI_OP_READ ? op->len : 0;
    for (int i = 0; i < op->count; i++)
        sum += op->iov[i].iov_len;
    return sum;
}

/* Notes what the call of an operation returned. `partial`: it moved less than it might have. */
CI_INLINE bool note(struct ci_slot *slot, struct ci_op *op, ssize_t rc, uint8_t bit, bool partial)
{
    if (ci_unlikely(rc == -EAGAIN)) {
        slot->ready &=
            (uint8_t) ~(bit == COIR_READ ? COIR_READ | CI_EVENT_END | CI_EVENT_URGENT : COIR_WRITE);
        if (slot->ready & CI_SLOT_GONE) /* of an earlier state: the next edge reports them again */
            slot->ready &= (uint8_t)~CI_SLOT_GONE;
        return false;
    }
    if (partial && !(slot->ready & (CI_SLOT_ENDS | CI_EVENT_URGENT)))
        slot->ready &= (uint8_t)~bit;
    op->result = (int32_t)rc;
    return true;
}

_Static_assert(CI_OP_READ < CI_OP_READV && CI_OP_WRITE < CI_OP_WRITEV && CI_OP_READV < CI_OP_WRITEV,
               "the kinds that move the bytes of a stream are the first");

/* A write of one piece. */
CI_INLINE bool send_once(struct ci_slot *slot, struct ci_op *op)
{
    ssize_t rc;
    do
        rc = ci_sys_send(op->fd, op->data, op->len);
    while (ci_unlikely(rc == -EINTR));
    return note(slot, op, rc, COIR_WRITE, rc > 0 && (size_t)rc < op->len);
}

/* A read of one piece. */
CI_INLINE bool receive_once(struct ci_slot *slot, struct ci_op *op)
{
    ssize_t rc;
    do
        rc = ci_unlikely(op->peek) ? ci_sys_peek(op->fd, op->buf, op->len)
                                   : ci_sys_recv(op->fd, op->buf, op->len);
    while (ci_unlikely(rc == -EINTR));
    return note(slot, op, rc, COIR_READ, rc > 0 && (size_t)rc < op->len && !op->peek);
}

/* Whether a short read of a descriptor says that nothing is left, or that does not matter: what is
 * left is reported all the same. */
static bool may_read_plainly(const struct ci_slot *slot, const struct ci_op *op)
{
    return !op->ancillary || slot->level || slot->once || !slot->registered;
}

/* A receive ends short where descriptors came with the bytes, which are dropped: `cut`. */
static ssize_t receive_beside_descriptors(const struct ci_op *op, bool *cut)
{
    struct iovec piece = {op->buf, op->len};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    if (op->kind == CI_OP_READV) {
        message.msg_iov = (struct iovec *)(uintptr_t)op->iov;
        message.msg_iovlen = (size_t)op->count;
    }
    ssize_t rc = ci_sys_recvmsg(op->fd, &message);
    *cut = message.msg_flags & MSG_CTRUNC;
    return rc;
}

static CI_NOINLINE bool call_any(struct ci_slot *slot, struct ci_op *op)
{
    bool cut = false, is_transfer = op->kind <= CI_OP_WRITEV && !op->peek;
    ssize_t rc;
    do
        rc = is_transfer && op->ancillary ? receive_beside_descriptors(op, &cut) : call(op);
    while (ci_unlikely(rc == -EINTR));
    uint8_t bit = ci_slot_wanted_by(op) & COIR_READ ? COIR_READ : COIR_WRITE;
    bool partial = is_transfer && !cut && rc > 0 && (size_t)rc < total(op);
    return note(slot, op, rc, bit, partial);
}

bool ci_slot_call(struct ci_slot *slot, struct ci_op *op)
{
    if (ci_likely(op->kind <= CI_OP_WRITE && may_read_plainly(slot, op)))
        return op->kind == CI_OP_WRITE ? send_once(slot, op) : receive_once(slot, op);
    return call_any(slot, op);
}

void ci_slot_look_again(struct ci_slot *slot, const struct ci_op *op)
{
    /* of what cannot change any more, nothing has to be asked: the end is read at once, but there
     * may be no room to write */
    unsigned events = slot->ready & CI_SLOT_GONE   ? 0
                      : slot->ready & CI_EVENT_END ? op->events & ~(unsigned)COIR_READ
                                                   : op->events;
    struct pollfd ask = {.fd = op->fd, .events = (short)ci_events_to_poll(events)};
    if (!(events & (COIR_READ | COIR_WRITE)) || ci_sys_poll(&ask, 1, 0) < 0)
        return;
    if (!(ask.revents & (POLLIN | POLLHUP | POLLERR)))
        slot->ready &= (uint8_t) ~(events & COIR_READ);
    if (!(ask.revents & (POLLOUT | POLLHUP | POLLERR)))
        slot->ready &= (uint8_t) ~(events & COIR_WRITE);
}
