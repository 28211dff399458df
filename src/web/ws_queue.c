/* The write queue of a WebSocket connection (ws.h 6): made when something is sent, by whichever
 * worker sends it, and freed by the owner of a connection that rests. */
#include <errno.h>

#include "coir/fiber.h"
#include "io/write_queue.h"
#include "sync/mutex.h"
#include "web/ws.h"

/* In place of a queue: the connection has ended without one, and there will be none. */
static char ended;
#define ENDED ((coir_write_queue *)(void *)&ended)

static coir_write_queue *queue_of(coir_ws *ws)
{
    /* pairs with the compare-and-swap in place_if_none, which publishes a queue */
    coir_write_queue *queue = ci_load(&ws->queue);
    return queue == ENDED ? NULL : queue;
}

/* What is there afterwards: `queue`, or what another worker has placed. */
static coir_write_queue *place_if_none(coir_ws *ws, coir_write_queue *queue)
{
    coir_write_queue *there = NULL;
    return ci_compare_exchange(&ws->queue, &there, queue) ? queue : there;
}

static coir_write_queue *make(coir_ws *ws)
{
    coir_write_queue_options how = COIR_WRITE_QUEUE_OPTIONS;
    how.items_max = ws->items_max;
    how.bytes_max = ws->bytes_max;
    how.overflow = (enum coir_overflow)ws->overflow;
    coir_write_queue *made = ci_write_queue_make(ws->http->worker, ws->stream, &how);
    if (!made)
        return NULL;
    coir_write_queue *there = place_if_none(ws, made);
    if (there != made)
        ci_write_queue_unmake(made);
    return there;
}

int ci_ws_queue(coir_ws *ws, coir_write_queue **ret_queue)
{
    coir_write_queue *queue = ci_load(&ws->queue);
    if (ci_unlikely(!queue) && !(queue = make(ws)))
        return -ENOMEM;
    if (queue == ENDED)
        return -EPIPE;
    *ret_queue = queue;
    return 0;
}

void ci_ws_queue_finish(coir_ws *ws)
{
    coir_write_queue *queue = place_if_none(ws, ENDED);
    if (queue != ENDED)
        ci_write_queue_finish(queue, NULL);
}

void ci_ws_queue_free(coir_ws *ws)
{
    coir_write_queue_free(queue_of(ws));
    ci_store(&ws->queue, ENDED);
}

bool ci_ws_queue_stats(coir_ws *ws, coir_write_queue_stats *stats)
{
    coir_write_queue *queue = queue_of(ws);
    return queue && coir_write_queue_stats_get(queue, stats) == 0;
}

/* Between `flushing` and `queue` here and in ci_ws_queue_rest is a total order: either this sees
 * that there is no queue, or the owner sees that it is in use. */
int ci_ws_queue_flush(coir_ws *ws)
{
    int rc = 0;
    ci_fetch_add(&ws->flushing, 1);
    coir_write_queue *queue = queue_of(ws);
    if (queue)
        rc = coir_write_queue_flush(queue);
    else if (ci_fiber_enter(&rc))
        rc = ci_spend_and_return(ci_worker_current);
    ci_fetch_sub(&ws->flushing, 1);
    return rc;
}

/* With the turn nobody else pushes: what is pushed without it, the owner does. */
static void free_unused(coir_ws *ws, coir_write_queue *queue)
{
    ci_check(ci_mutex_is_held(&ws->turn), "web/ws.h 6");
    if (!ci_write_queue_is_unused(queue, &ws->pushed))
        return;
    ci_store(&ws->queue, NULL);
    if (ci_load(&ws->flushing)) {
        ci_store(&ws->queue, queue);
        return;
    }
    coir_write_queue_free(queue);
    ws->pushed = ws->taken = 0;
}

bool ci_ws_queue_rest(coir_ws *ws)
{
    coir_write_queue *queue = queue_of(ws);
    if (queue && ci_write_queue_is_unused(queue, &ws->pushed) &&
        coir_mutex_try_lock(&ws->turn) == 0) {
        free_unused(ws, queue);
        coir_mutex_unlock(&ws->turn);
    }
    return !queue_of(ws);
}
