/* Connections: what one end writes the other reads, every byte once and in order, in both
 * directions, however they are read and written. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"
#include "sim/bytes.h"

enum { PIECE = 20000, PAIRS_MOST = ACTORS_MOST / 2 };

/* How an end does its work. */
enum manner {
    MANNER_LOOP,        /* one task: waits for both directions, uses the forms that never suspend */
    MANNER_TWO_TASKS,   /* one reads, one writes */
    MANNER_WRITE_FIRST, /* writes everything before it reads: the other end must not do that too */
    MANNER_HOLD,        /* the same, and begins to read only when the other end has read it all */
    MANNERS
};

struct pair {
    bool duplex; /* in memory; both ends on one worker */
    coir_stream *ends[2];
    coir_event all_read[2]; /* by each end, and the end behind it */
    coir_event all_came[2]; /* to each end, but for the end */
    /* each end has written as much as the connection takes, or everything */
    coir_event stuck[2];
    bool waits_until_stuck; /* the one that holds: before it writes anything */
    coir_channel *way;      /* of a connection to the task that will accept it */
    coir_listener *listener;
    char address[64];
    uint32_t bytes[2]; /* that each end writes */
    enum manner manners[2];
    uint32_t piece;
    int buffer;
};

struct connections {
    int count;
    struct pair pairs[PAIRS_MOST];
};

/* One end of one pair. */
struct end {
    struct actor *actor;
    struct pair *pair;
    coir_stream *stream;
    int side;
    uint32_t written, read;
    bool ended;
};

/* Which bytes a side writes (test/sim/bytes.h). */
static unsigned message_of(const struct end *end, int side)
{
    return (unsigned)end->actor->act->seed + (unsigned)side * 101;
}

/* One end cannot write all before it has read all: what it waits for in both directions is
 * reading. */
static void draw_impasse(struct pair *pair, struct actor *actors, unsigned side,
                         struct ci_random *random)
{
    pair->manners[side] = MANNER_HOLD;
    pair->manners[!side] = MANNER_LOOP;
    pair->bytes[!side] += 400000;
    pair->bytes[side] = draw(random, 60000);
    pair->piece = draw_from(random, 500, 5000);
    pair->waits_until_stuck = draw(random, 2);
    if (draw(random, 2)) { /* by nothing but plain calls: who is lost is not helped by a decoy */
        actors[!side].script.count = 1;
        actors[!side].script.steps[0].way = WAY_CALL;
    }
}

static int draw_connections(struct act *act, struct ci_random *random)
{
    struct connections *all = act->own = calloc(1, sizeof *all);
    act->actor_count -= act->actor_count % 2;
    all->count = act->actor_count / 2;
    for (int i = 0; i < all->count; i++) {
        struct pair *pair = &all->pairs[i];
        pair->duplex = draw(random, 4) == 0;
        pair->piece = 1 + draw(random, PIECE >> draw(random, 12));
        for (int side = 0; side < 2; side++) {
            pair->bytes[side] = draw(random, 64u << draw(random, 14));
            pair->manners[side] = (enum manner)draw(random, MANNERS);
        }
        unsigned side = draw(random, 2);
        if (pair->manners[0] >= MANNER_WRITE_FIRST && pair->manners[1] >= MANNER_WRITE_FIRST)
            pair->manners[side] = MANNER_LOOP;
        /* a program is not to take long */
        uint32_t pieces = (pair->bytes[0] + pair->bytes[1]) / pair->piece;
        if (pieces > 3000)
            pair->piece *= pieces / 3000 + 1;
        if (pair->piece > PIECE)
            pair->piece = PIECE;
        if (draw(random, 3) == 0)
            draw_impasse(pair, &act->actors[2 * i], side, random);
        if (pair->piece >=
            500) /* smaller ones and small buffers: the kernel drops segments, and is slow */
            pair->buffer =
                pair->waits_until_stuck || draw(random, 2) ? 16384 << draw(random, 3) : 0;
        if (pair->duplex)
            act->actors[2 * i].place = act->actors[2 * i + 1].place =
                act->place == COIR_ANYWHERE ? COIR_HERE : act->place;
        if (coir_channel_new(sizeof(coir_stream *), 1, &pair->way) < 0)
            return -ENOMEM;
    }
    return 0;
}

static void print_connections(const struct act *act, FILE *file)
{
    static const char *const manners[] = {"loop", "two tasks", "write first", "hold"};
    const struct connections *all = act->own;
    for (int i = 0; i < all->count; i++) {
        const struct pair *pair = &all->pairs[i];
        fprintf(file, "\n  %s: %u bytes by %s, %u bytes by %s, pieces of %u, buffers %d",
                pair->duplex ? "duplex" : "connection", pair->bytes[0], manners[pair->manners[0]],
                pair->bytes[1], manners[pair->manners[1]], pair->piece, pair->buffer);
    }
}

