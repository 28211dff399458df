/* What the driver over io_uring consists of: operations begin and end in uring_op.c, what is read
 * ahead lies in uring_ahead.c, everything else is in uring.c.
 *
 * 1. What the kernel has been asked for is an entry of a table; the kernel knows it by index and
 * generation. An entry is free again when its last completion has been seen, and not before.
 * 2. An operation waits (for what its descriptor's receive brings), is the kernel's (its result is
 * then the index of its entry), or has ended (it lies in the list of those, and `done` is called by
 * the next wait). Completions are looked at in several places; `done` is called in wait, close and
 * forget only.
 * 3. A stream's receive goes on by itself into buffers that the driver gave the kernel. What nobody
 * has read yet is read ahead: it belongs to the descriptor, no cancel or timeout of a reader
 * touches it, and it counts as readable. Beyond AHEAD_MOST buffers without a reader the receive is
 * ended; then the reader's own memory is used until the stream has been drained.
 * 4. A receive that finds no buffer is replaced by one into the reader's memory: streams that
 * nobody reads cannot stop the others.
 * 5. An operation whose memory the kernel has is never withdrawn, only asked to end; one that has
 * no memory is let go at once, and its entry waits for the completion alone.
 * 6. An enter waits for at most one completion, and only while something is in flight that posts
 *    one.
 * 7. A lazy write is carried out within the enter that submits it, and posts a completion only if
 *    it was not carried out in full (MSG_DONTWAIT, MSG_WAITALL, CQE_SKIP_SUCCESS): when the
 *    completions of that enter have been looked at, those without one are complete. The sleep of
 *    that enter may delay this, for half a second at most, if it ends when the stream becomes
 * readable: the receive is armed, nothing is read ahead, and no completion has been looked at since
 * the write was started.
 * 8. Closing waits for the kernel to give back the memory of the descriptor's operations; where it
 * has none, the end of the receive and the close are handed over together.
 * 9. A ring that the kernel refuses to enter again and again is given up: what it still has is
 * taken back by ci_ring_take_back, everything that waits ends with -ECANCELED, and every wait
 * answers with the error until a next begin, which opens another one.
 */
#ifndef CI_DRIVER_URING_H
#define CI_DRIVER_URING_H

#include "base/check.h"
#include "driver/driver.h"
#include "sys/ring.h"

enum {
    ENTRIES = 256,
    COMPLETIONS = 4096,
    BUFFERS = 1024,
    BUFFERS_FIRST = 64,
    BUFFER_SIZE = 4096,
    AHEAD_MOST = 2
};

static const coir_time LAZY_MOST = COIR_S / 2; /* driver.h 8 */

/* struct ci_op.pending. Ready: something is there for the reader, who gets it when he is told. */
enum { IDLE, WAITS, IN_KERNEL, READY, ENDED };

enum ci_uring_use { FREE, OP, LAZY, RECEIVE, WAKE_UP };

struct ci_uring_entry {
    struct ci_op *op; /* NULL: let go. Lazy: it has completed by itself */
    coir_fd fd;       /* of a receive; negative: let go. Free, lazy: the next of these */
    uint32_t generation : 24, use : 7, asked_to_end : 1;
};

/* Of a descriptor. Buffers are counted from 1. What came with it from another driver is read before
 * anything is received. */
struct ci_uring_slot {
    struct ci_op *ops; /* those that wait or are the kernel's */
    union {
        struct {
            uint16_t first, last, ahead;
            uint16_t taken; /* of the first buffer */
        };
        struct ci_ahead *adopted; /* where has_adopted: bytes that have not been read */
    };
    uint32_t receive; /* its entry; 0: none */
    uint8_t error;    /* of the receive, not told to anybody yet */
    bool ended : 1, stopping : 1, floods : 1, has_adopted : 1;
};
_Static_assert(sizeof(struct ci_uring_slot) <= 24, "one for each descriptor");

struct ci_uring_held {
    uint16_t next, len;
};

struct ci_uring {
    struct ci_driver base;
    struct ci_ring ring;
    bool open;        /* there is a ring */
    bool wakes;       /* the poll of `wakeup` is armed: without it no wait sleeps */
    bool reaping;     /* completions are being looked at */
    int failed_waits; /* in a row */
    int refused;      /* 9: why there is no ring any more; 0: it was not refused */
    struct ci_ring_buffers buffers;
    uint16_t given; /* buffers that are in use, by the kernel or read ahead: the first ones */
    struct ci_uring_held held[BUFFERS + 1];
    struct ci_uring_slot *slots; /* by descriptor */
    size_t slot_count;
    struct ci_uring_entry *entries; /* the first is nobody's */
    size_t entry_count;
    uint32_t free_entry, used;
    uint32_t lazy_first, lazy_last; /* entries of lazy writes, in the order of their start */
    uint32_t lazy_submitted;        /* the last one that the kernel has taken; 0: none */
    uint32_t lazy;                  /* how many */
    /* a lazy write must not be delayed any longer: the next wait does not sleep */
    bool hurry;
    struct ci_op *ended, **ended_tail;
    bool closes;                  /* there are closes that no enter has carried out */
    const struct ci_op *watching; /* whose `done` runs */
    /* by place in the ring: read by the kernel when it is entered */
    struct msghdr headers[ENTRIES];
    coir_fd wakeup;
    const coir_allocator *allocator;
};

