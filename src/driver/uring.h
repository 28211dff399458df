/* The driver over io_uring. Each of its files calls only those before it:
 *
 *   uring_entry.c     requests of the kernel: the table of entries, cancels, orphans
 *   uring_buffer.c    buffers provided to the kernel for receives
 *   uring_ahead.c     bytes that were read ahead of a stream's readers
 *   uring_op.c        the lists that operations are in
 *   uring_submit.c    submitting operations; lazy writes
 *   uring_file.c      calls on files
 *   uring_start.c     starting and cancelling
 *   uring_complete.c  completions
 *   uring_refused.c   a ring that the kernel refuses to enter
 *   uring_close.c     closing, forgetting and moving descriptors
 *   uring.c           waiting; opening the ring
 *
 * 1. An entry of the table stands for a request of the kernel, which identifies it by index and
 *    generation. It is free again when its last completion has been seen, not before.
 * 2. An operation is WAITING (for its stream's receive) or IN_FLIGHT (`result` is then the index of
 *    its entry), both in its descriptor's list; or READY or ENDED, in the list `ended`, until the
 *    next wait, close or forget calls its `done`. Reaping completions calls no `done`.
 * 3. An operation that is READY finds something to read when its `done` is called.
 * 4. A stream that brought bytes from another driver receives nothing before those have been read.
 * 5. An operation whose memory the kernel has is never withdrawn: its cancel is requested. One
 *    without memory (a poll) is withdrawn at once; its entry is orphaned, and waits for the kernel.
 * 6. An enter waits for at most one completion, and only if something is in flight that posts one.
 */
#ifndef CI_DRIVER_URING_H
#define CI_DRIVER_URING_H

#include "base/check.h"
#include "driver/driver.h"
#include "sys/ring.h"

enum {
    CI_URING_SQES = 256,  /* the submission queue; */
    CI_URING_CQES = 4096, /* the completion queue */
    CI_URING_BUFFERS = 1024,
    CI_URING_BUFFERS_FIRST = 64, /* given to the kernel at first; doubled when it runs out */
    CI_URING_BUFFER_SIZE = 4096,
    CI_URING_AHEAD_MAX = 2 /* buffers read ahead of one stream's readers */
};

/* struct ci_op.pending. READY: there is something to read, which is taken when `done` is called. */
enum ci_uring_state {
    CI_URING_IDLE,
    CI_URING_WAITING,
    CI_URING_IN_FLIGHT,
    CI_URING_READY,
    CI_URING_ENDED
};

/* Polls in place of an operation, which is started again when their event comes: ROOM for room, of
 * a write (uring_complete.c); CLIENT for a connection, of a shared accept. */
enum ci_uring_use {
    CI_URING_FREE,
    CI_URING_OP,
    CI_URING_LAZY,
    CI_URING_ROOM,
    CI_URING_CLIENT,
    CI_URING_RECEIVE,
    CI_URING_WAKEUP
};

/* A request of the kernel. */
struct ci_uring_entry {
    struct ci_op *op; /* NULL: orphaned. Of a lazy write: it posted a completion */
    /* of a receive or the wake-up: its descriptor; -1: orphaned. Free or lazy: the next of these */
    coir_fd fd;
    uint32_t generation : 24, use : 6, cancel_requested : 1;
    uint32_t cancel_due : 1; /* its cancel has got no SQE */
};

/* A descriptor. Buffers are counted from 1. What was read ahead by another driver (`adopted`) is
 * read before anything is received. */
struct ci_uring_slot {
    struct ci_op *ops; /* waiting or in flight */
    union {
        struct {
            uint16_t first, last, ahead; /* buffers that were read ahead: a list, and how many */
            uint16_t taken;              /* bytes of the first one */
        };
        struct ci_ahead *adopted; /* if has_adopted: some of its bytes have not been read */
    };
    uint32_t receive; /* the entry of the multishot receive; 0: none */
    uint8_t error;    /* of the receive: for the next reader */
    bool ended : 1;   /* the stream, after what was read ahead */
    bool stopping : 1, overrun : 1, has_adopted : 1;
    bool emptied : 1; /* the last read of a Unix socket has left it empty */
};
_Static_assert(sizeof(struct ci_uring_slot) <= 24, "one for each descriptor");

