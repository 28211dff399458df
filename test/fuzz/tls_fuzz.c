/* Hostile bytes for a TLS connection's two ends. The first byte of the input says how:
 *   raw      what follows is sent to an end that accepts or connects, in pieces
 *   relayed  a real client and a real server meet over a relay, which changes what passes: each
 *            four bytes of the input are a direction with what to do, a place and a value
 * An end that reads gets the beginning of what the other has written, and no other byte; nothing
 * leaks, and all ends. Randomness is the input's, so that a failure repeats. */
#define OPENSSL_SUPPRESS_DEPRECATED /* randomness has no other way in */
#include <coir.h>
#include <coir/tls.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../openssl_random.h"
#include "../openssl_time.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static void must(bool condition)
{
    if (!condition)
        abort();
}

/* ---- the ends ---- */

enum { CLIENT, SERVER, ENDS };
enum { SENT = 700 };

static coir_tls *sides[ENDS];

struct end {
    int which;
    coir_stream *transport;
};

static char byte_of(int which, size_t at)
{
    return (char)(which * 101 + (int)at % 97);
}

static void say(coir_stream *stream, int which)
{
    char data[SENT];
    for (size_t i = 0; i < SENT; i++)
        data[i] = byte_of(which, i);
    (void)!coir_write_all(stream, data, SENT);
    coir_shutdown_write(stream);
}

static void hear(coir_stream *stream, int from)
{
    char data[100];
    size_t heard = 0;
    ssize_t n;
    while ((n = coir_read(stream, data, sizeof data)) > 0)
        for (ssize_t i = 0; i < n; i++, heard++)
            must(data[i] == byte_of(from, heard));
    must(n != 0 || heard == SENT); /* an end that was declared is that of everything */
}

static int be(void *arg)
{
    const struct end *end = arg;
    coir_stream *stream;
    int rc = end->which == CLIENT
                 ? coir_tls_connect(sides[CLIENT], "example.org", end->transport, &stream)
                 : coir_tls_accept(sides[SERVER], end->transport, &stream);
    if (rc < 0) {
        must(rc != -EAGAIN && rc != -EINVAL);
        coir_close(end->transport);
        return 0;
    }
    if (end->which == CLIENT)
        say(stream, CLIENT);
    hear(stream, !end->which);
    if (end->which == SERVER)
        say(stream, SERVER);
    coir_close(stream);
    return 0;
}

/* ---- raw ---- */

static void drain(coir_stream *stream)
{
    char data[500];
    while (coir_try_read(stream, data, sizeof data) > 0)
        continue;
}

static void send_raw(int which, const uint8_t *data, size_t len)
{
    struct end end = {.which = which};
    coir_stream *peer;
    size_t step = len ? 1 + data[0] : 1;
    COIR_SCOPE(scope);
    must(coir_duplex(0, &end.transport, &peer) == 0 && coir_go(scope, be, &end) == 0);
    for (size_t at = 0; at < len; at += step) {
        size_t some = len - at < step ? len - at : step;
        if (coir_try_write(peer, data + at, some) < 0)
            break;
        coir_yield();
        drain(peer);
    }
    coir_shutdown_write(peer);
    coir_yield();
    coir_close(peer);
    coir_scope_wait(scope);
}

/* ---- relayed ---- */

enum change { FLIP, INSERT, DROP, CUT };

struct way {
    coir_stream *from, *to;
    unsigned char kept[256]; /* what the reader has no room for */
    size_t len, passed;      /* passed: of the writer's bytes */
    bool ended, cut;
};

static void keep(struct way *way, unsigned char byte)
{
    way->kept[way->len++] = byte;
}

