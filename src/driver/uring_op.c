/* Operations on io_uring: how they begin, what is read ahead, how they end. The rules are in
 * uring.h. */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/check.h"
#include "driver/count.h"
#include "driver/kernel.h"
#include "driver/uring.h"
#include "sys/call.h"

int ci_uring_reserve(struct ci_uring *uring, coir_fd fd)
{
    if (ci_likely((size_t)fd < uring->slot_count))
        return 0;
    return ci_kernel_reserve(uring->allocator, (void **)&uring->slots, &uring->slot_count,
                             sizeof(struct ci_uring_slot), fd);
}

static bool fail(struct ci_op *op, int error)
{
    op->result = error;
    return true;
}

static bool reads(const struct ci_op *op)
{
    return op->kind == CI_OP_READ || op->kind == CI_OP_READV;
}

static bool on_file(const struct ci_op *op)
{
    return op->kind >= CI_OP_READ_AT;
}

static bool is_foreign(const struct ci_op *op)
{
    return op->kind == CI_OP_FOREIGN || op->kind == CI_OP_WATCH;
}

/* ---- entries ---- */

struct io_uring_sqe *ci_uring_place(struct ci_uring *uring)
{
    struct io_uring_sqe *sqe = uring->open ? ci_ring_entry(&uring->ring) : NULL;
    for (int tries = 0; ci_unlikely(!sqe) && uring->open && tries < 16; tries++) {
        ci_ring_submit(&uring->ring);
        ci_uring_note_submitted(uring);
        if (tries > 0 && !uring->reaping) {
            /* completions that nobody has taken may be in the way */
            ci_uring_enter(uring, false, 0);
            ci_uring_reap(uring);
        }
        sqe = ci_ring_entry(&uring->ring);
    }
    return sqe;
}

uint64_t ci_uring_name(const struct ci_uring *uring, uint32_t index)
{
    return (uint64_t)uring->entries[index].generation << 32 | index;
}

static bool add_entries(struct ci_uring *uring)
{
    size_t from = uring->entry_count ? uring->entry_count : 1;
    if (ci_grow(uring->allocator, (void **)&uring->entries, &uring->entry_count,
                sizeof(struct ci_uring_entry), from + 1) < 0)
        return false;
    for (size_t i = uring->entry_count; i-- > from;) {
        uring->entries[i].fd = (coir_fd)uring->free_entry;
        uring->free_entry = (uint32_t)i;
    }
    return true;
}

/* A place with an entry of its own, whose index is returned; 0: neither. */
static uint32_t ask(struct ci_uring *uring, enum ci_uring_use use, struct ci_op *op, coir_fd fd,
                    uint8_t opcode, struct io_uring_sqe **ret_sqe)
{
    struct io_uring_sqe *sqe = ci_uring_place(uring);
    if (ci_unlikely(!sqe))
        return 0;
    if (ci_unlikely(!uring->free_entry) && !add_entries(uring)) {
        sqe->opcode = IORING_OP_NOP;
        sqe->flags = IOSQE_CQE_SKIP_SUCCESS;
        return 0;
    }
    uint32_t index = uring->free_entry;
    struct ci_uring_entry *entry = &uring->entries[index];
    uring->free_entry = (uint32_t)entry->fd;
    uring->used++;
    entry->op = op;
    entry->fd = fd;
    entry->use = use & 0x7f;
    entry->asked_to_end = false;
    entry->generation++;
    sqe->opcode = opcode;
    sqe->fd = fd;
    sqe->user_data = ci_uring_name(uring, index);
    *ret_sqe = sqe;
    return index;
}

void ci_uring_free_entry(struct ci_uring *uring, uint32_t index)
{
    uring->entries[index].use = FREE;
    uring->entries[index].fd = (coir_fd)uring->free_entry;
    uring->free_entry = index;
    uring->used--;
}

static const uint64_t cancel_of = (uint64_t)1 << 63; /* beside the name of what it is to end */

