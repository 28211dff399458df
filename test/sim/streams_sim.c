/* Streams under everything that a program may do with them: reads and writes that are given up and
 * tried again, pieces, waits for both directions, pauses, streams that are handed to another worker
 * with bytes unread. Nothing fails here but the deadlines: every byte comes once, in its place, and
 * every task ends. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>

#include "sim/chance.h"
#include "sim/scenario.h"

enum { CLIENTS = 3, TALKS = 3, TOTAL_MOST = 40000, LEFT_MOST = 1500, PIECES = 3 };

static coir_host *server;
static int talks_left;

struct talk {
    coir_stream *stream;
    size_t sent, heard, total, first; /* first: what is heard before the stream is handed over */
    bool half_closes;                 /* each side after its last byte; the other reads its end */
};

/* A deadline that is often too short. */
static coir_time soon(void)
{
    return coir_in((coir_time)below(below(4) ? 2 * COIR_MS : 20 * COIR_US));
}

/* Runs after runs of one byte: cheap to make and to check, and no two places 256 apart are
 * alike. */
static unsigned char byte_at(size_t at)
{
    return (unsigned char)(at ^ at >> 8);
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

static ssize_t write_some(struct talk *talk, char *data, size_t len)
{
    struct iovec pieces[PIECES] = {
        {data, len / 3}, {data + len / 3, len / 2 - len / 3}, {data + len / 2, len - len / 2}};
    switch (below(4)) {
    case 0: {
        COIR_DEADLINE(soon());
        return coir_write(talk->stream, data, len);
    }
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

static ssize_t read_some(struct talk *talk, char *data, size_t len)
{
    struct iovec pieces[2] = {{data, len / 2}, {data + len / 2, len - len / 2}};
    switch (below(5)) {
    case 0: {
        COIR_DEADLINE(soon());
        return coir_read(talk->stream, data, len);
    }
    case 1: {
        COIR_DEADLINE(soon());
        return coir_readv(talk->stream, pieces, 2);
    }
    case 2: {
        ssize_t n = coir_try_read(talk->stream, data, len);
        return n == -EAGAIN ? coir_read(talk->stream, data, len) : n;
    }
    case 3: {
        int rc = coir_stream_wait(talk->stream, below(2) ? COIR_READ : COIR_READ | COIR_WRITE);
        return rc < 0 ? rc : coir_read(talk->stream, data, len);
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

/* The peer says that it is done, too. */
static int end_well(coir_stream *stream)
{
    char more;
    int rc = coir_shutdown_write(stream);
    if (rc == 0 && coir_read(stream, &more, 1) != 0)
        rc = -EPROTO;
    coir_close(stream);
    return rc;
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
        rc = below(2) ? close_watched(talk->stream) : end_well(talk->stream);
    return rc;
}

static int send_and_hear(struct talk *talk, coir_task_fn *hear)
{
    COIR_SCOPE(both);
    int rc = coir_go(both, send_all, talk);
    rc = rc < 0 ? rc : coir_go(both, hear, talk);
    return rc < 0 ? rc : coir_scope_wait(both);
}

static int hold_talk(coir_stream *stream, size_t total, bool half_closes)
{
    struct talk talk = {.stream = stream, .total = total, .half_closes = half_closes};
    if (half_closes) {
        int rc = send_and_hear(&talk, hear_to_the_end);
        coir_close(stream);
        return rc;
    }
    size_t left = below(2) ? below(LEFT_MOST) : 0;
    talk.first = left < total ? total - left : 0;
    int rc = send_and_hear(&talk, hear_first);
    if (rc < 0)
        return rc;
    coir_sleep_for((coir_time)below(2 * COIR_MS)); /* the rest comes meanwhile */
    rc = coir_stream_detach(stream);
    COIR_SCOPE(elsewhere);
    rc = rc < 0 ? rc : coir_go_anywhere(elsewhere, hear_rest, &talk);
    return rc < 0 ? rc : coir_scope_wait(elsewhere);
}

/* The first three bytes say how much each side is going to say, and how it ends. */
static int serve_one(void *arg)
{
    coir_stream *stream = arg;
    unsigned char said[3];
    ssize_t n = coir_read_full(stream, said, sizeof said, NULL);
    return n < 0 ? (int)n
                 : hold_talk(stream, (size_t)(said[0] << 8 | said[1]) % TOTAL_MOST, said[2] != 0);
}

static int serve(void *arg)
{
    (void)arg;
    coir_listener *listener;
    int rc = coir_tcp_listen("0.0.0.0:7777", &listener);
    if (rc < 0)
        return rc;
    COIR_SCOPE(all);
    for (int accepted = 0; rc >= 0 && accepted < CLIENTS * TALKS;) {
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

static int be_a_client(void *arg)
{
    (void)arg;
    for (int i = 0; i < TALKS; i++) {
        coir_stream *stream;
        size_t total = below(TOTAL_MOST);
        bool half_closes = below(3) == 0;
        unsigned char said[3] = {(unsigned char)(total >> 8), (unsigned char)total, half_closes};
        int rc = coir_tcp_connect("server:7777", &stream);
        rc = rc < 0 ? rc : coir_write_all(stream, said, sizeof said);
        if (rc < 0 || (rc = hold_talk(stream, total, half_closes)) < 0)
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
    if (!(server = coir_sim_host(sim, "server", serve, NULL)))
        return -ENOMEM;
    int rc = coir_sim_host_main(sim, "clients", be_clients, NULL);
    return rc < 0 ? rc : talks_left ? -EPROTO : 0;
}
