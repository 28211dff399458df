/* The driver over io_uring.
 *
 * 1. What the kernel has been asked for is an entry of a table; the kernel knows it by index and generation. An entry is free again
 *    when its last completion has been seen, and not before.
 * 2. An operation waits (for what its descriptor's receive brings), is the kernel's (its result is then the index of its entry), or has
 *    ended (it lies in the list of those, and `done` is called by the next wait). Completions are looked at in several places; `done`
 *    is called in wait, close and forget only.
 * 3. A stream's receive goes on by itself into buffers that the driver gave the kernel. What nobody has read yet is read ahead: it
 *    belongs to the descriptor, no cancel or timeout of a reader touches it, and it counts as readable. Beyond AHEAD_MOST buffers
 *    without a reader the receive is ended; then the reader's own memory is used until the stream has been drained.
 * 4. A receive that finds no buffer is replaced by one into the reader's memory: streams that nobody reads cannot stop the others.
 * 5. An operation whose memory the kernel has is never withdrawn, only asked to end; one that has no memory is let go at once, and its
 *    entry waits for the completion alone.
 * 6. Closing waits for the kernel to give back the memory of the descriptor's operations; where it has none, the end of the receive
 *    and the close are handed over together.
 */
#include "driver/uring.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/check.h"
#include "driver/kernel.h"
#include "sys/call.h"
#include "sys/clock.h"
#include "sys/ring.h"

enum { ENTRIES = 256, COMPLETIONS = 4096, BUFFERS = 1024, BUFFERS_FIRST = 64, BUFFER_SIZE = 4096, AHEAD_MOST = 2 };

/* struct ci_op.pending. Ready: something is there for the reader, who gets it when he is told. */
enum { IDLE, WAITS, IN_KERNEL, READY, ENDED };

enum entry_use { FREE, OP, RECEIVE, WAKE_UP };

struct entry {
    struct ci_op *op; /* NULL: let go */
    coir_fd fd;       /* of a receive; negative: let go. Free: the next free one */
    uint32_t generation : 24, use : 8;
};

/* Of a descriptor. Buffers are counted from 1. */
struct slot {
    struct ci_op *ops; /* those that wait or are the kernel's */
    uint32_t receive;  /* its entry; 0: none */
    uint16_t first, last, ahead;
    uint16_t taken; /* of the first buffer */
    uint8_t error;  /* of the receive, not told to anybody yet */
    bool ended : 1, stopping : 1, floods : 1;
};
_Static_assert(sizeof(struct slot) <= 24, "one for each descriptor");

struct held {
    uint16_t next, len;
};

struct uring {
    struct ci_driver base;
    struct ci_ring ring;
    bool open; /* there is a ring */
    struct ci_ring_buffers buffers;
    uint16_t given; /* buffers that have ever been given to the kernel: the first ones */
    struct held held[BUFFERS + 1];
    struct slot *slots; /* by descriptor */
    size_t slot_count;
    struct entry *entries; /* the first is nobody's */
    size_t entry_count;
    uint32_t free_entry, used;
    uint32_t lazy; /* writes in the ring, not handed over yet, that will have completed when they are, and wake nobody */
    struct ci_op *ended, **ended_tail;
    const struct ci_op *watching;   /* whose `done` runs */
    struct msghdr headers[ENTRIES]; /* by place in the ring: read by the kernel when it is entered */
    coir_fd wakeup;
    const coir_allocator *allocator;
};

static struct uring *self(struct ci_driver *driver)
{
    return ci_container_of(driver, struct uring, base);
}

