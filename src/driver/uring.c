/* The driver over io_uring: waiting, completing operations, opening and closing the ring. The
 * invariants are in uring.h. */
#include <errno.h>

#include "base/check.h"
#include "base/time.h"
#include "driver/kernel.h"
#include "driver/open.h"
#include "driver/uring.h"
#include "sys/call.h"
#include "sys/clock.h"

static void dispatch_watch(struct ci_uring *uring, struct ci_op *op)
{
    struct ci_uring_slot *slot = &uring->slots[op->fd];
    ci_uring_link(uring, slot, op, CI_URING_WAITING);
    uring->watching = op;
    if (op->result) /* else it could not be polled again until now */
        op->done(op);
    if (uring->watching != op)
        return; /* it was cancelled */
    uring->watching = NULL;
    slot = &uring->slots[op->fd];
    ci_uring_unlink(uring, slot, op);
    if (!ci_uring_submit_poll(uring, slot, op)) {
        /* it cannot be polled for now: the next wait tries again */
        ci_uring_link(uring, slot, op, CI_URING_WAITING);
        if (uring->open)
            ci_uring_end(uring, slot, op, CI_URING_ENDED, 0);
    }
}

/* Completes an operation that has been taken off the list of those that have ended. */
static void complete(struct ci_uring *uring, struct ci_op *op)
{
    ci_check(op->pending >= CI_URING_READY, "uring.h 2");
    if (op->kind == CI_OP_WATCH) {
        uring->base.pending--;
        dispatch_watch(uring, op);
        return;
    }
    if (op->pending == CI_URING_READY) {
        struct ci_uring_slot *slot = &uring->slots[op->fd];
        ci_check(ci_uring_readable(slot), "uring.h 3");
        op->result = ci_uring_take(uring, slot, op);
    }
    ci_op_done(&uring->base, op);
}

static void complete_ended(struct ci_uring *uring)
{
    /* what ends in the meantime is for the next wait */
    struct ci_op *const *last = uring->ended_tail;
    bool more = uring->ended;
    while (more && uring->ended) {
        struct ci_op *op = uring->ended;
        more = &op->next != last;
        if (!(uring->ended = op->next))
            uring->ended_tail = &uring->ended;
        complete(uring, op);
    }
}

/* A wait after the ring was given up. */
static CI_COLD int wait_refused(struct ci_uring *uring, coir_time deadline)
{
    bool any = uring->ended;
    complete_ended(uring);
    return ci_kernel_note_failed_wait(&uring->failed_waits, uring->refused,
                                      any || !deadline ? 0 : COIR_MS);
}

static int wait_ops(struct ci_driver *driver, coir_time deadline)
{
    struct ci_uring *uring = ci_uring_of(driver);
    if (ci_unlikely(!uring->open))
        return wait_refused(uring, deadline);
    bool wakeup_armed = ci_likely(uring->wakeup_armed) || ci_uring_arm_wakeup(uring);
    bool sleeps = deadline != 0 && wakeup_armed && !uring->ended && !uring->lazy_due &&
                  !ci_ring_completion(&uring->ring);
    coir_time timeout = sleeps ? ci_time_timeout(deadline, ci_clock_now()) : 0;
    sleeps &= timeout != 0;
    int rc = 0;
    if (sleeps || uring->cancels_due || ci_ring_busy(&uring->ring))
        rc = ci_uring_turn(uring, sleeps, timeout);
    else
        ci_uring_reap(uring);
    complete_ended(uring);
    return rc;
}

static void wake(struct ci_driver *driver)
{
    ci_sys_eventfd_add(ci_uring_of(driver)->wakeup);
}

/* ---- beginning and ending ---- */

static int open_ring(struct ci_uring *uring)
{
    int rc = ci_ring_open(&uring->ring, CI_URING_SQES, CI_URING_CQES, false);
    if (rc < 0)
        return rc;
    if ((rc = ci_ring_buffers_register(&uring->ring, &uring->buffers, 0)) < 0) {
        ci_ring_close(&uring->ring);
        return rc;
    }
    uring->open = true;
    uring->failed_waits = uring->refused = 0;
    if (!ci_uring_arm_wakeup(uring)) {
        ci_uring_close_ring(uring);
        return -ENOMEM;
    }
    ci_uring_give_first_buffers(uring);
    uring->base.file_calls = ci_uring_file_calls(&uring->ring);
    return 0;
}

