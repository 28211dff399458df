/* Puts operations of the driver over io_uring into the ring; the next enter submits them. A
 * function that returns false has left the operation as it was: there is no SQE, or no memory for
 * its entry.
 *
 * A lazy write is carried out by the enter that submits it, and posts a completion only if it was
 * not carried out in full (MSG_DONTWAIT, MSG_WAITALL, CQE_SKIP_SUCCESS). If that enter sleeps, the
 * write's end is seen only after the sleep. So a write may be lazy only if the sleep ends when its
 * stream becomes readable (driver.h 6): its receive is armed, nothing is read ahead, and no
 * completion has been seen since the write was started. */

#include "base/check.h"
#include "driver/poll_mask.h"
#include "driver/uring.h"

bool ci_uring_submit(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op,
                     uint8_t opcode, struct io_uring_sqe **ret_sqe)
{
    uint32_t index = ci_uring_prepare(uring, CI_URING_OP, op, op->fd, opcode, ret_sqe);
    if (ci_unlikely(!index))
        return false;
    ci_uring_link(uring, slot, op, CI_URING_IN_FLIGHT);
    op->result = (int32_t)index;
    return true;
}

bool ci_uring_arm_receive(struct ci_uring *uring, struct ci_uring_slot *slot, coir_fd fd)
{
    struct io_uring_sqe *sqe;
    ci_check(!slot->has_adopted && !slot->receive, "uring.h 4");
    slot->receive = ci_uring_prepare(uring, CI_URING_RECEIVE, NULL, fd, IORING_OP_RECV, &sqe);
    if (ci_unlikely(!slot->receive))
        return false;
    slot->stopping = false;
    sqe->ioprio = IORING_RECV_MULTISHOT;
    sqe->flags = IOSQE_BUFFER_SELECT;
    return true;
}

static void put_message(struct io_uring_sqe *sqe, const struct msghdr *message)
{
    sqe->addr = (uintptr_t)message;
    sqe->len = 1;
    sqe->msg_flags = MSG_NOSIGNAL;
}

bool ci_uring_submit_message(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op,
                             uint8_t opcode)
{
    struct io_uring_sqe *sqe;
    if (!ci_uring_submit(uring, slot, op, opcode, &sqe))
        return false;
    put_message(sqe, op->message);
    if (op->kind == CI_OP_RECEIVE && op->message->msg_controllen)
        sqe->msg_flags |= MSG_CMSG_CLOEXEC; /* of descriptors that come */
    return true;
}

bool ci_uring_submit_vector(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op,
                            uint8_t opcode)
{
    struct io_uring_sqe *sqe;
    if (!ci_uring_submit(uring, slot, op, opcode, &sqe))
        return false;
    struct msghdr *header = &uring->headers[sqe - uring->ring.entries];
    *header = (struct msghdr){.msg_iov = (struct iovec *)(uintptr_t)op->iov,
                              .msg_iovlen = (size_t)op->count};
    put_message(sqe, header);
    return true;
}

static void put_bytes(struct io_uring_sqe *sqe, const struct ci_op *op)
{
    sqe->addr = (uintptr_t)op->buf;
    sqe->len = (uint32_t)ci_uring_size_of(op);
    sqe->msg_flags = MSG_NOSIGNAL;
}

static bool submit_read(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op)
{
    struct io_uring_sqe *sqe;
    if (!ci_uring_submit(uring, slot, op, IORING_OP_RECV, &sqe))
        return false;
    put_bytes(sqe, op);
    if (op->exact && slot->emptied) /* the first attempt would be in vain */
        sqe->ioprio = IORING_RECVSEND_POLL_FIRST;
    return true;
}

/* Appends the entry of a lazy write to the list of those that complete with the next enter. */
static void append_lazy(struct ci_uring *uring, uint32_t index)
{
    struct ci_uring_entry *entry = &uring->entries[index];
    entry->use = CI_URING_LAZY;
    entry->fd = 0;
    if (uring->lazy_first)
        uring->entries[uring->lazy_last].fd = (coir_fd)index;
    else
        uring->lazy_first = index;
    uring->lazy_last = index;
    uring->lazy++;
}

/* Whether a write's completion may be delayed, see the head of the file. Before Linux 6.1 (which
 * has DEFER_TASKRUN) a send that failed did not say how much it had sent. */
