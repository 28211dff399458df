/* The driver over io_uring: waiting, telling, closing, moving, beginning and ending. The rules are
 * in uring.h. */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/sanitizer.h"
#include "base/time.h"
#include "driver/kernel.h"
#include "driver/open.h"
#include "driver/uring.h"
#include "sys/call.h"
#include "sys/clock.h"

/* ---- telling ---- */

static void tell_watch(struct ci_uring *uring, struct ci_op *op)
{
    struct ci_uring_slot *slot = &uring->slots[op->fd];
    ci_uring_link(uring, slot, op, WAITS);
    uring->watching = op;
    op->done(op);
    if (uring->watching != op)
        return; /* it is gone */
    uring->watching = NULL;
    slot = &uring->slots[op->fd];
    ci_uring_unlink(slot, op);
    uring->base.pending--;
    if (!ci_uring_hand_over_poll(uring, slot, op)) {
        /* the events go on: to be looked at again in the next turn */
        ci_uring_link(uring, slot, op, WAITS);
        if (uring->open)
            ci_uring_end(uring, slot, op, ENDED, 0);
    }
}

/* An operation that has ended and is in no list. */
static void tell(struct ci_uring *uring, struct ci_op *op)
{
    bool ready = op->pending == READY;
    uring->base.pending--;
    op->pending = IDLE;
    if (op->kind == CI_OP_WATCH) {
        tell_watch(uring, op);
        return;
    }
    ci_check(!ready || ci_uring_readable(&uring->slots[op->fd]));
    if (ready)
        op->result = ci_uring_take(uring, &uring->slots[op->fd], op);
    op->done(op);
}

static void tell_all(struct ci_uring *uring)
{
    /* what ends while they are told is for the next time */
    struct ci_op *const *last = uring->ended_tail;
    bool more = uring->ended;
    while (more && uring->ended) {
        struct ci_op *op = uring->ended;
        more = &op->next != last;
        if (!(uring->ended = op->next))
            uring->ended_tail = &uring->ended;
        tell(uring, op);
    }
}

/* Where there is no ring any more. */
static CI_COLD int wait_refused(struct ci_uring *uring, coir_time deadline)
{
    bool told = uring->ended;
    tell_all(uring);
    return ci_kernel_note_failed_wait(&uring->failed_waits, uring->refused,
                                      told || !deadline ? 0 : COIR_MS);
}

static int wait_ops(struct ci_driver *driver, coir_time deadline)
{
    struct ci_uring *uring = ci_uring_of(driver);
    if (ci_unlikely(!uring->open))
        return wait_refused(uring, deadline);
    bool wakes = ci_likely(uring->wakes) || ci_uring_arm_wakeup(uring);
    bool sleeps = deadline != 0 && wakes && !uring->ended && !uring->hurry &&
                  !ci_ring_completion(&uring->ring);
    coir_time timeout = sleeps ? ci_time_timeout(deadline, ci_clock_now()) : 0;
    sleeps &= timeout != 0;
    if (uring->lazy && (timeout < 0 || timeout > LAZY_MOST))
        timeout = LAZY_MOST;
    int rc = 0;
    if (sleeps || ci_ring_busy(&uring->ring))
        rc = ci_uring_turn(uring, sleeps, timeout);
    else
        ci_uring_reap(uring);
    tell_all(uring);
    return rc;
}

static void wake(struct ci_driver *driver)
{
    ci_sys_eventfd_add(ci_uring_of(driver)->wakeup);
}

/* ---- closing ---- */

/* Waits until the kernel has given back what the descriptor's operations lent it. */
static void settle(struct ci_uring *uring, coir_fd fd, bool receive_too)
{
    for (bool asked = false;;) { /* a cancel that is refused is repeated where that is seen */
        const struct ci_uring_slot *slot = &uring->slots[fd];
        bool waits = receive_too && slot->receive, lazy = false, all = true;
        uring->reaping = true; /* the list is being walked */
        if (waits && !asked)
            all = ci_uring_ask_to_end(uring, slot->receive);
        for (struct ci_op *op = slot->ops; op; op = op->next)
            if (ci_uring_is_lazy(uring, op)) { /* submitting ends it */
                ci_uring_hurry(uring, op);
                lazy = true;
            } else if (op->pending == IN_KERNEL) {
                waits = true;
                if (!asked)
                    all &= ci_uring_ask_to_end(uring, (uint32_t)op->result);
            }
        uring->reaping = false;
        if (!waits && !lazy)
            return;
        asked |= all;
        bool sleeps = waits && !lazy && all;
        ci_uring_turn(uring, sleeps, sleeps ? -1 : 0); /* given up, nothing is the kernel's */
    }
}

