/* Write queues: many tasks, on any worker, push buffers; the queue writes them to its stream in the
 * order of the pushes, as many at once as the stream takes. No task waits for the peer. A buffer
 * can be in any number of queues and is never copied: a broadcast is
 *
 *   for (size_t i = 0; i < count; i++)
 *       coir_write_queue_try_push(queues[i], buffer);
 *
 * A queue has a limit of buffers and a limit of bytes; enum coir_overflow says what a push does
 * when the queue is full. A buffer whose first byte has been written is never dropped, and does not
 * count against the limits. The buffers that a system call is writing (64 at most) are not dropped
 * either: if there are no others, a policy that drops older buffers lets one exceed the limits
 * meanwhile.
 *
 * Each buffer that was pushed has exactly one outcome: it was written (the system has taken all of
 * its bytes), it was dropped by the queue's policy, or it failed when the queue ended.
 *
 * A queue ends when its stream is closed, when a write fails, or by COIR_OVERFLOW_CLOSE. The
 * buffers in it fail then, and later pushes are refused. A peer that stays connected and takes
 * nothing, or too little, does not end it: coir_stream_set_timeout does, with -ETIMEDOUT. */
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

/* Called with the outcome of each buffer, on the thread that wrote, dropped or failed it: 0 it was
 * written; -COIR_EFULL it was dropped, or the queue was full and ended by its policy; -ECANCELED
 * the stream was closed or the queue freed; otherwise the error of the write that failed. It must
 * not suspend; the buffer is borrowed. */
typedef void coir_outcome_fn(coir_buffer *buffer, int result, void *arg);

/* Options of a write queue. */
typedef struct coir_write_queue_options {
    size_t size;      /* sizeof(coir_write_queue_options), set by COIR_WRITE_QUEUE_OPTIONS */
    size_t items_max; /* [1024] buffers in the queue */
    size_t bytes_max; /* [1 MiB] bytes in those buffers */
    enum coir_overflow overflow; /* [COIR_OVERFLOW_WAIT] what a push does when it is full */
    coir_outcome_fn *on_outcome; /* [none] called once for each buffer */
    void *arg;                   /* passed to on_outcome */
} coir_write_queue_options;

#define COIR_WRITE_QUEUE_OPTIONS                                               \
    {                                                                          \
        sizeof(coir_write_queue_options), 0, 0, COIR_OVERFLOW_WAIT, NULL, NULL \
    }

/* Makes a write queue for a stream. Until the queue is freed it is the stream's only writer: other
 * calls that write, or wait until one can, return -EBUSY.
 * Suspends: no.  Threads: owner of the stream.  Owns: *ret_queue is the caller's to free.
 * Errors: -ENOMEM; -EBUSY a task writes, or the stream has a queue; -EXDEV; -ESRCH; -EINVAL stream
 * or ret_queue is NULL. */
COIR_API int coir_write_queue_new(coir_stream *stream, coir_write_queue **ret_queue);

/* Makes a write queue with options. As coir_write_queue_new.
 * Errors also: -EINVAL an unknown policy; -COIR_EUNSIZED; -COIR_ENEWER. */
COIR_API int coir_write_queue_new_with(coir_stream *stream, const coir_write_queue_options *options,
                                       coir_write_queue **ret_queue);

/* Frees a write queue. The buffers in it fail: call coir_write_queue_flush first to have them
 * written. No task may be using the queue or waiting for it; on_outcome may free it with the last
 * buffer, unless a push has dropped that. The stream stays open, and can be closed before or after.
 * It can be written to again; if a buffer was partly written, the peer has got only the beginning
 * of it. Takes NULL.
 * Suspends: no.  Threads: owner. */
COIR_API void coir_write_queue_free(coir_write_queue *queue);

/* Pushes a buffer into a write queue, which takes a reference of its own. With COIR_OVERFLOW_WAIT,
 * waits while the queue is full.
 * Suspends: yes, while there is no room.  Threads: worker.
 * Errors: -EPIPE the queue has ended, or was full and ends by its policy; -COIR_ETOOLARGE the
 * buffer is larger than bytes_max; -ENOMEM; -EINVAL queue or buffer is NULL.
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

/* Waits until every buffer pushed before the call has its outcome.
 * Suspends: yes.  Threads: worker.
 * Errors: the error by which the queue has ended, if it has; -EINVAL queue is NULL.
 * Cancel safety: nothing is lost. */
COIR_SUSPENDS int coir_write_queue_flush(coir_write_queue *queue);
COIR_API coir_future *coir_write_queue_flush_op(coir_wait_op *op, coir_write_queue *queue);

/* A flush of a write queue, as a case of coir_select. As coir_write_queue_flush. */
COIR_API coir_case coir_case_flush(coir_write_queue *queue);

/* The counters of a write queue. Each buffer that was pushed is counted in exactly one of items,
 * written, dropped and failed. */
typedef struct coir_write_queue_stats {
    size_t size;      /* sizeof(coir_write_queue_stats), set by COIR_WRITE_QUEUE_STATS */
    uint64_t items;   /* buffers in the queue now */
    uint64_t written; /* buffers that were written completely */
    uint64_t dropped; /* buffers that were dropped by the policy */
    uint64_t failed;  /* buffers that were in the queue when it ended */
    uint64_t bytes;   /* bytes in the queue that are not written yet */
    uint64_t sent;    /* bytes that were written */
    int error;        /* why the queue has ended; 0: it has not */
} coir_write_queue_stats;

#define COIR_WRITE_QUEUE_STATS                              \
    {                                                       \
        sizeof(coir_write_queue_stats), 0, 0, 0, 0, 0, 0, 0 \
    }

/* Reads the counters of a write queue.
 * Suspends: no.  Threads: any.
 * Errors: -EINVAL queue or ret_stats is NULL; -COIR_EUNSIZED. */
COIR_API int coir_write_queue_stats_get(coir_write_queue *queue, coir_write_queue_stats *ret_stats);

#ifdef __cplusplus
}
#endif

#endif
