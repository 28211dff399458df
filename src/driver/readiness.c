/* Completion on top of readiness: make the system call; only if it would block (EAGAIN), wait until
 * the descriptor is ready, and make it again. readiness_slot.h has what is known of a descriptor.
 *
 * A poll asks the kernel before it believes the cache. Readable never wakes a writer, writable
 * never a reader; hang-up and error wake both.
 *
 * An event whose generation is not its slot's belongs to an earlier user of the number, or to an
 * earlier wait of a program's descriptor, and is dropped.
 *
 * 1. `done` may start, cancel, close and forget anything, and make the table grow. So operations
 *    end in two steps: dispatch moves all that can complete to the list `ended` and calls nothing
 *    meanwhile; then it takes them off that list one by one and calls `done`. Outside of dispatch
 *    and forget the list is empty.
 */
#include "driver/readiness.h"

#include <errno.h>

#include "base/check.h"
#include "base/time.h"
#include "driver/count.h"
#include "driver/kernel.h"
#include "driver/readiness_transfer.h"
#include "sys/call.h"
#include "sys/clock.h"
#include "sys/socket_call.h"

enum { READY_BATCH = 256 };

/* struct ci_op.pending. WAITING: in its slot's list; DUE: a watch in its slot's list whose events
 * hold, in the dispatch in progress; ENDED: in the list `ended`. */
enum { IDLE, WAITING, DUE, ENDED };

struct readiness {
    struct ci_driver base;
    struct ci_selector *selector;
    struct ci_slot *slots; /* by descriptor */
    size_t slot_count;
    struct ci_op *ended, **ended_tail; /* to be completed: see 1 */
    int failed_waits;                  /* in a row */
    bool rearms;                       /* the selector does */
    const coir_allocator *allocator;
};

static struct readiness *self(struct ci_driver *driver)
{
    return ci_container_of(driver, struct readiness, base);
}

static int reserve(struct readiness *readiness, coir_fd fd)
{
    if (ci_likely((size_t)fd < readiness->slot_count))
        return 0;
    return ci_kernel_reserve(readiness->allocator, (void **)&readiness->slots,
                             &readiness->slot_count, sizeof(struct ci_slot), fd);
}

static int reserve_all(struct ci_driver *driver, size_t count)
{
    struct readiness *readiness = self(driver);
    struct ci_selector *selector = readiness->selector;
    int rc = selector->kind->reserve ? selector->kind->reserve(selector, count) : 0;
    return rc < 0 ? rc
                  : ci_grow(readiness->allocator, (void **)&readiness->slots,
                            &readiness->slot_count, sizeof(struct ci_slot), count);
}

/* False, as start returns for what is in flight. */
CI_INLINE bool park(struct readiness *readiness, struct ci_slot *slot, struct ci_op *op)
{
    readiness->base.pending++;
    op->pending = WAITING;
    op->next = slot->ops;
    slot->ops = op;
    return false;
}

static void unlink_op(struct readiness *readiness, struct ci_slot *slot, struct ci_op *op)
{
    ci_op_remove(&slot->ops, op);
    op->pending = IDLE;
    readiness->base.pending--;
}

/* Moves the operation at `at` from its slot's list to the list `ended`. */
static void end_op(struct readiness *readiness, struct ci_op **at)
{
    struct ci_op *op = *at;
    *at = op->next;
    op->pending = ENDED;
    op->next = NULL;
    *readiness->ended_tail = op;
    readiness->ended_tail = &op->next;
}

static void end_all(struct readiness *readiness, struct ci_slot *slot, int error)
{
    while (slot->ops) {
        slot->ops->result = error;
        end_op(readiness, &slot->ops);
    }
}

/* Completes the descriptor's operations in `ended`. If a `done` closes or forgets the same
 * descriptor, that completes the rest. */
CI_INLINE void complete_ended(struct readiness *readiness, coir_fd fd)
{
    struct ci_op **at = &readiness->ended, *op;
    while ((op = *at)) {
        if (op->fd != fd) {
            at = &op->next;
            continue;
        }
        if (!(*at = op->next))
            readiness->ended_tail = at;
        ci_op_done(&readiness->base, op);
        at = &readiness->ended; /* the list may have changed */
    }
}

