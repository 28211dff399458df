/* What fixed memory has for WebSocket connections (fixed.h): for each of them, as much as its
 * limits allow it to hold.
 *
 * A connection has its record, `awake`, a sender with its queue, and the queue's ring. Of messages
 * it has at most those that wait in the queue (items_max, one that has begun and the close frame),
 * the one that comes, the one that its task works on, with its compressed form, and a control
 * frame. Messages that a program keeps for longer are the program's.
 */
#include <errno.h>

#include "io/write_queue.h"
#include "web/ws.h"
#include "web/ws_deflate.h"

/* SPARE: for queues that their last message to the worker keeps for a moment, when the places of
 * their connections are taken already. */
enum { SPARE = 8, BESIDE_QUEUE = 6, SIZES_MAX = 16 };

/* A ring grows by doubling: each of its sizes is needed once. */
static bool reserve_senders(struct ci_ws_memory *memory, size_t items_max, size_t count)
{
    size_t sizes[SIZES_MAX] = {sizeof(struct ci_ws_sender), sizeof(coir_write_queue)};
    size_t slots = CI_ITEM_RING_FIRST / 2, n = 2;
    do
        sizes[n++] = (slots *= 2) * sizeof(struct ci_write_item);
    while (slots < items_max + 2 && n < SIZES_MAX);
    return slots >= items_max + 2 && ci_ws_memory_reserve(memory, sizes, n, count);
}

int ci_ws_reserve(struct ci_http_worker *http, const coir_ws_options *options, size_t connections)
{
    bool deflates = options->compression != COIR_WS_NO_COMPRESSION && ci_ws_can_deflate;
    size_t room = options->message_max + 1; /* a byte more shows that one is too long */
    size_t messages = connections * (options->items_max + BESIDE_QUEUE);
    if (deflates)
        room = ci_ws_deflate_reserve(http, connections, options->message_max);
    bool there = room && ci_pool_reserve(&http->sockets, connections) &&
                 ci_pool_reserve(&http->awakes, connections) &&
                 ci_pool_reserve(&http->agreed, connections + 1) &&
                 ci_ws_memory_reserve_messages(&http->messages, room, messages) &&
                 reserve_senders(&http->messages, options->items_max, connections + SPARE);
    return there ? 0 : -ENOMEM;
}

bool ci_ws_is_reserved_for(const coir_ws_options *options, const coir_ws_options *most)
{
    return options->message_max <= most->message_max && options->items_max <= most->items_max &&
           (options->compression == COIR_WS_NO_COMPRESSION ||
            (options->compression == most->compression &&
             options->window_bits == most->window_bits));
}