/* ---- opening ---- */

static int begin_connections(struct act *act)
{
    struct connections *all = act->own;
    for (int i = 0; i < all->count; i++) {
        struct pair *pair = &all->pairs[i];
        if (pair->duplex)
            continue;
        int rc = coir_tcp_listen("127.0.0.1:0", &pair->listener);
        if (rc < 0)
            return rc;
        coir_listener_local(pair->listener, pair->address, sizeof pair->address);
    }
    return 0;
}

static int call_connect(struct wait *wait)
{
    return coir_tcp_connect(wait->object, wait->data);
}

static coir_future *connect_op(struct wait *wait, void *place)
{
    return coir_tcp_connect_op(place, wait->object, wait->data);
}

static int call_accept(struct wait *wait)
{
    return coir_accept(wait->object, wait->data);
}

static coir_future *accept_op(struct wait *wait, void *place)
{
    return coir_accept_op(place, wait->object, wait->data);
}

static coir_case accept_case(struct wait *wait)
{
    return coir_case_accept(wait->object, wait->data);
}

/* A client that abandons a connection makes another, so the listener may have connections whose
 * other end is gone. A client therefore announces itself, and gets an answer: 0; 1: it has to try
 * again. */
static int greet(struct end *end)
{
    char byte = 'h';
    ssize_t rc;
    if (end->side) {
        COIR_DEADLINE(coir_in(200 * COIR_MS));
        rc = coir_read_full(end->stream, &byte, 1, NULL);
        rc = rc == 1 && byte == 'h' ? coir_write(end->stream, "k", 1) : rc;
    } else {
        rc = coir_write(end->stream, &byte, 1);
        rc = rc == 1 ? coir_read_full(end->stream, &byte, 1, NULL) : rc;
    }
    if (rc == 1)
        return 0;
    bool again = rc == -COIR_EEND || rc == -ECONNRESET || rc == -EPIPE ||
                 (rc == -ETIME && !coir_task_interrupted());
    return again ? 1 : (int)rc;
}

static int open_connection(struct end *end)
{
    struct pair *pair = end->pair;
    struct wait connect = {call_connect, connect_op, .keeps = true, .object = pair->address,
                           .data = &end->stream};
    struct wait accept = {
        call_accept,         accept_op, accept_case, .keeps = true, .object = pair->listener,
        .data = &end->stream};
    for (int rc = 1;; rc = 1) {
        while ((rc = actor_wait(end->actor, end->side ? &accept : &connect)) == LOST) {
        }
        if (rc < 0)
            return rc;
        /* A small one: a peer that does not read soon stops this end. Not the receive buffer: where
         * it shrinks under a window that was offered, the kernel drops acknowledgements too, and
         * both ends send the same again for minutes. */
        if (pair->buffer)
            coir_tcp_set_option(end->stream, COIR_TCP_SEND_BUFFER, pair->buffer);
        if ((rc = greet(end)) == 0)
            return 0;
        coir_close(end->stream);
        end->stream = NULL;
        if (rc < 0)
            return rc;
    }
}

static int open_duplex(struct end *end)
{
    struct pair *pair = end->pair;
    if (end->side == 0) {
        coir_stream *other;
        int rc = coir_duplex(pair->piece + 1, &end->stream, &other);
        if (rc < 0)
            return rc;
        if ((rc = coir_channel_try_send(pair->way, &other)) < 0)
            coir_close(other);
        return rc;
    }
    return coir_channel_recv(pair->way, &end->stream);
}

/* ---- reading and writing ---- */

static void came(struct end *end, const char *bytes, uint32_t count)
{
    uint32_t all = end->pair->bytes[!end->side];
    if (count > all - end->read || !bytes_are(bytes, message_of(end, !end->side), end->read, count))
        program_fail(end->actor->act, "pair %d side %d: of %u bytes from %u of %u some are wrong",
                     end->actor->number / 2, end->side, count, end->read, all);
    end->read += count;
    if (end->read == all)
        coir_event_set(&end->pair->all_came[end->side]);
}

static void all_read(struct end *end)
{
    end->ended = true;
    coir_event_set(&end->pair->all_came[end->side]);
    coir_event_set(&end->pair->all_read[end->side]);
}

static uint32_t next_piece(const struct end *end, char *bytes)
{
    uint32_t left = end->pair->bytes[end->side] - end->written, count = end->pair->piece;
    if (draw(&end->actor->random, 2))
        count = draw_from(&end->actor->random, 1,
                          end->pair->manners[end->side] == MANNER_HOLD ? count / 8 + 1 : count);
    if (count > left)
        count = left;
    bytes_make(bytes, message_of(end, end->side), end->written, count);
    return count;
}

static int call_read(struct wait *wait)
{
    return (int)coir_read(wait->object, wait->data, (size_t)wait->number);
}

