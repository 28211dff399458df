/* The completions of the ring, and the operations of the driver over io_uring that they end: these
 * go to the list `ended`; `done` is not called here.
 *
 * 1. A lazy write that was carried out in full posts no completion (uring_submit.c). It is complete
 *    when the completions of the enter that submitted it have been seen. */
#include <errno.h>

#include "base/check.h"
#include "driver/poll_mask.h"
#include "driver/uring.h"

/* The receive has ended without data: an operation that waited for it is started in another way.
 * (A poll for both directions is in flight for writability.) */
static void resubmit(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op,
                     bool own_memory)
{
    if (op->pending == CI_URING_IN_FLIGHT)
        ci_uring_orphan(uring, (uint32_t)op->result);
    ci_uring_unlink(uring, slot, op);
    if (!ci_uring_wait_for_data(uring, slot, op, own_memory))
        ci_uring_end_unlinked(uring, op, -ENOMEM);
}

/* Ends the operations that wait for data, or resubmits them if the receive has ended without. */
static void complete_readers(struct ci_uring *uring, struct ci_uring_slot *slot, bool own_memory)
{
    for (struct ci_op *op = slot->ops, *next; op; op = next) {
        next = op->next;
        if (!ci_uring_reads(op) && !(op->kind == CI_OP_POLL && op->events & COIR_READ))
            continue;
        if (ci_uring_readable(slot)) {
            if (op->pending == CI_URING_IN_FLIGHT && ci_uring_is_poll(op))
                ci_uring_orphan(uring, (uint32_t)op->result);
            if (ci_uring_is_poll(op))
                ci_uring_end(uring, slot, op, CI_URING_ENDED, ci_uring_readable_events(slot));
            else if (op->pending == CI_URING_WAITING)
                ci_uring_end(uring, slot, op, CI_URING_READY, 0);
        } else if (!slot->receive && (op->pending == CI_URING_WAITING || ci_uring_is_poll(op))) {
            resubmit(uring, slot, op, own_memory);
        }
    }
}

static void stop_receive(struct ci_uring *uring, struct ci_uring_slot *slot)
{
    slot->stopping = ci_uring_request_cancel(uring, slot->receive);
    slot->overrun = true;
}

static void on_receive(struct ci_uring *uring, uint32_t index, int32_t result, uint32_t flags)
{
    struct ci_uring_entry *entry = &uring->entries[index];
    uint16_t id =
        flags & IORING_CQE_F_BUFFER ? (uint16_t)((flags >> IORING_CQE_BUFFER_SHIFT) + 1) : 0;
    bool last = !(flags & IORING_CQE_F_MORE);
    coir_fd fd = entry->fd;
    if (last)
        ci_uring_free_entry(uring, index);
    if (fd < 0 || result <= 0) {
        if (id)
            ci_uring_give_buffer(uring, id);
        if (fd < 0)
            return;
    }
    struct ci_uring_slot *slot = &uring->slots[fd];
    if (last)
        slot->receive = 0;
    if (result > 0) {
        ci_uring_put_ahead(uring, slot, id, (uint16_t)result);
    } else if (result == 0) {
        slot->ended = true;
    } else if (result == -ENOBUFS) {
        ci_uring_give_more_buffers(uring);
    } else if (result != -ECANCELED && result != -EINTR && result != -ENOMEM) {
        slot->error = (uint8_t)-result;
    }
    /* without memory it is not armed again: who tries without waiting would arm it for ever */
    bool own_memory = result == -ENOBUFS && uring->given == CI_URING_BUFFERS;
    complete_readers(uring, slot, own_memory || result == -ENOMEM);
    if (slot->ahead >= CI_URING_AHEAD_MAX && slot->receive && !slot->stopping)
        stop_receive(uring, slot);
}

/* A request that the kernel has polled for repeatedly without success goes to one of its threads,
 * where O_NONBLOCK applies (EAGAIN) and a cancel is a signal (EINTR). */