/* Starts a poll that is alone on its descriptor. */
static bool start_once(struct readiness *readiness, struct ci_slot *slot, struct ci_op *op)
{
    int rc = ci_slot_register_once(readiness->selector, slot, op);
    if (rc < 0)
        return ci_op_complete(op, rc);
    return park(readiness, slot, op);
}

static bool start_ours(struct readiness *readiness, struct ci_slot *slot, struct ci_op *op)
{
    enum ci_slot_use use = op->kind == CI_OP_ACCEPT ? CI_SLOT_LISTENER : CI_SLOT_OURS;
    if (ci_unlikely(slot->ops && slot->use != use))
        return ci_op_complete(op, -EBUSY);
    if (use == CI_SLOT_LISTENER) {
        ci_slot_claim_listener(slot, op);
        /* an event that no wait has taken yet may be this worker's alone; and one that came while
         * no accept waited may have been another's */
        if (op->no_wait || !slot->ops)
            slot->ready |= COIR_READ;
    }
    if (ci_unlikely(slot->use != use))
        ci_slot_claim(slot, use);
    if (op->once && !slot->ops && !readiness->rearms)
        return start_once(readiness, slot, op);
    if (op->kind == CI_OP_POLL && slot->registered && slot->ready & ci_slot_wanted_by(op))
        ci_slot_look_again(slot, op);
    if (op->kind == CI_OP_CONNECT) {
        int rc = ci_sys_connect(op->fd, op->address, (socklen_t)op->count);
        if (rc != -EINPROGRESS)
            return ci_op_complete(op, rc);
        slot->ready = 0;
    } else if (op->kind == CI_OP_POLL && !slot->registered) {
        /* nothing is known yet: the registration reports what holds of what it is for */
        slot->ready &= (uint8_t)~ci_slot_wanted_by(op);
    } else if (slot->ready & ci_slot_wanted_by(op) && ci_slot_attempt(slot, op)) {
        return true;
    }
    int rc =
        ci_likely(ci_slot_reports(slot, op)) ? 0 : ci_slot_register(readiness->selector, slot, op);
    if (rc < 0)
        return ci_op_complete(op, rc);
    if (readiness->rearms)
        ci_slot_rearm(readiness->selector, slot, op);
    if (op->no_wait) /* registered all the same, so that the next attempt finds what has come */
        return ci_op_complete(op, -EAGAIN);
    return park(readiness, slot, op);
}

static bool start_foreign(struct readiness *readiness, struct ci_slot *slot, struct ci_op *op)
{
    enum ci_slot_use use = op->kind == CI_OP_WATCH ? CI_SLOT_WATCHED : CI_SLOT_FOREIGN;
    if (slot->ops && (slot->use != use || ci_slot_interest(slot) & op->events))
        return ci_op_complete(op, -EBUSY);
    ci_slot_claim(slot, use);
    slot->generation++; /* events of an earlier wait may still be in the batch being dispatched */
    park(readiness, slot, op);
    ci_check(!op->next || op->next->kind == op->kind, "readiness_slot.h 2");
    int rc = ci_slot_register_foreign(readiness->selector, slot, op->fd);
    if (rc == 0)
        return false;
    unlink_op(readiness, slot, op);
    if (slot->ops) /* the other operation keeps its registration */
        ci_slot_register_foreign(readiness->selector, slot, op->fd);
    if (rc == -EPERM && op->kind == CI_OP_FOREIGN)
        return ci_op_complete(op, op->events); /* a file that is always ready */
    return ci_op_complete(op, rc);
}

static CI_NOINLINE bool start_any(struct readiness *readiness, struct ci_op *op)
{
    if (ci_unlikely(op->fd < 0))
        return ci_op_complete(op, -EBADF);
    if (ci_unlikely(op->kind > CI_OP_WATCH))
        return ci_op_complete(op, -EOPNOTSUPP);
    if (ci_count_trim(op))
        return true;
    int rc = reserve(readiness, op->fd);
    if (ci_unlikely(rc < 0))
        return ci_op_complete(op, rc);
    struct ci_slot *slot = &readiness->slots[op->fd];
    if (op->kind >= CI_OP_FOREIGN)
        return start_foreign(readiness, slot, op);
    return start_ours(readiness, slot, op);
}

