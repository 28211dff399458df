/* The items of a write queue: the ring and its bounds, the outcomes, and the waits that depend on
 * them. The invariants are in write_queue.h. */
#include "io/write_queue.h"

int ci_write_queue_put(coir_write_queue *queue, coir_buffer *buffer)
{
    struct ci_write_item item = {buffer, queue->pushed};
    int rc = ci_item_ring_put(&queue->ring, &item);
    if (rc < 0)
        return rc;
    coir_buffer_ref(buffer);
    queue->pushed++;
    queue->waiting_bytes += coir_buffer_len(buffer);
    return 0;
}

void ci_write_queue_take_out(coir_write_queue *queue, size_t index, struct ci_write_gone *gone)
{
    struct ci_write_item item = *ci_write_queue_at(queue, index);
    if (index > 0 || queue->begun == 0)
        queue->waiting_bytes -= coir_buffer_len(item.buffer);
    else
        queue->begun = 0;
    for (; index > 0; index--)
        *ci_write_queue_at(queue, index) = *ci_write_queue_at(queue, index - 1);
    ci_item_ring_drop(&queue->ring);
    queue->unreported++;
    gone->buffers[gone->count++] = item.buffer;
}

/* ---- dropping ---- */

void ci_write_queue_make_room(coir_write_queue *queue, size_t len, struct ci_write_gone *gone)
{
    bool all = queue->overflow == COIR_OVERFLOW_KEEP_LATEST;
    while (gone->count < CI_WRITE_PIECES && queue->ring.count > ci_write_queue_kept(queue) &&
           (all || !ci_write_queue_has_room(queue, len))) {
        ci_write_queue_take_out(queue, ci_write_queue_kept(queue), gone);
        queue->dropped++;
    }
}

void ci_write_queue_trim(coir_write_queue *queue, struct ci_write_gone *gone)
{
    while (!queue->finished && queue->ring.count > ci_write_queue_kept(queue) &&
           (queue->ring.count - (queue->begun > 0) > queue->items_max ||
            queue->waiting_bytes > queue->bytes_max)) {
        ci_write_queue_take_out(queue, ci_write_queue_kept(queue), gone);
        queue->dropped++;
    }
}

/* ---- waits ---- */

void ci_write_queue_grant_pushers(coir_write_queue *queue, struct ci_list *granted)
{
    struct ci_wait *first;
    while ((first = ci_wait_first(&queue->pushers)) && !queue->error &&
           ci_write_queue_has_room(queue, coir_buffer_len(first->item)))
        if (ci_wait_decide(first)) {
            first->future.result = ci_write_queue_put(queue, first->item);
            ci_list_push(granted, &first->link);
        }
}

void ci_write_queue_grant_flushers(coir_write_queue *queue, struct ci_list *granted)
{
    struct ci_wait *first;
    while ((first = ci_wait_first(&queue->flushers)) && !queue->unreported &&
           (!queue->ring.count || ci_write_queue_at(queue, 0)->number >= first->amount))
        if (ci_wait_decide(first)) {
            first->future.result = queue->error;
            ci_list_push(granted, &first->link);
        }
}

/* ---- outcomes ---- */

void ci_write_queue_report_one(const coir_write_queue *queue, coir_buffer *buffer, int result)
{
    if (queue->on_outcome)
        queue->on_outcome(buffer, result, queue->arg);
}

void ci_write_queue_report(coir_write_queue *queue, struct ci_write_gone *gone, int result)
{
    if (!gone->count)
        return;
    for (size_t i = 0; i < gone->count; i++) {
        ci_write_queue_report_one(queue, gone->buffers[i], result);
        coir_buffer_unref(gone->buffers[i]);
    }
    struct ci_list granted;
    ci_list_init(&granted);
    ci_write_queue_lock(queue);
    ci_check(queue->unreported >= gone->count, "write_queue.h 2");
    queue->unreported -= gone->count;
    ci_write_queue_grant_flushers(queue, &granted);
    ci_lock_give(&queue->lock);
    ci_wait_wake_all(&granted);
    gone->count = 0;
}