static bool refused_by_thread(int32_t result)
{
    return result == -EAGAIN || result == -EINTR;
}

static void restart(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op)
{
    ci_uring_unlink(uring, slot, op);
    if (ci_uring_start_ours(uring, slot, op))
        ci_uring_end_unlinked(uring, op, op->result);
}

/* A peer that will send no more (POLLRDHUP) ends every poll of the kernel's at once, so a write of
 * several pieces, or of a message, would be refused again at once while there is no room. It waits
 * for changes instead. */
static void wait_for_room(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op)
{
    ci_uring_unlink(uring, slot, op);
    if (!ci_uring_submit_poll_for_room(uring, slot, op))
        ci_uring_end_unlinked(uring, op, -ENOMEM);
}

static CI_COLD void submit_again(struct ci_uring *uring, struct ci_uring_slot *slot,
                                 struct ci_op *op, int32_t result)
{
    if (result == -EAGAIN && (op->kind == CI_OP_WRITEV || op->kind == CI_OP_SEND))
        wait_for_room(uring, slot, op);
    else
        restart(uring, slot, op);
}

static void on_room(struct ci_uring *uring, uint32_t index, int32_t result, bool more)
{
    struct ci_op *op = uring->entries[index].op;
    bool cancel_requested = uring->entries[index].cancel_requested;
    if (!more)
        ci_uring_free_entry(uring, index);
    if (!op)
        return;
    struct ci_uring_slot *slot = &uring->slots[op->fd];
    bool has_room = result > 0 && result & (POLLOUT | POLLERR | POLLHUP);
    if (more && !has_room)
        return;
    if (more)
        ci_uring_orphan(uring, index);
    if (result < 0 || cancel_requested)
        ci_uring_end(uring, slot, op, CI_URING_ENDED, cancel_requested ? -ECANCELED : result);
    else if (has_room)
        restart(uring, slot, op);
    else
        wait_for_room(uring, slot, op);
}

/* Another process may have accepted the connection: then the accept waits again. */
static void on_client(struct ci_uring *uring, uint32_t index, int32_t result)
{
    struct ci_op *op = uring->entries[index].op;
    bool cancel_requested = uring->entries[index].cancel_requested;
    struct ci_uring_slot *slot = &uring->slots[op->fd];
    ci_uring_free_entry(uring, index);
    if (result < 0 || cancel_requested)
        ci_uring_end(uring, slot, op, CI_URING_ENDED, cancel_requested ? -ECANCELED : result);
    else
        restart(uring, slot, op);
}

/* The kernel reports that the peer will send no more (POLLRDHUP) to every poll, asked or not. A
 * poll that did not ask for it waits on, for changes alone: otherwise it would complete again at
 * once. */
static void poll_for_changes(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op)
{
    ci_uring_unlink(uring, slot, op);
    if (!ci_uring_submit_poll_for_changes(uring, slot, op))
        ci_uring_end_unlinked(uring, op, -ENOMEM);
}

static void on_op(struct ci_uring *uring, uint32_t index, int32_t result, bool more)
{
    struct ci_op *op = uring->entries[index].op;
    bool cancel_requested = uring->entries[index].cancel_requested;
    if (!more)
        ci_uring_free_entry(uring, index);
    if (!op)
        return;
    struct ci_uring_slot *slot = ci_uring_on_file(op) ? NULL : &uring->slots[op->fd];
    if (ci_uring_is_poll(op)) {
        if (result >= 0)
            result = ci_op_events(op, ci_events_of_poll((uint32_t)result));
        else if (op->kind == CI_OP_WATCH) /* which no error ends: it is polled again */
            result = COIR_EVENT_ERROR;
        if (result == 0 && !more)
            poll_for_changes(uring, slot, op);
        if (result == 0)
            return;
        if (more)
            ci_uring_orphan(uring, index);
    }
    if (ci_unlikely(refused_by_thread(result)) && cancel_requested)
        result = -ECANCELED;
    if (!slot && result >= 0)
        result = ci_uring_finish_on_file(op, result);
    if (slot && op->kind == CI_OP_READ && op->exact && result > 0)
        slot->emptied = result < ci_uring_size_of(op);
    if (ci_unlikely(refused_by_thread(result)) && slot)
        submit_again(uring, slot, op, result);
    else
        ci_uring_end(uring, slot, op, CI_URING_ENDED, result);
}

