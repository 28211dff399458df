/* permessage-deflate by zlib.
 *
 * Where messages are compressed by themselves, a worker has one deflater for all connections, and
 * keeps a few inflaters, which connections hold while a message is coming. Otherwise they are the
 * connection's own.
 *
 * 1. What is expanded beyond the limit is one byte: that shows that there is more.
 */
#include "web/ws_deflate.h"

#include <errno.h>
#include <string.h>
#include <zlib.h>

enum { PIECE = 4096, INFLATERS_KEPT = 4, ALONE_MIN = 64, TAIL = 4, SLACK = 64 };

const bool ci_ws_can_deflate = true;

struct ci_ws_inflater {
    z_stream z;
    struct ci_ws_inflater *next;
};

struct ci_ws_deflater {
    z_stream z;
};

struct ci_ws_shared {
    struct ci_ws_deflater *deflater;
    struct ci_ws_inflater *inflaters;
    size_t kept, kept_max;
};

/* ---- memory: zlib does not say how long what it frees is ---- */

static void *zlib_alloc(void *allocator, unsigned items, unsigned size)
{
    size_t len = (size_t)items * size + 16;
    size_t *memory = ci_alloc_zero(allocator, len);
    if (!memory)
        return NULL;
    *memory = len;
    return (char *)memory + 16;
}

static void zlib_free(void *allocator, void *memory)
{
    size_t *begin = (size_t *)(void *)((char *)memory - 16);
    ci_free(allocator, begin, *begin);
}

static const coir_allocator *allocator_of(const struct ci_http_worker *http)
{
    return &http->messages.allocator;
}

static void init(z_stream *z, const struct ci_http_worker *http)
{
    z->zalloc = zlib_alloc;
    z->zfree = zlib_free;
    z->opaque = (void *)(uintptr_t)allocator_of(http);
}

static struct ci_ws_shared *shared_of(struct ci_http_worker *http)
{
    if (!http->deflate) {
        http->deflate = ci_alloc_zero(allocator_of(http), sizeof *http->deflate);
        if (http->deflate)
            http->deflate->kept_max = INFLATERS_KEPT;
    }
    return http->deflate;
}

/* ---- in ---- */

static bool peer_resets(const coir_ws *ws)
{
    return ws->terms->client ? ws->terms->deflate.server_resets : ws->terms->deflate.client_resets;
}

static struct ci_ws_inflater *make_inflater(struct ci_http_worker *http)
{
    struct ci_ws_inflater *inflater = ci_alloc_zero(allocator_of(http), sizeof *inflater);
    if (!inflater)
        return NULL;
    init(&inflater->z, http);
    if (inflateInit2(&inflater->z, -MAX_WBITS) == Z_OK)
        return inflater;
    ci_free(allocator_of(http), inflater, sizeof *inflater);
    return NULL;
}

static void free_inflater(struct ci_http_worker *http, struct ci_ws_inflater *inflater)
{
    inflateEnd(&inflater->z);
    ci_free(allocator_of(http), inflater, sizeof *inflater);
}

static struct ci_ws_inflater *take_inflater(struct ci_http_worker *http)
{
    struct ci_ws_shared *shared = shared_of(http);
    struct ci_ws_inflater *inflater = shared ? shared->inflaters : NULL;
    if (!inflater)
        return shared ? make_inflater(http) : NULL;
    shared->inflaters = inflater->next;
    shared->kept--;
    return inflater;
}

static void give_inflater(struct ci_http_worker *http, struct ci_ws_inflater *inflater)
{
    struct ci_ws_shared *shared = http->deflate;
    if (shared->kept >= shared->kept_max || inflateReset(&inflater->z) != Z_OK) {
        free_inflater(http, inflater);
        return;
    }
    inflater->next = shared->inflaters;
    shared->inflaters = inflater;
    shared->kept++;
}

/* Room for the next piece of output, doubling; at most one byte beyond `max`. */
static bool make_room(coir_ws *ws, size_t max)
{
    size_t have = ws->awake->message ? ws->awake->message->len : 0,
           want = have > PIECE ? 2 * have : have + PIECE;
    if (want > max + 1)
        want = max + 1;
    if (!ci_ws_message_grow(&ci_ws_http(ws)->messages, &ws->awake->message, have, want))
        return false;
    ws->awake->message->len = have;
    return true;
}

