/* A server whose tasks, on all of its workers, push into the write queues of all connections:
 * buffers of many sizes, shared among the queues, by every policy, with waits that are cancelled or
 * run into deadlines, flushes, queues that are freed or whose streams are closed in the middle;
 * clients that read quickly, slowly or not at all, and leave or break off when they like.
 *
 * What must hold:
 * 1. Each buffer that was pushed into a queue has exactly one outcome there; one that was refused
 *    has none. Written, dropped, failed and queued add up to what was pushed.
 * 2. A client reads whole buffers, byte for byte, but for the last one where its connection was
 *    broken off; each at most once, those of one pusher in order.
 * 3. A client that reads to the end gets every buffer whose outcome is that it was written, and no
 *    buffer that was dropped or refused.
 * 4. Queues with COIR_OVERFLOW_WAIT drop nothing; nothing is held beyond the bounds.
 * 5. A flush returns when all that was pushed before has its outcome, and not before.
 * 6. A task that reads from the stream of a queue that has ended by its policy gets an error soon.
 * 7. Every buffer is freed when the last queue has done with it, and every task ends.
 * 8. A buffer of copied bytes keeps them, whatever becomes of those.
 * 9. A push that waits, or is about to, when its queue ends is refused soon: tasks on all workers
 *    push without a pause into queues that end a moment later.
 * 10. A push that waits behind one that gives up is let in at once, if it has room; where a fault
 *     delays the worker that it is on, as soon as that runs. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { CLIENTS = 3, PUSHERS = 4, PUSHES = 12, LEN_MOST = 20000, HEAD = 6, BRIEF_QUEUES = 8 };
static const coir_time patience = 100 * COIR_S;

enum fate { NEVER, REFUSED, QUEUED, WRITTEN, DROPPED, FAILED };

/* A connection, at the server. */
struct place {
    coir_stream *stream;
    coir_write_queue *queue;
    coir_mutex lock; /* no push is under way when the queue is freed */
    size_t items_max, bytes_max;
    enum coir_overflow overflow;
    int pushers;        /* that have not ended */
    coir_time ended_at; /* by its policy: when a push was told so first; 0: none was */
    uint8_t fates[PUSHERS][PUSHES];
    bool gone;
};

/* A client. */
struct visit {
    unsigned char bytes[LEN_MOST + HEAD];
    uint8_t got[PUSHERS][PUSHES];
    bool to_the_end;
};

static struct {
    coir_sim *sim;
    coir_host *server;
    struct place places[CLIENTS];
    struct visit visits[CLIENTS];
    int buffers; /* that live */
} w;

static void spoil_links(double reset)
{
    coir_sim_link(w.sim, NULL, NULL,
                  (coir_link){.latency = (coir_time)below(2000) * COIR_US,
                              .jitter = (coir_time)below(2000) * COIR_US,
                              .bandwidth = below(2) ? 0 : 20000 + below(10000000),
                              .loss = some(0.1),
                              .reset = reset,
                              .short_io = some(0.7)});
}

/* ---- buffers: pusher, number, length, then bytes that depend on them ---- */

static unsigned char byte_of(int pusher, int number, size_t at)
{
    return (unsigned char)(pusher * 61 + number * 7 + (int)at * 3 + (int)(at >> 8));
}

static void on_free(void *data, void *arg)
{
    (void)arg;
    free(data);
    w.buffers--;
}

static coir_buffer *make_buffer(int pusher, int number)
{
    size_t len = HEAD + below(below(3) ? 300 : LEN_MOST);
    unsigned char *bytes = malloc(len);
    MUST(bytes);
    bytes[0] = (unsigned char)pusher;
    bytes[1] = (unsigned char)number;
    for (int i = 0; i < 4; i++)
        bytes[2 + i] = (unsigned char)(len >> 8 * i);
    for (size_t i = HEAD; i < len; i++)
        bytes[i] = byte_of(pusher, number, i);
    coir_buffer *buffer;
    w.buffers++;
    MUST_BE(coir_buffer_wrap(bytes, len, on_free, NULL, &buffer), 0);
    return buffer;
}

/* ---- outcomes ---- */

static uint8_t *fate_of(struct place *place, const coir_buffer *buffer)
{
    const unsigned char *head = coir_buffer_data(buffer);
    MUST(head[0] < PUSHERS && head[1] < PUSHES);
    return &place->fates[head[0]][head[1]];
}

