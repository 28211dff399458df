/* Completion on top of readiness: make the system call; only if it would block (EAGAIN), wait until
 * the descriptor is ready, and make it again.
 *
 * A descriptor of coir's is registered once, edge-triggered, for both directions. Its slot caches
 * what the edges reported: an event sets a bit, a call that would have blocked clears it. A short
 * read or write clears it too, which saves the call that would only return EAGAIN; but not once the
 * end of the stream, a hang-up or an error was seen: data and end can share one edge, and no other
 * would come. A poll asks the kernel before it believes a bit. Readable never wakes a writer,
 * writable never a reader; hang-up and error wake both.
 *
 * A descriptor of the program's has no cache: it may be closed, and its number reused, between two
 * waits. Each wait registers it again (one-shot), and so makes the kernel look at it.
 *
 * An event whose generation is not its slot's belongs to an earlier user of the number, or to an
 * earlier wait of a program's descriptor, and is dropped.
 *
 * 1. A descriptor is registered at most once.
 * 2. `done` may start, cancel, close and forget anything, and make the table grow. So operations
 * end in two steps: dispatch moves all that can complete to the list `ended`, and calls nothing
 * meanwhile; then it takes them off that list one by one and calls `done`. Outside of dispatch and
 * forget the list is empty.
 * 3. A watch is the only operation of its descriptor.
 */
#include "driver/readiness.h"

#include <errno.h>

#include "base/check.h"
#include "base/time.h"
#include "driver/count.h"
#include "driver/kernel.h"
#include "driver/nonblocking.h"
#include "driver/poll_mask.h"
#include "sys/call.h"
#include "sys/clock.h"
#include "sys/socket_call.h"

enum { READY_BATCH = 256 };

/* OURS: coir's own, but for listeners. */
enum slot_use { UNUSED, OURS, LISTENER, FOREIGN, WATCHED };

/* struct ci_op.pending. WAITING: in its slot's list; ENDED: in the list `ended`. */
enum { IDLE, WAITING, ENDED };

struct slot {
    struct ci_op *ops; /* pending */
    uint32_t generation;
    uint8_t ready; /* enum coir_events and CI_EVENT_END */
    uint8_t use;
    bool registered;
};

struct readiness {
    struct ci_driver base;
    struct ci_selector *selector;
    struct slot *slots; /* by descriptor */
    size_t slot_count;
    struct ci_op *ended, **ended_tail; /* to be completed: see 2 */
    int failed_waits;                  /* in a row */
    const coir_allocator *allocator;
};

static const uint8_t gone = COIR_HANGUP | COIR_EVENT_ERROR;
static const uint8_t ends = CI_EVENT_END | COIR_HANGUP | COIR_EVENT_ERROR;

static struct readiness *self(struct ci_driver *driver)
{
    return ci_container_of(driver, struct readiness, base);
}

static int reserve(struct readiness *readiness, coir_fd fd)
{
    if (ci_likely((size_t)fd < readiness->slot_count))
        return 0;
    return ci_kernel_reserve(readiness->allocator, (void **)&readiness->slots,
                             &readiness->slot_count, sizeof(struct slot), fd);
}

/* The events that make an attempt at an operation worthwhile. */
static uint8_t wanted_by(const struct ci_op *op)
{
    switch ((enum ci_op_kind)op->kind) {
    case CI_OP_READ:
    case CI_OP_READV:
    case CI_OP_RECEIVE:
    case CI_OP_ACCEPT: return COIR_READ | ends;
    case CI_OP_WRITE:
    case CI_OP_WRITEV:
    case CI_OP_SEND:
    case CI_OP_CONNECT: return COIR_WRITE | gone;
    case CI_OP_POLL:
    case CI_OP_FOREIGN:
    case CI_OP_WATCH:
    case CI_OP_READ_AT:
    case CI_OP_WRITE_AT:
    case CI_OP_SYNC: break;
    }
    return (uint8_t)(op->events | gone | (op->events & COIR_READ ? CI_EVENT_END : 0));
}

/* The result of a connect in progress is the socket's error. */
static ssize_t call(const struct ci_op *op)
{
    return op->kind == CI_OP_CONNECT ? ci_sys_socket_error(op->fd) : ci_op_attempt(op);
}