/* One call of zlib's: 0, or an error. */
static int expand(coir_ws *ws, size_t max)
{
    z_stream *z = &ws->awake->inflater->z;
    if (!make_room(ws, max))
        return -ENOMEM;
    size_t have = ws->awake->message->len, room = ci_ws_message_room(ws->awake->message) - have;
    if (room > max + 1 - have)
        room = max + 1 - have;
    unsigned in = z->avail_in, out = room < UINT32_MAX ? (unsigned)room : UINT32_MAX;
    z->next_out = (uint8_t *)ci_ws_message_payload(ws->awake->message) + have;
    z->avail_out = out;
    int rc = inflate(z, Z_SYNC_FLUSH);
    ws->awake->message->len = have + (out - z->avail_out);
    ci_check(ws->awake->message->len <= max + 1, "ws_deflate.c 1");
    if (rc == Z_STREAM_END) /* a final block (RFC 7692, 7.2.3.5); another one may follow */
        rc = inflateReset(z);
    if (rc == Z_MEM_ERROR)
        return -ENOMEM;
    bool stuck = rc == Z_BUF_ERROR && z->avail_in && z->avail_in == in && z->avail_out == out;
    if ((rc != Z_OK && rc != Z_BUF_ERROR) || stuck)
        return -COIR_EPROTOCOL;
    return ws->awake->message->len > max ? -COIR_ETOOLARGE : 0;
}

int ci_ws_inflate(coir_ws *ws, const void *data, size_t len, size_t max)
{
    if (!ws->awake->inflater && !(ws->awake->inflater = take_inflater(ci_ws_http(ws))))
        return -ENOMEM;
    z_stream *z = &ws->awake->inflater->z;
    int rc = 0;
    z->next_in = (uint8_t *)(uintptr_t)data;
    z->avail_in = (unsigned)len;
    do
        rc = expand(ws, max);
    while (rc == 0 && (z->avail_in || !z->avail_out));
    return rc;
}

void ci_ws_inflate_end(coir_ws *ws)
{
    struct ci_ws_inflater *inflater = ws->awake->inflater;
    if (!inflater || !(peer_resets(ws) || ws->over))
        return;
    ws->awake->inflater = NULL;
    give_inflater(ci_ws_http(ws), inflater);
}

/* ---- out ---- */

static bool we_reset(const coir_ws *ws)
{
    return ws->terms->client ? ws->terms->deflate.client_resets : ws->terms->deflate.server_resets;
}

static int our_bits(const coir_ws *ws)
{
    int bits = ws->terms->client ? ws->terms->deflate.client_bits : ws->terms->deflate.server_bits;
    return bits ? bits : CI_WS_BITS_MAX;
}

static struct ci_ws_deflater *make_deflater(const struct ci_http_worker *http, int bits)
{
    struct ci_ws_deflater *deflater = ci_alloc_zero(allocator_of(http), sizeof *deflater);
    if (!deflater)
        return NULL;
    init(&deflater->z, http);
    if (deflateInit2(&deflater->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -bits, 8,
                     Z_DEFAULT_STRATEGY) == Z_OK)
        return deflater;
    ci_free(allocator_of(http), deflater, sizeof *deflater);
    return NULL;
}

void ci_ws_deflater_free(const struct ci_http_worker *http, struct ci_ws_deflater *deflater)
{
    if (!deflater)
        return;
    deflateEnd(&deflater->z);
    ci_free(allocator_of(http), deflater, sizeof *deflater);
}

/* The compressed form of a payload, without the four bytes that end it (RFC 7692, 7.2.1). */
static coir_ws_message *compress_with(struct ci_ws_deflater *deflater, struct ci_ws_memory *memory,
                                      coir_ws_message *message)
{
    z_stream *z = &deflater->z;
    size_t room = deflateBound(z, message->len) + SLACK;
    coir_ws_message *deflated = ci_ws_message_take(memory, room);
    if (!deflated || message->len > UINT32_MAX / 2) {
        coir_ws_message_unref(deflated);
        return NULL;
    }
    z->next_in = (uint8_t *)ci_ws_message_payload(message);
    z->avail_in = (unsigned)message->len;
    z->next_out = (uint8_t *)ci_ws_message_payload(deflated);
    z->avail_out = (unsigned)room;
    int rc = deflate(z, Z_SYNC_FLUSH);
    size_t len = room - z->avail_out;
    if (rc != Z_OK || z->avail_in || !z->avail_out || len < TAIL) {
        coir_ws_message_unref(deflated);
        return NULL;
    }
    struct ci_ws_head head = {
        .len = len - TAIL, .opcode = message->opcode, .fin = true, .deflated = true};
    ci_ws_message_finish(deflated, &head);
    return deflated;
}