/* A buffer that was read ahead. */
struct ci_uring_held {
    uint16_t next, len;
};

struct ci_uring {
    struct ci_driver base;
    struct ci_ring ring;
    bool open;         /* there is a ring */
    bool wakeup_armed; /* the poll of `wakeup`; without it no wait sleeps */
    bool reaping;      /* completions are being walked */
    int failed_waits;  /* in a row */
    int refused;       /* the error for which the ring was given up, or 0: uring_refused.c */
    struct ci_ring_buffers buffers;
    uint16_t given; /* buffers in use, by the kernel or read ahead: 1 to `given` */
    struct ci_uring_held held[CI_URING_BUFFERS + 1];
    struct ci_uring_slot *slots; /* by descriptor */
    size_t slot_count;
    struct ci_uring_entry *entries; /* 0 is not used */
    size_t entry_count;
    uint32_t free_entry, used;
    uint32_t lazy_first, lazy_last; /* entries of lazy writes, in the order of their start */
    uint32_t lazy_submitted;        /* the last one that the kernel has taken; 0: none */
    uint32_t lazy;                  /* how many */
    bool lazy_due; /* one must not be delayed any more: the next wait does not sleep */
    struct ci_op *ended, **ended_tail;
    bool cancels_due;             /* of some entries: the next turn repeats them */
    bool close_queued;            /* closes, or ends of receives, that no enter has carried out */
    const struct ci_op *watching; /* the watch whose `done` is being called */
    /* by index of the SQE; the kernel has read them when an enter returns */
    struct msghdr headers[CI_URING_SQES];
    coir_fd wakeup;
    const coir_allocator *allocator;
    void (*reap)(struct ci_uring *uring); /* ci_uring_reap, for uring_entry.c, which is below it */
};

static inline struct ci_uring *ci_uring_of(struct ci_driver *driver)
{
    return ci_container_of(driver, struct ci_uring, base);
}

static inline bool ci_uring_is_poll(const struct ci_op *op)
{
    return op->kind == CI_OP_POLL || op->kind == CI_OP_FOREIGN || op->kind == CI_OP_WATCH;
}

static inline bool ci_uring_reads(const struct ci_op *op)
{
    return op->kind == CI_OP_READ || op->kind == CI_OP_READV;
}

static inline bool ci_uring_on_file(const struct ci_op *op)
{
    return op->kind == CI_OP_FILE;
}

/* Length of a read or write, as a result can say it. */
static inline int32_t ci_uring_size_of(const struct ci_op *op)
{
    return op->len < INT32_MAX ? (int32_t)op->len : INT32_MAX;
}

/* ---- uring_entry.c ---- */

/* ORed with the user data of the cancelled request */
static const uint64_t ci_uring_cancel_of = (uint64_t)1 << 63;

static inline void ci_uring_note_submitted(struct ci_uring *uring)
{
    if (ci_ring_submitted(&uring->ring)) /* else after the next enter */
        uring->lazy_submitted = uring->lazy_last;
}

static const coir_time ci_uring_lazy_delay_max = COIR_S / 2; /* driver.h 6 */

/* Submits the SQEs in the ring, and waits for one completion if `sleeps`. Errors are the
 * kernel's. */
static inline int ci_uring_enter(struct ci_uring *uring, bool sleeps, coir_time timeout)
{
    ci_check(!sleeps || uring->used > uring->lazy, "uring.h 6");
    ci_check(!sleeps || !uring->lazy || (timeout >= 0 && timeout <= ci_uring_lazy_delay_max),
             "driver/driver.h 6");
    int rc = ci_ring_enter(&uring->ring, sleeps, timeout);
    ci_uring_note_submitted(uring);
    uring->close_queued = uring->close_queued && !ci_ring_submitted(&uring->ring);
    return rc;
}

/* A free SQE; NULL: the kernel takes none now. */
struct io_uring_sqe *ci_uring_sqe(struct ci_uring *uring);

/* Before an operation is started or cancelled: reaps until there are the SQEs that this takes. What
 * the caller knows of operations that are pending may be over then. */
void ci_uring_reap_for_room(struct ci_uring *uring);