static size_t total(const struct ci_op *op)
{
    if (op->kind == CI_OP_READ || op->kind == CI_OP_WRITE)
        return op->len;
    size_t sum = 0;
    for (int i = 0; i < op->count; i++)
        sum += op->iov[i].iov_len;
    return sum;
}

/* Attempts an operation for which the slot is ready. True: it has completed. */
static bool attempt(struct slot *slot, struct ci_op *op)
{
    if (op->kind >= CI_OP_POLL) {
        op->result = ci_op_events(op, slot->ready);
        return true;
    }
    ssize_t rc;
    do
        rc = call(op);
    while (ci_unlikely(rc == -EINTR));
    bool reads = op->kind == CI_OP_READ || op->kind == CI_OP_READV,
         writes = op->kind == CI_OP_WRITE || op->kind == CI_OP_WRITEV;
    uint8_t bit = wanted_by(op) & COIR_READ ? COIR_READ : COIR_WRITE;
    if (ci_unlikely(rc == -EAGAIN)) {
        slot->ready &= (uint8_t) ~(bit == COIR_READ ? COIR_READ | CI_EVENT_END : COIR_WRITE);
        if (slot->ready & gone) /* of an earlier state: the next edge reports them again */
            slot->ready &= (uint8_t)~gone;
        return false;
    }
    if ((reads || writes) && rc > 0 && !(slot->ready & ends) && (size_t)rc < total(op))
        slot->ready &= (uint8_t)~bit;
    op->result = (int32_t)rc;
    return true;
}

static void park(struct readiness *readiness, struct slot *slot, struct ci_op *op)
{
    readiness->base.pending++;
    op->pending = WAITING;
    op->next = slot->ops;
    slot->ops = op;
}