static struct ci_ws_deflater *shared_deflater_of(struct ci_http_worker *http)
{
    struct ci_ws_shared *shared = shared_of(http);
    if (shared && !shared->deflater)
        shared->deflater = make_deflater(http, CI_WS_BITS_MAX);
    return shared ? shared->deflater : NULL;
}

/* By the worker's deflater; the result stays with the message, for other connections. */
static coir_ws_message *compress_alone(struct ci_http_worker *http, coir_ws_message *message)
{
    coir_ws_message *found = ci_load_acquire(&message->deflated), *none = NULL;
    if (found) /* pairs with the exchange below */
        return coir_ws_message_ref(found);
    struct ci_ws_deflater *deflater = shared_deflater_of(http);
    if (!deflater)
        return NULL;
    coir_ws_message *deflated = compress_with(deflater, &http->messages, message);
    deflateReset(&deflater->z);
    if (deflated && ci_compare_exchange(&message->deflated, &none, deflated))
        return coir_ws_message_ref(deflated); /* one reference is the message's */
    return deflated;
}

/* By the connection's own. What it has compressed must be sent, or forgotten: its peer does not
 * know it. */
static coir_ws_message *compress_own(coir_ws *ws, struct ci_ws_sender *sender,
                                     struct ci_ws_memory *memory, coir_ws_message *message)
{
    if (!sender->deflater && !(sender->deflater = make_deflater(ci_ws_http(ws), our_bits(ws))))
        return NULL;
    coir_ws_message *deflated = compress_with(sender->deflater, memory, message);
    if (we_reset(ws) || !deflated)
        deflateReset(&sender->deflater->z);
    return deflated;
}

coir_ws_message *ci_ws_deflate(coir_ws *ws, struct ci_ws_sender *sender,
                               struct ci_http_worker *here, coir_ws_message *message)
{
    bool alone = we_reset(ws);
    if (!message->len || (alone && message->len < ALONE_MIN) || our_bits(ws) < CI_WS_BITS_MADE_MIN)
        return NULL;
    return alone && our_bits(ws) == CI_WS_BITS_MAX
               ? compress_alone(here, message)
               : compress_own(ws, sender, &here->messages, message);
}

void ci_ws_deflate_forget(struct ci_ws_sender *sender)
{
    if (sender->deflater)
        deflateReset(&sender->deflater->z);
}

/* ---- fixed memory ---- */

/* One that has its window, too, which zlib allocates when it is first needed. */
static struct ci_ws_inflater *make_whole_inflater(struct ci_http_worker *http)
{
    static const uint8_t nothing = 0;
    struct ci_ws_inflater *inflater = make_inflater(http);
    if (!inflater || inflateSetDictionary(&inflater->z, &nothing, 0) == Z_OK)
        return inflater;
    free_inflater(http, inflater);
    return NULL;
}

size_t ci_ws_deflate_reserve(struct ci_http_worker *http, size_t connections, size_t message_max)
{
    struct ci_ws_deflater *deflater = shared_deflater_of(http);
    if (!deflater || message_max > UINT32_MAX / 2)
        return 0;
    struct ci_ws_shared *shared = http->deflate;
    if (shared->kept_max < connections)
        shared->kept_max = connections;
    while (shared->kept < connections) {
        struct ci_ws_inflater *inflater = make_whole_inflater(http);
        if (!inflater)
            return 0;
        give_inflater(http, inflater);
    }
    return deflateBound(&deflater->z, message_max) + SLACK;
}

/* ---- the end ---- */

void ci_ws_inflater_free(struct ci_http_worker *http, struct ci_ws_inflater *inflater)
{
    if (inflater)
        give_inflater(http, inflater);
}

void ci_ws_deflate_free_shared(struct ci_http_worker *http)
{
    struct ci_ws_shared *shared = http->deflate;
    if (!shared)
        return;
    while (shared->inflaters) {
        struct ci_ws_inflater *inflater = shared->inflaters;
        shared->inflaters = inflater->next;
        free_inflater(http, inflater);
    }
    ci_ws_deflater_free(http, shared->deflater);
    ci_free(allocator_of(http), shared, sizeof *shared);
}