/* Takes those of the descriptor's operations that the kernel has no memory of: they end here.
 * *ret_asked: the kernel has been asked to end a poll. */
static struct ci_op *take_waiting(struct ci_uring *uring, struct ci_uring_slot *slot,
                                  bool *ret_asked)
{
    struct ci_op *taken = NULL, *op, **at = &slot->ops;
    while ((op = *at)) {
        if (op->pending == IN_KERNEL && !ci_uring_polls(op)) {
            at = &op->next;
            continue;
        }
        *at = op->next;
        op->next = taken;
        taken = op;
    }
    *ret_asked = false;
    for (op = taken; op; op = op->next) {
        if (op->pending == IN_KERNEL) {
            ci_uring_let_go(uring, (uint32_t)op->result);
            *ret_asked = true;
        }
        op->result = -ECANCELED;
        op->pending = ENDED;
    }
    return taken;
}

/* And those that have ended and not been told. A reader for whom there was something is not told of
 * it. */
static struct ci_op *take_ended(struct ci_uring *uring, coir_fd fd, struct ci_op *taken)
{
    struct ci_op *op, **at = &uring->ended;
    while ((op = *at)) {
        if (op->fd != fd) {
            at = &op->next;
            continue;
        }
        *at = op->next;
        if (op->pending == READY)
            op->result = -ECANCELED;
        op->next = taken;
        taken = op;
    }
    uring->ended_tail = at;
    return taken;
}

/* The descriptor's operations end. Those that wait go first: a receive that ends is not asked for
 * again on their behalf. True: the kernel has been asked for something that it has not answered
 * yet. */
static bool clear(struct ci_uring *uring, coir_fd fd, bool at_once)
{
    bool asked;
    struct ci_op *ops = take_waiting(uring, &uring->slots[fd], &asked), *op;
    settle(uring, fd, at_once);
    struct ci_uring_slot *slot = &uring->slots[fd];
    if (slot->receive) {
        ci_uring_ask_to_end(uring, slot->receive);
        uring->entries[slot->receive].fd = -1;
        asked = true;
    }
    ops = take_ended(uring, fd, ops);
    ci_check(!slot->ops);
    ci_uring_drop_ahead(uring, slot);
    *slot = (struct ci_uring_slot){0};
    while ((op = ops)) {
        ops = op->next;
        uring->base.pending--;
        op->pending = IDLE;
        if (uring->watching == op)
            uring->watching = NULL;
        op->done(op);
    }
    return asked;
}

static void forget(struct ci_driver *driver, coir_fd fd)
{
    struct ci_uring *uring = ci_uring_of(driver);
    if ((size_t)fd < uring->slot_count)
        clear(uring, fd, true);
}

static void close_fd(struct ci_driver *driver, coir_fd fd)
{
    struct ci_uring *uring = ci_uring_of(driver);
    struct io_uring_sqe *sqe = NULL;
    if ((size_t)fd < uring->slot_count && ci_uring_has_bytes(&uring->slots[fd]))
        /* what nobody read is lost: the peer is told, as the kernel would */
        ci_sys_reset_on_close(fd);
    /* which wants to see the descriptor closed */
    bool by_call = ci_sanitizer == CI_THREAD_SANITIZER;
    bool asked = (size_t)fd < uring->slot_count && clear(uring, fd, by_call);
    if (asked && !by_call && (sqe = ci_uring_place(uring))) {
        sqe->opcode = IORING_OP_CLOSE; /* after those that were asked for before */
        sqe->fd = fd;
        sqe->flags = IOSQE_CQE_SKIP_SUCCESS;
    } else {
        ci_sys_close(fd);
    }
    uring->closes |= asked; /* what is to end holds the socket */
}

/* An enter that looks for completions: the end of a receive is one, and it holds the socket open.
 */
static void flush(struct ci_driver *driver)
{
    struct ci_uring *uring = ci_uring_of(driver);
    if (uring->open && uring->closes)
        ci_uring_enter(uring, false, 0); /* what is refused is for the next wait */
}