static void on_outcome(coir_buffer *buffer, int result, void *arg)
{
    struct place *place = arg;
    uint8_t *fate = fate_of(place, buffer);
    MUST(*fate == NEVER || *fate == QUEUED); /* before the push has returned, or after */
    bool drops = place->overflow != COIR_OVERFLOW_CLOSE;
    *fate = result == 0 ? WRITTEN : result == -COIR_EFULL && drops ? DROPPED : FAILED;
}

static coir_write_queue_stats stats_of(struct place *place)
{
    coir_write_queue_stats stats = COIR_WRITE_QUEUE_STATS;
    MUST_BE(coir_write_queue_stats_get(place->queue, &stats), 0);
    /* one has begun, and one is let in while the system takes others */
    MUST(stats.items <= place->items_max + 2);
    MUST(stats.bytes <= 3 * place->bytes_max);
    return stats;
}

/* ---- pushing ---- */

static int push_into(struct place *place, coir_buffer *buffer)
{
    if (below(3) == 0)
        return coir_write_queue_try_push(place->queue, buffer);
    if (below(4) == 0) {
        coir_case cases[] = {coir_case_push(place->queue, buffer),
                             coir_case_after((coir_time)below(2000) * COIR_US)};
        int which = coir_select(cases, 2);
        return which == 0 ? (int)cases[0].result : which < 0 ? which : -EAGAIN;
    }
    COIR_DEADLINE(below(3) ? COIR_NEVER : coir_in((coir_time)below(2000) * COIR_US));
    return coir_write_queue_push(place->queue, buffer);
}

static void note_push(struct place *place, const coir_buffer *buffer, int rc)
{
    uint8_t *fate = fate_of(place, buffer);
    if (rc < 0) {
        MUST(rc == -EAGAIN || rc == -EPIPE || rc == -ETIME || rc == -ECANCELED ||
             rc == -COIR_ETOOLARGE || rc == -ENOMEM);
        MUST_BE(*fate, NEVER);
        *fate = REFUSED;
        if (rc == -EPIPE && !place->ended_at && stats_of(place).error == -COIR_EFULL)
            place->ended_at = coir_now();
    } else if (*fate == NEVER) {
        *fate = QUEUED;
    }
}

static void push_to(struct place *place, coir_buffer *buffer)
{
    if (coir_mutex_lock(&place->lock) < 0)
        return;
    if (!place->gone)
        place->pushers++;
    bool gone = place->gone;
    coir_mutex_unlock(&place->lock);
    if (gone)
        return;
    note_push(place, buffer, push_into(place, buffer));
    stats_of(place);
    place->pushers--;
}

static int push(void *arg)
{
    int pusher = (int)(intptr_t)arg, count = 1 + (int)below(PUSHES);
    for (int number = 0; number < count; number++) {
        coir_buffer *buffer = make_buffer(pusher, number);
        for (int i = 0; i < CLIENTS; i++)
            if (below(4))
                push_to(&w.places[i], buffer);
        coir_buffer_unref(buffer);
        int rc = below(2) ? coir_yield() : coir_sleep_for((coir_time)below(3000) * COIR_US);
        if (rc < 0)
            break;
    }
    return 0;
}

/* ---- the server ---- */

static void check_flushed(const struct place *place, const uint8_t (*before)[PUSHES])
{
    for (int i = 0; i < PUSHERS; i++)
        for (int k = 0; k < PUSHES; k++)
            MUST(before[i][k] != QUEUED || place->fates[i][k] != QUEUED);
}

static int flush_somehow(coir_write_queue *queue)
{
    coir_case cases[] = {coir_case_flush(queue), coir_case_after((coir_time)below(5000) * COIR_US)};
    if (below(2))
        return coir_write_queue_flush(queue);
    int won = coir_select(cases, 2);
    return won == 0 ? (int)cases[0].result : won < 0 ? won : -ETIME;
}

static void flush_often(struct place *place)
{
    for (uint64_t times = below(3); times; times--) {
        uint8_t before[PUSHERS][PUSHES];
        coir_sleep_for((coir_time)below(5000) * COIR_US);
        memcpy(before, place->fates, sizeof before);
        COIR_DEADLINE(below(2) ? COIR_NEVER : coir_in((coir_time)below(5000) * COIR_US));
        int rc = flush_somehow(place->queue);
        if (rc != -ETIME && rc != -ECANCELED)
            check_flushed(place, before);
    }
}

static void check_place(struct place *place, const coir_write_queue_stats *stats)
{
    uint64_t counts[FAILED + 1] = {0};
    for (int i = 0; i < PUSHERS; i++)
        for (int k = 0; k < PUSHES; k++)
            counts[place->fates[i][k]]++;
    MUST_BE(counts[QUEUED], stats->items);
    MUST_BE(counts[WRITTEN], stats->written);
    MUST_BE(counts[DROPPED], stats->dropped);
    MUST_BE(counts[FAILED], stats->failed);
    bool drops = place->overflow != COIR_OVERFLOW_WAIT && place->overflow != COIR_OVERFLOW_CLOSE;
    MUST(drops || !counts[DROPPED]);
}

