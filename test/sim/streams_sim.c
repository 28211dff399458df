/* Streams under everything that a program may do with them: reads and writes that are given up and
 * tried again, pieces, peeks, waits for both directions, pauses, streams that are handed to another
 * worker with bytes unread; connections, filters over connections, and duplexes. Nothing fails here
 * but the deadlines, and clients that reset: every byte comes once, in its place, every task ends,
 * and a reset is told as one, after the bytes that came before it. A server that closes with bytes
 * unread resets, too, whoever has them. What a filter keeps is sent by whichever worker has it. A
 * limit of the peer's time that was set on a connection holds for the filter that is put over it.
 * Who reads is given what has come, while writes of the same stream find no room and its peer reads
 * no more before that has been read.
 */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <stdlib.h>

#include "mask.h"
#include "sim/chance.h"
#include "sim/scenario.h"

enum { CLIENTS = 3, TALKS = 3, LEFT_MOST = 1500, PIECES = 3 };
enum { TOTAL_MOST = 40000, LITTLE = 1000 /* where much takes long: in pieces of a few bytes */ };

static const coir_time late = 5 * COIR_MS; /* at most, of a limit that passes */

static coir_host *server;
static int talks_left, in_memory;    /* of each client, the first */
static size_t full[CLIENTS * TALKS]; /* how much a server has sent in vain; 0: it is not done yet */
static uint8_t fulls;

/* What the first bytes of a connection say: how much each side is going to say; whether each
 * half-closes after its last byte, and the other reads its end; whether it goes through filters,
 * and whether the bytes under way are limited by a duplex. */
struct terms {
    uint16_t total;
    uint8_t half_closes, is_masked, is_in_memory;
    uint8_t resets; /* the client sends some of it and resets; it hears nothing */
    uint8_t drops;  /* the server closes with bytes unread: the client hears a reset */
    uint8_t fills;  /* the server hands over a filter that keeps bytes. Its place in `full`, or 0 */
    uint8_t stops;  /* the client stops reading until all that it sent is read. Its place, or 0 */
};

struct talk {
    coir_stream *stream;
    size_t sent, heard, total, first; /* first: what is heard before the stream is handed over */
    bool half_closes, is_masked;
};

/* A deadline that is often too short. */
static coir_time soon(void)
{
    return coir_in((coir_time)below(below(4) ? 2 * COIR_MS : 20 * COIR_US));
}

/* Runs after runs of one byte: cheap to make and to check, and no two places 128 apart are
 * alike. */
static unsigned char byte_at(size_t at)
{
    return (at ^ at >> 7) & 0x7f;
}

static int must_be(bool right)
{
    if (!right)
        __builtin_trap();
    return 0;
}

/* Whether a call that was given up may be made again. */
static bool again(ssize_t rc)
{
    return rc == -ETIME && !coir_task_interrupted();
}

/* A limit of the peer's time that is often too short, from now on. */
static int limit_peer(struct talk *talk, int event)
{
    size_t rate = below(2) ? 0 : 1 + below(1000000);
    coir_time most = 1 + (coir_time)below(below(4) ? 2 * COIR_MS : 20 * COIR_US);
    return coir_stream_set_timeout(talk->stream, event, most, rate);
}

/* What a call under that limit returned, and no limit from now on. */
static ssize_t unlimit_peer(struct talk *talk, int event, ssize_t n)
{
    int rc = coir_stream_set_timeout(talk->stream, event, COIR_NEVER, 0);
    return rc < 0 ? rc : n == -ETIMEDOUT ? -ETIME : n;
}

/* After a limit that has passed, a deadline ends a write whose own limit has not. */
static ssize_t write_limited(struct talk *talk, const char *data, size_t len)
{
    int rc = limit_peer(talk, COIR_WRITE);
    ssize_t n = rc < 0 ? rc : coir_write(talk->stream, data, len);
    if (n == -ETIMEDOUT) {
        COIR_DEADLINE(soon());
        rc = coir_stream_set_timeout(talk->stream, COIR_WRITE, COIR_S, 0);
        n = rc < 0 ? rc : coir_write(talk->stream, data, len);
        must_be(n != -ETIMEDOUT);
    }
    return unlimit_peer(talk, COIR_WRITE, n);
}