static inline void ci_uring_make_room(struct ci_uring *uring)
{
    if (ci_unlikely(uring->open && !ci_ring_has_room(&uring->ring) && !uring->reaping))
        ci_uring_reap_for_room(uring);
}

/* Has memory for `count` requests in flight. 0 or -ENOMEM. */
int ci_uring_reserve_entries(struct ci_uring *uring, size_t count);

/* A free SQE and an entry for it: the entry's index; 0: neither. */
uint32_t ci_uring_prepare(struct ci_uring *uring, enum ci_uring_use use, struct ci_op *op,
                          coir_fd fd, uint8_t opcode, struct io_uring_sqe **ret_sqe);
void ci_uring_free_entry(struct ci_uring *uring, uint32_t index);

/* What identifies an entry to the kernel, which returns it with each completion: index and
 * generation. Live: the kernel still has the request. */
uint64_t ci_uring_user_data(const struct ci_uring *uring, uint32_t index);
bool ci_uring_is_live(const struct ci_uring *uring, uint64_t user_data);

/* Requests the cancel of an entry. False: there is no SQE for it now; the next turn repeats it. */
bool ci_uring_request_cancel(struct ci_uring *uring, uint32_t index);

/* Called when `cancels_due`. */
void ci_uring_repeat_cancels(struct ci_uring *uring);

/* Called when the kernel has refused a cancel: the request may still wait. */
void ci_uring_retry_cancel(struct ci_uring *uring, uint64_t user_data);

/* Separates a poll from its operation, which gets no completion from it any more, and requests its
 * cancel. */
void ci_uring_orphan(struct ci_uring *uring, uint32_t index);

static inline bool ci_uring_is_lazy(const struct ci_uring *uring, const struct ci_op *op)
{
    return op->pending == CI_URING_IN_FLIGHT && uring->entries[op->result].use == CI_URING_LAZY;
}

/* From now on a lazy write is not delayed; it fails with -ECANCELED if it would have to wait. */
static inline void ci_uring_set_due(struct ci_uring *uring, struct ci_op *op)
{
    op->lazy = false;
    uring->lazy_due = true;
}

/* ---- uring_op.c ---- */

/* Makes sure that a descriptor has a slot: 0, -ENOMEM, or -EBADF for one that has none and is not
 * open. */
int ci_uring_reserve(struct ci_uring *uring, coir_fd fd);

/* Puts an operation that has been started into its descriptor's list; takes it out. */
void ci_uring_link(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op,
                   uint8_t state);
void ci_uring_unlink(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op);

/* Moves an operation to the list of those that have ended. `slot` is NULL for one on a file, which
 * is in no list; one that was unlinked gets counted again. */
void ci_uring_end(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op,
                  uint8_t state, int32_t result);
void ci_uring_end_unlinked(struct ci_uring *uring, struct ci_op *op, int32_t result);

/* Gives an operation back to its caller, cancelled: from its descriptor's list; from the list of
 * those that have ended. */
void ci_uring_withdraw(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op);
void ci_uring_withdraw_ended(struct ci_uring *uring, struct ci_op *op);

/* ---- uring_buffer.c ---- */

/* Gives a buffer back to the kernel. */
void ci_uring_give_buffer(struct ci_uring *uring, uint16_t id);
/* After the kernel has run out of buffers: gives it as many again. */
void ci_uring_give_more_buffers(struct ci_uring *uring);

/* Has the pages of all that it may be given. */
int ci_uring_populate_buffers(const struct ci_uring *uring);
/* Gives a new ring its buffers. */
void ci_uring_give_first_buffers(struct ci_uring *uring);

/* ---- uring_ahead.c ---- */

/* Whether there are unread bytes; whether a read would complete at once. */
static inline bool ci_uring_has_bytes(const struct ci_uring_slot *slot)
{
    return slot->has_adopted || slot->first;
}

static inline bool ci_uring_readable(const struct ci_uring_slot *slot)
{
    return ci_uring_has_bytes(slot) || slot->ended || slot->error;
}

/* The events of a readable stream. */
static inline int32_t ci_uring_readable_events(const struct ci_uring_slot *slot)
{
    return slot->error ? COIR_READ | COIR_HANGUP | COIR_EVENT_ERROR : COIR_READ;
}