static bool may_be_lazy(const struct ci_uring *uring, const struct ci_uring_slot *slot)
{
    return uring->ring.deferred && slot->receive && !slot->stopping && !ci_uring_readable(slot);
}

bool ci_uring_submit_write(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op)
{
    struct io_uring_sqe *sqe;
    op->lazy = op->lazy && may_be_lazy(uring, slot);
    if (!ci_uring_submit(uring, slot, op, IORING_OP_SEND, &sqe))
        return false;
    put_bytes(sqe, op);
    if (op->lazy) {
        sqe->msg_flags |= MSG_DONTWAIT | MSG_WAITALL;
        sqe->flags = IOSQE_CQE_SKIP_SUCCESS;
        append_lazy(uring, (uint32_t)op->result);
    }
    return true;
}

/* The kernel wakes one of the accepts of a socket for each connection, and counts as woken one that
 * is being cancelled, or whose ring is not entered. Polls are woken beside it. */
bool ci_uring_submit_accept(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op)
{
    struct io_uring_sqe *sqe;
    if (!ci_uring_submit(uring, slot, op, op->shared ? IORING_OP_POLL_ADD : IORING_OP_ACCEPT, &sqe))
        return false;
    if (op->shared) {
        uring->entries[op->result].use = CI_URING_CLIENT;
        sqe->poll32_events = POLLIN;
    } else {
        sqe->accept_flags = SOCK_NONBLOCK | SOCK_CLOEXEC;
    }
    return true;
}

bool ci_uring_submit_poll(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op)
{
    struct io_uring_sqe *sqe;
    if (!ci_uring_submit(uring, slot, op, IORING_OP_POLL_ADD, &sqe))
        return false;
    unsigned events = op->events | (op->events & COIR_READ ? CI_EVENT_END : 0u);
    if (slot->receive) /* it reports readability itself */
        events = op->events & ~(unsigned)COIR_READ;
    sqe->poll32_events = ci_events_to_poll(events);
    return true;
}

bool ci_uring_submit_poll_for_changes(struct ci_uring *uring, struct ci_uring_slot *slot,
                                      struct ci_op *op)
{
    struct io_uring_sqe *sqe;
    if (!ci_uring_submit(uring, slot, op, IORING_OP_POLL_ADD, &sqe))
        return false;
    sqe->len = IORING_POLL_ADD_MULTI;
    sqe->poll32_events = ci_events_to_poll(op->events & COIR_WRITE);
    return true;
}

bool ci_uring_submit_poll_for_room(struct ci_uring *uring, struct ci_uring_slot *slot,
                                   struct ci_op *op)
{
    struct io_uring_sqe *sqe;
    if (!ci_uring_submit(uring, slot, op, IORING_OP_POLL_ADD, &sqe))
        return false;
    uring->entries[op->result].use = CI_URING_ROOM;
    sqe->len = IORING_POLL_ADD_MULTI;
    sqe->poll32_events = POLLOUT;
    return true;
}

bool ci_uring_wait_for_data(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op,
                            bool own_memory)
{
    if (!slot->receive &&
        (own_memory || slot->overrun || op->exact || !ci_uring_arm_receive(uring, slot, op->fd))) {
        if (op->kind == CI_OP_POLL)
            return ci_uring_submit_poll(uring, slot, op);
        return op->kind == CI_OP_READ ? submit_read(uring, slot, op)
                                      : ci_uring_submit_vector(uring, slot, op, IORING_OP_RECVMSG);
    }
    if (op->kind == CI_OP_POLL && op->events & COIR_WRITE)
        return ci_uring_submit_poll(uring, slot, op);
    ci_uring_link(uring, slot, op, CI_URING_WAITING);
    op->result = 0;
    return true;
}

bool ci_uring_arm_wakeup(struct ci_uring *uring)
{
    struct io_uring_sqe *sqe;
    uring->wakeup_armed = ci_uring_prepare(uring, CI_URING_WAKEUP, NULL, uring->wakeup,
                                           IORING_OP_POLL_ADD, &sqe) != 0;
    if (!uring->wakeup_armed)
        return false;
    sqe->len = IORING_POLL_ADD_MULTI;
    sqe->poll32_events = POLLIN;
    return true;
}
