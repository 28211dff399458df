/* The sending half of a WebSocket connection (ws.h 6): made when something is sent, by whichever
 * worker sends it, and freed by the owner of a connection that rests.
 *
 * 1. Who uses the sender is counted in `senders` before it looks for it. The owner frees it only
 * after it has exchanged a count of 0 for CI_WS_FREEING, for as long as it takes.
 */
#include <errno.h>

#include "coir/fiber.h"
#include "io/write_queue.h"
#include "sync/mutex.h"
#include "sys/lock.h"
#include "web/ws.h"
#include "web/ws_deflate.h"

/* In place of a sender: the connection has ended without one, and there will be none. */
static char ended;
#define ENDED ((struct ci_ws_sender *)(void *)&ended)

struct ci_ws_sender *ci_ws_sender_of(const coir_ws *ws)
{
    /* pairs with the compare-and-swap in place_if_none, which publishes a sender */
    struct ci_ws_sender *sender = ci_load(&ws->sender);
    return sender == ENDED ? NULL : sender;
}

/* ---- making ---- */

/* What is there afterwards: `sender`, or what another worker has placed. */
static struct ci_ws_sender *place_if_none(coir_ws *ws, struct ci_ws_sender *sender)
{
    struct ci_ws_sender *there = NULL;
    return ci_compare_exchange(&ws->sender, &there, sender) ? sender : there;
}

/* So that one that sends now and then costs no allocation. */
static const coir_allocator *allocator_of(const coir_ws *ws)
{
    return &ci_ws_http(ws)->messages.blocks;
}

static coir_write_queue *make_queue(const coir_ws *ws)
{
    coir_write_queue_options how = COIR_WRITE_QUEUE_OPTIONS;
    how.items_max = ws->terms->items_max;
    how.bytes_max = ws->terms->bytes_max;
    how.overflow = (enum coir_overflow)ws->terms->overflow;
    return ci_write_queue_make(ci_ws_http(ws)->worker, ws->stream, &how, allocator_of(ws));
}

static void unmake(const coir_ws *ws, struct ci_ws_sender *sender)
{
    if (sender->queue)
        ci_write_queue_unmake(sender->queue);
    ci_free(allocator_of(ws), sender, sizeof *sender);
}

static struct ci_ws_sender *make(coir_ws *ws)
{
    struct ci_ws_sender *made = ci_alloc_zero(allocator_of(ws), sizeof *made);
    if (!made)
        return NULL;
    if (!(made->queue = make_queue(ws))) {
        unmake(ws, made);
        return NULL;
    }
    struct ci_ws_sender *there = place_if_none(ws, made);
    if (there != made)
        unmake(ws, made);
    return there;
}

/* ---- using ---- */

static void wait_while_freeing(const coir_ws *ws)
{
    for (unsigned round = 0; ci_load(&ws->senders) & CI_WS_FREEING; round++)
        ci_pause(round);
}

static void begin_use(coir_ws *ws)
{
    while (ci_unlikely(ci_fetch_add(&ws->senders, 1) & CI_WS_FREEING)) {
        ci_fetch_sub(&ws->senders, 1);
        wait_while_freeing(ws);
    }
}

void ci_ws_sender_leave(coir_ws *ws)
{
    ci_debug_check(ci_load_relaxed(&ws->senders) & ~CI_WS_FREEING, "ws_sender.c 1");
    ci_fetch_sub(&ws->senders, 1);
}

int ci_ws_sender_enter(coir_ws *ws, struct ci_ws_sender **ret_sender)
{
    begin_use(ws);
    struct ci_ws_sender *sender = ci_load(&ws->sender);
    if (ci_unlikely(!sender))
        sender = make(ws);
    if (ci_unlikely(!sender || sender == ENDED)) {
        ci_ws_sender_leave(ws);
        return sender ? -EPIPE : -ENOMEM;
    }
    *ret_sender = sender;
    return 0;
}

struct ci_ws_sender *ci_ws_sender_enter_if_any(coir_ws *ws)
{
    begin_use(ws);
    struct ci_ws_sender *sender = ci_ws_sender_of(ws);
    if (!sender)
        ci_ws_sender_leave(ws);
    return sender;
}