/* True: the kernel still has what the name stands for. */
static bool is_in_use(const struct ci_uring *uring, uint64_t name)
{
    uint32_t index = (uint32_t)name;
    return index && index < uring->entry_count && ci_uring_name(uring, index) == name &&
           uring->entries[index].use != FREE;
}

bool ci_uring_ask_to_end(struct ci_uring *uring, uint32_t index)
{
    uring->entries[index].asked_to_end = true;
    /* the entry may be another's once there is a place */
    uint64_t name = ci_uring_name(uring, index);
    struct io_uring_sqe *sqe = ci_uring_place(uring);
    if (ci_unlikely(!sqe))
        return false;
    sqe->opcode = IORING_OP_ASYNC_CANCEL;
    sqe->fd = -1;
    sqe->flags = IOSQE_CQE_SKIP_SUCCESS;
    sqe->addr = name;
    sqe->user_data = cancel_of | name;
    return true;
}

/* The kernel has refused a cancel: it was about to try the request again (ENOENT), or a thread of
 * its own was (EALREADY), and the request may then wait on. It is asked again, but not about a
 * file: what that waits for comes by itself. */
static void on_refused_cancel(struct ci_uring *uring, uint64_t name)
{
    if (!is_in_use(uring, name))
        return;
    const struct ci_uring_entry *entry = &uring->entries[(uint32_t)name];
    if (entry->use != OP || !entry->op || !on_file(entry->op))
        ci_uring_ask_to_end(uring, (uint32_t)name);
}

void ci_uring_let_go(struct ci_uring *uring, uint32_t index)
{
    uring->entries[index].op = NULL;
    /* where that fails its entry stays until the event comes: nobody waits for it */
    ci_uring_ask_to_end(uring, index);
}

/* ---- operations ---- */

void ci_uring_link(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op,
                   uint8_t state)
{
    uring->base.pending++;
    op->pending = state;
    op->next = slot->ops;
    slot->ops = op;
}

void ci_uring_unlink(struct ci_uring_slot *slot, struct ci_op *op)
{
    struct ci_op **at = &slot->ops;
    while (*at != op)
        at = &(*at)->next;
    *at = op->next;
}

void ci_uring_end(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op,
                  uint8_t state, int32_t result)
{
    if (slot) /* an operation on a file is in no list */
        ci_uring_unlink(slot, op);
    op->pending = state;
    op->result = result;
    op->next = NULL;
    *uring->ended_tail = op;
    uring->ended_tail = &op->next;
}

/* Makes an operation the kernel's. */
static bool hand_over(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op,
                      uint8_t opcode, struct io_uring_sqe **ret_sqe)
{
    uint32_t index = ask(uring, OP, op, op->fd, opcode, ret_sqe);
    if (ci_unlikely(!index))
        return false;
    ci_uring_link(uring, slot, op, IN_KERNEL);
    op->result = (int32_t)index;
    return true;
}

/* ---- submitting ---- */

static ssize_t receive_now(const struct ci_op *op)
{
    return op->kind == CI_OP_READ ? ci_sys_recv(op->fd, op->buf, op->len)
                                  : ci_sys_recvv(op->fd, op->iov, op->count);
}

static bool arm_receive(struct ci_uring *uring, struct ci_uring_slot *slot, coir_fd fd)
{
    struct io_uring_sqe *sqe;
    slot->receive = ask(uring, RECEIVE, NULL, fd, IORING_OP_RECV, &sqe);
    if (ci_unlikely(!slot->receive))
        return false;
    slot->stopping = false;
    sqe->ioprio = IORING_RECV_MULTISHOT;
    sqe->flags = IOSQE_BUFFER_SELECT;
    return true;
}

static bool hand_over_message(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op,
                              uint8_t opcode, struct msghdr *message)
{
    struct io_uring_sqe *sqe;
    if (!hand_over(uring, slot, op, opcode, &sqe))
        return false;
    sqe->addr = (uintptr_t)message;
    sqe->len = 1;
    sqe->msg_flags = MSG_NOSIGNAL;
    return true;
}

