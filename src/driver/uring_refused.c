/* An enter that the kernel refuses: once, or repeatedly, so that the ring is given up.
 *
 * 1. The requests of a ring that is given up are taken back (ci_ring_take_back), every pending
 *    operation ends with -ECANCELED, and every wait returns the error until the next begin, which
 *    opens another ring. */
#include <errno.h>

#include "base/check.h"
#include "driver/kernel.h"
#include "driver/uring.h"
#include "sys/call.h"

void ci_uring_close_ring(struct ci_uring *uring)
{
    if (uring->open)
        ci_ring_close(&uring->ring);
    uring->open = uring->wakeup_armed = false;
}

/* Closes the descriptors whose close was put into the ring and not submitted. */
static void close_now(const struct ci_ring *ring)
{
    for (uint32_t at = ci_load_acquire(ring->kernel_head); at != ring->tail; at++) {
        const struct io_uring_sqe *sqe = &ring->entries[at & ring->entry_mask];
        if (sqe->opcode == IORING_OP_CLOSE)
            ci_sys_close(sqe->fd);
    }
}

/* Ends a descriptor's operations; a watch stays until it is cancelled. */
static void end_ops(struct ci_uring *uring, struct ci_uring_slot *slot)
{
    slot->receive = 0;
    slot->stopping = false;
    for (struct ci_op *op = slot->ops, *next; op; op = next) {
        next = op->next;
        if (op->kind == CI_OP_WATCH)
            op->pending = CI_URING_WAITING;
        else
            ci_uring_end(uring, slot, op, CI_URING_ENDED, -ECANCELED);
    }
}

/* What the kernel refuses to take back is ended by closing the ring. */
static CI_COLD void give_up(struct ci_uring *uring, int error)
{
    for (uint32_t i = 1; i < uring->entry_count; i++)
        if (uring->entries[i].use != CI_URING_FREE)
            ci_ring_take_back(&uring->ring, ci_uring_user_data(uring, i));
    ci_uring_reap(uring);
    close_now(&uring->ring);
    ci_uring_close_ring(uring);
    uring->refused = error;
    uring->close_queued = uring->lazy_due = uring->cancels_due = false;
    uring->lazy_first = uring->lazy_last = uring->lazy_submitted = uring->lazy = 0;
    for (uint32_t i = 1; i < uring->entry_count; i++) {
        struct ci_uring_entry *entry = &uring->entries[i];
        if (entry->use == CI_URING_OP && entry->op && ci_uring_on_file(entry->op))
            ci_uring_end(uring, NULL, entry->op, CI_URING_ENDED, -ECANCELED);
        if (entry->use != CI_URING_FREE)
            ci_uring_free_entry(uring, i);
    }
    for (size_t fd = 0; fd < uring->slot_count; fd++)
        end_ops(uring, &uring->slots[fd]);
    ci_check(uring->used == 0, "uring_refused.c 1");
}

int ci_uring_turn(struct ci_uring *uring, bool sleeps, coir_time timeout)
{
    if (ci_unlikely(uring->cancels_due)) {
        ci_uring_repeat_cancels(uring);
        sleeps = sleeps && !uring->cancels_due;
    }
    if (sleeps && uring->lazy && (timeout < 0 || timeout > ci_uring_lazy_delay_max))
        timeout = ci_uring_lazy_delay_max;
    int rc = ci_uring_enter(uring, sleeps, timeout);
    bool passes = rc == 0 || rc == -ETIME || rc == -EINTR || ci_ring_completion(&uring->ring);
    ci_uring_reap(uring);
    if (ci_likely(passes)) {
        uring->failed_waits = 0;
        return 0;
    }
    rc = ci_kernel_note_failed_wait(&uring->failed_waits, rc, timeout);
    if (rc < 0)
        give_up(uring, rc);
    return rc;
}