static CI_NOINLINE bool rearm_and_park(struct readiness *readiness, struct ci_slot *slot,
                                       struct ci_op *op)
{
    ci_slot_rearm(readiness->selector, slot, op);
    return park(readiness, slot, op);
}

/* Starts an operation for which the slot is not ready. */
CI_INLINE bool start_waiting(struct readiness *readiness, struct ci_slot *slot, struct ci_op *op,
                             unsigned directions)
{
    if (directions & ~(unsigned)slot->events || op->no_wait)
        return start_any(readiness, op);
    return readiness->rearms ? rearm_and_park(readiness, slot, op) : park(readiness, slot, op);
}

/* ci_slot_wanted_by of a CI_OP_READ or CI_OP_WRITE. */
CI_INLINE unsigned wanted_by_transfer(const struct ci_op *op)
{
    return op->kind == CI_OP_WRITE ? COIR_WRITE | CI_SLOT_GONE : COIR_READ | CI_SLOT_ENDS;
}

/* Starts a read or write for which the slot was ready at the last look. */
static CI_NOINLINE bool start_ready(struct readiness *readiness, struct ci_slot *slot,
                                    struct ci_op *op)
{
    return ci_slot_call(slot, op) ||
           (slot->ready & wanted_by_transfer(op)
                ? start_any(readiness, op)
                : start_waiting(readiness, slot, op,
                                wanted_by_transfer(op) & (COIR_READ | COIR_WRITE)));
}

CI_INLINE bool start_transfer(struct readiness *readiness, struct ci_slot *slot, struct ci_op *op)
{
    if (slot->ready & wanted_by_transfer(op))
        return start_ready(readiness, slot, op);
    return start_waiting(readiness, slot, op, op->kind == CI_OP_WRITE ? COIR_WRITE : COIR_READ);
}

CI_INLINE bool start_poll(struct readiness *readiness, struct ci_slot *slot, struct ci_op *op)
{
    unsigned directions = op->events & (COIR_READ | COIR_WRITE);
    if (!directions || op->once || ci_op_events(op, slot->ready))
        return start_any(readiness, op);
    return start_waiting(readiness, slot, op, directions);
}

/* The common cases, of a descriptor that was used before; start_any has all. */
static bool start(struct ci_driver *driver, struct ci_op *op)
{
    struct readiness *readiness = self(driver);
    if ((size_t)op->fd >= readiness->slot_count)
        return start_any(readiness, op);
    struct ci_slot *slot = &readiness->slots[op->fd];
    if (slot->use != CI_SLOT_OURS)
        return start_any(readiness, op);
    if (op->kind <= CI_OP_WRITE && op->len != 0)
        return start_transfer(readiness, slot, op);
    if (op->kind == CI_OP_POLL)
        return start_poll(readiness, slot, op);
    return start_any(readiness, op);
}

/* The result of a read_now or write_now that did not move `len` bytes. */
static CI_NOINLINE ssize_t moved_less(struct ci_slot *slot, ssize_t rc, uint8_t bit)
{
    if (rc == -EAGAIN)
        ci_slot_note_blocked(slot, bit);
    else if (rc > 0)
        ci_slot_note_short(slot, bit);
    return rc == -EINTR ? -EAGAIN : rc;
}

/* The slot of a descriptor of coir's that is ready for one of `events`, or NULL. */
CI_INLINE struct ci_slot *ready_slot(const struct readiness *readiness, coir_fd fd, unsigned events)
{
    if ((size_t)fd >= readiness->slot_count)
        return NULL;
    struct ci_slot *slot = &readiness->slots[fd];
    return slot->use == CI_SLOT_OURS && slot->ready & events ? slot : NULL;
}

static ssize_t read_now(struct ci_driver *driver, coir_fd fd, void *buf, size_t len, bool ancillary)
{
    struct ci_slot *slot = ready_slot(self(driver), fd, COIR_READ | CI_SLOT_ENDS);
    if (!slot || len == 0 || !ci_slot_reads_plainly(slot, ancillary))
        return -EAGAIN;
    ssize_t rc = ci_sys_recv(fd, buf, len);
    return rc > 0 && (size_t)rc == len ? rc : moved_less(slot, rc, COIR_READ);
}