static bool hand_over_vector(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op,
                             uint8_t opcode)
{
    struct io_uring_sqe *sqe;
    if (!hand_over(uring, slot, op, opcode, &sqe))
        return false;
    struct msghdr *header = &uring->headers[sqe - uring->ring.entries];
    *header = (struct msghdr){.msg_iov = (struct iovec *)(uintptr_t)op->iov,
                              .msg_iovlen = (size_t)op->count};
    sqe->addr = (uintptr_t)header;
    sqe->len = 1;
    sqe->msg_flags = MSG_NOSIGNAL;
    return true;
}

static int32_t size_of(const struct ci_op *op)
{
    return op->len < INT32_MAX ? (int32_t)op->len : INT32_MAX;
}

static void put_bytes(struct io_uring_sqe *sqe, const struct ci_op *op)
{
    sqe->addr = (uintptr_t)op->buf;
    sqe->len = (uint32_t)size_of(op);
    sqe->msg_flags = MSG_NOSIGNAL;
}

static bool hand_over_read(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op)
{
    struct io_uring_sqe *sqe;
    if (!hand_over(uring, slot, op, IORING_OP_RECV, &sqe))
        return false;
    put_bytes(sqe, op);
    return true;
}

/* Appends the entry of a lazy write to those that end with the next enter. */
static void append_lazy(struct ci_uring *uring, uint32_t index)
{
    struct ci_uring_entry *entry = &uring->entries[index];
    entry->use = LAZY;
    entry->fd = 0;
    if (uring->lazy_first)
        uring->entries[uring->lazy_last].fd = (coir_fd)index;
    else
        uring->lazy_first = index;
    uring->lazy_last = index;
    uring->lazy++;
}

/* Whether a write may be delayed, by uring.h 7. Before Linux 6.1 a failed send did not say how much
 * it had sent. */
static bool may_be_lazy(const struct ci_uring *uring, const struct ci_uring_slot *slot)
{
    return uring->ring.deferred && slot->receive && !slot->stopping && !ci_uring_readable(slot);
}

static bool hand_over_write(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op)
{
    struct io_uring_sqe *sqe;
    op->lazy = op->lazy && may_be_lazy(uring, slot);
    if (!hand_over(uring, slot, op, IORING_OP_SEND, &sqe))
        return false;
    put_bytes(sqe, op);
    if (op->lazy) {
        sqe->msg_flags |= MSG_DONTWAIT | MSG_WAITALL;
        sqe->flags = IOSQE_CQE_SKIP_SUCCESS;
        append_lazy(uring, (uint32_t)op->result);
    }
    return true;
}

bool ci_uring_hand_over_poll(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op)
{
    struct io_uring_sqe *sqe;
    if (!hand_over(uring, slot, op, IORING_OP_POLL_ADD, &sqe))
        return false;
    sqe->poll32_events = (op->events & COIR_READ && !slot->receive ? POLLIN | POLLRDHUP : 0u) |
                         (op->events & COIR_WRITE ? POLLOUT : 0u) |
                         (op->events & CI_EVENT_END ? POLLRDHUP : 0u);
    return true;
}

/* A reader, or a poll for reading, where nothing is there: by the stream's own receive, or without
 * the driver's buffers. */
static bool wait_for_data(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op,
                          bool own_memory)
{
    if (!slot->receive && (own_memory || slot->floods || !arm_receive(uring, slot, op->fd))) {
        if (op->kind == CI_OP_POLL)
            return ci_uring_hand_over_poll(uring, slot, op);
        return op->kind == CI_OP_READ ? hand_over_read(uring, slot, op)
                                      : hand_over_vector(uring, slot, op, IORING_OP_RECVMSG);
    }
    if (op->kind == CI_OP_POLL && op->events & COIR_WRITE)
        return ci_uring_hand_over_poll(uring, slot, op);
    ci_uring_link(uring, slot, op, WAITS);
    op->result = 0;
    return true;
}

