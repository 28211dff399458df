/* A connection that is cut, and an end that is cancelled, after each byte of a handshake and of a
 * short exchange. Between the two ends stands a relay, which lets a number of bytes through in one
 * direction, waits until nothing moves any more, and then acts. Every run leaves as many of
 * OpenSSL's allocations as it found, and an end that reads on gets the plaintext of each record
 * that the relay delivered whole. STEP=n tries every n-th byte. */
#include <coir.h>
#include <coir/sim.h>
#include <coir/tls.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "openssl_memory.h"
#include "pair.h"
#include "pki.h"
#include "tls/tls.h"

enum { CLIENT, SERVER, ENDS };

enum action {
    CLOSE,         /* both transports are closed: reads end, writes fail */
    END,           /* both end, and writes vanish */
    CANCEL_CLIENT, /* the end's task is cancelled where it waits; the relay goes on */
    CANCEL_SERVER
};

/* Of a handshake. */
static struct kind {
    int version;
    bool rsa;     /* the server signs on the pool */
    bool sleeps;  /* the relay, where nothing moves: in a simulated world time passes only then */
    size_t every; /* byte that is tried */
} kind;

/* Each end sends these, one record each. No record of a handshake has the size of one of them, or
 * of a close_notify. */
static const size_t messages[] = {13, 33, 290};
enum { MESSAGES = 3, SENT = 13 + 33 + 290, NOTIFY = 2 };

/* The bytes that a record adds: RFC 8446, section 5.2; RFC 5288, section 3. */
static size_t added(void)
{
    return kind.version == TLS1_3_VERSION ? 1 + 16 : 8 + 16;
}

/* One direction through the relay. */
struct way {
    coir_stream *from, *to;
    char data[64]; /* what was taken and not delivered yet */
    size_t len, passed;
    unsigned char head[5]; /* of the present record, of which `at` bytes were passed */
    size_t at, plaintext;  /* of messages in records that were passed whole */
    bool notified, ended;
};

struct end {
    coir_stream *transport, *stream;
    coir_tls *tls;
    int which, rc; /* of the handshake */
    int cancelled; /* calls that were */
    size_t wrote, heard;
    int heard_end; /* what the last read returned */
};

struct run {
    struct end ends[ENDS];
    struct way ways[ENDS]; /* ways[CLIENT]: what the client sends */
    coir_scope *scopes[ENDS];
    int counted;  /* the direction in which bytes are counted, */
    size_t limit; /* and after how many the relay acts */
    enum action action;
    bool acted;
};

/* ---- the ends ---- */

static char byte_of(int which, size_t at)
{
    return (char)(which * 101 + (int)at % 97);
}

static ssize_t read_on(struct end *end, char *buf, size_t size)
{
    ssize_t n = coir_read(end->stream, buf, size);
    if (n != -ECANCELED)
        return n;
    end->cancelled++;
    COIR_SHIELD;
    return coir_read(end->stream, buf, size);
}

static ssize_t write_on(struct end *end, const char *data, size_t len)
{
    ssize_t n = coir_write(end->stream, data, len);
    if (n != -ECANCELED)
        return n;
    end->cancelled++; /* and nothing was written */
    COIR_SHIELD;
    return coir_write(end->stream, data, len);
}

static void say(struct end *end)
{
    char data[512];
    for (int i = 0; i < MESSAGES; i++) {
        for (size_t at = 0; at < messages[i]; at++)
            data[at] = byte_of(end->which, end->wrote + at);
        ssize_t n = write_on(end, data, messages[i]);
        if (n < 0)
            return;
        CHECK_EQ(n, messages[i]);
        end->wrote += messages[i];
    }
    coir_shutdown_write(end->stream);
}

static void hear(struct end *end)
{
    char data[64];
    ssize_t n;
    while ((n = read_on(end, data, sizeof data)) > 0)
        for (ssize_t i = 0; i < n; i++, end->heard++)
            CHECK_EQ(data[i], byte_of(!end->which, end->heard));
    end->heard_end = (int)n;
}

static int be_client(void *arg)
{
    struct end *end = arg;
    end->rc = coir_tls_connect(end->tls, "example.org", end->transport, &end->stream);
    if (end->rc == 0) {
        say(end);
        hear(end);
    }
    coir_close(end->rc == 0 ? end->stream : end->transport);
    return 0;
}

static int be_server(void *arg)
{
    struct end *end = arg;
    end->rc = coir_tls_accept(end->tls, end->transport, &end->stream);
    if (end->rc == 0) {
        hear(end);
        say(end);
    }
    coir_close(end->rc == 0 ? end->stream : end->transport);
    return 0;
}