static coir_future *read_op(struct wait *wait, void *place)
{
    return coir_read_op(place, wait->object, wait->data, (size_t)wait->number);
}

static int call_write(struct wait *wait)
{
    return (int)coir_write(wait->object, wait->data, (size_t)wait->number);
}

static coir_future *write_op(struct wait *wait, void *place)
{
    return coir_write_op(place, wait->object, wait->data, (size_t)wait->number);
}

static int call_stream_wait(struct wait *wait)
{
    return coir_stream_wait(wait->object, (int)wait->number);
}

static coir_future *stream_wait_op(struct wait *wait, void *place)
{
    return coir_stream_wait_op(place, wait->object, (int)wait->number);
}

static coir_case stream_case(struct wait *wait)
{
    return coir_case_stream(wait->object, (int)wait->number);
}

static int in_pieces(struct wait *wait, bool writes)
{
    struct iovec iov[3];
    size_t len = (size_t)wait->number, cut = len / 3;
    for (int i = 0; i < 3; i++)
        iov[i] = (struct iovec){(char *)wait->data + (size_t)i * cut, i < 2 ? cut : len - 2 * cut};
    return (int)(writes ? coir_writev(wait->object, iov, 3) : coir_readv(wait->object, iov, 3));
}

static int call_readv(struct wait *wait)
{
    return in_pieces(wait, false);
}

static int call_writev(struct wait *wait)
{
    return in_pieces(wait, true);
}

/* 1: there is an end to it; 0: go on. */
static int read_once(struct end *end, char *bytes)
{
    struct wait read = {call_read,     read_op,
                        .keeps = true, .object = end->stream,
                        .data = bytes, .number = end->pair->piece};
    struct wait readv = read, look = {call_stream_wait, stream_wait_op,        stream_case,
                                      .keeps = true,    .object = end->stream, .number = COIR_READ};
    readv.call = call_readv;
    readv.op = NULL;
    int rc;
    switch (draw(&end->actor->random, 5)) {
    case 0:
    case 1: rc = actor_wait(end->actor, &read); break;
    case 2: rc = actor_wait(end->actor, &readv); break;
    default:
        rc = actor_wait(end->actor, &look);
        if (rc >= 0)
            rc = (int)coir_try_read(end->stream, bytes, end->pair->piece);
    }
    if (rc == LOST || rc == -EAGAIN)
        return 0;
    if (rc > 0)
        came(end, bytes, (uint32_t)rc);
    if (rc == 0)
        all_read(end);
    return rc < 0 ? rc : rc == 0;
}

static int read_all(void *arg)
{
    struct end *end = arg;
    char *bytes = malloc(end->pair->piece);
    int rc;
    while ((rc = read_once(end, bytes)) == 0) {
    }
    free(bytes);
    return rc < 0 ? rc : 0;
}

static int write_once(struct end *end, char *bytes)
{
    uint32_t count = next_piece(end, bytes);
    struct wait write = {call_write,    write_op,       .keeps = true, .object = end->stream,
                         .data = bytes, .number = count};
    struct wait writev = write;
    writev.call = call_writev;
    writev.op = NULL;
    int rc = actor_wait(end->actor, draw(&end->actor->random, 3) ? &write : &writev);
    if (rc > 0)
        end->written += (uint32_t)rc;
    return rc < 0 && rc != LOST ? rc : 0;
}

static int write_all(void *arg)
{
    struct end *end = arg;
    char *bytes = malloc(end->pair->piece);
    int rc = 0;
    while (rc == 0 && end->written < end->pair->bytes[end->side]) {
        rc = write_once(end, bytes);
        if (rc == 0 && end->pair->waits_until_stuck && draw(&end->actor->random, 4) == 0)
            /* the reader sees what came, and then that nothing more does */
            rc = actor_lull(end->actor);
    }
    free(bytes);
    /* The news of the end reaches one that misses that of the bytes. */
    if (rc == 0 && end->pair->waits_until_stuck && end->pair->manners[end->side] == MANNER_HOLD &&
        end->written)
        rc = coir_event_wait(&end->pair->all_came[!end->side]);
    return rc < 0 ? rc : coir_shutdown_write(end->stream);
}

/* ---- the manners ---- */

static int by_two_tasks(struct end *end)
{
    COIR_SCOPE(scope);
    int rc = coir_go(scope, read_all, end);
    if (rc == 0)
        rc = coir_go(scope, write_all, end);
    if (rc < 0)
        coir_scope_cancel(scope);
    int waited = coir_scope_wait(scope);
    return rc < 0 ? rc : waited;
}