/* Pushers that are under way end soon once the stream is closed, or the queue is empty. */
static void leave(struct place *place)
{
    COIR_SHIELD;
    MUST_BE(coir_mutex_lock(&place->lock), 0);
    place->gone = true;
    coir_mutex_unlock(&place->lock);
    if (place->pushers) {
        coir_close(place->stream);
        place->stream = NULL;
    }
    COIR_DEADLINE(coir_in(patience));
    while (place->pushers)
        MUST_BE(coir_sleep_for(10 * COIR_US), 0);
}

static int serve_one(void *arg)
{
    struct place *place = arg;
    coir_write_queue_options options = COIR_WRITE_QUEUE_OPTIONS;
    char byte;
    options.items_max = place->items_max = 1 + below(below(2) ? 3 : 30);
    options.bytes_max = place->bytes_max = LEN_MOST + HEAD + below(below(2) ? 100 : 4 * LEN_MOST);
    options.overflow = place->overflow = (enum coir_overflow)below(COIR_OVERFLOW_KEEP_LATEST + 1);
    options.on_outcome = on_outcome;
    options.arg = place;
    MUST_BE(coir_write_queue_new_with(place->stream, &options, &place->queue), 0);
    MUST_BE(coir_mutex_lock(&place->lock), 0);
    place->gone = false;
    coir_mutex_unlock(&place->lock);
    flush_often(place);
    bool hurry = below(3) == 0;
    {
        COIR_DEADLINE(hurry ? coir_in((coir_time)below(20000) * COIR_US) : coir_in(20 * COIR_S));
        coir_read(place->stream, &byte, 1); /* the client's end, or the policy's */
        MUST(!place->ended_at || coir_now() < place->ended_at + COIR_S);
        if (!hurry)
            coir_write_queue_flush(place->queue);
    }
    leave(place);
    if (place->stream && below(2)) {
        coir_close(place->stream);
        place->stream = NULL;
    }
    coir_write_queue_stats stats = stats_of(place);
    check_place(place, &stats);
    coir_write_queue_free(place->queue);
    for (int i = 0; i < PUSHERS; i++)
        for (int k = 0; k < PUSHES; k++)
            MUST(place->fates[i][k] != QUEUED);
    if (place->stream)
        coir_shutdown_write(place->stream);
    coir_close(place->stream);
    return 0;
}

static int spawn(coir_scope *scope, coir_task_fn *fn, void *arg)
{
    coir_go_options options = COIR_GO_OPTIONS;
    options.place = COIR_ON_WORKER((int)below((uint64_t)coir_worker_count(coir_runtime_current())));
    return coir_go_with(scope, &options, fn, arg);
}

/* From then on connections may be reset. */
static int accept_all(coir_listener *listener, coir_scope *scope)
{
    for (int i = 0; i < CLIENTS; i++) {
        MUST_BE(coir_accept(listener, &w.places[i].stream), 0);
        MUST_BE(coir_stream_detach(w.places[i].stream), 0);
        MUST_BE(spawn(scope, serve_one, &w.places[i]), 0);
    }
    spoil_links(some(0.02));
    return 0;
}

/* ---- queues that end soon ---- */

static void make_copy(unsigned char *bytes, size_t len, coir_buffer **ret_buffer)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = byte_of(0, 0, i);
    MUST_BE(coir_buffer_new(bytes, len, ret_buffer), 0);
    memset(bytes, 0, len);
}

static void check_copy(const coir_buffer *buffer, size_t len)
{
    const unsigned char *bytes = coir_buffer_data(buffer);
    MUST_BE(coir_buffer_len(buffer), len);
    for (size_t i = 0; i < len; i++)
        MUST_BE(bytes[i], byte_of(0, 0, i));
}

static int push_and_push(void *arg)
{
    coir_write_queue *queue = arg;
    unsigned char bytes[300];
    size_t len = 1 + below(sizeof bytes);
    bool copies = below(4) == 0;
    coir_buffer *buffer;
    int rc;
    if (copies)
        make_copy(bytes, len, &buffer);
    else
        buffer = make_buffer(0, 0);
    while ((rc = coir_write_queue_push(queue, buffer)) == 0)
        continue;
    MUST_BE(rc, -EPIPE);
    if (copies)
        check_copy(buffer, len);
    coir_buffer_unref(buffer);
    return 0;
}

