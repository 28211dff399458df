/* How a descriptor leaves the driver over io_uring (it is closed, forgotten or moved to another
 * driver), and how it comes from another one.
 *
 * 1. Closing waits until the kernel has given back the memory of the descriptor's operations. If it
 *    has none, the cancel of the receive and the close are submitted together. */
#include <errno.h>

#include "base/check.h"
#include "base/sanitizer.h"
#include "driver/uring.h"
#include "sys/call.h"
#include "sys/socket_call.h"

/* Waits until the kernel has given back the memory of the descriptor's operations, and, if
 * `receive_too`, has ended its receive. */
static void settle(struct ci_uring *uring, coir_fd fd, bool receive_too)
{
    for (bool asked = false;; asked = true) { /* the driver repeats cancels that were refused */
        const struct ci_uring_slot *slot = &uring->slots[fd];
        bool waits = receive_too && slot->receive, lazy = false;
        if (waits && !asked)
            ci_uring_request_cancel(uring, slot->receive);
        for (struct ci_op *op = slot->ops; op; op = op->next)
            if (ci_uring_is_lazy(uring, op)) { /* the next enter completes it */
                ci_uring_set_due(uring, op);
                lazy = true;
            } else if (op->pending == CI_URING_IN_FLIGHT) {
                waits = true;
                if (!asked)
                    ci_uring_request_cancel(uring, (uint32_t)op->result);
            }
        if (!waits && !lazy)
            return;
        bool sleeps = waits && !lazy;
        /* if the ring is given up, nothing is in flight any more */
        ci_uring_turn(uring, sleeps, sleeps ? -1 : 0);
    }
}

/* One whose memory the kernel does not have; those that wait come first, so that the receive is not
 * armed again for them. NULL: there is none. */
static struct ci_op *find_waiting(const struct ci_uring_slot *slot)
{
    struct ci_op *poll = NULL;
    for (struct ci_op *op = slot->ops; op; op = op->next) {
        if (op->pending != CI_URING_IN_FLIGHT)
            return op;
        if (ci_uring_is_poll(op))
            poll = op;
    }
    return poll;
}

/* Takes the descriptor's operations whose memory the kernel does not have: they are cancelled.
 * *ret_asked: the cancel of a poll was requested. */
static struct ci_op *take_waiting(struct ci_uring *uring, coir_fd fd, bool *ret_asked)
{
    struct ci_op *taken = NULL, *op;
    *ret_asked = false;
    for (;;) {
        ci_uring_make_room(uring); /* each time, and the list may be another one then */
        if (!(op = find_waiting(&uring->slots[fd])))
            return taken;
        ci_op_remove(&uring->slots[fd].ops, op);
        if (op->pending == CI_URING_IN_FLIGHT) {
            ci_uring_orphan(uring, (uint32_t)op->result);
            *ret_asked = true;
        }
        op->result = -ECANCELED;
        op->pending = CI_URING_ENDED;
        op->next = taken;
        taken = op;
    }
}

/* Takes those that have ended, too. A reader that is READY gets no bytes, and a watch
 * no events, but -ECANCELED. */
static struct ci_op *take_ended(struct ci_uring *uring, coir_fd fd, struct ci_op *taken)
{
    struct ci_op *op, **at = &uring->ended;
    while ((op = *at)) {
        if (op->fd != fd) {
            at = &op->next;
            continue;
        }
        *at = op->next;
        if (op->pending == CI_URING_READY || op->kind == CI_OP_WATCH)
            op->result = -ECANCELED;
        op->next = taken;
        taken = op;
    }
    uring->ended_tail = at;
    return taken;
}

/* Takes all of the descriptor's operations, whose memory the kernel does not have any more.
 * *ret_asked: cancels were requested that are not complete. */
static struct ci_op *stop(struct ci_uring *uring, coir_fd fd, bool at_once, bool *ret_asked)
{
    struct ci_op *ops = take_waiting(uring, fd, ret_asked);
    settle(uring, fd, at_once);
    struct ci_uring_slot *slot = &uring->slots[fd];
    if (slot->receive) {
        ci_uring_request_cancel(uring, slot->receive);
        uring->entries[slot->receive].fd = -1;
        *ret_asked = true;
    }
    ops = take_ended(uring, fd, ops);
    ci_check(!slot->ops, "uring_close.c 1");
    return ops;
}

/* Completes the operations that stop() took: their functions find a slot that is free. */
static void leave(struct ci_uring *uring, coir_fd fd, struct ci_op *ops)
{
    struct ci_uring_slot *slot = &uring->slots[fd];
    struct ci_op *op;
    ci_uring_drop_ahead(uring, slot);
    *slot = (struct ci_uring_slot){0};
    while ((op = ops)) {
        ops = op->next;
        if (uring->watching == op)
            uring->watching = NULL;
        ci_op_done(&uring->base, op);
    }
}

void ci_uring_forget(struct ci_driver *driver, coir_fd fd)
{
    struct ci_uring *uring = ci_uring_of(driver);
    bool asked;
    if ((size_t)fd < uring->slot_count)
        leave(uring, fd, stop(uring, fd, true, &asked));
}

