/* A write queue: a ring of buffers under a lock. Any thread pushes; the worker that owns the stream
 * (the owner) writes.
 *
 *   IDLE -- push --> SCHEDULED -- message delivered --> WRITING -- empty --> IDLE
 *                       ^                                |   ^
 *                       `------ WRITES_MAX writes -------'   |
 *                                                        |   | room
 *                                                        v   |
 *                                                       BLOCKED
 *
 *   IDLE -> SCHEDULED:             a push that finds it idle (ci_write_queue_schedule)
 *   BLOCKED -> SCHEDULED:          COIR_OVERFLOW_CLOSE, or a new limit of the stream
 *   SCHEDULED, BLOCKED -> WRITING: on the owner: the message is delivered, or the poll completes
 *   WRITING -> IDLE:               the ring is empty
 *   WRITING -> BLOCKED:            a poll for room in the stream is in flight
 *
 * SCHEDULED: a message is on its way to the owner, which is woken only if it sleeps.
 *
 * A write never waits: the stream takes what it has room for, and the queue polls for more room.
 * So an item that has not begun is in use only during a system call, and can be dropped at any
 * other time.
 *
 * 1. `begun` bytes of the first item have been written, and a system call is writing the first
 * `taken` items. These items are not dropped. A first item that has begun does not count against
 * the bounds; `waiting_bytes` is the sum of the others.
 * 2. An item leaves the ring once, with its outcome, which is reported without the lock held.
 * 3. While tasks wait to push, the queue has no room for the first of them, or is about to end. No
 * task waits to push or to flush when the queue is freed.
 * 4. The stream's `writer` is the queue's `op` from when the queue is made, or from its first write
 * where that was by ci_write_queue_make, until it leaves the stream.
 * 5. Once the queue is `finished`, no task waits to push, and the ring only gets shorter. It may be
 * longer than its bounds by the last item.
 * 6. The queue's memory is freed after coir_write_queue_free, when its ring is empty and nothing
 * holds it: no message or poll in flight, no function writing.
 *
 * The files, each of which calls only those after it: write_queue.c makes and frees queues;
 * write_queue_push.c has push and flush; write_queue_write.c writes and ends a queue;
 * write_queue_items.c keeps the ring and its bounds, and reports outcomes.
 */
#ifndef CI_IO_WRITE_QUEUE_H
#define CI_IO_WRITE_QUEUE_H

#include "base/check.h"
#include "coir/write_queue.h"
#include "io/io.h"
#include "sync/item_ring.h"
#include "sync/wait.h"

enum { CI_WRITE_PIECES = 64 /* items written by one system call, or reported at once */ };

enum ci_write_queue_state {
    CI_WRITE_QUEUE_IDLE,
    CI_WRITE_QUEUE_SCHEDULED,
    CI_WRITE_QUEUE_WRITING,
    CI_WRITE_QUEUE_BLOCKED
};

struct ci_write_item {
    coir_buffer *buffer;
    uint64_t number; /* of the push: a flush waits for all that are lower than its own */
};

/* Items that have left the ring and are to be reported. */
struct ci_write_gone {
    coir_buffer *buffers[CI_WRITE_PIECES];
    size_t count;
};

struct coir_write_queue {
    /* used by the owner only */
    struct ci_worker *worker;
    coir_stream *stream; /* NULL: the queue has left it */
    struct ci_io_op op;  /* in the stream's `writer`; its driver operation polls for room */
    unsigned holds;      /* the poll, and a function that writes */
    bool freed;

    /* constant */
    size_t items_max, bytes_max;
    enum coir_overflow overflow;
    coir_outcome_fn *on_outcome;
    void *arg;
    coir_allocator allocator;

    /* guarded by the lock */
    struct ci_lock lock;
    enum ci_write_queue_state state;
    struct ci_message message; /* tells the owner to write; in flight while SCHEDULED */
    struct ci_item_ring ring;
    size_t taken, begun, waiting_bytes;
    uint64_t first_taken; /* the number of the first item that a system call is writing */
    size_t unreported;    /* items that have left the ring and are not reported yet */
    uint64_t pushed, written, dropped, failed, sent;
    int error; /* why the queue has ended; 0: it has not */
    bool finished;
    struct ci_list pushers, flushers;
};

/* ---- write_queue.c ---- */

/* The queue that writes to a stream; NULL: there is none. */
coir_write_queue *ci_write_queue_of(const coir_stream *stream);

/* Makes a queue for a stream of `worker` that has no other writer, on any thread; its memory is
 * the allocator's. NULL: out of memory. */
coir_write_queue *ci_write_queue_make(struct ci_worker *worker, coir_stream *stream,
                                      const coir_write_queue_options *options,
                                      const coir_allocator *allocator);

/* Frees one that was made so, and that no other thread knows. */
void ci_write_queue_unmake(coir_write_queue *queue);

/* On the owner: whether nothing is in the queue nor uses it, and nothing was pushed since *pushed
 * was set to what was then. Sets it. */
bool ci_write_queue_is_unused(coir_write_queue *queue, uint64_t *pushed);

/* Ends the queue and removes it from its stream, which it does not use any more. */
void ci_write_queue_leave(coir_write_queue *queue);

/* ---- write_queue_push.c ---- */

