/* Write queues: what is to be written to a stream, by many tasks of any worker, none of which waits
 * for the peer. A queue is fed with buffers, and writes them in their order, as many at once as the
 * stream takes. A buffer goes into any number of queues, and is copied into none: a broadcast is
 *
 *   for (size_t i = 0; i < count; i++)
 *       coir_write_queue_try_push(queues[i], buffer);
 *
 * A queue is bounded in buffers and in bytes; when it is full, enum coir_overflow says what
 * happens. A buffer whose first byte has been written is written to its end, or the queue ends; it
 * does not count against the bounds any more, nor do buffers that the system is taking at the
 * moment, 64 at most.
 *
 * Each buffer that was pushed has exactly one outcome: it was written (the system has taken all of
 * its bytes), it was dropped by the queue's policy, or it failed with the queue.
 *
 * A queue ends when its stream is closed, when a write fails, or by COIR_OVERFLOW_CLOSE. What lies
 * in it fails then, and what is pushed is refused. */
#ifndef COIR_WRITE_QUEUE_H
#define COIR_WRITE_QUEUE_H

#include <coir/buffer.h>
#include <coir/channel.h>
#include <coir/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A write queue. It is made by coir_write_queue_new. */
typedef struct coir_write_queue coir_write_queue;

/* What is called with the outcome of each buffer, on the thread where that comes about: 0 it was
 * written; -COIR_EFULL it was dropped, or the queue was full and ended by its policy; -ECANCELED
 * the stream was closed or the queue freed; otherwise the error of the write that failed. It must
 * not suspend; the buffer is borrowed. */
typedef void coir_outcome_fn(coir_buffer *buffer, int result, void *arg);

/* Options of a write queue. */
typedef struct coir_write_queue_options {
    size_t size;      /* sizeof(coir_write_queue_options), set by COIR_WRITE_QUEUE_OPTIONS */
    size_t items_max; /* [1024] buffers in the queue */
    size_t bytes_max; /* [1 MiB] bytes in them */
    enum coir_overflow overflow; /* [COIR_OVERFLOW_WAIT] what happens when either is reached */
    coir_outcome_fn *on_outcome; /* [none] called once for each buffer */
    void *arg;                   /* given to it */
} coir_write_queue_options;

#define COIR_WRITE_QUEUE_OPTIONS                                               \
    {                                                                          \
        sizeof(coir_write_queue_options), 0, 0, COIR_OVERFLOW_WAIT, NULL, NULL \
    }

/* Makes a write queue of a stream. Until the queue is freed it is the stream's only writer: other
 * calls that write, or wait until one can, return -EBUSY.
 * Suspends: no.  Threads: owner of the stream.  Owns: *ret_queue is the caller's to free.
 * Errors: -ENOMEM; -EBUSY a task writes, or the stream has a queue; -EXDEV; -ESRCH; -EINVAL no
 * stream, or nowhere for the queue. */
COIR_API int coir_write_queue_new(coir_stream *stream, coir_write_queue **ret_queue);

/* Makes a write queue as its options say. As coir_write_queue_new.
 * Errors also: -EINVAL an unknown policy; -COIR_EUNSIZED; -COIR_ENEWER. */
COIR_API int coir_write_queue_new_with(coir_stream *stream, const coir_write_queue_options *options,
                                       coir_write_queue **ret_queue);

/* Frees a write queue. What lies in it fails; to have it written, call coir_write_queue_flush
 * before. No task may use it or wait for it any more. The stream stays, and may be closed before or
 * after; it can be written to as before, if no buffer was cut off in the middle. Takes NULL.
 * Suspends: no.  Threads: owner. */
COIR_API void coir_write_queue_free(coir_write_queue *queue);

/* Pushes a buffer into a write queue, which takes a reference of its own. A queue with
 * COIR_OVERFLOW_WAIT is waited for while it is full.
 * Suspends: yes, while there is no room.  Threads: worker.
 * Errors: -EPIPE it has ended, or ends as it is full; -COIR_ETOOLARGE the buffer is larger than
 * all of the queue; -ENOMEM; -EINVAL no queue, or no buffer.
 * Cancel safety: an error means that the buffer was not pushed. */
COIR_SUSPENDS int coir_write_queue_push(coir_write_queue *queue, coir_buffer *buffer);
COIR_API coir_future *coir_write_queue_push_op(coir_wait_op *op, coir_write_queue *queue,
                                               coir_buffer *buffer);

/* A push into a write queue, as a case of coir_select. As coir_write_queue_push. */
COIR_API coir_case coir_case_push(coir_write_queue *queue, coir_buffer *buffer);

/* Pushes a buffer into a write queue, and never waits. As coir_write_queue_push.
 * Suspends: no.  Threads: any.
 * Errors also: -EAGAIN it would have to wait. */
COIR_API int coir_write_queue_try_push(coir_write_queue *queue, coir_buffer *buffer);

/* Waits until every buffer that was pushed before has its outcome.
 * Suspends: yes.  Threads: worker.
 * Errors: why the queue has ended, if it has; -EINVAL no queue.
 * Cancel safety: nothing is lost. */
COIR_SUSPENDS int coir_write_queue_flush(coir_write_queue *queue);
COIR_API coir_future *coir_write_queue_flush_op(coir_wait_op *op, coir_write_queue *queue);

/* A flush of a write queue, as a case of coir_select. As coir_write_queue_flush. */
COIR_API coir_case coir_case_flush(coir_write_queue *queue);

/* What a write queue has done, and holds. Of all buffers that were pushed, each is in one of the
 * first four. */
typedef struct coir_write_queue_stats {
    size_t size;      /* sizeof(coir_write_queue_stats), set by COIR_WRITE_QUEUE_STATS */
    uint64_t items;   /* buffers in the queue now */
    uint64_t written; /* buffers that were written, all of them */
    uint64_t dropped; /* buffers that were dropped by the policy */
    uint64_t failed;  /* buffers that were in the queue when it ended */
    uint64_t bytes;   /* in the queue now, that are not written yet */
    uint64_t sent;    /* bytes that were written */
    int error;        /* why it has ended; 0: it has not */
} coir_write_queue_stats;

#define COIR_WRITE_QUEUE_STATS                              \
    {                                                       \
        sizeof(coir_write_queue_stats), 0, 0, 0, 0, 0, 0, 0 \
    }

/* Tells what a write queue has done, and holds.
 * Suspends: no.  Threads: any.
 * Errors: -EINVAL no queue, or no ret_stats; -COIR_EUNSIZED. */
COIR_API int coir_write_queue_stats_get(coir_write_queue *queue, coir_write_queue_stats *ret_stats);

#ifdef __cplusplus
}
#endif

#endif