/* What there is of both directions, without waiting. */
static int move_some(struct end *end, char *bytes)
{
    int rc = 0;
    /* all there is, or some */
    unsigned times = draw(&end->actor->random, 2) ? UINT32_MAX : draw(&end->actor->random, 4);
    while (!end->ended && times-- && rc >= 0) {
        rc = (int)coir_try_read(end->stream, bytes, end->pair->piece);
        if (rc > 0)
            came(end, bytes, (uint32_t)rc);
        if (rc == 0)
            all_read(end);
    }
    if (rc < 0 && rc != -EAGAIN)
        return rc;
    for (rc = 1; rc > 0 && end->written < end->pair->bytes[end->side];) {
        uint32_t count = next_piece(end, bytes);
        rc = (int)coir_try_write(end->stream, bytes, count);
        if (rc > 0)
            end->written += (uint32_t)rc;
    }
    coir_event_set(&end->pair->stuck[end->side]);
    return rc < 0 && rc != -EAGAIN ? rc : 0;
}

static int by_loop(struct end *end)
{
    char *bytes = malloc(end->pair->piece);
    int rc = 0;
    bool shut = false;
    while (rc == 0 && !(end->ended && shut)) {
        rc = move_some(end, bytes);
        if (rc == 0 && !shut && end->written == end->pair->bytes[end->side]) {
            rc = coir_shutdown_write(end->stream);
            shut = true;
        }
        int events = (end->ended ? 0 : COIR_READ) | (shut ? 0 : COIR_WRITE);
        struct wait look = {call_stream_wait, stream_wait_op,        stream_case,
                            .keeps = true,    .object = end->stream, .number = events};
        if (rc == 0 && events) {
            rc = actor_wait(end->actor, &look);
            rc = rc == LOST || rc >= 0 ? 0 : rc;
        }
    }
    free(bytes);
    return rc;
}

static int by_writing_first(struct end *end)
{
    int rc = write_all(end);
    return rc < 0 ? rc : read_all(end);
}

static int by_holding(struct end *end)
{
    int rc = end->pair->waits_until_stuck ? coir_event_wait(&end->pair->stuck[!end->side]) : 0;
    if (rc == 0)
        rc = write_all(end);
    if (rc == 0)
        rc = coir_event_wait(&end->pair->all_read[!end->side]);
    return rc < 0 ? rc : read_all(end);
}

static bool may_break(const struct end *end, int rc)
{
    const struct act *act = end->actor->act;
    return (act->hurry != HURRY_NOT || act->run->program->stops) &&
           (rc == -EPIPE || rc == -ECONNRESET || rc == -ECONNREFUSED || rc == -ENOTCONN ||
            rc == -COIR_EEND);
}

/* On the worker that the streams belong to: their other end may have been sent, and not taken. */
static void refuse_more(struct end *end)
{
    coir_stream *left;
    if (end->side == 0 || !end->pair->way)
        return;
    coir_channel_close(end->pair->way);
    if (coir_channel_try_recv(end->pair->way, &left) == 0)
        coir_close(left);
}

static int play_end(struct actor *actor)
{
    static int (*const ways[])(struct end * end) = {by_loop, by_two_tasks, by_writing_first,
                                                    by_holding};
    struct connections *all = actor->act->own;
    struct end end = {
        .actor = actor, .pair = &all->pairs[actor->number / 2], .side = actor->number % 2};
    int rc = end.pair->duplex ? open_duplex(&end) : open_connection(&end);
    if (rc == 0)
        rc = ways[end.pair->manners[end.side]](&end);
    coir_close(end.stream);
    refuse_more(&end);
    coir_event_set(&end.pair->all_came[end.side]); /* or given up */
    coir_event_set(&end.pair->all_read[end.side]);
    coir_event_set(&end.pair->stuck[end.side]);
    if (rc == 0 &&
        (!end.ended || end.read != end.pair->bytes[!end.side] ||
         end.written != end.pair->bytes[end.side]) &&
        !(actor->act->hurry || actor->act->run->program->stops))
        program_fail(actor->act, "pair %d side %d: %u of %u bytes came", actor->number / 2,
                     end.side, end.read, end.pair->bytes[!end.side]);
    return rc < 0 && !may_break(&end, rc) ? actor_interrupted(actor, rc) : rc < 0 ? -ECANCELED : 0;
}

static void end_connections(struct act *act)
{
    struct connections *all = act->own;
    for (int i = 0; i < all->count; i++)
        coir_listener_close(all->pairs[i].listener);
}

static void free_connections(struct act *act)
{
    struct connections *all = act->own;
    for (int i = 0; i < all->count; i++)
        coir_channel_free(all->pairs[i].way);
    free(all);
}

const struct act_kind act_stream = {
    .name = "stream",
    .weight = 6,
    .actors_least = 2,
    .actors_most = 6,
    .draw = draw_connections,
    .print = print_connections,
    .begin = begin_connections,
    .play = play_end,
    .end = end_connections,
    .free = free_connections,
};
