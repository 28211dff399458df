/* How operations of the driver over io_uring are started and cancelled. What can complete without
 * the ring does so at once: a read of what was read ahead, an attempt that must not wait. */
#include <errno.h>

#include "base/check.h"
#include "driver/count.h"
#include "driver/nonblocking.h"
#include "driver/uring.h"
#include "sys/call.h"
#include "sys/socket_call.h"

static bool is_foreign(const struct ci_op *op)
{
    return op->kind == CI_OP_FOREIGN || op->kind == CI_OP_WATCH;
}

static bool start_read(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op)
{
    if (ci_uring_readable(slot))
        return ci_op_complete(op, op->peek ? ci_uring_peek(uring, slot, op)
                                           : ci_uring_take(uring, slot, op));
    if (!slot->receive && (slot->overrun || op->no_wait)) {
        ssize_t rc = ci_op_attempt(op);
        if (rc != -EAGAIN && rc != -EINTR)
            return ci_op_complete(op, (int32_t)rc);
        slot->overrun = false;
        if (op->no_wait && !op->exact) /* so that the next attempt finds what has come until then */
            ci_uring_arm_receive(uring, slot, op->fd);
    }
    if (op->no_wait)
        return ci_op_complete(op, -EAGAIN);
    return !ci_uring_wait_for_data(uring, slot, op, false) && ci_op_complete(op, -ENOMEM);
}

static bool start_poll(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op)
{
    if (op->events & COIR_READ && ci_uring_readable(slot))
        return ci_op_complete(op, ci_uring_readable_events(slot));
    bool submitted = op->events & COIR_READ ? ci_uring_wait_for_data(uring, slot, op, false)
                                            : ci_uring_submit_poll(uring, slot, op);
    return !submitted && ci_op_complete(op, -ENOMEM);
}

/* The ring would find a file that is always ready again and again, and polls of a number that is
 * not open. */
static bool start_foreign(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op)
{
    int rc = op->kind == CI_OP_WATCH ? ci_sys_poll_check(op->fd) : 0;
    if (rc < 0)
        return ci_op_complete(op, rc);
    for (const struct ci_op *other = slot->ops; other; other = other->next)
        if (other->kind != op->kind || other->events & op->events)
            return ci_op_complete(op, -EBUSY);
    return !ci_uring_submit_poll(uring, slot, op) && ci_op_complete(op, -ENOMEM);
}

bool ci_uring_start_ours(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op)
{
    struct io_uring_sqe *sqe;
    bool submitted = false;
    switch ((enum ci_op_kind)op->kind) {
    case CI_OP_READ:
    case CI_OP_READV: return start_read(uring, slot, op);
    case CI_OP_POLL: return start_poll(uring, slot, op);
    case CI_OP_CONNECT:
        /* connect on a Unix socket never waits: the ring would retry it endlessly */
        if (op->address->sa_family == AF_UNIX)
            return ci_op_complete(op, ci_sys_connect(op->fd, op->address, (socklen_t)op->count));
        break;
    default: break;
    }
    if (op->no_wait)
        return ci_op_complete(op, (int32_t)ci_op_attempt(op));
    switch ((enum ci_op_kind)op->kind) {
    case CI_OP_WRITE: submitted = ci_uring_submit_write(uring, slot, op); break;
    case CI_OP_WRITEV:
        submitted = ci_uring_submit_vector(uring, slot, op, IORING_OP_SENDMSG);
        break;
    case CI_OP_RECEIVE:
        submitted = ci_uring_submit_message(uring, slot, op, IORING_OP_RECVMSG);
        break;
    case CI_OP_SEND: submitted = ci_uring_submit_message(uring, slot, op, IORING_OP_SENDMSG); break;
    case CI_OP_ACCEPT:
        /* what is in the backlog needs no enter of its own */
        if ((op->result = (int32_t)ci_op_attempt(op)) != -EAGAIN)
            return true;
        submitted = ci_uring_submit_accept(uring, slot, op);
        break;
    case CI_OP_CONNECT:
        if ((submitted = ci_uring_submit(uring, slot, op, IORING_OP_CONNECT, &sqe))) {
            sqe->addr = (uintptr_t)op->address;
            sqe->off = (uint32_t)op->count;
        }
        break;
    default: break;
    }
    return !submitted && ci_op_complete(op, -ENOMEM);
}

bool ci_uring_start(struct ci_driver *driver, struct ci_op *op)
{
    struct ci_uring *uring = ci_uring_of(driver);
    ci_uring_make_room(uring);
    if (ci_uring_on_file(op))
        return ci_uring_start_on_file(uring, op);
    if (ci_unlikely(op->fd < 0))
        return ci_op_complete(op, -EBADF);
    if (ci_count_trim(op))
        return true;
    int rc = ci_uring_reserve(uring, op->fd);
    if (ci_unlikely(rc < 0))
        return ci_op_complete(op, rc);
    struct ci_uring_slot *slot = &uring->slots[op->fd];
    if (is_foreign(op))
        return start_foreign(uring, slot, op);
    if (ci_unlikely(slot->ops && is_foreign(slot->ops)))
        return ci_op_complete(op, -EBUSY);
    return ci_uring_start_ours(uring, slot, op);
}

bool ci_uring_cancel(struct ci_driver *driver, struct ci_op *op)
{
    struct ci_uring *uring = ci_uring_of(driver);
    ci_uring_make_room(uring);
    if (op->pending >= CI_URING_READY && op->kind != CI_OP_WATCH)
        return false;
    if (op->pending >= CI_URING_READY) {
        ci_uring_withdraw_ended(uring, op);
        return true;
    }
    if (ci_uring_on_file(op)) {
        ci_uring_request_cancel(uring, (uint32_t)op->result);
        return false;
    }
    struct ci_uring_slot *slot = &uring->slots[op->fd];
    if (uring->watching == op)
        uring->watching = NULL;
    if (op->pending == CI_URING_WAITING) {
        ci_uring_withdraw(uring, slot, op);
        return true;
    }
    ci_check(uring->entries[op->result].op == op, "uring.h 2");
    if (ci_uring_is_poll(op)) {
        ci_uring_orphan(uring, (uint32_t)op->result);
        if (is_foreign(op)) /* its descriptor may be closed at once, by others than the driver */
            ci_uring_enter(uring, false, 0);
        ci_uring_withdraw(uring, slot, op);
        return true;
    }
    if (ci_uring_is_lazy(uring, op))
        ci_uring_set_due(uring, op);
    else
        ci_uring_request_cancel(uring, (uint32_t)op->result);
    return false;
}