static ssize_t write_now(struct ci_driver *driver, coir_fd fd, const void *data, size_t len)
{
    struct ci_slot *slot = ready_slot(self(driver), fd, COIR_WRITE | CI_SLOT_GONE);
    if (!slot || len == 0)
        return -EAGAIN;
    ssize_t rc = ci_sys_send(fd, data, len);
    return ci_likely(rc > 0 && (size_t)rc == len) ? rc : moved_less(slot, rc, COIR_WRITE);
}

static bool cancel(struct ci_driver *driver, struct ci_op *op)
{
    struct readiness *readiness = self(driver);
    struct ci_slot *slot = &readiness->slots[op->fd];
    if (op->pending == ENDED)
        return false;
    unlink_op(readiness, slot, op);
    op->result = -ECANCELED;
    /* a one-shot registration does no harm, but poll(2) would hold the next file of that number */
    if (op->kind < CI_OP_FOREIGN ||
        (op->kind == CI_OP_FOREIGN && !readiness->selector->kind->keeps))
        return true;
    if (slot->ops) /* the other operation keeps its registration */
        ci_slot_register_foreign(readiness->selector, slot, op->fd);
    else
        ci_slot_unregister(readiness->selector, slot, op->fd);
    return true;
}

/* Calls the watches whose events hold; they stay in the list. A `done` may start and cancel any
 * operation and make the table grow, so the next one is looked for anew. */
static void dispatch_watches(struct readiness *readiness, coir_fd fd)
{
    struct ci_op *op;
    for (op = readiness->slots[fd].ops; op; op = op->next)
        if ((op->result = ci_op_events(op, readiness->slots[fd].ready)))
            op->pending = DUE;
    for (;;) {
        for (op = readiness->slots[fd].ops; op && op->pending != DUE;)
            op = op->next;
        if (!op)
            return;
        op->pending = WAITING;
        op->done(op);
    }
}

/* Whether an operation that is alone on its descriptor is complete with what holds: a read or write
 * that is carried out, or a poll. */
CI_INLINE bool ends_alone(struct ci_slot *slot, struct ci_op *op)
{
    if (op->kind <= CI_OP_WRITE && !(slot->ready & wanted_by_transfer(op)))
        return false;
    if (ci_likely(op->kind == CI_OP_READ && ci_slot_reads_plainly(slot, op->ancillary)))
        return ci_slot_receive(slot, op);
    if (op->kind <= CI_OP_WRITE)
        return ci_slot_call(slot, op);
    int32_t events = op->kind == CI_OP_POLL ? ci_op_events(op, slot->ready) : 0;
    return events && ci_op_complete(op, events);
}

/* Completes the operations that the events of a descriptor make possible. */
static CI_NOINLINE void dispatch_any(struct readiness *readiness, struct ci_slot *slot, coir_fd fd)
{
    if (slot->use == CI_SLOT_WATCHED) {
        dispatch_watches(readiness, fd);
        return;
    }
    struct ci_op *first = slot->ops;
    if (!first) {
        if (ci_unlikely(slot->level))
            ci_slot_end_level(readiness->selector, slot, fd);
        if (slot->use == CI_SLOT_LISTENER && readiness->base.unwanted)
            readiness->base.unwanted(&readiness->base, fd);
        return;
    }
    for (struct ci_op **at = &slot->ops, *op; (op = *at);) {
        if (slot->ready & ci_slot_wanted_by(op) && ci_slot_attempt(slot, op)) {
            end_op(readiness, at);
        } else {
            if (readiness->rearms)
                ci_slot_rearm(readiness->selector, slot, op);
            at = &op->next;
        }
    }
    if (ci_unlikely(slot->level && slot->ops == first))
        ci_slot_end_level(readiness->selector, slot, fd);
    int rc = slot->use == CI_SLOT_FOREIGN && slot->ops
                 ? ci_slot_register_foreign(readiness->selector, slot, fd)
                 : 0;
    if (rc < 0)
        end_all(readiness, slot, rc);
    complete_ended(readiness, fd);
}

