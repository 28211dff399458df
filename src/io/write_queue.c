/* Making and freeing write queues, and their counters. */
#include "io/write_queue.h"

#include <errno.h>

#include "sync/allocator.h"
#include "task/run_state.h"

enum { ITEMS_MAX = 1024, BYTES_MAX = 1024 * 1024 };

static const coir_future_kind writer_kind = COIR_FUTURE_KIND("a write queue", NULL, NULL);

coir_write_queue *ci_write_queue_of(const coir_stream *stream)
{
    return stream->writer && stream->writer->future.kind == &writer_kind
               ? ci_container_of(stream->writer, coir_write_queue, op)
               : NULL;
}

void ci_write_queue_leave(coir_write_queue *queue)
{
    coir_stream *stream = queue->stream;
    ci_write_queue_stop_polling(queue);
    ci_check(stream->writer == &queue->op || !stream->writer, "write_queue.h 4");
    stream->writer = NULL;
    queue->stream = NULL;
    ci_write_queue_end(queue, -ECANCELED);
}

static void init(coir_write_queue *queue, struct ci_worker *worker, coir_stream *stream,
                 const coir_write_queue_options *options, const coir_allocator *allocator)
{
    queue->worker = worker;
    queue->stream = stream;
    queue->op.future.kind = &writer_kind;
    queue->items_max = options->items_max ? options->items_max : ITEMS_MAX;
    queue->bytes_max = options->bytes_max ? options->bytes_max : BYTES_MAX;
    queue->overflow = options->overflow;
    queue->on_outcome = options->on_outcome;
    queue->arg = options->arg;
    queue->allocator = *allocator;
    queue->message.deliver = ci_write_queue_deliver;
    ci_list_init(&queue->pushers);
    ci_list_init(&queue->flushers);
    ci_item_ring_init(&queue->ring, &queue->allocator, sizeof(struct ci_write_item),
                      COIR_UNLIMITED);
}

coir_write_queue *ci_write_queue_make(struct ci_worker *worker, coir_stream *stream,
                                      const coir_write_queue_options *options,
                                      const coir_allocator *allocator)
{
    coir_write_queue *queue = ci_alloc_zero(allocator, sizeof *queue);
    if (queue)
        init(queue, worker, stream, options, allocator);
    return queue;
}

void ci_write_queue_unmake(coir_write_queue *queue)
{
    coir_allocator allocator = queue->allocator;
    ci_free(&allocator, queue, sizeof *queue);
}

bool ci_write_queue_is_unused(coir_write_queue *queue, uint64_t *pushed)
{
    ci_write_queue_lock(queue);
    bool unused = queue->pushed == *pushed && queue->state == CI_WRITE_QUEUE_IDLE &&
                  !queue->ring.count && !queue->unreported && !queue->holds && !queue->error &&
                  !queue->finished && ci_list_empty(&queue->pushers) &&
                  ci_list_empty(&queue->flushers);
    *pushed = queue->pushed;
    ci_lock_give(&queue->lock);
    return unused;
}

static int make(coir_stream *stream, const coir_write_queue_options *given,
                coir_write_queue **ret_queue, const char *call, const void *place)
{
    struct ci_worker *worker = ci_worker_current;
    if (!worker)
        return ci_no_worker();
    coir_write_queue_options options = COIR_WRITE_QUEUE_OPTIONS;
    int rc = ci_options_read(&options, sizeof options, given);
    if (rc == 0 && (unsigned)options.overflow > COIR_OVERFLOW_KEEP_LATEST)
        rc = -EINVAL;
    if (rc == 0 && stream->worker != worker)
        rc = stream->worker ? ci_elsewhere(stream->worker, call, place)
                            : ci_stream_adopt(stream, worker);
    if (rc == 0 && ci_stream_busy(stream, &stream->writer, NULL))
        rc = -EBUSY;
    if (rc < 0)
        return rc;
    coir_write_queue *queue =
        ci_write_queue_make(worker, stream, &options, &worker->runtime->allocator);
    if (!queue)
        return -ENOMEM;
    stream->writer = &queue->op;
    *ret_queue = queue;
    return 0;
}

int coir_write_queue_new_with(coir_stream *stream, const coir_write_queue_options *options,
                              coir_write_queue **ret_queue)
{
    if (ci_forked())
        return -COIR_EFORKED;
    return stream && ret_queue ? make(stream, options, ret_queue, CI_CALL, CI_PLACE)
                               : CI_MISUSE(-EINVAL, "stream or ret_queue is NULL");
}

int coir_write_queue_new(coir_stream *stream, coir_write_queue **ret_queue)
{
    if (ci_forked())
        return -COIR_EFORKED;
    return stream && ret_queue ? make(stream, NULL, ret_queue, CI_CALL, CI_PLACE)
                               : CI_MISUSE(-EINVAL, "stream or ret_queue is NULL");
}

static bool is_waited_for(coir_write_queue *queue)
{
    ci_write_queue_lock(queue);
    bool waits = !ci_list_empty(&queue->pushers) || !ci_list_empty(&queue->flushers);
    ci_lock_give(&queue->lock);
    return waits;
}

void coir_write_queue_free(coir_write_queue *queue)
{
    if (!queue || ci_forked() || CI_ELSEWHERE(queue->worker) ||
        CI_REFUSED_AS(-EBUSY, is_waited_for(queue),
                      "tasks push or flush; close the stream, and let their calls return first"))
        return;
    ci_write_queue_lock(queue);
    ci_check(ci_list_empty(&queue->pushers) && ci_list_empty(&queue->flushers), "write_queue.h 3");
    ci_lock_give(&queue->lock);
    if (queue->stream)
        ci_write_queue_leave(queue);
    queue->freed = true;
    ci_write_queue_release(queue);
}

int coir_write_queue_stats_get(coir_write_queue *queue, coir_write_queue_stats *ret_stats)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!queue || !ret_stats)
        return CI_MISUSE(-EINVAL, "queue or ret_stats is NULL");
    ci_write_queue_lock(queue);
    coir_write_queue_stats stats = {
        .size = sizeof stats,
        .items = queue->ring.count,
        .written = queue->written,
        .dropped = queue->dropped,
        .failed = queue->failed,
        .bytes = queue->waiting_bytes +
                 (queue->begun ? ci_write_queue_len_at(queue, 0) - queue->begun : 0),
        .sent = queue->sent,
        .error = queue->error,
    };
    ci_lock_give(&queue->lock);
    return ci_result_write(ret_stats, &stats, sizeof stats);
}