static void read_a_while(coir_stream *stream)
{
    char bytes[1000];
    COIR_DEADLINE(coir_in((coir_time)below((uint64_t)(300 * COIR_US) >> below(6))));
    while (coir_read(stream, bytes, 1 + below(sizeof bytes)) > 0 && below(30))
        continue;
}

/* By a close of either end; the queue is freed when no task pushes any more. */
static void use_brief_queue(void)
{
    coir_stream *ends[2];
    coir_write_queue *queue;
    coir_write_queue_options options = COIR_WRITE_QUEUE_OPTIONS;
    options.items_max = 1 + below(2);
    MUST_BE(coir_duplex(1 + below(below(2) ? 10 : 1000), &ends[0], &ends[1]), 0);
    if (below(10))
        MUST_BE(coir_write_queue_new_with(ends[0], &options, &queue), 0);
    else
        MUST_BE(coir_write_queue_new(ends[0], &queue), 0);
    COIR_SCOPE(scope);
    for (uint64_t i = 1 + below(PUSHERS); i; i--)
        MUST_BE(spawn(scope, push_and_push, queue), 0);
    read_a_while(ends[1]);
    uint64_t first = below(2);
    coir_close(ends[first]);
    {
        COIR_DEADLINE(coir_in(patience));
        MUST_BE(coir_scope_wait(scope), 0);
    }
    coir_close(ends[1 - first]);
    coir_write_queue_free(queue);
}

/* ---- a push behind one that gives up ---- */

enum { BEHIND_BYTES = 100, BEHIND_LARGE = 60, BEHIND_SMALL = 10 };
static const coir_time early = 200 * COIR_US; /* timers have a slack of 50 us, calls take 2 us */
/* Threads are late by 1 ms at most, and a ring that was refused is entered again after as long. */
static const coir_time soon = 10 * COIR_MS;

static struct behind {
    coir_write_queue *queue;
    coir_time gave_up, pushed;
} behind;

static int push_bytes(size_t len)
{
    static const char bytes[BEHIND_BYTES];
    coir_buffer *buffer;
    MUST_BE(coir_buffer_new(bytes, len, &buffer), 0);
    int rc = coir_write_queue_push(behind.queue, buffer);
    coir_buffer_unref(buffer);
    return rc;
}

static int push_large(void *arg)
{
    (void)arg;
    COIR_DEADLINE(coir_in(20 * COIR_MS));
    MUST_BE(push_bytes(BEHIND_LARGE), -ETIME);
    behind.gave_up = coir_now();
    return 0;
}

static int push_small(void *arg)
{
    (void)arg;
    MUST_BE(coir_sleep_for(5 * COIR_MS), 0);
    MUST_BE(push_bytes(BEHIND_SMALL), 0);
    behind.pushed = coir_now();
    return 0;
}

/* Nothing is read, so only the end of the large push can let the small one in. */
static void push_behind(void)
{
    coir_stream *ends[2];
    coir_write_queue_options options = COIR_WRITE_QUEUE_OPTIONS;
    options.bytes_max = BEHIND_BYTES;
    MUST_BE(coir_duplex(1, &ends[0], &ends[1]), 0);
    MUST_BE(coir_write_queue_new_with(ends[0], &options, &behind.queue), 0);
    {
        COIR_SCOPE(scope);
        for (int i = 0; i < 2; i++) { /* one is begun */
            MUST_BE(push_bytes(BEHIND_BYTES - BEHIND_LARGE / 2), 0);
            MUST_BE(coir_sleep_for(COIR_MS), 0);
        }
        MUST_BE(spawn(scope, push_large, NULL), 0);
        MUST_BE(spawn(scope, push_small, NULL), 0);
        COIR_DEADLINE(coir_in(COIR_S));
        MUST_BE(coir_scope_wait(scope), 0);
    }
    coir_time since = behind.pushed - behind.gave_up;
    MUST(since > -early && since < soon); /* 10 */
    coir_close(ends[0]);
    coir_close(ends[1]);
    coir_write_queue_free(behind.queue);
}

static int use_brief_queues(void *arg)
{
    (void)arg;
    if (below(4) == 0)
        push_behind();
    for (uint64_t i = below(BRIEF_QUEUES); i; i--)
        use_brief_queue();
    return 0;
}