static bool start_read(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op)
{
    if (ci_uring_readable(slot)) {
        op->result = ci_uring_take(uring, slot, op);
        return true;
    }
    if (!slot->receive && (slot->floods || op->no_wait)) {
        ssize_t rc = receive_now(op);
        if (rc != -EAGAIN && rc != -EINTR) {
            op->result = (int32_t)rc;
            return true;
        }
        slot->floods = false;
        if (op->no_wait)
            arm_receive(uring, slot, op->fd); /* a later try is to see what has come meanwhile */
    }
    if (op->no_wait)
        return fail(op, -EAGAIN);
    return !wait_for_data(uring, slot, op, false) && fail(op, -ENOMEM);
}

static int32_t readable_events(const struct ci_uring_slot *slot)
{
    return slot->error ? COIR_READ | COIR_HANGUP | COIR_EVENT_ERROR : COIR_READ;
}

static bool start_poll(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op)
{
    if (op->events & COIR_READ && ci_uring_readable(slot)) {
        op->result = readable_events(slot);
        return true;
    }
    bool ok = op->events & COIR_READ ? wait_for_data(uring, slot, op, false)
                                     : ci_uring_hand_over_poll(uring, slot, op);
    return !ok && fail(op, -ENOMEM);
}

static bool start_foreign(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op)
{
    for (const struct ci_op *other = slot->ops; other; other = other->next)
        if (op->kind == CI_OP_WATCH || other->kind != CI_OP_FOREIGN || other->events & op->events)
            return fail(op, -EBUSY);
    return !ci_uring_hand_over_poll(uring, slot, op) && fail(op, -ENOMEM);
}

static bool start_now(struct ci_op *op)
{
    switch ((enum ci_op_kind)op->kind) {
    case CI_OP_WRITE: return fail(op, (int)ci_sys_send(op->fd, op->data, op->len));
    case CI_OP_WRITEV: return fail(op, (int)ci_sys_sendv(op->fd, op->iov, op->count));
    case CI_OP_RECEIVE: return fail(op, (int)ci_sys_recvmsg(op->fd, op->message));
    case CI_OP_SEND: return fail(op, (int)ci_sys_sendmsg(op->fd, op->message));
    case CI_OP_ACCEPT: return fail(op, ci_sys_accept(op->fd));
    default: return fail(op, -EINVAL);
    }
}

static bool start_ours(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op)
{
    struct io_uring_sqe *sqe;
    bool ok = false;
    switch ((enum ci_op_kind)op->kind) {
    case CI_OP_READ:
    case CI_OP_READV: return start_read(uring, slot, op);
    case CI_OP_POLL: return start_poll(uring, slot, op);
    default: break;
    }
    if (op->no_wait)
        return start_now(op);
    switch ((enum ci_op_kind)op->kind) {
    case CI_OP_WRITE: ok = hand_over_write(uring, slot, op); break;
    case CI_OP_WRITEV: ok = hand_over_vector(uring, slot, op, IORING_OP_SENDMSG); break;
    case CI_OP_RECEIVE:
        ok = hand_over_message(uring, slot, op, IORING_OP_RECVMSG, op->message);
        break;
    case CI_OP_SEND: ok = hand_over_message(uring, slot, op, IORING_OP_SENDMSG, op->message); break;
    case CI_OP_ACCEPT:
        if ((ok = hand_over(uring, slot, op, IORING_OP_ACCEPT, &sqe)))
            sqe->accept_flags = SOCK_NONBLOCK | SOCK_CLOEXEC;
        break;
    case CI_OP_CONNECT:
        if ((ok = hand_over(uring, slot, op, IORING_OP_CONNECT, &sqe))) {
            sqe->addr = (uintptr_t)op->address;
            sqe->off = (uint32_t)op->count;
        }
        break;
    default: break;
    }
    return !ok && fail(op, -ENOMEM);
}

static bool start_on_file(struct ci_uring *uring, struct ci_op *op)
{
    static const uint8_t opcodes[] = {IORING_OP_READ, IORING_OP_WRITE, IORING_OP_FSYNC};
    struct io_uring_sqe *sqe;
    uint32_t index = ask(uring, OP, op, op->fd, opcodes[op->kind - CI_OP_READ_AT], &sqe);
    if (!index)
        return fail(op, -ENOMEM);
    if (op->kind != CI_OP_SYNC) {
        sqe->addr = (uintptr_t)op->buf;
        sqe->len = (uint32_t)op->count;
        sqe->off = (uint64_t)op->offset;
    }
    uring->base.pending++;
    op->pending = IN_KERNEL;
    op->result = (int32_t)index;
    return false;
}