static inline struct ci_uring *ci_uring_of(struct ci_driver *driver)
{
    return ci_container_of(driver, struct ci_uring, base);
}

static inline bool ci_uring_polls(const struct ci_op *op)
{
    return op->kind == CI_OP_POLL || op->kind == CI_OP_FOREIGN || op->kind == CI_OP_WATCH;
}

/* Whether there are bytes that nobody has read; whether a reader would be answered at once. */
static inline bool ci_uring_has_bytes(const struct ci_uring_slot *slot)
{
    return slot->has_adopted || slot->first;
}

static inline bool ci_uring_readable(const struct ci_uring_slot *slot)
{
    return ci_uring_has_bytes(slot) || slot->ended || slot->error;
}

/* Makes sure that a descriptor has a slot: 0, -ENOMEM, or -EBADF for one without that is not open.
 */
int ci_uring_reserve(struct ci_uring *uring, coir_fd fd);

static inline void ci_uring_note_submitted(struct ci_uring *uring)
{
    if (ci_ring_submitted(&uring->ring)) /* else the next enter tells */
        uring->lazy_submitted = uring->lazy_last;
}

/* Submits what is in the ring, and waits for a completion if it `sleeps`. Errors are the kernel's.
 */
static inline int ci_uring_enter(struct ci_uring *uring, bool sleeps, coir_time timeout)
{
    ci_check(!sleeps || uring->used > uring->lazy); /* 6 */
    int rc = ci_ring_enter(&uring->ring, sleeps, timeout);
    ci_uring_note_submitted(uring);
    uring->closes = uring->closes && !ci_ring_submitted(&uring->ring);
    return rc;
}

/* A place in the ring; NULL when the kernel takes none just now. */
struct io_uring_sqe *ci_uring_place(struct ci_uring *uring);

/* Asks the kernel to end what an entry stands for. False: it takes nothing just now. */
bool ci_uring_ask_to_end(struct ci_uring *uring, uint32_t index);

/* Lets a poll go: its operation is told of nothing any more, and its entry waits for the kernel
 * alone. */
void ci_uring_let_go(struct ci_uring *uring, uint32_t index);

/* Arms the poll of the eventfd. False: it could not; the next wait tries again, and does not sleep.
 */
bool ci_uring_arm_wakeup(struct ci_uring *uring);

static inline bool ci_uring_is_lazy(const struct ci_uring *uring, const struct ci_op *op)
{
    return op->pending == IN_KERNEL && uring->entries[op->result].use == LAZY;
}

/* From now on a lazy write is not delayed; it fails with -ECANCELED where it would have to wait. */
static inline void ci_uring_hurry(struct ci_uring *uring, struct ci_op *op)
{
    op->lazy = false;
    uring->hurry = true;
}

/* Looks at all completions there are; nobody is told yet. */
void ci_uring_reap(struct ci_uring *uring);

/* Enters the ring and reaps. Where that is refused again and again: gives the ring up, and answers
 * with the error. */
int ci_uring_turn(struct ci_uring *uring, bool sleeps, coir_time timeout);
void ci_uring_close_ring(struct ci_uring *uring);

/* An entry's name for the kernel; it is free again. */
uint64_t ci_uring_name(const struct ci_uring *uring, uint32_t index);
void ci_uring_free_entry(struct ci_uring *uring, uint32_t index);

bool ci_uring_start(struct ci_driver *driver, struct ci_op *op);
bool ci_uring_cancel(struct ci_driver *driver, struct ci_op *op);
bool ci_uring_hand_over_poll(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op);

/* A descriptor's operations: in its list, in a state; out of it; out of it and into the list of
 * those that have ended. */
void ci_uring_link(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op,
                   uint8_t state);
void ci_uring_unlink(struct ci_uring_slot *slot, struct ci_op *op);
void ci_uring_end(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op,
                  uint8_t state, int32_t result);

/* What was read ahead: put at the end, taken from the front, dropped; the result of a read, where
 * there is something. */
void ci_uring_put_ahead(struct ci_uring *uring, struct ci_uring_slot *slot, uint16_t id,
                        uint16_t len);
size_t ci_uring_take_some(struct ci_uring *uring, struct ci_uring_slot *slot, char *to, size_t len);
void ci_uring_drop_adopted(struct ci_uring_slot *slot);
void ci_uring_drop_ahead(struct ci_uring *uring, struct ci_uring_slot *slot);
int32_t ci_uring_take(struct ci_uring *uring, struct ci_uring_slot *slot, const struct ci_op *op);
void ci_uring_give_buffer(struct ci_uring *uring, uint16_t id);
void ci_uring_give_more_buffers(struct ci_uring *uring);

#endif