/* What was read ahead: appended, taken from the front, dropped. */
void ci_uring_put_ahead(struct ci_uring *uring, struct ci_uring_slot *slot, uint16_t id,
                        uint16_t len);
size_t ci_uring_take_some(struct ci_uring *uring, struct ci_uring_slot *slot, char *to, size_t len);
void ci_uring_drop_adopted(struct ci_uring_slot *slot);
void ci_uring_drop_ahead(struct ci_uring *uring, struct ci_uring_slot *slot);

/* The result of a read of a readable stream. */
int32_t ci_uring_take(struct ci_uring *uring, struct ci_uring_slot *slot, const struct ci_op *op);

/* The same; what there is stays, and may be more than what a peek finds. */
int32_t ci_uring_peek(const struct ci_uring *uring, const struct ci_uring_slot *slot,
                      const struct ci_op *op);

/* ---- uring_submit.c: false if there is no SQE or no entry ---- */

/* Links an operation and puts it into the ring; the caller fills in the rest of the SQE. */
bool ci_uring_submit(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op,
                     uint8_t opcode, struct io_uring_sqe **ret_sqe);
bool ci_uring_submit_message(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op,
                             uint8_t opcode);
bool ci_uring_submit_vector(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op,
                            uint8_t opcode);
bool ci_uring_submit_write(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op);
bool ci_uring_submit_accept(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op);
bool ci_uring_submit_poll(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op);

/* A poll that completes only when something changes. */
bool ci_uring_submit_poll_for_changes(struct ci_uring *uring, struct ci_uring_slot *slot,
                                      struct ci_op *op);

/* In place of a write that cannot be made now: completes when room has appeared, or an error. */
bool ci_uring_submit_poll_for_room(struct ci_uring *uring, struct ci_uring_slot *slot,
                                   struct ci_op *op);

/* Starts the multishot receive of a stream. */
bool ci_uring_arm_receive(struct ci_uring *uring, struct ci_uring_slot *slot, coir_fd fd);

/* A read, or a poll for reading, of a stream that is not readable: waits for the multishot receive,
 * or (`own_memory`, overrun) without the driver's buffers. */
bool ci_uring_wait_for_data(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op,
                            bool own_memory);

/* Arms the poll of the eventfd that wakes. False: the next wait tries again, and does not sleep. */
bool ci_uring_arm_wakeup(struct ci_uring *uring);

/* ---- uring_file.c ---- */

/* struct ci_driver.file_calls for a ring. */
uint32_t ci_uring_file_calls(const struct ci_ring *ring);
bool ci_uring_start_on_file(struct ci_uring *uring, struct ci_op *op);
/* The result of a call on a file that has succeeded in the kernel. */
int32_t ci_uring_finish_on_file(const struct ci_op *op, int32_t result);

/* ---- uring_start.c ---- */

bool ci_uring_start(struct ci_driver *driver, struct ci_op *op);
bool ci_uring_start_ours(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op);
bool ci_uring_cancel(struct ci_driver *driver, struct ci_op *op);

/* ---- uring_complete.c ---- */

/* Takes all completions from the ring, and ends the operations that they complete. */
void ci_uring_reap(struct ci_uring *uring);

/* ---- uring_refused.c ---- */

/* Enters the ring and reaps. If the kernel refuses that again and again: gives the ring up and
 * returns the error. */
int ci_uring_turn(struct ci_uring *uring, bool sleeps, coir_time timeout);
void ci_uring_close_ring(struct ci_uring *uring);

/* ---- uring_close.c: functions of struct ci_driver_kind ---- */

void ci_uring_forget(struct ci_driver *driver, coir_fd fd);
void ci_uring_close(struct ci_driver *driver, coir_fd fd);
void ci_uring_flush(struct ci_driver *driver);
int ci_uring_detach(struct ci_driver *driver, coir_fd fd, struct ci_ahead **ret_ahead);
size_t ci_uring_stop_ahead(struct ci_driver *driver, coir_fd fd);
int ci_uring_adopt(struct ci_driver *driver, coir_fd fd, struct ci_ahead *ahead);

#endif