static ssize_t write_some(struct talk *talk, char *data, size_t len)
{
    struct iovec pieces[PIECES] = {
        {data, len / 3}, {data + len / 3, len / 2 - len / 3}, {data + len / 2, len - len / 2}};
    switch (below(5)) {
    case 0: {
        COIR_DEADLINE(soon());
        return coir_write(talk->stream, data, len);
    }
    case 3: return write_limited(talk, data, len);
    case 1: {
        COIR_DEADLINE(soon());
        return coir_writev(talk->stream, pieces, PIECES);
    }
    case 2: {
        int rc = coir_writev_all(talk->stream, pieces, PIECES);
        return rc < 0 ? rc : (ssize_t)len;
    }
    default: {
        int rc = coir_write_all(talk->stream, data, len);
        return rc < 0 ? rc : (ssize_t)len;
    }
    }
}

static int send_all(void *arg)
{
    struct talk *talk = arg;
    while (talk->sent < talk->total) {
        char data[9000];
        size_t len = 1 + below(sizeof data);
        if (len > talk->total - talk->sent)
            len = talk->total - talk->sent;
        for (size_t i = 0; i < len; i++)
            data[i] = (char)byte_at(talk->sent + i);
        ssize_t n = write_some(talk, data, len);
        if (n < 0 && !again(n))
            return (int)n;
        talk->sent += n > 0 ? (size_t)n : 0;
        if (below(8) == 0)
            coir_sleep_for((coir_time)below(3 * COIR_MS));
    }
    return talk->half_closes ? coir_shutdown_write(talk->stream) : 0;
}

/* What is peeked at is read next, and may be less. */
static ssize_t peek_and_read(struct talk *talk, char *data, size_t len)
{
    char seen[300];
    ssize_t n = coir_peek(talk->stream, seen, len < sizeof seen ? len : sizeof seen), m;
    if (n < 0)
        return n == -EOPNOTSUPP && talk->is_masked ? coir_read(talk->stream, data, len) : n;
    if ((m = coir_try_read(talk->stream, data, len)) >= 0)
        must_be(n == 0 ? m == 0 : m > 0 && memcmp(seen, data, (size_t)(m < n ? m : n)) == 0);
    return m;
}

static ssize_t read_some(struct talk *talk, char *data, size_t len)
{
    struct iovec pieces[2] = {{data, len / 2}, {data + len / 2, len - len / 2}};
    switch (below(7)) {
    case 0: {
        COIR_DEADLINE(soon());
        return coir_read(talk->stream, data, len);
    }
    case 1: {
        coir_io_op op;
        COIR_DEADLINE(soon());
        return below(2) ? coir_readv(talk->stream, pieces, 2)
                        : coir_await(coir_readv_op(&op, talk->stream, pieces, 2));
    }
    case 2: {
        ssize_t n = coir_try_read(talk->stream, data, len);
        return n == -EAGAIN ? coir_read(talk->stream, data, len) : n;
    }
    case 3: {
        int rc = coir_stream_wait(talk->stream, below(2) ? COIR_READ : COIR_READ | COIR_WRITE);
        return rc < 0 ? rc : coir_read(talk->stream, data, len);
    }
    case 4: {
        COIR_DEADLINE(soon());
        return peek_and_read(talk, data, len);
    }
    case 5: {
        int rc = limit_peer(talk, COIR_READ);
        return rc < 0 ? rc : unlimit_peer(talk, COIR_READ, coir_read(talk->stream, data, len));
    }
    default: return coir_read(talk->stream, data, len);
    }
}