static void unlink_op(struct readiness *readiness, struct slot *slot, struct ci_op *op)
{
    struct ci_op **at = &slot->ops;
    while (*at != op)
        at = &(*at)->next;
    *at = op->next;
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

static void end_all(struct readiness *readiness, struct slot *slot, int error)
{
    while (slot->ops) {
        slot->ops->result = error;
        end_op(readiness, &slot->ops);
    }
}

/* Completes the descriptor's operations in `ended`. If a `done` closes or forgets the same
 * descriptor, that completes the rest. */
static void complete_ended(struct readiness *readiness, coir_fd fd)
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

/* Resets a slot that was used in another way before. */
static void claim(struct slot *slot, enum slot_use use)
{
    if (ci_likely(slot->use == use))
        return;
    slot->use = (uint8_t)use;
    slot->registered = false;
    slot->generation++;
    slot->ready = COIR_READ | COIR_WRITE; /* unknown: worth an attempt */
}

/* A listener is closed by one worker's driver; the others notice when its number is used by another
 * listener. */
static void claim_listener(struct slot *slot, const struct ci_op *op)
{
    if (ci_likely(slot->use == LISTENER && slot->generation == (uint32_t)op->len))
        return;
    slot->use = UNUSED;
    slot->generation = (uint32_t)op->len - 1; /* claim adds one */
}

static int register_ours(struct readiness *readiness, struct slot *slot, coir_fd fd)
{
    struct ci_selector *selector = readiness->selector;
    enum ci_trigger trigger = slot->use == LISTENER ? CI_EXCLUSIVE : CI_EDGE;
    unsigned events = slot->use == LISTENER ? COIR_READ : COIR_READ | COIR_WRITE;
    ci_check(!slot->registered, "readiness.c 1");
    int rc = selector->kind->add(selector, fd, slot->generation, events, trigger);
    if (rc == -EEXIST) { /* left by a wait of a program's descriptor whose file is still open */
        selector->kind->remove(selector, fd);
        rc = selector->kind->add(selector, fd, slot->generation, events, trigger);
    }
    slot->registered = rc == 0;
    return rc;
}

/* Some selectors report an edge only if it is armed again. */
static void wait_for(struct readiness *readiness, const struct slot *slot, const struct ci_op *op)
{
    struct ci_selector *selector = readiness->selector;
    if (selector->kind->rearm && slot->use != FOREIGN && slot->use != WATCHED)
        selector->kind->rearm(selector, op->fd, wanted_by(op));
}

/* A call that took exactly what there was leaves its bit set; a poll has to report what holds. */
static void look_again(struct slot *slot, const struct ci_op *op)
{
    struct pollfd ask = {.fd = op->fd, .events = (short)ci_events_to_poll(op->events)};
    if (slot->ready & ends || ci_sys_poll(&ask, 1, 0) < 0)
        return;
    if (!(ask.revents & (POLLIN | POLLHUP | POLLERR)))
        slot->ready &= (uint8_t) ~(op->events & COIR_READ);
    if (!(ask.revents & (POLLOUT | POLLHUP | POLLERR)))
        slot->ready &= (uint8_t) ~(op->events & COIR_WRITE);
}

static bool start_ours(struct readiness *readiness, struct slot *slot, struct ci_op *op)
{
    enum slot_use use = op->kind == CI_OP_ACCEPT ? LISTENER : OURS;
    if (ci_unlikely(slot->ops && slot->use != use))
        return ci_op_complete(op, -EBUSY);
    if (use == LISTENER)
        claim_listener(slot, op);
    claim(slot, use);
    if (op->kind == CI_OP_POLL && slot->registered && slot->ready & wanted_by(op))
        look_again(slot, op);
    if (op->kind == CI_OP_CONNECT) {
        int rc = ci_sys_connect(op->fd, op->address, (socklen_t)op->count);
        if (rc != -EINPROGRESS)
            return ci_op_complete(op, rc);
        slot->ready = 0;
    } else if (op->kind == CI_OP_POLL && !slot->registered) {
        slot->ready = 0; /* nothing is known yet: the registration reports what holds */
    } else if (slot->ready & wanted_by(op) && attempt(slot, op)) {
        return true;
    }
    int rc = slot->registered ? 0 : register_ours(readiness, slot, op->fd);
    if (rc < 0)
        return ci_op_complete(op, rc);
    wait_for(readiness, slot, op);
    if (op->no_wait) /* registered all the same, so that the next attempt finds what has come */
        return ci_op_complete(op, -EAGAIN);
    park(readiness, slot, op);
    return false;
}

static unsigned interest(const struct slot *slot)
{
    unsigned events = 0;
    for (const struct ci_op *op = slot->ops; op; op = op->next)
        events |= op->events;
    return events;
}

/* Registers a foreign or watched descriptor, again, for the events that its operations wait for. */
static int register_foreign(struct readiness *readiness, struct slot *slot, coir_fd fd)
{
    struct ci_selector *selector = readiness->selector;
    enum ci_trigger trigger = slot->use == WATCHED ? CI_LEVEL : CI_ONE_SHOT;
    int rc = slot->registered
                 ? selector->kind->modify(selector, fd, slot->generation, interest(slot), trigger)
                 : -ENOENT;
    if (rc == -ENOENT) {
        rc = selector->kind->add(selector, fd, slot->generation, interest(slot), trigger);
        if (rc == -EEXIST)
            rc = selector->kind->modify(selector, fd, slot->generation, interest(slot), trigger);
    }
    slot->registered = rc == 0;
    return rc;
}

static bool start_foreign(struct readiness *readiness, struct slot *slot, struct ci_op *op)
{
    enum slot_use use = op->kind == CI_OP_WATCH ? WATCHED : FOREIGN;
    if (slot->ops && (slot->use != use || interest(slot) & op->events || use == WATCHED))
        return ci_op_complete(op, -EBUSY);
    claim(slot, use);
    slot->generation++; /* events of an earlier wait may still be in the batch being dispatched */
    park(readiness, slot, op);
    ci_check(slot->use != WATCHED || !op->next, "readiness.c 3");
    int rc = register_foreign(readiness, slot, op->fd);
    if (rc == 0)
        return false;
    unlink_op(readiness, slot, op);
    if (rc == -EPERM && op->kind == CI_OP_FOREIGN)
        return ci_op_complete(op, op->events); /* a file that is always ready */
    return ci_op_complete(op, rc);
}

static bool start(struct ci_driver *driver, struct ci_op *op)
{
    struct readiness *readiness = self(driver);
    if (ci_unlikely(op->fd < 0))
        return ci_op_complete(op, -EBADF);
    if (ci_unlikely(op->kind > CI_OP_WATCH))
        return ci_op_complete(op, -EOPNOTSUPP);
    if (ci_count_trim(op))
        return true;
    int rc = reserve(readiness, op->fd);
    if (ci_unlikely(rc < 0))
        return ci_op_complete(op, rc);
    struct slot *slot = &readiness->slots[op->fd];
    if (op->kind >= CI_OP_FOREIGN)
        return start_foreign(readiness, slot, op);
    return start_ours(readiness, slot, op);
}

static bool cancel(struct ci_driver *driver, struct ci_op *op)
{
    struct readiness *readiness = self(driver);
    struct slot *slot = &readiness->slots[op->fd];
    if (op->pending == ENDED)
        return false;
    unlink_op(readiness, slot, op);
    op->result = -ECANCELED;
    if (op->kind == CI_OP_WATCH) {
        readiness->selector->kind->remove(readiness->selector, op->fd);
        slot->registered = false;
    }
    return true;
}

/* Completes the operations that the event makes possible. */
static void dispatch(struct readiness *readiness, const struct ci_ready *ready)
{
    if ((size_t)ready->fd >= readiness->slot_count)
        return;
    struct slot *slot = &readiness->slots[ready->fd];
    if (slot->generation != ready->generation)
        return;
    if (slot->use == FOREIGN || slot->use == WATCHED)
        slot->ready = 0;
    slot->ready |= (uint8_t)ready->events;
    if (slot->use == WATCHED) { /* it stays in the list */
        struct ci_op *watch = slot->ops;
        if (watch && (watch->result = ci_op_events(watch, slot->ready)))
            watch->done(watch);
        return;
    }
    for (struct ci_op **at = &slot->ops, *op; (op = *at);) {
        if (slot->ready & wanted_by(op) && attempt(slot, op)) {
            end_op(readiness, at);
        } else {
            wait_for(readiness, slot, op);
            at = &op->next;
        }
    }
    int rc = slot->use == FOREIGN && slot->ops ? register_foreign(readiness, slot, ready->fd) : 0;
    if (rc < 0)
        end_all(readiness, slot, rc);
    complete_ended(readiness, ready->fd);
}

static int wait_ops(struct ci_driver *driver, coir_time deadline)
{
    struct readiness *readiness = self(driver);
    struct ci_ready ready[READY_BATCH];
    ci_check(!readiness->ended, "readiness.c 2");
    coir_time timeout = deadline ? ci_time_timeout(deadline, ci_clock_now()) : 0;
    int count = readiness->selector->kind->wait(readiness->selector, ready, READY_BATCH, timeout);
    if (ci_unlikely(count < 0))
        return count == -EINTR
                   ? 0
                   : ci_kernel_note_failed_wait(&readiness->failed_waits, count, timeout);
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
    struct slot *slot = &readiness->slots[fd];
    if (slot->registered)
        readiness->selector->kind->remove(readiness->selector, fd);
    slot->registered = false;
    slot->use = UNUSED;
    slot->generation++;
    end_all(readiness, slot, -ECANCELED);
    complete_ended(readiness, fd);
}

static void close_fd(struct ci_driver *driver, coir_fd fd)
{
    struct readiness *readiness = self(driver);
    if ((size_t)fd < readiness->slot_count && !readiness->selector->kind->keeps)
        readiness->slots[fd].registered = false; /* the close removes the registration */
    forget(driver, fd);
    ci_sys_close(fd);
}

static void free_driver(struct ci_driver *driver)
{
    struct readiness *readiness = self(driver);
    ci_selector_free(readiness->selector);
    ci_free(readiness->allocator, readiness->slots, readiness->slot_count * sizeof(struct slot));
    ci_free(readiness->allocator, readiness, sizeof *readiness);
}

static const struct ci_driver_kind readiness_kind = {
    .name = "readiness",
    .start = start,
    .cancel = cancel,
    .wait = wait_ops,
    .wake = wake,
    .descriptor = descriptor,
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
    *readiness = (struct readiness){
        .base.kind = &readiness_kind, .selector = selector, .allocator = allocator};
    readiness->ended_tail = &readiness->ended;
    *ret_driver = &readiness->base;
    return 0;
}