/* ---- the relay ---- */

static size_t message_of(size_t len)
{
    for (int i = 0; i < MESSAGES; i++)
        if (len == messages[i])
            return len;
    return 0;
}

static void count(struct way *way, unsigned char byte)
{
    if (way->at < sizeof way->head)
        way->head[way->at] = byte;
    way->passed++;
    size_t body = (size_t)(way->head[3] << 8 | way->head[4]);
    if (++way->at < sizeof way->head || way->at < sizeof way->head + body)
        return;
    way->at = 0;
    bool is_old = kind.version != TLS1_3_VERSION;
    if (way->head[0] == SSL3_RT_APPLICATION_DATA)
        way->plaintext += message_of(body - added());
    if (way->head[0] == (is_old ? SSL3_RT_ALERT : SSL3_RT_APPLICATION_DATA))
        way->notified |= body - added() == NOTIFY;
}

static void keep_count(struct way *way, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        count(way, (unsigned char)data[i]);
}

/* True: something has moved. */
static bool pass(struct run *run, int which)
{
    struct way *way = &run->ways[which];
    bool vanishes = run->acted && run->action == END;
    if (way->len == 0) {
        size_t most = sizeof way->data;
        if (!run->acted && run->counted == which && run->limit - way->passed < most)
            most = run->limit - way->passed;
        ssize_t n = most ? coir_try_read(way->from, way->data, most) : -EAGAIN;
        way->ended = n == 0 || (n < 0 && n != -EAGAIN);
        if (way->ended && !vanishes)
            coir_shutdown_write(way->to);
        if (n <= 0)
            return way->ended;
        way->len = (size_t)n;
    }
    ssize_t n = vanishes ? (ssize_t)way->len : coir_try_write(way->to, way->data, way->len);
    if (n < 0 && n != -EAGAIN) /* nobody reads there any more */
        n = (ssize_t)way->len;
    else if (n > 0 && !vanishes)
        keep_count(way, way->data, (size_t)n);
    if (n <= 0)
        return false;
    memmove(way->data, way->data + n, way->len - (size_t)n);
    way->len -= (size_t)n;
    return true;
}

static void act(struct run *run)
{
    run->acted = true;
    for (int i = 0; i < ENDS; i++) {
        struct way *way = &run->ways[i];
        if (run->action == CLOSE)
            way->ended = true;
        if (run->action == END)
            coir_shutdown_write(way->to);
    }
    if (run->action == CANCEL_CLIENT || run->action == CANCEL_SERVER)
        coir_scope_cancel(run->scopes[run->action == CANCEL_CLIENT ? CLIENT : SERVER]);
}

/* Turns in which nothing moves: the ends wait, and then that they are stuck. */
enum { QUIET = 8, STUCK = 100000 };

static void relay(struct run *run)
{
    for (int quiet = 0; !run->ways[CLIENT].ended || !run->ways[SERVER].ended; quiet++) {
        for (int i = 0; i < ENDS; i++)
            if (!run->ways[i].ended && pass(run, i))
                quiet = 0;
        if (quiet > QUIET && !run->acted && run->ways[run->counted].passed == run->limit)
            act(run);
        CHECK(quiet < STUCK);
        CHECK_EQ(quiet && kind.sleeps ? coir_sleep_for(COIR_US) : coir_yield(), 0);
    }
    coir_close(run->ways[CLIENT].from);
    coir_close(run->ways[SERVER].from);
}

/* ---- runs ---- */

static coir_tls *sides[ENDS];

/* Small, so that the ends wait for both reading and writing. */
enum { CAPACITY = 64 };

static struct run play(enum action action, int counted, size_t limit)
{
    struct run run = {.counted = counted, .limit = limit, .action = action};
    for (int i = 0; i < ENDS; i++) {
        run.ends[i] = (struct end){.tls = sides[i], .which = i};
        CHECK_EQ(coir_duplex(CAPACITY, &run.ends[i].transport, &run.ways[i].from), 0);
    }
    run.ways[CLIENT].to = run.ways[SERVER].from;
    run.ways[SERVER].to = run.ways[CLIENT].from;
    COIR_SCOPE(client);
    COIR_SCOPE(server);
    run.scopes[CLIENT] = client;
    run.scopes[SERVER] = server;
    CHECK_EQ(coir_go(client, be_client, &run.ends[CLIENT]), 0);
    CHECK_EQ(coir_go(server, be_server, &run.ends[SERVER]), 0);
    relay(&run);
    coir_scope_wait(client);
    coir_scope_wait(server);
    if (kind.sleeps)
        CHECK_EQ(coir_sleep_for(COIR_MS), 0); /* farewells (io/filter.c) end */
    ci_sessions_drop(sides[CLIENT]);
    return run;
}