static struct slot *slot_of(struct uring *uring, coir_fd fd)
{
    size_t index = (size_t)fd;
    if (ci_unlikely(index >= uring->slot_count) &&
        ci_grow(uring->allocator, (void **)&uring->slots, &uring->slot_count, sizeof(struct slot), index + 1) < 0)
        return NULL;
    return &uring->slots[index];
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

static bool polls(const struct ci_op *op)
{
    return op->kind == CI_OP_POLL || op->kind == CI_OP_FOREIGN || op->kind == CI_OP_WATCH;
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

static void reap(struct uring *uring);

/* A place in the ring; NULL when the kernel takes none just now. */
static struct io_uring_sqe *place(struct uring *uring)
{
    struct io_uring_sqe *sqe;
    for (int tries = 0; ci_unlikely(!uring->open || !(sqe = ci_ring_entry(&uring->ring))); tries++) {
        if (!uring->open || tries == 16)
            return NULL;
        ci_ring_submit(&uring->ring);
        if (tries > 0) { /* completions that nobody has taken may be in the way */
            ci_ring_enter(&uring->ring, 0, 0);
            reap(uring);
        }
    }
    return sqe;
}

static uint64_t name_of(const struct uring *uring, uint32_t index)
{
    return (uint64_t)uring->entries[index].generation << 32 | index;
}

/* A place in the ring with an entry of its own; 0 when memory is out. */
static uint32_t ask(struct uring *uring, enum entry_use use, struct ci_op *op, coir_fd fd, uint8_t opcode, struct io_uring_sqe **ret_sqe)
{
    if (ci_unlikely(!uring->free_entry)) {
        size_t from = uring->entry_count ? uring->entry_count : 1;
        if (ci_grow(uring->allocator, (void **)&uring->entries, &uring->entry_count, sizeof(struct entry), from + 1) < 0)
            return 0;
        for (size_t i = uring->entry_count; i-- > from;) {
            uring->entries[i].fd = (coir_fd)uring->free_entry;
            uring->free_entry = (uint32_t)i;
        }
    }
    struct io_uring_sqe *sqe = place(uring);
    if (ci_unlikely(!sqe))
        return 0;
    uint32_t index = uring->free_entry;
    struct entry *entry = &uring->entries[index];
    uring->free_entry = (uint32_t)entry->fd;
    uring->used++;
    entry->op = op;
    entry->fd = fd;
    entry->use = use;
    entry->generation++;
    sqe->opcode = opcode;
    sqe->fd = fd;
    sqe->user_data = name_of(uring, index);
    *ret_sqe = sqe;
    return index;
}

static void free_entry(struct uring *uring, uint32_t index)
{
    uring->entries[index].use = FREE;
    uring->entries[index].fd = (coir_fd)uring->free_entry;
    uring->free_entry = index;
    uring->used--;
}

/* Asks the kernel to end what an entry stands for. False: it takes nothing just now. */
static bool ask_to_end(struct uring *uring, uint32_t index)
{
    struct io_uring_sqe *sqe = place(uring);
    if (ci_unlikely(!sqe))
        return false;
    sqe->opcode = IORING_OP_ASYNC_CANCEL;
    sqe->fd = -1;
    sqe->flags = IOSQE_CQE_SKIP_SUCCESS;
    sqe->addr = name_of(uring, index);
    return true;
}

/* ---- operations ---- */

static void link_op(struct uring *uring, struct slot *slot, struct ci_op *op, uint8_t state)
{
    uring->base.pending++;
    op->pending = state;
    op->next = slot->ops;
    slot->ops = op;
}

static void unlink_op(struct slot *slot, struct ci_op *op)
{
    struct ci_op **at = &slot->ops;
    while (*at != op)
        at = &(*at)->next;
    *at = op->next;
}

static void end_op(struct uring *uring, struct slot *slot, struct ci_op *op, uint8_t state, int32_t result)
{
    if (slot) /* an operation on a file is in no list */
        unlink_op(slot, op);
    op->pending = state;
    op->result = result;
    op->next = NULL;
    *uring->ended_tail = op;
    uring->ended_tail = &op->next;
}

/* Makes an operation the kernel's. */
static bool hand_over(struct uring *uring, struct slot *slot, struct ci_op *op, uint8_t opcode, struct io_uring_sqe **ret_sqe)
{
    uint32_t index = ask(uring, OP, op, op->fd, opcode, ret_sqe);
    if (ci_unlikely(!index))
        return false;
    link_op(uring, slot, op, IN_KERNEL);
    op->result = (int32_t)index;
    return true;
}

/* ---- what is read ahead ---- */

static bool readable(const struct slot *slot)
{
    return slot->first || slot->ended || slot->error;
}

static void give_buffer(struct uring *uring, uint16_t id)
{
    ci_ring_buffer_give(&uring->buffers, (uint16_t)(id - 1));
}

static void give_more_buffers(struct uring *uring)
{
    uint16_t target = uring->given ? (uint16_t)(2 * uring->given) : BUFFERS_FIRST;
    while (uring->given < target && uring->given < BUFFERS)
        give_buffer(uring, ++uring->given);
}

static void drop_ahead(struct uring *uring, struct slot *slot)
{
    while (slot->first) {
        uint16_t id = slot->first;
        slot->first = uring->held[id].next;
        give_buffer(uring, id);
    }
    slot->last = slot->ahead = slot->taken = 0;
}

static void put_ahead(struct uring *uring, struct slot *slot, uint16_t id, uint16_t len)
{
    uring->held[id] = (struct held){0, len};
    if (slot->first)
        uring->held[slot->last].next = id;
    else
        slot->first = id;
    slot->last = id;
    slot->ahead++;
}

static size_t take_some(struct uring *uring, struct slot *slot, char *to, size_t len)
{
    size_t done = 0;
    while (slot->first && done < len) {
        uint16_t id = slot->first;
        const struct held *held = &uring->held[id];
        size_t n = (size_t)(held->len - slot->taken) < len - done ? (size_t)(held->len - slot->taken) : len - done;
        memcpy(to + done, ci_ring_buffer(&uring->buffers, (uint16_t)(id - 1)) + slot->taken, n);
        done += n;
        slot->taken = (uint16_t)(slot->taken + n);
        if (slot->taken < held->len)
            break;
        slot->first = held->next;
        slot->taken = 0;
        slot->ahead--;
        give_buffer(uring, id);
    }
    return done;
}

/* The result of a read where there is something. */
static int32_t take(struct uring *uring, struct slot *slot, const struct ci_op *op)
{
    if (slot->first) {
        size_t done = 0;
        if (op->kind == CI_OP_READ)
            done = take_some(uring, slot, op->buf, op->len);
        else
            for (int i = 0; i < op->count && slot->first; i++)
                done += take_some(uring, slot, op->iov[i].iov_base, op->iov[i].iov_len);
        return (int32_t)done;
    }
    int32_t result = -(int32_t)slot->error;
    slot->error = 0;
    return result;
}

static ssize_t receive_now(const struct ci_op *op)
{
    return op->kind == CI_OP_READ ? ci_sys_recv(op->fd, op->buf, op->len) : ci_sys_recvv(op->fd, op->iov, op->count);
}

static bool arm_receive(struct uring *uring, struct slot *slot, coir_fd fd)
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

static bool hand_over_message(struct uring *uring, struct slot *slot, struct ci_op *op, uint8_t opcode, struct msghdr *message)
{
    struct io_uring_sqe *sqe;
    if (!hand_over(uring, slot, op, opcode, &sqe))
        return false;
    sqe->addr = (uintptr_t)message;
    sqe->len = 1;
    sqe->msg_flags = MSG_NOSIGNAL;
    return true;
}

static bool hand_over_vector(struct uring *uring, struct slot *slot, struct ci_op *op, uint8_t opcode)
{
    struct io_uring_sqe *sqe;
    if (!hand_over(uring, slot, op, opcode, &sqe))
        return false;
    struct msghdr *header = &uring->headers[sqe - uring->ring.entries];
    *header = (struct msghdr){.msg_iov = (struct iovec *)(uintptr_t)op->iov, .msg_iovlen = (size_t)op->count};
    sqe->addr = (uintptr_t)header;
    sqe->len = 1;
    sqe->msg_flags = MSG_NOSIGNAL;
    return true;
}

static void put_bytes(struct io_uring_sqe *sqe, const struct ci_op *op)
{
    sqe->addr = (uintptr_t)op->buf;
    sqe->len = op->len < INT32_MAX ? (uint32_t)op->len : INT32_MAX;
    sqe->msg_flags = MSG_NOSIGNAL;
}

static bool hand_over_read(struct uring *uring, struct slot *slot, struct ci_op *op)
{
    struct io_uring_sqe *sqe;
    if (!hand_over(uring, slot, op, IORING_OP_RECV, &sqe))
        return false;
    put_bytes(sqe, op);
    return true;
}

/* A write. A lazy one completes as it is handed over, if only to say that it would have to wait. */
static bool hand_over_write(struct uring *uring, struct slot *slot, struct ci_op *op)
{
    struct io_uring_sqe *sqe;
    if (!hand_over(uring, slot, op, IORING_OP_SEND, &sqe))
        return false;
    put_bytes(sqe, op);
    if (op->lazy) {
        sqe->msg_flags |= MSG_DONTWAIT;
        uring->lazy++;
    }
    return true;
}

static bool hand_over_poll(struct uring *uring, struct slot *slot, struct ci_op *op)
{
    struct io_uring_sqe *sqe;
    if (!hand_over(uring, slot, op, IORING_OP_POLL_ADD, &sqe))
        return false;
    sqe->poll32_events = (op->events & COIR_READ && !slot->receive ? POLLIN | POLLRDHUP : 0u) | (op->events & COIR_WRITE ? POLLOUT : 0u);
    return true;
}

/* A reader, or a poll for reading, where nothing is there: by the stream's own receive, or without the driver's buffers. */
static bool wait_for_data(struct uring *uring, struct slot *slot, struct ci_op *op, bool own_memory)
{
    if (!slot->receive && (own_memory || slot->floods || !arm_receive(uring, slot, op->fd))) {
        if (op->kind == CI_OP_POLL)
            return hand_over_poll(uring, slot, op);
        return op->kind == CI_OP_READ ? hand_over_read(uring, slot, op) : hand_over_vector(uring, slot, op, IORING_OP_RECVMSG);
    }
    if (op->kind == CI_OP_POLL && op->events & COIR_WRITE)
        return hand_over_poll(uring, slot, op);
    link_op(uring, slot, op, WAITS);
    op->result = 0;
    return true;
}

static bool start_read(struct uring *uring, struct slot *slot, struct ci_op *op)
{
    if (readable(slot)) {
        op->result = take(uring, slot, op);
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

static int32_t readable_events(const struct slot *slot)
{
    return slot->error ? COIR_READ | COIR_HANGUP | COIR_FAIL : COIR_READ;
}

static bool start_poll(struct uring *uring, struct slot *slot, struct ci_op *op)
{
    if (op->events & COIR_READ && readable(slot)) {
        op->result = readable_events(slot);
        return true;
    }
    bool ok = op->events & COIR_READ ? wait_for_data(uring, slot, op, false) : hand_over_poll(uring, slot, op);
    return !ok && fail(op, -ENOMEM);
}

static bool start_foreign(struct uring *uring, struct slot *slot, struct ci_op *op)
{
    for (const struct ci_op *other = slot->ops; other; other = other->next)
        if (op->kind == CI_OP_WATCH || other->kind != CI_OP_FOREIGN || other->events & op->events)
            return fail(op, -EBUSY);
    return !hand_over_poll(uring, slot, op) && fail(op, -ENOMEM);
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

static bool start_ours(struct uring *uring, struct slot *slot, struct ci_op *op)
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
    case CI_OP_RECEIVE: ok = hand_over_message(uring, slot, op, IORING_OP_RECVMSG, op->message); break;
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

static bool start_on_file(struct uring *uring, struct ci_op *op)
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

static bool start(struct ci_driver *driver, struct ci_op *op)
{
    struct uring *uring = self(driver);
    if (ci_unlikely(op->fd < 0))
        return fail(op, -EBADF);
    if (on_file(op))
        return start_on_file(uring, op);
    struct slot *slot = slot_of(uring, op->fd);
    if (ci_unlikely(!slot))
        return fail(op, -ENOMEM);
    if (is_foreign(op))
        return start_foreign(uring, slot, op);
    if (ci_unlikely(slot->ops && is_foreign(slot->ops)))
        return fail(op, -EBUSY);
    return start_ours(uring, slot, op);
}

static void withdraw(struct uring *uring, struct slot *slot, struct ci_op *op)
{
    unlink_op(slot, op);
    uring->base.pending--;
    op->pending = IDLE;
    op->result = -ECANCELED;
}

/* A poll leaves its entry behind. */
static void let_go(struct uring *uring, struct slot *slot, struct ci_op *op)
{
    uint32_t index = (uint32_t)op->result;
    ask_to_end(uring, index); /* where that fails its entry stays until the event comes: nobody waits for it */
    uring->entries[index].op = NULL;
    withdraw(uring, slot, op);
}

static bool cancel(struct ci_driver *driver, struct ci_op *op)
{
    struct uring *uring = self(driver);
    ci_check(op->pending);
    if (op->pending >= READY)
        return false;
    if (on_file(op)) {
        ask_to_end(uring, (uint32_t)op->result);
        return false;
    }
    struct slot *slot = &uring->slots[op->fd];
    if (uring->watching == op)
        uring->watching = NULL;
    if (op->pending == WAITS) {
        withdraw(uring, slot, op);
        return true;
    }
    if (polls(op)) {
        let_go(uring, slot, op);
        return true;
    }
    ask_to_end(uring, (uint32_t)op->result);
    return false;
}

/* ---- completions ---- */

/* Ends those that wait for what the receive has brought; or, where it is over and brought nothing, asks otherwise. */
static void tell_readers(struct uring *uring, struct slot *slot, bool own_memory)
{
    for (struct ci_op *op = slot->ops, *next; op; op = next) {
        next = op->next;
        if (!reads(op) && !(op->kind == CI_OP_POLL && op->events & COIR_READ))
            continue;
        if (readable(slot)) {
            if (op->pending == IN_KERNEL && polls(op)) {
                uint32_t index = (uint32_t)op->result;
                ask_to_end(uring, index);
                uring->entries[index].op = NULL;
            }
            if (polls(op))
                end_op(uring, slot, op, ENDED, readable_events(slot));
            else if (op->pending == WAITS)
                end_op(uring, slot, op, READY, 0);
        } else if (op->pending == WAITS && !slot->receive) {
            unlink_op(slot, op);
            uring->base.pending--;
            if (!wait_for_data(uring, slot, op, own_memory)) {
                link_op(uring, slot, op, WAITS);
                end_op(uring, slot, op, ENDED, -ENOMEM);
            }
        }
    }
}

static void stop_receive(struct uring *uring, struct slot *slot)
{
    slot->stopping = ask_to_end(uring, slot->receive);
    slot->floods = true;
}

static void on_receive(struct uring *uring, uint32_t index, int32_t result, uint32_t flags)
{
    struct entry *entry = &uring->entries[index];
    uint16_t id = flags & IORING_CQE_F_BUFFER ? (uint16_t)((flags >> IORING_CQE_BUFFER_SHIFT) + 1) : 0;
    bool over = !(flags & IORING_CQE_F_MORE);
    coir_fd fd = entry->fd;
    if (over)
        free_entry(uring, index);
    if (fd < 0 || result <= 0) {
        if (id)
            give_buffer(uring, id);
        if (fd < 0)
            return;
    }
    struct slot *slot = &uring->slots[fd];
    if (over)
        slot->receive = 0;
    if (result > 0) {
        put_ahead(uring, slot, id, (uint16_t)result);
    } else if (result == 0) {
        slot->ended = true;
    } else if (result == -ENOBUFS) {
        give_more_buffers(uring);
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
    if (mask & POLLHUP)
        events |= COIR_HANGUP;
    if (mask & POLLERR)
        events |= COIR_FAIL;
    return events;
}

static void on_op(struct uring *uring, uint32_t index, int32_t result)
{
    struct ci_op *op = uring->entries[index].op;
    free_entry(uring, index);
    if (!op)
        return;
    struct slot *slot = on_file(op) ? NULL : &uring->slots[op->fd];
    if (polls(op))
        result = events_of(op, result);
    if (ci_unlikely(result == -EAGAIN && slot && op->lazy)) { /* it has to wait, then */
        op->lazy = false;
        unlink_op(slot, op);
        uring->base.pending--;
        if (hand_over_write(uring, slot, op))
            return;
        link_op(uring, slot, op, IN_KERNEL);
        result = -ENOMEM;
    }
    end_op(uring, slot, op, ENDED, result);
}

static void arm_wakeup(struct uring *uring)
{
    struct io_uring_sqe *sqe;
    if (!ask(uring, WAKE_UP, NULL, uring->wakeup, IORING_OP_POLL_ADD, &sqe))
        return;
    sqe->len = IORING_POLL_ADD_MULTI;
    sqe->poll32_events = POLLIN;
}

static void on_wakeup(struct uring *uring, uint32_t index, uint32_t flags)
{
    if (flags & IORING_CQE_F_MORE)
        return;
    bool wanted = uring->entries[index].fd >= 0;
    free_entry(uring, index);
    if (wanted)
        arm_wakeup(uring);
}

/* Looks at all completions there are; nobody is told yet. */
static void reap(struct uring *uring)
{
    const struct io_uring_cqe *completion;
    while ((completion = ci_ring_completion(&uring->ring))) {
        uint64_t name = completion->user_data;
        int32_t result = completion->res;
        uint32_t flags = completion->flags, index = (uint32_t)name;
        ci_ring_seen(&uring->ring);
        if (!name)
            continue; /* of a cancel or a close */
        ci_check(index < uring->entry_count && name_of(uring, index) == name && uring->entries[index].use != FREE);
        switch ((enum entry_use)uring->entries[index].use) {
        case OP: on_op(uring, index, result); break;
        case RECEIVE: on_receive(uring, index, result, flags); break;
        case WAKE_UP: on_wakeup(uring, index, flags); break;
        case FREE: break;
        }
    }
}

/* ---- telling ---- */

static void tell_watch(struct uring *uring, struct ci_op *op)
{
    struct slot *slot = &uring->slots[op->fd];
    link_op(uring, slot, op, WAITS);
    uring->watching = op;
    op->done(op);
    if (uring->watching != op)
        return; /* it is gone */
    uring->watching = NULL;
    slot = &uring->slots[op->fd];
    unlink_op(slot, op);
    uring->base.pending--;
    if (!hand_over_poll(uring, slot, op)) { /* the events go on: to be looked at again in the next turn */
        link_op(uring, slot, op, WAITS);
        end_op(uring, slot, op, ENDED, 0);
    }
}

/* An operation that has ended and is in no list. */
static void tell(struct uring *uring, struct ci_op *op)
{
    bool ready = op->pending == READY;
    uring->base.pending--;
    op->pending = IDLE;
    if (op->kind == CI_OP_WATCH) {
        tell_watch(uring, op);
        return;
    }
    if (ready)
        op->result = take(uring, &uring->slots[op->fd], op);
    op->done(op);
}

static void tell_all(struct uring *uring)
{
    struct ci_op *const *last = uring->ended_tail; /* what ends while they are told is for the next time */
    bool more = uring->ended;
    while (more && uring->ended) {
        struct ci_op *op = uring->ended;
        more = &op->next != last;
        if (!(uring->ended = op->next))
            uring->ended_tail = &uring->ended;
        tell(uring, op);
    }
}

static void wait_ops(struct ci_driver *driver, coir_time deadline)
{
    struct uring *uring = self(driver);
    bool sleeps = deadline != 0 && !uring->ended && !ci_ring_completion(&uring->ring);
    coir_time timeout = -1;
    if (sleeps && deadline != COIR_NEVER) {
        timeout = deadline - ci_clock_now();
        sleeps = timeout > 0;
    }
    if (sleeps || ci_ring_busy(&uring->ring)) {
        ci_ring_enter(&uring->ring, sleeps ? 1 + uring->lazy : 0, timeout);
        uring->lazy = 0;
    }
    reap(uring);
    tell_all(uring);
}

static void wake(struct ci_driver *driver)
{
    ci_sys_eventfd_add(self(driver)->wakeup);
}

/* ---- closing ---- */

/* Waits until the kernel has given back what the descriptor's operations lent it. */
static void settle(struct uring *uring, coir_fd fd, bool receive_too)
{
    for (bool asked = false;; asked = true) {
        const struct slot *slot = &uring->slots[fd];
        bool busy = receive_too && slot->receive;
        if (busy && !asked)
            ask_to_end(uring, slot->receive);
        for (const struct ci_op *op = slot->ops; op; op = op->next)
            if (op->pending == IN_KERNEL) {
                busy = true;
                if (!asked)
                    ask_to_end(uring, (uint32_t)op->result);
            }
        if (!busy)
            return;
        ci_ring_enter(&uring->ring, 1, -1);
        reap(uring);
    }
}

/* Takes the descriptor's operations out of everywhere. */
static struct ci_op *take_ops(struct uring *uring, coir_fd fd)
{
    struct ci_op *ops = NULL, *op, **at = &uring->ended;
    while ((op = *at)) {
        if (op->fd != fd) {
            at = &op->next;
            continue;
        }
        *at = op->next;
        op->next = ops;
        ops = op;
    }
    uring->ended_tail = at;
    struct slot *slot = &uring->slots[fd];
    while ((op = slot->ops)) {
        slot->ops = op->next;
        op->result = -ECANCELED;
        op->pending = ENDED;
        op->next = ops;
        ops = op;
    }
    return ops;
}

/* The descriptor's operations end. True: the kernel has been asked for something that it has not answered yet. */
static bool clear(struct uring *uring, coir_fd fd, bool at_once)
{
    struct slot *slot = &uring->slots[fd];
    bool asked = false;
    for (struct ci_op *op = slot->ops; op; op = op->next)
        if (op->pending == IN_KERNEL && polls(op)) {
            uint32_t index = (uint32_t)op->result;
            ask_to_end(uring, index);
            uring->entries[index].op = NULL;
            op->pending = WAITS;
            asked = true;
        }
    settle(uring, fd, at_once);
    slot = &uring->slots[fd];
    if (slot->receive) {
        ask_to_end(uring, slot->receive);
        uring->entries[slot->receive].fd = -1;
        asked = true;
    }
    struct ci_op *ops = take_ops(uring, fd), *op;
    drop_ahead(uring, slot);
    *slot = (struct slot){0};
    while ((op = ops)) {
        ops = op->next;
        uring->base.pending--;
        if (op->pending == READY)
            op->result = -ECANCELED;
        op->pending = IDLE;
        if (uring->watching == op)
            uring->watching = NULL;
        op->done(op);
    }
    return asked;
}

static void forget(struct ci_driver *driver, coir_fd fd)
{
    struct uring *uring = self(driver);
    if ((size_t)fd < uring->slot_count)
        clear(uring, fd, true);
}

static void close_fd(struct ci_driver *driver, coir_fd fd)
{
    struct uring *uring = self(driver);
    struct io_uring_sqe *sqe = NULL;
    if ((size_t)fd < uring->slot_count && uring->slots[fd].first)
        ci_sys_reset_on_close(fd); /* what nobody read is lost: the peer is told, as the kernel would */
    if ((size_t)fd < uring->slot_count && clear(uring, fd, false) && (sqe = place(uring))) {
        sqe->opcode = IORING_OP_CLOSE; /* after those that were asked for before */
        sqe->fd = fd;
        sqe->flags = IOSQE_CQE_SKIP_SUCCESS;
    } else {
        ci_sys_close(fd);
    }
}

/* ---- from one worker to another ---- */

static int detach(struct ci_driver *driver, coir_fd fd, struct ci_ahead **ret_ahead)
{
    struct uring *uring = self(driver);
    if ((size_t)fd >= uring->slot_count)
        return 0;
    if (uring->slots[fd].ops)
        return -EBUSY;
    settle(uring, fd, true);
    struct slot *slot = &uring->slots[fd];
    size_t len = 0;
    for (uint16_t id = slot->first; id; id = uring->held[id].next)
        len += uring->held[id].len;
    len -= slot->taken;
    if (len || slot->error) {
        struct ci_ahead *ahead = ci_alloc(uring->allocator, sizeof *ahead + len);
        if (!ahead)
            return -ENOMEM;
        *ahead = (struct ci_ahead){uring->allocator, len, slot->error};
        take_some(uring, slot, ahead->bytes, len);
        *ret_ahead = ahead;
    }
    *slot = (struct slot){0};
    return 0;
}

/* The bytes go into buffers that the kernel has not been given yet. */
static int adopt(struct ci_driver *driver, coir_fd fd, struct ci_ahead *ahead)
{
    struct uring *uring = self(driver);
    struct slot *slot = slot_of(uring, fd);
    if (!slot)
        return -ENOMEM;
    if (uring->given + (ahead->len + BUFFER_SIZE - 1) / BUFFER_SIZE > BUFFERS)
        return -ENOBUFS;
    for (size_t at = 0; at < ahead->len; at += BUFFER_SIZE) {
        uint16_t id = ++uring->given;
        size_t len = ahead->len - at < BUFFER_SIZE ? ahead->len - at : BUFFER_SIZE;
        memcpy(ci_ring_buffer(&uring->buffers, (uint16_t)(id - 1)), ahead->bytes + at, len);
        put_ahead(uring, slot, id, (uint16_t)len);
    }
    slot->error = (uint8_t)ahead->error;
    return 0;
}

/* ---- beginning and ending ---- */

static int open_ring(struct uring *uring)
{
    int rc = ci_ring_open(&uring->ring, ENTRIES, COMPLETIONS);
    if (rc < 0)
        return rc;
    if ((rc = ci_ring_buffers_open(&uring->ring, &uring->buffers, 0, BUFFERS, BUFFER_SIZE)) < 0) {
        ci_ring_close(&uring->ring);
        return rc;
    }
    uring->open = true;
    arm_wakeup(uring);
    uring->given = 0;
    give_more_buffers(uring);
    return 0;
}

static void close_ring(struct uring *uring)
{
    if (!uring->open)
        return;
    ci_ring_close(&uring->ring);
    ci_ring_buffers_close(&uring->buffers);
    uring->open = false;
}

static int begin(struct ci_driver *driver)
{
    struct uring *uring = self(driver);
    return uring->open ? 0 : open_ring(uring);
}

/* Takes back everything that the kernel still has; the ring goes, for it is this thread's. */
static void end(struct ci_driver *driver)
{
    struct uring *uring = self(driver);
    for (uint32_t i = 1; i < uring->entry_count; i++) {
        struct entry *entry = &uring->entries[i];
        ci_check(entry->use != OP || !entry->op);
        if (entry->use == WAKE_UP)
            entry->fd = -1;
        if (entry->use != FREE)
            ask_to_end(uring, i);
    }
    while (uring->used) {
        ci_ring_enter(&uring->ring, 1, -1);
        reap(uring);
    }
    if (ci_ring_busy(&uring->ring)) /* descriptors to be closed */
        ci_ring_submit(&uring->ring);
    close_ring(uring);
}

static void free_driver(struct ci_driver *driver)
{
    struct uring *uring = self(driver);
    close_ring(uring);
    if (uring->wakeup >= 0)
        ci_sys_close(uring->wakeup);
    ci_free(uring->allocator, uring->entries, uring->entry_count * sizeof(struct entry));
    ci_free(uring->allocator, uring->slots, uring->slot_count * sizeof(struct slot));
    ci_free(uring->allocator, uring, sizeof *uring);
}

static const struct ci_driver_kind uring_kind = {
    .name = "io_uring",
    .files = true,
    .start = start,
    .cancel = cancel,
    .wait = wait_ops,
    .wake = wake,
    CI_KERNEL_CALLS,
    .close = close_fd,
    .forget = forget,
    .detach = detach,
    .adopt = adopt,
    .begin = begin,
    .end = end,
    .free = free_driver,
};

int ci_uring_open(const coir_allocator *allocator, struct ci_driver **ret_driver)
{
    struct uring *uring = ci_alloc_zero(allocator, sizeof *uring);
    if (!uring)
        return -ENOMEM;
    uring->base.kind = &uring_kind;
    uring->allocator = allocator;
    uring->ended_tail = &uring->ended;
    uring->wakeup = ci_sys_eventfd();
    int rc = uring->wakeup < 0 ? uring->wakeup : open_ring(uring);
    if (rc < 0) {
        free_driver(&uring->base);
        return rc;
    }
    *ret_driver = &uring->base;
    return 0;
}