/* True: requests in flight keep the descriptor open. */
static bool leave_to_close(struct ci_uring *uring, coir_fd fd, bool at_once)
{
    bool asked;
    /* What came before. A ring that was given up has no memory; without a completion, lazy writes
     * may still be delayed. */
    if (uring->open && ci_ring_completion(&uring->ring))
        ci_uring_reap(uring);
    struct ci_op *ops = stop(uring, fd, at_once, &asked);
    if (ci_uring_has_bytes(&uring->slots[fd]))
        /* bytes that were not read are lost: the kernel would reset the connection, too */
        ci_sys_reset_on_close(fd);
    leave(uring, fd, ops);
    return asked;
}

void ci_uring_close(struct ci_driver *driver, coir_fd fd)
{
    struct ci_uring *uring = ci_uring_of(driver);
    struct io_uring_sqe *sqe = NULL;
    /* TSan sees only closes that are calls */
    bool by_call = ci_sanitizer == CI_THREAD_SANITIZER;
    bool asked = (size_t)fd < uring->slot_count && leave_to_close(uring, fd, by_call);
    while (asked && !by_call && uring->open && !(sqe = ci_uring_sqe(uring)))
        ci_uring_turn(uring, false, 0); /* the ring may name the descriptor; it may be given up */
    if (sqe) {
        sqe->opcode = IORING_OP_CLOSE; /* after the cancels, in the order of submission */
        sqe->fd = fd;
        sqe->flags = IOSQE_CQE_SKIP_SUCCESS;
    } else {
        ci_sys_close(fd);
    }
    uring->close_queued |= asked;
}

/* The enter must also process completions: until the receive has completed it keeps the socket
 * open. */
void ci_uring_flush(struct ci_driver *driver)
{
    struct ci_uring *uring = ci_uring_of(driver);
    if (uring->open && uring->close_queued)
        ci_uring_enter(uring, false, 0); /* if it fails, the next wait tries again */
}

/* ---- moving to another driver ---- */

static size_t bytes_ahead(const struct ci_uring *uring, const struct ci_uring_slot *slot)
{
    size_t len = 0;
    if (slot->has_adopted)
        return slot->adopted->len - slot->adopted->at;
    for (uint16_t id = slot->first; id; id = uring->held[id].next)
        len += uring->held[id].len;
    return len - slot->taken;
}

size_t ci_uring_stop_ahead(struct ci_driver *driver, coir_fd fd)
{
    struct ci_uring *uring = ci_uring_of(driver);
    bool asked = false;
    if ((size_t)fd >= uring->slot_count)
        return 0;
    while (uring->slots[fd].receive) {
        asked = asked || ci_uring_request_cancel(uring, uring->slots[fd].receive);
        ci_uring_turn(uring, asked, asked ? COIR_MS : 0);
    }
    return bytes_ahead(uring, &uring->slots[fd]);
}

/* Copies what was read ahead out of the buffers; *ret_ahead is not written if there is nothing. */
static int copy_ahead(struct ci_uring *uring, struct ci_uring_slot *slot,
                      struct ci_ahead **ret_ahead)
{
    size_t len = bytes_ahead(uring, slot);
    if (!len && !slot->error)
        return 0;
    struct ci_ahead *ahead = ci_alloc(uring->allocator, sizeof *ahead + len);
    if (!ahead)
        return -ENOMEM;
    *ahead = (struct ci_ahead){uring->allocator, len, 0, slot->error};
    ci_uring_take_some(uring, slot, ahead->bytes, len);
    *ret_ahead = ahead;
    return 0;
}

int ci_uring_detach(struct ci_driver *driver, coir_fd fd, struct ci_ahead **ret_ahead)
{
    struct ci_uring *uring = ci_uring_of(driver);
    if ((size_t)fd >= uring->slot_count)
        return 0;
    if (uring->slots[fd].ops)
        return -EBUSY;
    settle(uring, fd, true);
    struct ci_uring_slot *slot = &uring->slots[fd];
    int rc = 0;
    if (slot->has_adopted)
        *ret_ahead = slot->adopted;
    else
        rc = copy_ahead(uring, slot, ret_ahead);
    if (rc == 0)
        *slot = (struct ci_uring_slot){0};
    return rc;
}

/* The bytes stay in their own memory: there may be no free buffer for them. */
int ci_uring_adopt(struct ci_driver *driver, coir_fd fd, struct ci_ahead *ahead)
{
    struct ci_uring *uring = ci_uring_of(driver);
    int rc = ci_uring_reserve(uring, fd);
    if (rc < 0)
        return rc;
    struct ci_uring_slot *slot = &uring->slots[fd];
    ci_check(!slot->receive && !ci_uring_readable(slot), "uring.h 4");
    slot->has_adopted = ahead->at < ahead->len;
    if (slot->has_adopted) {
        slot->adopted = ahead;
    } else {
        slot->error = (uint8_t)ahead->error;
        ci_ahead_free(ahead);
    }
    return 0;
}