int ci_ws_sender_flush(coir_ws *ws)
{
    int rc = 0;
    struct ci_ws_sender *sender = ci_ws_sender_enter_if_any(ws);
    if (sender) {
        rc = coir_write_queue_flush(sender->queue);
        ci_ws_sender_leave(ws);
    } else if (ci_fiber_enter(&rc)) {
        rc = ci_spend_and_return(ci_worker_current);
    }
    return rc;
}

/* ---- silence ---- */

/* The bytes of a ping that the queue took while it was empty do not count. */
bool ci_ws_sender_is_read(coir_ws *ws)
{
    coir_write_queue_stats stats = COIR_WRITE_QUEUE_STATS;
    struct ci_ws_sender *sender = ci_ws_sender_of(ws);
    if (!sender || coir_write_queue_stats_get(sender->queue, &stats) < 0)
        return false;
    bool is_read = (stats.items || sender->was_queued) && stats.sent != sender->taken;
    sender->taken = stats.sent;
    sender->was_queued = stats.items;
    return is_read;
}

/* ---- ending ---- */

void ci_ws_sender_end_turn(struct ci_ws_sender *sender, const void *by)
{
    if (by && ci_compare_exchange(&sender->parts_by, &by, NULL))
        coir_mutex_unlock(&sender->turn);
}

void ci_ws_sender_keep_turn(struct ci_ws_sender *sender)
{
    const void *by = ci_worker_current->runnable;
    ci_store(&sender->parts_by, by);
    if (ci_unlikely(ci_write_queue_is_finished(sender->queue))) /* else it sees the store */
        ci_ws_sender_end_turn(sender, by);
}

/* Who sends in parts may never come back, and others wait for the turn. */
int ci_ws_sender_finish_with(struct ci_ws_sender *sender, coir_ws_message *last)
{
    int rc = ci_write_queue_finish(sender->queue, last ? &last->frame : NULL);
    ci_ws_sender_end_turn(sender, ci_load(&sender->parts_by));
    return rc;
}

void ci_ws_sender_finish(coir_ws *ws)
{
    struct ci_ws_sender *sender = place_if_none(ws, ENDED);
    if (sender != ENDED)
        ci_ws_sender_finish_with(sender, NULL);
}

void ci_ws_sender_drop(coir_ws *ws)
{
    coir_write_queue_stats stats = COIR_WRITE_QUEUE_STATS;
    struct ci_ws_sender *sender = ci_ws_sender_of(ws);
    if (sender && coir_write_queue_stats_get(sender->queue, &stats) == 0 && stats.items &&
        sender->queue->stream)
        ci_write_queue_leave(sender->queue);
}

void ci_ws_sender_end(coir_ws *ws)
{
    struct ci_ws_sender *sender = ci_ws_sender_of(ws);
    ci_store(&ws->sender, ENDED);
    if (!sender)
        return;
    coir_write_queue_free(sender->queue);
    sender->queue = NULL;
    ws->awake->ended = sender;
}

void ci_ws_sender_free(struct ci_http_worker *http, struct ci_ws_sender *sender)
{
    if (!sender)
        return;
    ci_ws_sender_end_turn(sender, sender->parts_by);
    ci_ws_deflater_free(http, sender->deflater);
    coir_write_queue_free(sender->queue);
    ci_free(&http->messages.blocks, sender, sizeof *sender);
    *http->messages.grown = true;
}

/* What was compressed is part of what the next message is compressed with. */
static bool is_unused(struct ci_ws_sender *sender)
{
    return ci_write_queue_is_unused(sender->queue, &sender->pushed) &&
           !ci_load_relaxed(&sender->parts_by) && !sender->deflater;
}

static void free_unused(coir_ws *ws, struct ci_ws_sender *sender)
{
    if (!is_unused(sender))
        return;
    ci_check(!ci_mutex_is_held(&sender->turn), "web/ws.h 6");
    ci_store(&ws->sender, NULL);
    ci_ws_sender_free(ci_ws_http(ws), sender);
    ci_worker_trim_later(ci_ws_http(ws)->worker);
}

bool ci_ws_sender_rest(coir_ws *ws)
{
    uint32_t none = 0;
    struct ci_ws_sender *sender = ci_ws_sender_of(ws);
    if (sender && ci_compare_exchange(&ws->senders, &none, CI_WS_FREEING)) {
        free_unused(ws, sender);
        ci_fetch_sub(&ws->senders, CI_WS_FREEING);
    }
    return !ci_ws_sender_of(ws);
}
