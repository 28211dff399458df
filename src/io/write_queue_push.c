/* Push and flush. They never write: a push that finds the queue idle sends the owner a message. */
#include <errno.h>

#include "io/write_queue.h"
#include "task/completed.h"
#include "task/run_state.h"

/* ---- pushing ---- */

/* The results of a push besides 0 and errors. */
enum { DROPPED = 1, MORE = 2 };

/* With the lock held: 0 the buffer is in the queue; DROPPED the policy has dropped it; MORE `gone`
 * is full and has to be reported before more items are dropped; -EAGAIN the push would wait; or
 * an error. */
static int admit(coir_write_queue *queue, coir_buffer *buffer, struct ci_write_gone *gone)
{
    size_t len = coir_buffer_len(buffer);
    if (queue->error || queue->finished)
        return -EPIPE;
    if (!ci_list_empty(&queue->pushers))
        return -EAGAIN;
    if (ci_write_queue_has_room(queue, len))
        return ci_write_queue_put(queue, buffer);
    switch (queue->overflow) {
    case COIR_OVERFLOW_WAIT: return -EAGAIN;
    case COIR_OVERFLOW_DROP_NEWEST:
        queue->pushed++;
        queue->dropped++;
        return DROPPED;
    case COIR_OVERFLOW_CLOSE: queue->error = -COIR_EFULL; return -EPIPE;
    case COIR_OVERFLOW_DROP_OLDEST:
    case COIR_OVERFLOW_KEEP_LATEST: ci_write_queue_make_room(queue, len, gone); break;
    }
    /* if a system call is writing all items, none can be dropped: one is added beyond the bounds */
    return ci_write_queue_has_room(queue, len) || queue->ring.count == ci_write_queue_kept(queue)
               ? ci_write_queue_put(queue, buffer)
               : MORE;
}

/* After admit: unlocks, sends the message if there is one to send, and reports outcomes. False:
 * call admit again. */
static bool finish_push(coir_write_queue *queue, coir_buffer *buffer, int rc,
                        struct ci_write_gone *gone)
{
    ci_check(!queue->finished || ci_list_empty(&queue->pushers), "io/write_queue.h 5");
    bool send = ci_write_queue_schedule(queue);
    ci_lock_give(&queue->lock);
    if (send)
        ci_write_queue_send(queue);
    ci_write_queue_report(queue, gone, -COIR_EFULL);
    if (rc == DROPPED)
        ci_write_queue_report_one(queue, buffer, -COIR_EFULL);
    return rc != MORE;
}

static int check(const coir_write_queue *queue, const coir_buffer *buffer)
{
    if (!queue || !buffer)
        return -EINVAL;
    return coir_buffer_len(buffer) > queue->bytes_max ? -COIR_ETOOLARGE : 0;
}

int coir_write_queue_try_push(coir_write_queue *queue, coir_buffer *buffer)
{
    if (ci_forked())
        return -COIR_EFORKED;
    int rc = check(queue, buffer);
    if (rc < 0)
        return CI_MISUSE_IF(-EINVAL, rc, "queue or buffer is NULL");
    struct ci_write_gone gone = {.count = 0};
    do {
        ci_write_queue_lock(queue);
        rc = admit(queue, buffer, &gone);
    } while (!finish_push(queue, buffer, rc, &gone));
    return rc < 0 ? rc : 0;
}

int ci_write_queue_push_if_room(coir_write_queue *queue, coir_buffer *buffer)
{
    struct ci_write_gone gone = {.count = 0};
    ci_write_queue_lock(queue);
    bool refuses = queue->error || queue->finished;
    bool has_room = ci_write_queue_has_room(queue, coir_buffer_len(buffer));
    int rc = refuses || has_room ? admit(queue, buffer, &gone) : -EAGAIN;
    finish_push(queue, buffer, rc, &gone);
    return rc;
}

static bool would_wait(const coir_write_queue *queue, size_t len)
{
    return !queue->error && !queue->finished && queue->overflow == COIR_OVERFLOW_WAIT &&
           (!ci_list_empty(&queue->pushers) || !ci_write_queue_has_room(queue, len));
}

static bool start_push(struct ci_worker *worker, struct ci_wait *wait)
{
    coir_write_queue *queue = wait->object;
    coir_buffer *buffer = wait->item;
    struct ci_write_gone gone = {.count = 0};
    bool claimed = false;
    int rc;
    do {
        ci_write_queue_lock(queue);
        if (would_wait(queue, coir_buffer_len(buffer))) {
            ci_wait_queue(worker, wait, &queue->pushers);
            ci_lock_give(&queue->lock);
            return false;
        }
        claimed = claimed || ci_claim(worker->runnable, &wait->future);
        rc = claimed ? admit(queue, buffer, &gone) : -ECANCELED;
    } while (!finish_push(queue, buffer, rc, &gone));
    wait->future.result = rc < 0 ? rc : 0;
    return true;
}