/* A byte of the writer's on its way; the input's changes have places of their own. */
static void pass_byte(struct way *way, int which, unsigned char byte, const uint8_t *changes,
                      size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint8_t *one = changes + 4 * i;
        if ((one[0] & 1) != which || (size_t)(one[1] << 8 | one[2]) % 3000 != way->passed)
            continue;
        switch ((enum change)(one[0] >> 1 & 3)) {
        case FLIP: byte ^= one[3]; break;
        case INSERT: keep(way, one[3]); break;
        case DROP: way->passed++; return;
        case CUT: way->cut = true; return;
        }
    }
    keep(way, byte);
    way->passed++;
}

/* True: something has moved. */
static bool pass(struct way *way, int which, const uint8_t *changes, size_t count)
{
    unsigned char in[64];
    if (way->len) {
        ssize_t n = coir_try_write(way->to, way->kept, way->len);
        if (n == -EAGAIN)
            return false;
        if (n < 0)
            n = (ssize_t)way->len;
        memmove(way->kept, way->kept + n, way->len - (size_t)n);
        way->len -= (size_t)n;
        return true;
    }
    if (way->ended)
        return false;
    ssize_t n = way->cut ? 0 : coir_try_read(way->from, in, sizeof in);
    for (ssize_t i = 0; i < n && !way->cut; i++)
        pass_byte(way, which, in[i], changes, count);
    if (n == 0 || (n < 0 && n != -EAGAIN)) {
        way->ended = true;
        coir_shutdown_write(way->to);
    }
    return n != -EAGAIN;
}

/* The turns in a row in which nothing moves before the relay gives both ends up. */
enum { QUIET = 20, CHANGES_MOST = 32 };

static void relay(const uint8_t *changes, size_t count)
{
    struct end ends[ENDS];
    struct way ways[ENDS] = {0};
    COIR_SCOPE(scope);
    for (int i = 0; i < ENDS; i++) {
        ends[i].which = i;
        must(coir_duplex(0, &ends[i].transport, &ways[i].from) == 0);
        must(coir_go(scope, be, &ends[i]) == 0);
    }
    ways[CLIENT].to = ways[SERVER].from;
    ways[SERVER].to = ways[CLIENT].from;
    count = count < CHANGES_MOST ? count : CHANGES_MOST;
    for (int quiet = 0; quiet < QUIET && (!ways[CLIENT].ended || !ways[SERVER].ended); quiet++) {
        for (int i = 0; i < ENDS; i++)
            if (pass(&ways[i], i, changes, count))
                quiet = 0;
        coir_yield();
    }
    coir_close(ways[CLIENT].from);
    coir_close(ways[SERVER].from);
    coir_scope_wait(scope);
}

/* ---- one input ---- */

struct input {
    const uint8_t *data;
    size_t len;
};

static int play(void *arg)
{
    const struct input *input = arg;
    uint8_t how = input->len ? input->data[0] : 0;
    openssl_random_state = how;
    if (input->len == 0)
        return 0;
    if (how & 1)
        relay(input->data + 1, (input->len - 1) / 4);
    else
        send_raw(how & 2 ? CLIENT : SERVER, input->data + 1, input->len - 1);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static coir_runtime *runtime;
    struct input input = {data, size};
    if (!runtime) {
        coir_config config = COIR_CONFIG;
        config.workers = 1;
        config.driver = "poll";
        must(coir_runtime_new(&config, &runtime) == 0);
    }
    must(coir_runtime_run(runtime, play, &input) == 0);
    return 0;
}

/* The ends, of a key made before randomness is the input's. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    char *certificate, *key;
    coir_tls_options server = COIR_TLS_OPTIONS, client = COIR_TLS_OPTIONS;
    (void)argc, (void)argv;
    must(RAND_set_rand_method(&openssl_seeded) == 1);
    must(coir_tls_make_certificate("example.org", &certificate, &key) == 0);
    server.certificate = client.ca = certificate;
    server.key = key;
    server.alpn = "b,a";
    client.alpn = "a";
    must(coir_tls_server_new(&server, &sides[SERVER]) == 0);
    must(coir_tls_client_new(&client, &sides[CLIENT]) == 0);
    free(certificate);
    free(key);
    return 0;
}