static int hear_until(struct talk *talk, size_t end)
{
    while (talk->heard < end) {
        char data[6000];
        size_t len = 1 + below(sizeof data);
        if (below(8) == 0)
            coir_sleep_for((coir_time)below(10 * COIR_MS)); /* much is read ahead */
        ssize_t n = read_some(talk, data, len < end - talk->heard ? len : end - talk->heard);
        if (n == 0)
            return -COIR_EEND;
        if (n < 0 && !again(n))
            return (int)n;
        for (ssize_t i = 0; i < n; i++)
            must_be((unsigned char)data[i] == byte_at(talk->heard + (size_t)i));
        talk->heard += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* Asks for more than there is, so that the last bytes and the end may come together. */
static int hear_to_the_end(void *arg)
{
    struct talk *talk = arg;
    int rc = hear_until(talk, SIZE_MAX);
    return rc == -COIR_EEND && talk->heard == talk->total ? 0 : rc < 0 ? rc : -EPROTO;
}

static int hear_first(void *arg)
{
    struct talk *talk = arg;
    return hear_until(talk, talk->first);
}

static int wait_a_while(coir_stream *stream)
{
    COIR_DEADLINE(coir_in(COIR_MS));
    return coir_stream_wait(stream, COIR_READ);
}

/* The peer says that it is done, too. One that has closed resets for the end that a filter sends,
 * or for the bytes before it. */
static int end_well(struct talk *talk)
{
    char more;
    int rc = coir_shutdown_write(talk->stream);
    ssize_t n = rc < 0 ? rc : coir_read(talk->stream, &more, 1);
    bool is_reset = n == -ECONNRESET || rc == -EPIPE;
    coir_close(talk->stream);
    return n == 0 || (is_reset && talk->is_masked) ? 0 : -EPROTO;
}

static int watch(void *arg)
{
    int rc = coir_stream_wait(arg, COIR_HANGUP);
    return rc == -ECANCELED || rc > 0 ? 0 : rc;
}

/* Closes while a task waits for the stream to break. */
static int close_watched(coir_stream *stream)
{
    COIR_SCOPE(watchers);
    int rc = coir_go(watchers, watch, stream);
    if (rc == 0)
        coir_sleep_for(1 + (coir_time)below(100 * COIR_US));
    coir_close(stream);
    return rc < 0 ? rc : coir_scope_wait(watchers);
}

/* Waits for both directions until there is something to read; no other task writes. */
static int hear_rest(void *arg)
{
    struct talk *talk = arg;
    int rc = 0;
    while (rc >= 0 && talk->heard < talk->total) {
        rc = coir_stream_wait(talk->stream, COIR_READ | COIR_WRITE);
        if (rc > 0 && !(rc & COIR_READ) && again(rc = wait_a_while(talk->stream)))
            rc = 0;
        char data[700];
        ssize_t n = rc < 0 ? rc : coir_try_read(talk->stream, data, sizeof data);
        for (ssize_t i = 0; i < n; i++)
            must_be((unsigned char)data[i] == byte_at(talk->heard + (size_t)i));
        talk->heard += n > 0 ? (size_t)n : 0;
        if (n == 0 || (n < 0 && n != -EAGAIN))
            rc = n ? (int)n : -COIR_EEND;
    }
    if (rc >= 0)
        rc = below(2) ? close_watched(talk->stream) : end_well(talk);
    return rc;
}

static int send_and_hear(struct talk *talk, coir_task_fn *hear)
{
    COIR_SCOPE(both);
    int rc = coir_go(both, send_all, talk);
    rc = rc < 0 ? rc : coir_go(both, hear, talk);
    return rc < 0 ? rc : coir_scope_wait(both);
}

/* A wait of a filter for its transport may be told late that it was cancelled. */
static int detach(struct talk *talk)
{
    int rc;
    while ((rc = coir_stream_detach(talk->stream)) == -EBUSY && talk->is_masked)
        coir_sleep_for(COIR_US);
    return rc;
}

static void free_mask(void *arg)
{
    free(arg);
}

static const coir_filter_kind masks =
    COIR_FILTER_KIND(mask_read, mask_write, mask_flush, mask_readable, mask_end, free_mask);

static void free_nothing(void *arg)
{
    (void)arg;
}

static const coir_filter_kind other_kind =
    COIR_FILTER_KIND(mask_read, mask_write, mask_flush, mask_readable, mask_end, free_nothing);

static int put_mask(coir_stream **stream)
{
    struct mask *mask = malloc(sizeof *mask);
    if (!mask)
        return -ENOMEM;
    *mask = (struct mask){.transport = *stream, .ahead = -1};
    must_be(!coir_filter_arg(*stream, &masks));
    int rc = coir_filter_new(&masks, mask, *stream, stream);
    must_be(coir_filter_arg(*stream, &masks) == (rc == 0 ? mask : NULL));
    must_be(!coir_filter_arg(*stream, &other_kind));
    return rc;
}

/* The first read through the filter ends in the time that its transport had. */
static int put_limited_mask(struct talk *talk)
{
    coir_time most = 1 + (coir_time)below(2 * COIR_MS);
    char byte;
    int rc = coir_stream_set_timeout(talk->stream, COIR_READ, most, 0);
    rc = rc < 0 ? rc : put_mask(&talk->stream);
    if (rc < 0)
        return rc;
    coir_time begin = coir_now();
    ssize_t n = unlimit_peer(talk, COIR_READ, coir_read(talk->stream, &byte, talk->total > 0));
    must_be(coir_now() <= begin + most + late);
    if (n > 0)
        must_be((unsigned char)byte == byte_at(talk->heard++));
    return n < 0 && !again(n) ? (int)n : 0;
}

static int hold_talk(coir_stream *stream, const struct terms *terms)
{
    struct talk talk = {.stream = stream,
                        .total = terms->total,
                        .half_closes = terms->half_closes,
                        .is_masked = terms->is_masked};
    int rc = !talk.is_masked ? 0 : below(2) ? put_mask(&talk.stream) : put_limited_mask(&talk);
    if (rc < 0)
        return rc;
    if (talk.half_closes) {
        rc = send_and_hear(&talk, hear_to_the_end);
        coir_close(talk.stream);
        return rc;
    }
    size_t left = below(2) && !terms->is_in_memory ? below(LEFT_MOST) : 0;
    talk.first = left < talk.total ? talk.total - left : 0;
    rc = send_and_hear(&talk, hear_first);
    if (rc < 0)
        return rc;
    coir_sleep_for((coir_time)below(2 * COIR_MS)); /* the rest comes meanwhile */
    rc = detach(&talk);
    COIR_SCOPE(elsewhere);
    if (rc == -EOPNOTSUPP && terms->is_in_memory) /* one worker has both ends of a duplex */
        rc = coir_go(elsewhere, hear_rest, &talk);
    else
        rc = rc < 0 ? rc : coir_go_anywhere(elsewhere, hear_rest, &talk);
    return rc < 0 ? rc : coir_scope_wait(elsewhere);
}

/* The end must never come, as if the client had sent all that it wanted to. */
static int must_be_reset(struct talk *talk, int rc)
{
    coir_close(talk->stream);
    return rc == -ECONNRESET ? 0 : rc < 0 ? rc : -EPROTO;
}

static int hear_reset_elsewhere(void *arg)
{
    struct talk *talk = arg;
    return must_be_reset(talk, hear_until(talk, SIZE_MAX));
}

/* The server's side. */
static int hear_reset(struct talk *talk)
{
    int rc = hear_until(talk, talk->first);
    rc = rc < 0 ? rc : coir_stream_detach(talk->stream);
    if (rc < 0)
        return must_be_reset(talk, rc);
    coir_sleep_for((coir_time)below(2 * COIR_MS));
    COIR_SCOPE(elsewhere);
    rc = coir_go_anywhere(elsewhere, hear_reset_elsewhere, talk);
    return rc < 0 ? rc : coir_scope_wait(elsewhere);
}

static int write_in_time(coir_stream *stream, char *data, size_t len)
{
    struct iovec pieces[2] = {{data, len / 3}, {data + len / 3, len - len / 3}};
    coir_io_all_op op;
    COIR_DEADLINE(soon());
    switch (below(4)) {
    case 0: return coir_write_all(stream, data, len);
    case 1: return coir_writev_all(stream, pieces, 2);
    case 2: return (int)coir_await(coir_write_all_op(&op, stream, data, len));
    default: return (int)coir_await(coir_writev_all_op(&op, stream, pieces, 2));
    }
}

/* A write that is given up, after an unknown part, is over all the same: the next call is not
 * refused because of it. */
static int cut_write(struct talk *talk)
{
    char data[9000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)byte_at(talk->sent + i);
    int rc = write_in_time(talk->stream, data, sizeof data);
    if (rc < 0 && !again(rc))
        return rc;
    rc = coir_stream_wait(talk->stream, COIR_WRITE);
    return rc < 0 ? rc : 0;
}

/* The client's. */
static int send_and_reset(struct talk *talk)
{
    int rc = send_all(talk);
    rc = rc < 0 || below(2) ? rc : cut_write(talk);
    coir_sleep_for((coir_time)below(2 * COIR_MS));
    rc = rc < 0 ? rc : coir_tcp_set_option(talk->stream, COIR_TCP_RESET_ON_CLOSE, 1);
    coir_close(talk->stream);
    return rc;
}

/* The server closes what it has only peeked at. */
static int drop_unread(coir_stream *stream)
{
    char byte;
    ssize_t n = coir_peek(stream, &byte, 1);
    coir_close(stream);
    return n == 1 ? 0 : n < 0 ? (int)n : -EPROTO;
}

/* The client's: the reset comes at once, also while it is still sending. */
static int hear_drop(struct talk *talk)
{
    char data[LITTLE] = {0};
    int rc = coir_write_all(talk->stream, data, 1 + below(sizeof data));
    ssize_t n = rc < 0 ? rc : coir_read(talk->stream, data, 1);
    return must_be_reset(talk, n == 0 ? -COIR_EEND : (int)n);
}

/* Whoever has the stream next neither reads nor writes. */
static int wait_for_the_client(void *arg)
{
    struct talk *talk = arg;
    int rc = coir_stream_wait(talk->stream, COIR_HANGUP);
    coir_close(talk->stream);
    return rc > 0 || rc == -ECONNRESET ? 0 : rc < 0 ? rc : -EPROTO;
}

/* No more fits into the connection, or not much more: a write through the filter ends in the time
 * that its transport had. How much the filter has taken. */
static ssize_t write_in_vain(struct talk *talk, coir_time most)
{
    static const char data[MASK_ROOM];
    size_t sent = 0;
    ssize_t n = 1;
    for (int i = 0; n > 0 && i < 100; i++) {
        coir_time begin = coir_now();
        n = coir_write(talk->stream, data, sizeof data);
        must_be(coir_now() <= begin + most + late);
        sent += n > 0 ? (size_t)n : 0;
    }
    n = unlimit_peer(talk, COIR_WRITE, n);
    return n > 0 || n == -ETIME ? (ssize_t)sent : n;
}

/* The server's. No more fits into the connection: what the filter is given then, it keeps. */
static int fill(struct talk *talk, size_t *ret_sent)
{
    static const char data[9000];
    coir_time most = 1 + (coir_time)below(2 * COIR_MS);
    bool limited = below(2);
    ssize_t n;
    size_t sent = 0;
    while ((n = coir_try_write(talk->stream, data, sizeof data)) > 0)
        sent += (size_t)n;
    int rc = n == -EAGAIN ? 0 : (int)n;
    if (rc == 0 && limited)
        rc = coir_stream_set_timeout(talk->stream, COIR_WRITE, most, 0);
    rc = rc < 0 ? rc : put_mask(&talk->stream);
    if (rc < 0)
        return rc;
    n = limited ? write_in_vain(talk, most) : coir_try_write(talk->stream, data, MASK_ROOM / 2);
    if (n < 0)
        return (int)n;
    *ret_sent = sent + (size_t)n;
    if ((rc = detach(talk)) < 0)
        return rc;
    COIR_SCOPE(elsewhere);
    rc = coir_go_anywhere(elsewhere, wait_for_the_client, talk);
    return rc < 0 ? rc : coir_scope_wait(elsewhere);
}

/* The client's: all must come. */
static int hear_all(struct talk *talk, const size_t *sent)
{
    static char data[9000];
    int rc = 0;
    while (rc == 0 && *sent == 0)
        rc = coir_sleep_for(COIR_MS);
    ssize_t n = rc;
    while (n >= 0 && talk->heard < *sent)
        if ((n = coir_read(talk->stream, data, sizeof data)) > 0)
            talk->heard += (size_t)n;
        else if (n == 0)
            n = -COIR_EEND;
    must_be(n < 0 || talk->heard == *sent);
    rc = n < 0 ? (int)n : coir_tcp_set_option(talk->stream, COIR_TCP_RESET_ON_CLOSE, 1);
    coir_close(talk->stream);
    return rc;
}

/* One who writes as much as there is room for, until the other has read all. */
struct duel {
    struct talk *talk;
    size_t sent;
    bool is_heard;
};

/* In pieces of a size of which a buffer holds some exactly, mostly. */
static int write_while_there_is_room(void *arg)
{
    static const char data[1024];
    struct duel *duel = arg;
    ssize_t n = 0;
    while (!duel->is_heard && (n >= 0 || again(n))) {
        COIR_DEADLINE(soon());
        n = coir_write(duel->talk->stream, data, sizeof data);
        duel->sent += n > 0 ? (size_t)n : 0;
    }
    return again(n) || n > 0 ? 0 : (int)n;
}

/* Late, as much may have come before. */
static int hear_late(void *arg)
{
    struct duel *duel = arg;
    int rc = coir_sleep_for((coir_time)below(10 * COIR_MS));
    rc = rc < 0 ? rc : hear_until(duel->talk, duel->talk->total);
    duel->is_heard = true;
    return rc;
}

/* The server's. */
static int hear_while_blocked(struct talk *talk, size_t *ret_sent)
{
    struct duel duel = {.talk = talk};
    COIR_SCOPE(both);
    int rc = coir_go(both, write_while_there_is_room, &duel);
    rc = rc < 0 ? rc : coir_go(both, hear_late, &duel);
    rc = rc < 0 ? rc : coir_scope_wait(both);
    must_be(rc != 0 || duel.sent > 0);
    *ret_sent = duel.sent;
    return rc < 0 ? rc : wait_for_the_client(talk);
}

/* The client's: reads now and then, and stops. */
static int stop_reading(struct talk *talk, const size_t *sent)
{
    char data[6000];
    int rc = send_all(talk);
    ssize_t n = rc < 0 ? rc : 1;
    for (uint64_t parts = below(4); parts && (n > 0 || again(n)); parts--) {
        COIR_DEADLINE(soon());
        n = coir_read(talk->stream, data, sizeof data);
        talk->heard += n > 0 ? (size_t)n : 0;
    }
    return n > 0 || again(n) ? hear_all(talk, sent) : n < 0 ? (int)n : -COIR_EEND;
}

static struct terms draw_terms(bool is_in_memory)
{
    struct terms terms = {
        .half_closes = below(3) == 0, .is_masked = below(4) == 0, .is_in_memory = is_in_memory};
    terms.resets = below(4) == 0 && !terms.is_masked && !is_in_memory;
    terms.drops = !terms.resets && !terms.is_masked && !is_in_memory && below(6) == 0;
    if (terms.is_masked && !is_in_memory && below(4) == 0)
        terms.fills = ++fulls;
    if (!terms.is_masked && !is_in_memory && !terms.resets && !terms.drops && below(6) == 0)
        terms.stops = ++fulls;
    bool little = terms.is_masked || is_in_memory || terms.stops;
    terms.total = (uint16_t)below(little ? LITTLE : TOTAL_MOST);
    return terms;
}

static int drop(coir_stream *stream)
{
    coir_close(stream);
    return 0;
}

static int serve_one(void *arg)
{
    coir_stream *stream = arg;
    struct terms terms;
    ssize_t n = coir_read_full(stream, &terms, sizeof terms, NULL);
    if (n < 0)
        return n == -ECONNRESET ? drop(stream) : (int)n;
    if (terms.drops)
        return drop_unread(stream);
    if (terms.fills)
        return fill(&(struct talk){.stream = stream, .is_masked = true}, &full[terms.fills - 1]);
    struct talk talk = {.stream = stream, .total = terms.total, .first = below(terms.total + 1u)};
    if (terms.stops)
        return hear_while_blocked(&talk, &full[terms.stops - 1]);
    return terms.resets ? hear_reset(&talk) : hold_talk(stream, &terms);
}

static int serve(void *arg)
{
    (void)arg;
    coir_listener *listener;
    int rc = coir_tcp_listen("0.0.0.0:7777", &listener);
    if (rc < 0)
        return rc;
    COIR_SCOPE(all);
    for (int accepted = 0; rc >= 0 && accepted < CLIENTS * (TALKS - in_memory);) {
        coir_stream *stream;
        {
            COIR_DEADLINE(coir_in((coir_time)below(5 * COIR_MS)));
            rc = coir_accept(listener, &stream);
        }
        if (again(rc)) {
            rc = 0;
        } else if (rc == 0) {
            rc = coir_go(all, serve_one, stream);
            accepted++;
        }
    }
    coir_listener_close(listener);
    return rc < 0 ? rc : coir_scope_wait(all);
}

/* In memory: the other end is served here. */
static int connect_in_memory(coir_scope *scope, coir_stream **ret_stream)
{
    static const size_t capacities[] = {1, 100, 3000, 0};
    coir_stream *other;
    int rc = coir_duplex(capacities[below(4)], ret_stream, &other);
    return rc < 0 ? rc : coir_go(scope, serve_one, other);
}

static int talk_once(bool is_in_memory)
{
    coir_stream *stream;
    struct terms terms = draw_terms(is_in_memory);
    COIR_SCOPE(scope);
    int rc =
        is_in_memory ? connect_in_memory(scope, &stream) : coir_tcp_connect("server:7777", &stream);
    rc = rc < 0 ? rc : coir_write_all(stream, &terms, sizeof terms);
    struct talk talk = {.stream = stream, .total = terms.total};
    if (rc >= 0)
        rc = terms.drops    ? hear_drop(&talk)
             : terms.fills  ? hear_all(&talk, &full[terms.fills - 1])
             : terms.stops  ? stop_reading(&talk, &full[terms.stops - 1])
             : terms.resets ? send_and_reset(&talk)
                            : hold_talk(stream, &terms);
    return rc < 0 ? rc : coir_scope_wait(scope);
}

static int be_a_client(void *arg)
{
    (void)arg;
    for (int i = 0; i < TALKS; i++) {
        int rc = talk_once(i < in_memory);
        if (rc < 0)
            return rc;
        talks_left--;
    }
    return 0;
}

static int be_clients(void *arg)
{
    COIR_DEADLINE(coir_in(COIR_S * 60));
    COIR_SCOPE(all);
    int rc = coir_sleep_for(COIR_MS);
    for (int i = 0; rc == 0 && i < CLIENTS; i++)
        rc = coir_go_anywhere(all, be_a_client, arg);
    rc = rc < 0 ? rc : coir_scope_wait(all);
    while (rc == 0 && !coir_host_is_down(server))
        rc = coir_sleep_for(COIR_MS);
    return rc;
}

int scenario(coir_sim *sim)
{
    talks_left = CLIENTS * TALKS;
    memset(full, 0, sizeof full);
    fulls = 0;
    in_memory = below(2) ? 0 : (int)below(TALKS + 1);
    if (!(server = coir_sim_host(sim, "server", serve, NULL)))
        return -ENOMEM;
    int rc = coir_sim_host_main(sim, "clients", be_clients, NULL);
    return rc < 0 ? rc : talks_left ? -EPROTO : 0;
}