/* ---- from one worker to another ---- */

/* Copies what was read ahead out of the buffers. *ret_ahead stays as it is if there is nothing. */
static int copy_ahead(struct ci_uring *uring, struct ci_uring_slot *slot,
                      struct ci_ahead **ret_ahead)
{
    size_t len = 0;
    for (uint16_t id = slot->first; id; id = uring->held[id].next)
        len += uring->held[id].len;
    len -= slot->taken;
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

static int detach(struct ci_driver *driver, coir_fd fd, struct ci_ahead **ret_ahead)
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

/* The bytes stay where they are: no buffer is needed, and there may be none. */
static int adopt(struct ci_driver *driver, coir_fd fd, struct ci_ahead *ahead)
{
    struct ci_uring *uring = ci_uring_of(driver);
    int rc = ci_uring_reserve(uring, fd);
    if (rc < 0)
        return rc;
    struct ci_uring_slot *slot = &uring->slots[fd];
    ci_check(!slot->receive && !ci_uring_readable(slot));
    slot->has_adopted = ahead->at < ahead->len;
    if (slot->has_adopted) {
        slot->adopted = ahead;
    } else {
        slot->error = (uint8_t)ahead->error;
        ci_ahead_free(ahead);
    }
    return 0;
}

/* ---- beginning and ending ---- */

/* After a ring before this one some buffers may still hold what was read ahead. */
static void give_buffers_again(struct ci_uring *uring)
{
    bool held[BUFFERS + 1] = {false};
    for (size_t fd = 0; fd < uring->slot_count; fd++) {
        const struct ci_uring_slot *slot = &uring->slots[fd];
        for (uint16_t id = slot->has_adopted ? 0 : slot->first; id; id = uring->held[id].next)
            held[id] = true;
    }
    for (uint16_t id = 1; id <= uring->given; id++)
        if (!held[id])
            ci_uring_give_buffer(uring, id);
}

static int open_ring(struct ci_uring *uring)
{
    int rc = ci_ring_open(&uring->ring, ENTRIES, COMPLETIONS, false);
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
    if (uring->given)
        give_buffers_again(uring);
    else
        ci_uring_give_more_buffers(uring);
    return 0;
}

static int begin(struct ci_driver *driver)
{
    struct ci_uring *uring = ci_uring_of(driver);
    return uring->open ? 0 : open_ring(uring);
}

/* Asks the kernel to end all that it still has. False: it does not take all of it now. */
static bool ask_all_to_end(struct ci_uring *uring)
{
    bool all = true;
    for (uint32_t i = 1; i < uring->entry_count; i++) {
        struct ci_uring_entry *entry = &uring->entries[i];
        ci_check(entry->use != OP || !entry->op);
        if (entry->use == WAKE_UP)
            entry->fd = -1;
        if (entry->use != FREE)
            all &= ci_uring_ask_to_end(uring, i);
    }
    return all;
}

/* Takes back everything that the kernel still has; the ring goes, for it is this thread's. */
static void end(struct ci_driver *driver)
{
    struct ci_uring *uring = ci_uring_of(driver);
    for (bool asked = false; uring->used;) {
        asked = asked || ask_all_to_end(uring);
        ci_uring_turn(uring, asked, asked ? -1 : 0);
    }
    while (uring->open && !ci_ring_submitted(&uring->ring)) /* descriptors to be closed */
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

static const struct ci_driver_kind uring_kind = {
    .name = "io_uring",
    .files = true,
    .start = ci_uring_start,
    .cancel = ci_uring_cancel,
    .wait = wait_ops,
    .wake = wake,
    CI_KERNEL_CALLS,
    .close = close_fd,
    .flush = flush,
    .forget = forget,
    .detach = detach,
    .adopt = adopt,
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
    uring->ended_tail = &uring->ended;
    uring->wakeup = ci_sys_eventfd();
    int rc = uring->wakeup < 0 ? uring->wakeup
                               : ci_ring_buffers_make(&uring->buffers, BUFFERS, BUFFER_SIZE);
    if (rc == 0)
        rc = open_ring(uring);
    if (rc < 0) {
        free_driver(&uring->base);
        return rc;
    }
    *ret_driver = &uring->base;
    return 0;
}