/* What was delivered was heard, and an end that was not declared is no end. */
static void check(const struct run *run)
{
    for (int i = 0; i < ENDS; i++) {
        const struct end *end = &run->ends[i];
        const struct way *in = &run->ways[!i];
        if (end->rc < 0)
            continue;
        CHECK_EQ(end->heard, in->plaintext);
        CHECK_EQ(end->heard_end, in->notified ? 0 : -COIR_ETLS_TRUNCATED);
    }
    const struct end *client = &run->ends[CLIENT], *server = &run->ends[SERVER];
    bool cancels = run->action == CANCEL_CLIENT || run->action == CANCEL_SERVER;
    if (!run->acted || (cancels && client->rc == 0 && server->rc == 0)) {
        CHECK_EQ(client->heard, SENT);
        CHECK_EQ(server->heard, SENT);
    } else if (cancels) {
        CHECK_EQ(run->action == CANCEL_CLIENT ? client->rc : server->rc, -ECANCELED);
    }
}

static size_t step(void)
{
    const char *text = getenv("STEP");
    return text ? (size_t)atoi(text) : (CI_ASAN || CI_TSAN) && kind.every < 23 ? 23 : kind.every;
}

/* How much of OpenSSL's is allocated, without what it keeps for this thread: the texts of its last
 * errors, say. */
static long allocated(void)
{
    OPENSSL_thread_stop();
    return openssl_live;
}

static void make_sides(void)
{
    coir_tls_options client = COIR_TLS_OPTIONS, server = COIR_TLS_OPTIONS;
    struct identity own =
        pki_make((struct wish){.name = "a", .names = "DNS:example.org", .rsa = kind.rsa});
    client.ca = server.certificate = own.certificate_text;
    server.key = own.key_text;
    sides[CLIENT] = client_of(client);
    sides[SERVER] = server_of(server);
    pki_free(&own);
    SSL_CTX_set_max_proto_version(sides[CLIENT]->hosts->context, kind.version);
}

/* After each byte of each direction. */
static void try_all(enum action action, struct kind of)
{
    kind = of;
    make_sides();
    play(action, CLIENT, SIZE_MAX); /* what OpenSSL allocates once is allocated then */
    for (int i = 0; i < 3; i++)
        play(action, CLIENT, 100 + 100 * (size_t)i);
    size_t acted = 0, established = 0;
    for (int counted = 0; counted < ENDS; counted++)
        for (size_t limit = 0;; limit += step()) {
            long before = allocated();
            struct run run = play(action, counted, limit);
            check(&run);
            CHECK_EQ(allocated(), before);
            acted += run.acted;
            established += run.acted && run.ends[CLIENT].rc == 0;
            if (!run.acted)
                break;
        }
    printf("%zu runs, in %zu of which the client had shaken hands\n", acted, established);
    CHECK(established > 0);
    coir_tls_unref(sides[CLIENT]);
    coir_tls_unref(sides[SERVER]);
}

static const struct kind whole = {.version = TLS1_3_VERSION, .every = 1};

TEST_REAL(a_transport_that_is_closed_after_any_byte_leaks_and_loses_nothing)
{
    try_all(CLOSE, whole);
}

TEST_REAL(a_transport_that_ends_after_any_byte_leaks_and_loses_nothing)
{
    try_all(END, whole);
}

TEST_REAL(a_client_that_is_cancelled_after_any_byte_leaks_and_loses_nothing)
{
    try_all(CANCEL_CLIENT, whole);
}

TEST_REAL(a_server_that_is_cancelled_after_any_byte_leaks_and_loses_nothing)
{
    try_all(CANCEL_SERVER, whole);
}

TEST_REAL(tls_1_2_leaks_and_loses_nothing)
{
    for (int action = CLOSE; action <= CANCEL_SERVER; action++)
        try_all((enum action)action, (struct kind){.version = TLS1_2_VERSION, .every = 7});
}

/* The simulated pool signs while the ends wait, so that a cut or a cancel comes meanwhile, too. */
TEST_SIM(a_signature_on_the_pool_leaks_and_loses_nothing)
{
    struct kind rsa = {.version = TLS1_3_VERSION, .rsa = true, .sleeps = true, .every = 97};
    for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
        rsa.version = version;
        for (int action = CLOSE; action <= CANCEL_SERVER; action++)
            try_all((enum action)action, rsa);
    }
}