/* A lazy write was not carried out in full. Its entry stays in the list of lazy ones: end_lazy
 * frees it. */
static void on_lazy(struct ci_uring *uring, uint32_t index, int32_t result)
{
    struct ci_op *op = uring->entries[index].op;
    struct ci_uring_slot *slot = &uring->slots[op->fd];
    uring->entries[index].op = NULL;
    if (result == -EAGAIN && op->lazy) { /* the socket's buffer is full: it waits as any write */
        op->lazy = false;
        ci_uring_unlink(uring, slot, op);
        if (!ci_uring_submit_write(uring, slot, op))
            ci_uring_end_unlinked(uring, op, -ENOMEM);
        return;
    }
    ci_uring_end(uring, slot, op, CI_URING_ENDED, result == -EAGAIN ? -ECANCELED : result);
}

/* Completes the lazy writes that the kernel has carried out without posting a completion. */
static void end_lazy(struct ci_uring *uring)
{
    while (uring->lazy_submitted && !ci_ring_overflowed(&uring->ring)) {
        uint32_t index = uring->lazy_first;
        ci_check(uring->entries[index].use == CI_URING_LAZY, "uring_complete.c 1");
        struct ci_op *op = uring->entries[index].op;
        if (index == uring->lazy_submitted)
            uring->lazy_submitted = 0;
        uring->lazy_first = (uint32_t)uring->entries[index].fd;
        uring->lazy--;
        ci_uring_free_entry(uring, index);
        if (op)
            ci_uring_end(uring, &uring->slots[op->fd], op, CI_URING_ENDED, ci_uring_size_of(op));
    }
    if (!uring->lazy_first)
        uring->lazy_last = 0;
    /* completions have been seen since these were started: see uring_submit.c */
    uring->lazy_due = uring->lazy_first;
}

static void on_wakeup(struct ci_uring *uring, uint32_t index, uint32_t flags)
{
    if (flags & IORING_CQE_F_MORE)
        return;
    bool orphaned = uring->entries[index].fd < 0;
    uring->wakeup_armed = false;
    ci_uring_free_entry(uring, index);
    if (!orphaned)
        ci_uring_arm_wakeup(uring);
}

void ci_uring_reap(struct ci_uring *uring)
{
    const struct io_uring_cqe *completion;
    uring->reaping = true;
    while ((completion = ci_ring_completion(&uring->ring))) {
        uint64_t user_data = completion->user_data;
        int32_t result = completion->res;
        uint32_t flags = completion->flags, index = (uint32_t)user_data;
        ci_ring_seen(&uring->ring);
        if (user_data & ci_uring_cancel_of)
            ci_uring_retry_cancel(uring, user_data & ~ci_uring_cancel_of);
        if (!user_data || user_data & ci_uring_cancel_of) /* 0: a close that failed */
            continue;
        ci_check(ci_uring_is_live(uring, user_data), "uring.h 1");
        switch ((enum ci_uring_use)uring->entries[index].use) {
        case CI_URING_OP: on_op(uring, index, result, flags & IORING_CQE_F_MORE); break;
        case CI_URING_LAZY: on_lazy(uring, index, result); break;
        case CI_URING_ROOM: on_room(uring, index, result, flags & IORING_CQE_F_MORE); break;
        case CI_URING_CLIENT: on_client(uring, index, result); break;
        case CI_URING_RECEIVE: on_receive(uring, index, result, flags); break;
        case CI_URING_WAKEUP: on_wakeup(uring, index, flags); break;
        case CI_URING_FREE: break;
        }
    }
    end_lazy(uring);
    uring->reaping = false;
}