/* Pushes a buffer, whatever the policy says: -EAGAIN there is no room, and nothing is dropped. Any
 * thread. */
int ci_write_queue_push_if_room(coir_write_queue *queue, coir_buffer *buffer);

/* Pushes the last buffer (NULL: there is none), whatever the bounds and the policy say. Later
 * pushes, and those that wait, are refused with -EPIPE; what is in the queue is written. Any
 * thread. -EPIPE: the queue has ended, or is finished already; -ENOMEM: it is finished without the
 * buffer. */
int ci_write_queue_finish(coir_write_queue *queue, coir_buffer *buffer);

/* Whether that was called. Any thread. */
bool ci_write_queue_is_finished(coir_write_queue *queue);

/* ---- write_queue_write.c ---- */

/* With the lock held, after a change: true if the owner has to be sent the message, by
 * ci_write_queue_send without the lock. */
bool ci_write_queue_schedule(coir_write_queue *queue);
void ci_write_queue_send(coir_write_queue *queue);

/* The message's function: writes, on the owner. */
void ci_write_queue_deliver(struct ci_message *message);

/* On the owner: cancels the poll for room, if one is in flight. */
void ci_write_queue_stop_polling(coir_write_queue *queue);

/* On the owner, before the limit of its stream changes: a wait for room begins anew, with the new
 * one. */
void ci_write_queue_wait_anew(coir_write_queue *queue);

/* On the owner: fails all items and pushes with `error`, or with the error by which the queue has
 * ended already. */
void ci_write_queue_end(coir_write_queue *queue, int error);

/* Frees the memory of a queue that the program has freed, unless it is still held (invariant 6). */
void ci_write_queue_release(coir_write_queue *queue);

/* ---- write_queue_items.c; called with the lock held, except for the reports ---- */

static inline struct ci_write_item *ci_write_queue_at(const coir_write_queue *queue, size_t index)
{
    return (struct ci_write_item *)(void *)ci_item_ring_slot(&queue->ring, index);
}

static inline size_t ci_write_queue_len_at(const coir_write_queue *queue, size_t index)
{
    return coir_buffer_len(ci_write_queue_at(queue, index)->buffer);
}

/* How many items at the front of the ring cannot be dropped. */
static inline size_t ci_write_queue_kept(const coir_write_queue *queue)
{
    return queue->taken ? queue->taken : queue->begun > 0;
}

/* Whether a buffer of `len` bytes can be added within the bounds. */
static inline bool ci_write_queue_has_room(const coir_write_queue *queue, size_t len)
{
    size_t items = queue->ring.count - (queue->begun > 0);
    return items < queue->items_max && len <= queue->bytes_max - queue->waiting_bytes &&
           queue->waiting_bytes <= queue->bytes_max;
}

/* Whether the counts agree with the ring, as far as one look at its first item says. */
static inline bool ci_write_queue_is_counted(const coir_write_queue *queue)
{
    if (!queue->ring.count)
        return !queue->begun && !queue->taken && !queue->waiting_bytes;
    return (!queue->begun || queue->begun < ci_write_queue_len_at(queue, 0)) &&
           (queue->ring.count > 1 || !queue->begun || !queue->waiting_bytes) &&
           queue->taken <= queue->ring.count &&
           (!queue->taken || ci_write_queue_at(queue, 0)->number == queue->first_taken);
}

/* Takes the lock, which ci_lock_give releases. */
static inline void ci_write_queue_lock(coir_write_queue *queue)
{
    ci_lock_take(&queue->lock);
    const struct ci_wait *first = ci_wait_first(&queue->pushers);
    ci_check(ci_write_queue_is_counted(queue), "write_queue.h 1");
    ci_debug_check(!first || queue->error ||
                       !ci_write_queue_has_room(queue, coir_buffer_len(first->item)),
                   "write_queue.h 3");
}

/* Adds an item, which takes a reference of the buffer. Does not check the bounds. -ENOMEM. */
int ci_write_queue_put(coir_write_queue *queue, coir_buffer *buffer);

/* Moves the item at `index` from the ring to `gone`. The others stay in order. */
void ci_write_queue_take_out(coir_write_queue *queue, size_t index, struct ci_write_gone *gone);

/* Drops items, oldest first, until there is room for `len` bytes or `gone` is full; with
 * COIR_OVERFLOW_KEEP_LATEST, all that can be dropped. */
void ci_write_queue_make_room(coir_write_queue *queue, size_t len, struct ci_write_gone *gone);

/* After a system call: drops the items beyond the bounds, which were pushed during the call. */
void ci_write_queue_trim(coir_write_queue *queue, struct ci_write_gone *gone);

/* Move the waits that are over to `granted`: pushes for which there is room, and flushes. */
void ci_write_queue_grant_pushers(coir_write_queue *queue, struct ci_list *granted);
void ci_write_queue_grant_flushers(coir_write_queue *queue, struct ci_list *granted);

/* Without the lock: reports the outcome of one buffer that was not in the ring. */
void ci_write_queue_report_one(const coir_write_queue *queue, coir_buffer *buffer, int result);

/* Without the lock: reports the outcome of each item of `gone`, which is empty afterwards, and
 * wakes the tasks whose flush is over. */
void ci_write_queue_report(coir_write_queue *queue, struct ci_write_gone *gone, int result);

#endif
