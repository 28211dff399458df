/* Attempts at operations: the system call is made, and what it returned goes into the slot's
 * cache. */
#include <errno.h>

#include "driver/nonblocking.h"
#include "driver/poll_mask.h"
#include "driver/readiness_transfer.h"
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

_Static_assert(CI_OP_READ < CI_OP_READV && CI_OP_WRITE < CI_OP_WRITEV && CI_OP_READV < CI_OP_WRITEV,
               "the kinds that move the bytes of a stream are the first");

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
    return ci_slot_note(slot, op, rc, bit, is_transfer && !cut ? total(op) : 0);
}

bool ci_slot_call(struct ci_slot *slot, struct ci_op *op)
{
    if (op->kind == CI_OP_WRITE)
        return ci_slot_send(slot, op);
    if (op->kind == CI_OP_READ && !op->peek && ci_slot_reads_plainly(slot, op->ancillary))
        return ci_slot_receive(slot, op);
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
