/* An io_uring: the two rings that are shared with the kernel, and a ring of buffers for it to
 * receive into. See io_uring(7).
 *
 * What an entry points at must last until the ring is entered (SUBMIT_STABLE); the bytes that are
 * sent or received must last until the completion. The first thread that enters a ring owns it, and
 * the kernel refuses the others; a shared ring may be entered by one thread at a time. Completions
 * appear when the owner enters the ring (on kernels without DEFER_TASKRUN: at any time).
 */
#ifndef CI_SYS_RING_H
#define CI_SYS_RING_H

#include "base/atomic.h"
#include "sys/ring_call.h"

struct ci_ring {
    coir_fd fd;
    bool enabled;  /* an owner has entered it */
    bool deferred; /* DEFER_TASKRUN, so Linux 6.1 or newer */

    struct io_uring_sqe *entries;
    /* tail: after the entries that were filled in; entering the ring publishes it */
    uint32_t entry_mask, tail;
    uint32_t *kernel_head, *kernel_tail, *kernel_flags;

    struct io_uring_cqe *completions;
    uint32_t completion_mask, seen;
    uint32_t *completion_head, *completion_tail;

    struct ci_ring_map map;
};

/* Both sizes are powers of two. A shared ring costs more: the kernel has to interrupt the thread
 * that submitted. 0, or why there is none: -ENOSYS, -EPERM, -EINVAL (too old), -ENOMEM, -EMFILE. */
int ci_ring_open(struct ci_ring *ring, uint32_t entries, uint32_t completions, bool shared);
void ci_ring_close(struct ci_ring *ring);

/* An empty submission entry (SQE); NULL when all are in use: submit, then try again. */
static inline struct io_uring_sqe *ci_ring_entry(struct ci_ring *ring)
{
    if (ci_unlikely(ring->tail - ci_load_acquire(ring->kernel_head) >
                    ring->entry_mask)) /* pairs with the kernel's release */
        return NULL;
    struct io_uring_sqe *entry = &ring->entries[ring->tail++ & ring->entry_mask];
    *entry = (struct io_uring_sqe){0};
    return entry;
}

/* Whether there are two free entries, or all are free. */
static inline bool ci_ring_has_room(const struct ci_ring *ring)
{
    uint32_t used = ring->tail - ci_load_acquire(ring->kernel_head);
    return used < ring->entry_mask || !used;
}

/* Submit the entries; enter also sleeps until there are that many completions, for at most
 * `timeout` (negative: without end). Errors are the kernel's, and may be temporary: entries that
 * were not submitted stay in the ring. */
int ci_ring_submit(struct ci_ring *ring);
int ci_ring_enter(struct ci_ring *ring, uint32_t completions, coir_time timeout);

/* Cancels the request with this user data and waits until it has completed, without entering the
 * ring: for a ring that the kernel refuses to enter. */
int ci_ring_take_back(const struct ci_ring *ring, uint64_t name);

/* Bit N: the kernel has operation N (IORING_OP_*). 0: it does not say. */
uint64_t ci_ring_operations(const struct ci_ring *ring);

/* Whether the kernel has taken all entries. */
static inline bool ci_ring_submitted(const struct ci_ring *ring)
{
    return ring->tail == ci_load_relaxed(ring->kernel_head);
}

/* Whether the kernel holds completions back because the ring was full. */
static inline bool ci_ring_overflowed(const struct ci_ring *ring)
{
    return ci_load_relaxed(ring->kernel_flags) & IORING_SQ_CQ_OVERFLOW;
}

/* Whether entering the ring without waiting would do anything. */
static inline bool ci_ring_busy(const struct ci_ring *ring)
{
    return !ci_ring_submitted(ring) || ci_ring_overflowed(ring) ||
           ci_load_relaxed(ring->kernel_flags) & IORING_SQ_TASKRUN;
}

/* The next completion, or NULL. After ci_ring_seen the kernel may overwrite it. */
static inline struct io_uring_cqe *ci_ring_completion(const struct ci_ring *ring)
{
    if (ring->seen == ci_load_acquire(ring->completion_tail)) /* pairs with the kernel's release */
        return NULL;
    return &ring->completions[ring->seen & ring->completion_mask];
}

/* How many there are. */
static inline uint32_t ci_ring_completions(const struct ci_ring *ring)
{
    return ci_load_acquire(ring->completion_tail) - ring->seen; /* as above */
}

static inline void ci_ring_seen(struct ci_ring *ring)
{
    ring->seen++;
    ci_store_release(ring->completion_head, ring->seen); /* pairs with the kernel's acquire */
}

/* Buffers of one size, which the kernel chooses from when it receives. */
struct ci_ring_buffers {
    struct io_uring_buf_ring *ring;
    char *memory;
    uint32_t count, size; /* of the ring, a power of two; of each buffer */
    uint16_t tail;
};

/* Allocate their memory: 0 or -ENOMEM; register them as a group of one ring, to which none has been
 * given yet; free their memory (or nothing, if zero). */
int ci_ring_buffers_make(struct ci_ring_buffers *buffers, uint32_t count, uint32_t size);
int ci_ring_buffers_register(struct ci_ring *ring, struct ci_ring_buffers *buffers, uint16_t group);
void ci_ring_buffers_free(struct ci_ring_buffers *buffers);

/* Has all of their pages, while the kernel may be using them. -EINVAL: it is too old. */
int ci_ring_buffers_populate(const struct ci_ring_buffers *buffers);

static inline char *ci_ring_buffer(const struct ci_ring_buffers *buffers, uint16_t id)
{
    return buffers->memory + (size_t)id * buffers->size;
}

static inline void ci_ring_buffer_give(struct ci_ring_buffers *buffers, uint16_t id)
{
    struct io_uring_buf *buf = &buffers->ring->bufs[buffers->tail & (buffers->count - 1)];
    buf->addr = (uintptr_t)ci_ring_buffer(buffers, id);
    buf->len = buffers->size;
    buf->bid = id;
    buffers->tail++;
    ci_store_release(&buffers->ring->tail, buffers->tail); /* pairs with the kernel's acquire */
}

#endif