bool ci_uring_start(struct ci_driver *driver, struct ci_op *op)
{
    struct ci_uring *uring = ci_uring_of(driver);
    if (ci_unlikely(op->fd < 0))
        return fail(op, -EBADF);
    if (on_file(op))
        return start_on_file(uring, op);
    if (ci_count_trim(op))
        return true;
    int rc = ci_uring_reserve(uring, op->fd);
    if (ci_unlikely(rc < 0))
        return fail(op, rc);
    struct ci_uring_slot *slot = &uring->slots[op->fd];
    if (is_foreign(op))
        return start_foreign(uring, slot, op);
    if (ci_unlikely(slot->ops && is_foreign(slot->ops)))
        return fail(op, -EBUSY);
    return start_ours(uring, slot, op);
}

static void withdraw(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op)
{
    ci_uring_unlink(slot, op);
    uring->base.pending--;
    op->pending = IDLE;
    op->result = -ECANCELED;
}

/* A watch that has something to say says it no more. */
static void take_out(struct ci_uring *uring, struct ci_op *op)
{
    struct ci_op **at = &uring->ended;
    while (*at != op)
        at = &(*at)->next;
    if (!(*at = op->next))
        uring->ended_tail = at;
    uring->base.pending--;
    op->pending = IDLE;
    op->result = -ECANCELED;
}

bool ci_uring_cancel(struct ci_driver *driver, struct ci_op *op)
{
    struct ci_uring *uring = ci_uring_of(driver);
    ci_check(op->pending);
    if (op->pending >= READY && op->kind != CI_OP_WATCH)
        return false;
    if (op->pending >= READY) {
        take_out(uring, op);
        return true;
    }
    if (on_file(op)) {
        ci_uring_ask_to_end(uring, (uint32_t)op->result);
        return false;
    }
    struct ci_uring_slot *slot = &uring->slots[op->fd];
    if (uring->watching == op)
        uring->watching = NULL;
    if (op->pending == WAITS) {
        withdraw(uring, slot, op);
        return true;
    }
    if (ci_uring_polls(op)) {
        ci_uring_let_go(uring, (uint32_t)op->result);
        withdraw(uring, slot, op);
        return true;
    }
    if (ci_uring_is_lazy(uring, op))
        ci_uring_hurry(uring, op);
    else
        ci_uring_ask_to_end(uring, (uint32_t)op->result);
    return false;
}

/* ---- completions ---- */

/* The receive is over and brought nothing: what waited for it is asked for in another way. A poll
 * of both directions is in the kernel for the other one. */
static void ask_again(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op,
                      bool own_memory)
{
    if (op->pending == IN_KERNEL)
        ci_uring_let_go(uring, (uint32_t)op->result);
    ci_uring_unlink(slot, op);
    uring->base.pending--;
    if (wait_for_data(uring, slot, op, own_memory))
        return;
    ci_uring_link(uring, slot, op, WAITS);
    ci_uring_end(uring, slot, op, ENDED, -ENOMEM);
}

/* Ends those that wait for what the receive has brought; or, where it is over and brought nothing,
 * asks otherwise. */
static void tell_readers(struct ci_uring *uring, struct ci_uring_slot *slot, bool own_memory)
{
    for (struct ci_op *op = slot->ops, *next; op; op = next) {
        next = op->next;
        if (!reads(op) && !(op->kind == CI_OP_POLL && op->events & COIR_READ))
            continue;
        if (ci_uring_readable(slot)) {
            if (op->pending == IN_KERNEL && ci_uring_polls(op))
                ci_uring_let_go(uring, (uint32_t)op->result);
            if (ci_uring_polls(op))
                ci_uring_end(uring, slot, op, ENDED, readable_events(slot));
            else if (op->pending == WAITS)
                ci_uring_end(uring, slot, op, READY, 0);
        } else if (!slot->receive && (op->pending == WAITS || ci_uring_polls(op))) {
            ask_again(uring, slot, op, own_memory);
        }
    }
}