CI_INLINE void dispatch(struct readiness *readiness, const struct ci_ready *ready)
{
    if ((size_t)ready->fd >= readiness->slot_count)
        return;
    struct ci_slot *slot = &readiness->slots[ready->fd];
    if (slot->generation != ready->generation)
        return;
    if (ci_unlikely(slot->use >= CI_SLOT_FOREIGN))
        slot->ready = 0;
    slot->ready |= (uint8_t)ready->events;
    struct ci_op *op = slot->ops;
    /* one that is alone needs no list: after its `done` there is nothing left to do */
    if (ci_likely(op && !op->next && ends_alone(slot, op))) {
        slot->ops = NULL;
        ci_op_done(&readiness->base, op);
    } else {
        dispatch_any(readiness, slot, ready->fd);
    }
}

/* It is not given up for -ENOMEM (poll(2)), a shortage that ends: timers and remote tasks go on. */
static CI_COLD int wait_failed(struct readiness *readiness, int error, coir_time timeout)
{
    if (error == -EINTR)
        return 0;
    int rc = ci_kernel_note_failed_wait(&readiness->failed_waits, error, timeout);
    return rc == -ENOMEM ? 0 : rc;
}

static int wait_ops(struct ci_driver *driver, coir_time deadline)
{
    struct readiness *readiness = self(driver);
    struct ci_ready ready[READY_BATCH];
    ci_check(!readiness->ended, "readiness.c 1");
    coir_time timeout = deadline ? ci_time_timeout(deadline, ci_clock_now()) : 0;
    int count = readiness->selector->kind->wait(readiness->selector, ready, READY_BATCH, timeout);
    if (ci_unlikely(count < 0))
        return wait_failed(readiness, count, timeout);
    readiness->failed_waits = 0;
    for (int i = 0; i < count; i++)
        dispatch(readiness, &ready[i]);
    return 0;
}

static void wake(struct ci_driver *driver)
{
    struct ci_selector *selector = self(driver)->selector;
    selector->kind->wake(selector);
}

static coir_fd descriptor(struct ci_driver *driver)
{
    struct ci_selector *selector = self(driver)->selector;
    return selector->kind->descriptor ? selector->kind->descriptor(selector) : -ENOTSUP;
}

static void forget(struct ci_driver *driver, coir_fd fd)
{
    struct readiness *readiness = self(driver);
    if ((size_t)fd >= readiness->slot_count)
        return;
    struct ci_slot *slot = &readiness->slots[fd];
    ci_slot_unregister(readiness->selector, slot, fd);
    slot->use = CI_SLOT_UNUSED;
    slot->generation++;
    end_all(readiness, slot, -ECANCELED);
    complete_ended(readiness, fd);
}

static void close_fd(struct ci_driver *driver, coir_fd fd)
{
    struct readiness *readiness = self(driver);
    struct ci_slot *slot = (size_t)fd < readiness->slot_count ? &readiness->slots[fd] : NULL;
    /* The close removes the registration, unless the file is open elsewhere. Of an edge that brings
     * events which are dropped, of a level an event in each wait. */
    if (slot && !readiness->selector->kind->keeps && !slot->level)
        slot->registered = false;
    forget(driver, fd);
    ci_sys_close(fd);
}

static void free_driver(struct ci_driver *driver)
{
    struct readiness *readiness = self(driver);
    ci_selector_free(readiness->selector);
    ci_free(readiness->allocator, readiness->slots, readiness->slot_count * sizeof(struct ci_slot));
    ci_free(readiness->allocator, readiness, sizeof *readiness);
}

static const struct ci_driver_kind readiness_kind = {
    .name = "readiness",
    .start = start,
    .read_now = read_now,
    .write_now = write_now,
    .cancel = cancel,
    .wait = wait_ops,
    .wake = wake,
    .descriptor = descriptor,
    .reserve = reserve_all,
    CI_KERNEL_CALLS,
    .close = close_fd,
    .forget = forget,
    .free = free_driver,
};

int ci_readiness_open(struct ci_selector *selector, const coir_allocator *allocator,
                      struct ci_driver **ret_driver)
{
    struct readiness *readiness = ci_alloc_zero(allocator, sizeof *readiness);
    if (!readiness) {
        ci_selector_free(selector);
        return -ENOMEM;
    }
    *readiness = (struct readiness){.base.kind = &readiness_kind,
                                    .selector = selector,
                                    .rearms = selector->kind->rearm,
                                    .allocator = allocator};
    readiness->ended_tail = &readiness->ended;
    *ret_driver = &readiness->base;
    return 0;
}