static int serve(void *arg)
{
    (void)arg;
    coir_listener *listener;
    for (int i = 0; i < CLIENTS; i++)
        w.places[i].gone = true;
    MUST_BE(coir_tcp_listen("0.0.0.0:7777", &listener), 0);
    {
        COIR_SERVING_SCOPE(scope);
        for (intptr_t i = 0; i < PUSHERS; i++)
            MUST_BE(spawn(scope, push, (void *)i), 0);
        MUST_BE(spawn(scope, use_brief_queues, NULL), 0);
        MUST_BE(accept_all(listener, scope), 0);
        COIR_DEADLINE(coir_in(4 * patience));
        MUST_BE(coir_scope_wait(scope), 0);
    }
    coir_listener_close(listener);
    MUST_BE(w.buffers, 0);
    return 0;
}

/* ---- clients ---- */

/* One buffer: false at the end. */
static bool read_one(coir_stream *stream, struct visit *visit)
{
    unsigned char *bytes = visit->bytes;
    size_t len = 0;
    ssize_t n = coir_read_full(stream, bytes, HEAD, NULL);
    visit->to_the_end = n == -COIR_EEND;
    if (n < 0)
        return false;
    for (int i = 0; i < 4; i++)
        len |= (size_t)bytes[2 + i] << 8 * i;
    MUST(bytes[0] < PUSHERS && bytes[1] < PUSHES && len >= HEAD && len <= sizeof visit->bytes);
    if (len > HEAD && coir_read_full(stream, bytes + HEAD, len - HEAD, NULL) < 0)
        return false;
    for (size_t i = HEAD; i < len; i++)
        MUST_BE(bytes[i], byte_of(bytes[0], bytes[1], i));
    for (int later = bytes[1]; later < PUSHES; later++)
        MUST(!visit->got[bytes[0]][later]);
    visit->got[bytes[0]][bytes[1]] = true;
    return true;
}

static int visit(void *arg)
{
    struct visit *visit = arg;
    coir_stream *stream;
    uint64_t reads = below(3) ? UINT64_MAX : below(10), slow = below(2) ? 0 : 1 + below(20000);
    uint64_t stalls_after = below(3) ? UINT64_MAX : below(5);
    COIR_DEADLINE(coir_in(patience));
    coir_sleep_for((coir_time)below(2000) * COIR_US);
    int rc = coir_tcp_connect("server:7777", &stream);
    if (rc == -ECONNRESET) /* accepted, and given up at once by a policy */
        return 0;
    MUST_BE(rc, 0);
    if (below(4) == 0)
        coir_tcp_set_option(stream, COIR_TCP_RESET_ON_CLOSE, 1);
    if (reads == UINT64_MAX && below(2))
        coir_shutdown_write(stream); /* unless it was reset meanwhile */
    while (reads-- && read_one(stream, visit)) {
        if (slow)
            coir_sleep_for((coir_time)below(slow) * COIR_US);
        if (stalls_after-- == 0)
            coir_sleep_for(5 * COIR_S);
    }
    coir_close(stream);
    return 0;
}

/* The fates that a client's place saw, for the client whose stream it was: found by what it got. */
static void check_visits(void)
{
    for (int c = 0; c < CLIENTS; c++) {
        bool found = false;
        for (int p = 0; p < CLIENTS && !found; p++) {
            found = true;
            for (int i = 0; i < PUSHERS; i++)
                for (int k = 0; k < PUSHES; k++) {
                    bool got = w.visits[c].got[i][k], all = w.visits[c].to_the_end;
                    uint8_t fate = w.places[p].fates[i][k];
                    found &= !got || fate == WRITTEN;
                    found &= !all || got || fate != WRITTEN;
                }
        }
        MUST(found);
    }
}

static int be_everybody(void *arg)
{
    (void)arg;
    coir_sleep_for(COIR_MS);
    {
        COIR_SCOPE(scope);
        for (int i = 0; i < CLIENTS; i++)
            MUST_BE(coir_go(scope, visit, &w.visits[i]), 0);
        MUST_BE(coir_scope_wait(scope), 0);
    }
    chaos_await_end(w.server, 4 * patience);
    return 0;
}

int scenario(coir_sim *sim)
{
    memset(&w, 0, sizeof w);
    w.sim = sim;
    MUST_BE(chaos_configure(sim), 0);
    if (!(w.server = coir_sim_host(sim, "server", serve, NULL)))
        return -ENOMEM;
    spoil_links(0);
    coir_sim_faults(sim, NULL, (coir_faults){.late = some(0.5)});
    coir_sim_faults(sim, w.server, (coir_faults){.late = some(0.5), .no_buffers = some(0.05)});
    int rc = coir_sim_host_main(sim, "clients", be_everybody, NULL);
    if (rc == 0)
        check_visits();
    return rc;
}