static void stop_receive(struct ci_uring *uring, struct ci_uring_slot *slot)
{
    slot->stopping = ci_uring_ask_to_end(uring, slot->receive);
    slot->floods = true;
}

static void on_receive(struct ci_uring *uring, uint32_t index, int32_t result, uint32_t flags)
{
    struct ci_uring_entry *entry = &uring->entries[index];
    uint16_t id =
        flags & IORING_CQE_F_BUFFER ? (uint16_t)((flags >> IORING_CQE_BUFFER_SHIFT) + 1) : 0;
    bool over = !(flags & IORING_CQE_F_MORE);
    coir_fd fd = entry->fd;
    if (over)
        ci_uring_free_entry(uring, index);
    if (fd < 0 || result <= 0) {
        if (id)
            ci_uring_give_buffer(uring, id);
        if (fd < 0)
            return;
    }
    struct ci_uring_slot *slot = &uring->slots[fd];
    if (over)
        slot->receive = 0;
    if (result > 0) {
        ci_uring_put_ahead(uring, slot, id, (uint16_t)result);
    } else if (result == 0) {
        slot->ended = true;
    } else if (result == -ENOBUFS) {
        ci_uring_give_more_buffers(uring);
    } else if (result != -ECANCELED && result != -EINTR) {
        slot->error = (uint8_t)-result;
    }
    tell_readers(uring, slot, result == -ENOBUFS && uring->given == BUFFERS);
    if (slot->ahead >= AHEAD_MOST && slot->receive && !slot->stopping)
        stop_receive(uring, slot);
}

static int32_t events_of(const struct ci_op *op, int32_t mask)
{
    if (mask < 0)
        return mask;
    int32_t events = 0;
    if (op->events & COIR_READ && mask & (POLLIN | POLLRDHUP))
        events |= COIR_READ;
    if (op->events & COIR_WRITE && mask & POLLOUT)
        events |= COIR_WRITE;
    if (op->events & CI_EVENT_END && mask & POLLRDHUP)
        events |= CI_EVENT_END;
    if (mask & POLLHUP)
        events |= COIR_HANGUP;
    if (mask & POLLERR)
        events |= COIR_EVENT_ERROR;
    return events;
}

/* The kernel tells whoever polls that the peer will send no more, also those who did not ask. They
 * are asked about again, but for changes alone. */
static void poll_on(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op)
{
    struct io_uring_sqe *sqe;
    ci_uring_unlink(slot, op);
    uring->base.pending--;
    if (hand_over(uring, slot, op, IORING_OP_POLL_ADD, &sqe)) {
        sqe->len = IORING_POLL_ADD_MULTI;
        sqe->poll32_events = op->events & COIR_WRITE ? POLLOUT : 0u;
        return;
    }
    ci_uring_link(uring, slot, op, IN_KERNEL);
    ci_uring_end(uring, slot, op, ENDED, -ENOMEM);
}

/* The kernel hands what it has polled for in vain to a thread of its own. There O_NONBLOCK counts,
 * and a cancel is a signal. */
static bool refused_by_thread(int32_t result)
{
    return result == -EAGAIN || result == -EINTR;
}

/* An operation begins once more. */
static void start_again(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op)
{
    ci_uring_unlink(slot, op);
    uring->base.pending--;
    if (start_ours(uring, slot, op)) {
        int32_t result = op->result;
        ci_uring_link(uring, slot, op, IN_KERNEL);
        ci_uring_end(uring, slot, op, ENDED, result);
    }
}