/* The pushes behind the one that is withdrawn may be smaller, and fit. */
static int cancel_push(coir_future *future, int reason)
{
    struct ci_wait *wait = ci_container_of(future, struct ci_wait, future);
    coir_write_queue *queue = wait->object;
    struct ci_list granted;
    ci_list_init(&granted);
    ci_write_queue_lock(queue);
    bool withdrawn = ci_wait_withdraw(wait, reason);
    ci_write_queue_grant_pushers(queue, &granted);
    bool send = ci_write_queue_schedule(queue);
    ci_lock_give(&queue->lock);
    if (send)
        ci_write_queue_send(queue);
    ci_wait_wake_all(&granted);
    return withdrawn;
}

static const struct ci_wait_kind push_kind =
    CI_WAIT_KIND("room in a write queue", start_push, cancel_push, NULL);

static struct ci_wait_for to_push(coir_write_queue *queue, coir_buffer *buffer)
{
    return (struct ci_wait_for){
        .kind = &push_kind, .lock = &queue->lock, .object = queue, .item = buffer};
}

coir_future *coir_write_queue_push_op(coir_wait_op *op, coir_write_queue *queue,
                                      coir_buffer *buffer)
{
    int rc = op ? check(queue, buffer) : -EINVAL;
    if (rc < 0)
        return ci_completed_op(op, CI_MISUSE_IF(-EINVAL, rc, "op, queue or buffer is NULL"));
    return ci_wait_op(op, to_push(queue, buffer));
}

int coir_write_queue_push(coir_write_queue *queue, coir_buffer *buffer)
{
    int rc = check(queue, buffer);
    if (rc == -EINVAL)
        return CI_MISUSE(rc, "queue or buffer is NULL");
    coir_wait_op op;
    return rc < 0 ? (int)ci_await_in_fiber(ci_completed_op(&op, rc))
                  : (int)ci_wait_in_fiber(to_push(queue, buffer));
}

static coir_future *make_push(const coir_case *self, void *op)
{
    return coir_write_queue_push_op(op, self->object, self->data);
}

coir_case coir_case_push(coir_write_queue *queue, coir_buffer *buffer)
{
    if (!queue || !buffer)
        return ci_completed_case(CI_MISUSE(-EINVAL, "queue or buffer is NULL"));
    return (coir_case){.make = make_push, .object = queue, .data = buffer};
}

/* ---- the last push ---- */

int ci_write_queue_finish(coir_write_queue *queue, coir_buffer *buffer)
{
    struct ci_list granted;
    ci_list_init(&granted);
    ci_write_queue_lock(queue);
    int rc = queue->error || queue->finished ? -EPIPE : 0;
    if (rc == 0 && buffer)
        rc = ci_write_queue_put(queue, buffer);
    queue->finished = true;
    ci_wait_grant_all(&queue->pushers, -EPIPE, &granted);
    bool send = ci_write_queue_schedule(queue);
    ci_lock_give(&queue->lock);
    if (send)
        ci_write_queue_send(queue);
    ci_wait_wake_all(&granted);
    return rc;
}

bool ci_write_queue_is_finished(coir_write_queue *queue)
{
    ci_write_queue_lock(queue);
    bool finished = queue->finished;
    ci_lock_give(&queue->lock);
    return finished;
}

/* ---- flushing ---- */

static bool start_flush(struct ci_worker *worker, struct ci_wait *wait)
{
    coir_write_queue *queue = wait->object;
    ci_write_queue_lock(queue);
    bool complete = !queue->ring.count && !queue->unreported;
    wait->future.result = queue->error;
    wait->amount = queue->pushed;
    if (!complete)
        ci_wait_queue(worker, wait, &queue->flushers);
    ci_lock_give(&queue->lock);
    return complete;
}

static const struct ci_wait_kind flush_kind =
    CI_WAIT_KIND("a write queue to be written", start_flush, ci_wait_cancel, NULL);

static struct ci_wait_for to_flush(coir_write_queue *queue)
{
    return (struct ci_wait_for){.kind = &flush_kind, .lock = &queue->lock, .object = queue};
}

coir_future *coir_write_queue_flush_op(coir_wait_op *op, coir_write_queue *queue)
{
    return op && queue ? ci_wait_op(op, to_flush(queue))
                       : ci_completed_op(op, CI_MISUSE(-EINVAL, "op or queue is NULL"));
}

int coir_write_queue_flush(coir_write_queue *queue)
{
    return queue ? (int)ci_wait_in_fiber(to_flush(queue)) : CI_MISUSE(-EINVAL, "queue is NULL");
}

static coir_future *make_flush(const coir_case *self, void *op)
{
    return coir_write_queue_flush_op(op, self->object);
}

coir_case coir_case_flush(coir_write_queue *queue)
{
    if (!queue)
        return ci_completed_case(CI_MISUSE(-EINVAL, "queue is NULL"));
    return (coir_case){.make = make_flush, .object = queue};
}