static int begin(struct ci_driver *driver)
{
    struct ci_uring *uring = ci_uring_of(driver);
    return uring->open ? 0 : open_ring(uring);
}

static void request_cancel_of_all(struct ci_uring *uring)
{
    for (uint32_t i = 1; i < uring->entry_count; i++) {
        struct ci_uring_entry *entry = &uring->entries[i];
        ci_check(entry->use != CI_URING_OP || !entry->op, "uring.h 2"); /* nothing is pending */
        if (entry->use == CI_URING_WAKEUP)
            entry->fd = -1;
        if (entry->use != CI_URING_FREE)
            ci_uring_request_cancel(uring, i);
    }
}

/* Waits until nothing is in flight, and closes the ring, which belongs to this thread. */
static void end(struct ci_driver *driver)
{
    struct ci_uring *uring = ci_uring_of(driver);
    if (uring->used)
        request_cancel_of_all(uring);
    while (uring->used) {
        bool sleeps = uring->used > uring->lazy; /* the next enter completes lazy ones */
        ci_uring_turn(uring, sleeps, sleeps ? -1 : 0);
    }
    while (uring->open && !ci_ring_submitted(&uring->ring)) /* closes */
        ci_uring_turn(uring, false, 0);
    ci_uring_close_ring(uring);
}

static void free_driver(struct ci_driver *driver)
{
    struct ci_uring *uring = ci_uring_of(driver);
    ci_uring_close_ring(uring);
    ci_ring_buffers_free(&uring->buffers);
    if (uring->wakeup >= 0)
        ci_sys_close(uring->wakeup);
    for (size_t fd = 0; fd < uring->slot_count; fd++)
        ci_uring_drop_adopted(&uring->slots[fd]);
    ci_free(uring->allocator, uring->entries, uring->entry_count * sizeof(struct ci_uring_entry));
    ci_free(uring->allocator, uring->slots, uring->slot_count * sizeof(struct ci_uring_slot));
    ci_free(uring->allocator, uring, sizeof *uring);
}

/* A connection has a receive and a write in flight, and a request to cancel one. */
static int reserve(struct ci_driver *driver, size_t count)
{
    struct ci_uring *uring = ci_uring_of(driver);
    int rc = ci_uring_reserve_entries(uring, 3 * count);
    if (rc == 0)
        rc = ci_uring_populate_buffers(uring);
    return rc < 0 ? rc
                  : ci_grow(uring->allocator, (void **)&uring->slots, &uring->slot_count,
                            sizeof(struct ci_uring_slot), count);
}

static const struct ci_driver_kind uring_kind = {
    .name = "io_uring",
    .start = ci_uring_start,
    .cancel = ci_uring_cancel,
    .wait = wait_ops,
    .wake = wake,
    .reserve = reserve,
    CI_KERNEL_CALLS,
    .close = ci_uring_close,
    .flush = ci_uring_flush,
    .forget = ci_uring_forget,
    .detach = ci_uring_detach,
    .adopt = ci_uring_adopt,
    .stop_ahead = ci_uring_stop_ahead,
    .begin = begin,
    .end = end,
    .free = free_driver,
};

int ci_uring_open(const coir_allocator *allocator, struct ci_driver **ret_driver)
{
    struct ci_uring *uring = ci_alloc_zero(allocator, sizeof *uring);
    if (!uring)
        return -ENOMEM;
    uring->base.kind = &uring_kind;
    uring->allocator = allocator;
    uring->reap = ci_uring_reap;
    uring->ended_tail = &uring->ended;
    uring->wakeup = ci_sys_eventfd();
    int rc = uring->wakeup < 0
                 ? uring->wakeup
                 : ci_ring_buffers_make(&uring->buffers, CI_URING_BUFFERS, CI_URING_BUFFER_SIZE);
    if (rc == 0)
        rc = open_ring(uring);
    if (rc < 0) {
        free_driver(&uring->base);
        return rc;
    }
    *ret_driver = &uring->base;
    return 0;
}