static void on_op(struct ci_uring *uring, uint32_t index, int32_t result, bool more)
{
    struct ci_op *op = uring->entries[index].op;
    bool asked_to_end = uring->entries[index].asked_to_end;
    if (!more)
        ci_uring_free_entry(uring, index);
    if (!op)
        return;
    struct ci_uring_slot *slot = on_file(op) ? NULL : &uring->slots[op->fd];
    if (ci_uring_polls(op)) {
        result = events_of(op, result);
        if (result == 0 && !more)
            poll_on(uring, slot, op);
        if (result == 0)
            return;
        if (more)
            ci_uring_let_go(uring, index);
    }
    if (ci_unlikely(refused_by_thread(result)) && asked_to_end)
        result = -ECANCELED;
    if (ci_unlikely(refused_by_thread(result)) && slot)
        start_again(uring, slot, op);
    else
        ci_uring_end(uring, slot, op, ENDED, result);
}

/* A lazy write was not carried out in full. Its entry is freed in its turn, by end_lazy. */
static void on_lazy(struct ci_uring *uring, uint32_t index, int32_t result)
{
    struct ci_op *op = uring->entries[index].op;
    struct ci_uring_slot *slot = &uring->slots[op->fd];
    uring->entries[index].op = NULL;
    if (result == -EAGAIN && op->lazy) { /* it has to wait */
        op->lazy = false;
        ci_uring_unlink(slot, op);
        uring->base.pending--;
        if (hand_over_write(uring, slot, op))
            return;
        ci_uring_link(uring, slot, op, IN_KERNEL);
        result = -ENOMEM;
    }
    ci_uring_end(uring, slot, op, ENDED, result == -EAGAIN ? -ECANCELED : result);
}

/* Completes the lazy writes that the kernel has carried out without a word. */
static void end_lazy(struct ci_uring *uring)
{
    while (uring->lazy_submitted && !ci_ring_overflowed(&uring->ring)) {
        uint32_t index = uring->lazy_first;
        struct ci_op *op = uring->entries[index].op;
        if (index == uring->lazy_submitted)
            uring->lazy_submitted = 0;
        uring->lazy_first = (uint32_t)uring->entries[index].fd;
        uring->lazy--;
        ci_uring_free_entry(uring, index);
        if (op)
            ci_uring_end(uring, &uring->slots[op->fd], op, ENDED, size_of(op));
    }
    if (!uring->lazy_first)
        uring->lazy_last = 0;
    uring->hurry = uring->lazy_first; /* 7: these have been looked past */
}

bool ci_uring_arm_wakeup(struct ci_uring *uring)
{
    struct io_uring_sqe *sqe;
    uring->wakes = ask(uring, WAKE_UP, NULL, uring->wakeup, IORING_OP_POLL_ADD, &sqe);
    if (!uring->wakes)
        return false;
    sqe->len = IORING_POLL_ADD_MULTI;
    sqe->poll32_events = POLLIN;
    return true;
}

static void on_wakeup(struct ci_uring *uring, uint32_t index, uint32_t flags)
{
    if (flags & IORING_CQE_F_MORE)
        return;
    bool wanted = uring->entries[index].fd >= 0;
    uring->wakes = false;
    ci_uring_free_entry(uring, index);
    if (wanted)
        ci_uring_arm_wakeup(uring);
}

void ci_uring_reap(struct ci_uring *uring)
{
    const struct io_uring_cqe *completion;
    uring->reaping = true;
    while ((completion = ci_ring_completion(&uring->ring))) {
        uint64_t name = completion->user_data;
        int32_t result = completion->res;
        uint32_t flags = completion->flags, index = (uint32_t)name;
        ci_ring_seen(&uring->ring);
        if (name & cancel_of)
            on_refused_cancel(uring, name & ~cancel_of);
        if (!name || name & cancel_of) /* nothing: a close that failed */
            continue;
        ci_check(is_in_use(uring, name));
        switch ((enum ci_uring_use)uring->entries[index].use) {
        case OP: on_op(uring, index, result, flags & IORING_CQE_F_MORE); break;
        case LAZY: on_lazy(uring, index, result); break;
        case RECEIVE: on_receive(uring, index, result, flags); break;
        case WAKE_UP: on_wakeup(uring, index, flags); break;
        case FREE: break;
        }
    }
    end_lazy(uring);
    uring->reaping = false;
}
