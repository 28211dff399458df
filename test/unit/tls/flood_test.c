/* Floods: what a peer sends that carries no data, or hardly any, keeps nobody else on the worker
 * from running; handshakes leak nothing; reloads are seen by nobody. Figures are printed. */
#include <coir.h>
#include <coir/sim.h>
#include <coir/tls.h>
#include <dirent.h>
#include <errno.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "openssl_memory.h"
#include "pair.h"
#include "pki.h"
#include "tls/tls.h"

static int rounds(int otherwise)
{
    const char *text = getenv("ROUNDS");
    return text ? atoi(text) : otherwise;
}

static struct pair two_sides(void)
{
    return (struct pair){.client = client_of((coir_tls_options)COIR_TLS_OPTIONS),
                         .server = server_of((coir_tls_options)COIR_TLS_OPTIONS)};
}

/* In turn: a full one, a resumed one, one that is refused, one that is cut off. */
static void shake_hands(struct pair *pair, int kind)
{
    pair->host = kind == 2 ? "other.example" : "example.org";
    pair->tls_a = pair->tls_b = NULL;
    if (kind == 3) {
        CHECK_EQ(coir_duplex(0, &pair->a, &pair->b), 0);
        CHECK_EQ(coir_shutdown_write(pair->b), 0);
        CHECK(coir_tls_connect(pair->client, "example.org", pair->a, &pair->tls_a) < 0);
        coir_close(pair->a);
        coir_close(pair->b);
        return;
    }
    if (kind == 0)
        ci_sessions_drop(pair->client);
    connect_pair(pair);
    if (pair->client_rc == 0) {
        char byte;
        CHECK_EQ(coir_write_all(pair->tls_b, "x", 1), 0);
        CHECK_EQ(coir_read(pair->tls_a, &byte, 1), 1);
    }
    CHECK_EQ(pair->client_rc, kind == 2 ? -COIR_ECERT_HOST : 0);
    coir_close(pair->tls_a);
    coir_close(pair->tls_b);
}

TEST_REAL(handshakes_leak_nothing)
{
    struct pair pair = two_sides();
    int count = rounds(200);
    for (int i = 0; i < 40; i++)
        shake_hands(&pair, i % 4);
    ci_sessions_drop(pair.client);
    long before = openssl_live;
    for (int i = 0; i < count; i++)
        shake_hands(&pair, i % 4);
    ci_sessions_drop(pair.client);
    printf("%d handshakes: %ld allocations of OpenSSL live before, %ld after\n", count, before,
           (long)openssl_live);
    CHECK_EQ(openssl_live, before);
    close_pair(&(struct pair){.client = pair.client, .server = pair.server});
}

/* ---- handshakes, one after another, by many ---- */

enum { FLOODERS = 8 };

static int shaken, shaking;

static int flood_with_handshakes(void *arg)
{
    struct pair pair = *(const struct pair *)arg;
    for (int i = rounds(200) / FLOODERS; i > 0; i--, shaken++)
        shake_hands(&pair, i % 3);
    shaking--;
    return 0;
}

/* Of all that wants to run, a turn is one round: each flooder ends at most one handshake in it. */
TEST_REAL(handshakes_starve_nobody)
{
    struct pair pair = two_sides();
    int turns = 0, most = 0;
    COIR_SCOPE(scope);
    shaken = 0;
    for (shaking = 0; shaking < FLOODERS; shaking++)
        CHECK_EQ(coir_go(scope, flood_with_handshakes, &pair), 0);
    for (int before = 0; shaking; before = shaken, turns++) {
        CHECK_EQ(coir_yield(), 0);
        most = shaken - before > most ? shaken - before : most;
    }
    CHECK_EQ(coir_scope_wait(scope), 0);
    printf("%d handshakes by %d tasks: another task ran %d times meanwhile, after %d at most\n",
           shaken, FLOODERS, turns, most);
    CHECK(most <= FLOODERS);
    close_pair(&(struct pair){.client = pair.client, .server = pair.server});
}

/* ---- ClientHellos, all at the same time ---- */

enum { HELLOS = 200 };

/* The ClientHello of a client of OpenSSL's. */
static size_t make_hello(unsigned char *to, int size)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL *ssl = SSL_new(context);
    BIO *out = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl, BIO_new(BIO_s_mem()), out);
    CHECK(SSL_connect(ssl) < 0);
    int len = BIO_read(out, to, size);
    CHECK(len > 100);
    SSL_free(ssl);
    SSL_CTX_free(context);
    return (size_t)len;
}

static struct pair waiting[HELLOS];
static bool answered[HELLOS];

/* Sends ClientHellos, all at the same time, to a server that waits for them. */
static void send_hellos(coir_tls *server, coir_scope *scope)
{
    unsigned char hello[2048];
    size_t len = make_hello(hello, sizeof hello);
    for (int i = 0; i < HELLOS; i++) {
        waiting[i] = (struct pair){.server = server};
        answered[i] = false;
        CHECK_EQ(coir_duplex(0, &waiting[i].a, &waiting[i].b), 0);
        CHECK_EQ(coir_go(scope, accept_it, &waiting[i]), 0);
    }
    for (int i = 0; i < HELLOS; i++) /* until all wait for input */
        CHECK_EQ(coir_yield(), 0);
    for (int i = 0; i < HELLOS; i++)
        CHECK_EQ(coir_try_write(waiting[i].a, hello, len), len);
}

static int count_answers(void)
{
    int count = 0;
    char byte;
    for (int i = 0; i < HELLOS; i++) {
        answered[i] |= coir_try_read(waiting[i].a, &byte, 1) == 1;
        count += answered[i];
    }
    return count;
}

static void end_hellos(coir_tls *server, coir_scope *scope)
{
    coir_scope_cancel(scope);
    coir_scope_wait(scope);
    for (int i = 0; i < HELLOS; i++)
        coir_close(waiting[i].a);
    coir_tls_unref(server);
}

/* A signature takes about 0.1 ms: other tasks run after a few of them, not after all. */
TEST_REAL(hellos_that_come_at_once_starve_nobody)
{
    coir_tls *server = server_of((coir_tls_options)COIR_TLS_OPTIONS);
    int most = 0, turns = 0;
    COIR_SCOPE(scope);
    send_hellos(server, scope);
    for (int before = 0, now; before < HELLOS; before = now, turns++) {
        CHECK_EQ(coir_yield(), 0);
        now = count_answers();
        most = now - before > most ? now - before : most;
    }
    printf("%d ClientHellos at once: another task ran %d times meanwhile, after %d at most\n",
           HELLOS, turns, most);
    CHECK(most <= CI_STEPS_A_ROUND);
    end_hellos(server, scope);
}

static int count_threads(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks);
    for (const struct dirent *entry; (entry = readdir(tasks));)
        count += *entry->d_name != '.';
    closedir(tasks);
    return count;
}

static void *end_at_once(void *arg)
{
    return arg;
}

/* With the first thread, TSan starts one of its own. */
static void start_first_thread(void)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, end_at_once, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* The pool would start a thread for each, until it has 32, beside which a worker hardly runs. One
 * that has signed may still be on its way back to the queue when the next one is called. */
TEST_REAL(signatures_on_the_pool_take_few_threads)
{
    struct identity rsa =
        pki_make((struct wish){.name = "rsa", .names = "DNS:example.org", .rsa = true});
    coir_tls_options options = COIR_TLS_OPTIONS;
    options.certificate = rsa.certificate_text;
    options.key = rsa.key_text;
    coir_tls *server = server_of(options);
    start_first_thread();
    int before = count_threads(), most = before;
    COIR_SCOPE(scope);
    send_hellos(server, scope);
    while (count_answers() < HELLOS) {
        CHECK_EQ(coir_yield(), 0);
        int now = count_threads();
        most = now > most ? now : most;
    }
    printf("%d ClientHellos at once, RSA: %d threads\n", HELLOS, most - before);
    CHECK(most > before);
    CHECK(most <= before + 2 * CI_SIGNERS);
    end_hellos(server, scope);
    pki_free(&rsa);
}

/* ---- reloads under load ---- */

static bool reloading;

static int connect_again_and_again(void *arg)
{
    struct pair pair = *(const struct pair *)arg;
    int resumed = 0, count = 0;
    for (; reloading || count < 2; count++)
        resumed += resumes(&pair);
    coir_close(pair.tls_a);
    coir_close(pair.tls_b);
    printf("%d connections, %d resumed\n", count, resumed);
    return resumed == count - 1 ? 0 : -EPROTO; /* all but the first */
}

TEST_REAL(reloads_drop_no_connection_and_no_resumption)
{
    struct pair pairs[3];
    int count = rounds(200) / 10;
    coir_tls *server = server_of((coir_tls_options)COIR_TLS_OPTIONS);
    COIR_SCOPE(scope);
    reloading = true;
    for (int i = 0; i < 3; i++) {
        pairs[i] = (struct pair){.client = client_of((coir_tls_options)COIR_TLS_OPTIONS),
                                 .server = server};
        CHECK_EQ(coir_go(scope, connect_again_and_again, &pairs[i]), 0);
    }
    for (int i = 0; i < count; i++)
        CHECK_EQ(coir_tls_reload(server), 0);
    reloading = false;
    CHECK_EQ(coir_scope_wait(scope), 0);
    for (int i = 0; i < 3; i++)
        coir_tls_unref(pairs[i].client);
    coir_tls_unref(server);
}

/* ---- a burst that was made beforehand ---- */

static bool flooding;
static int received; /* messages that carried no data */

/* Counts how often it runs while the flood lasts. */
static int bystander(void *arg)
{
    while (flooding) {
        ++*(int *)arg;
        int rc = coir_yield();
        if (rc < 0)
            return rc;
    }
    return 0;
}

enum { RECORDS = 4000, BURST_MOST = 1 << 20 };

/* What the reader of such a burst gets, read at once, with a bystander on the same worker. */
static ssize_t read_burst(void (*make)(SSL *ssl), size_t *ret_bytes, int *ret_turns)
{
    struct pair pair = plain_pair(BURST_MOST);
    struct ci_tls_stream *sender = coir_filter_arg(pair.tls_a, &ci_tls_filter);
    char buf[8192];
    ssize_t n, sum = 0;
    sender->on_pool = true; /* what OpenSSL writes is kept, until all of it is sent at once */
    for (int i = 0; i < RECORDS; i++)
        make(sender->ssl);
    sender->on_pool = false;
    *ret_bytes = sender->out_len;
    CHECK(sender->out_len < BURST_MOST);
    COIR_SCOPE(scope);
    flooding = true;
    *ret_turns = 0;
    CHECK_EQ(coir_go(scope, bystander, ret_turns), 0);
    CHECK_EQ(coir_shutdown_write(pair.tls_a), 0);
    while ((n = coir_read(pair.tls_b, buf, sizeof buf)) > 0)
        sum += n;
    received = ((struct ci_tls_stream *)coir_filter_arg(pair.tls_b, &ci_tls_filter))->messages;
    flooding = false;
    CHECK_EQ(coir_scope_wait(scope), 0);
    close_pair(&pair);
    return n < 0 ? n : sum;
}

static void make_key_update(SSL *ssl)
{
    CHECK_EQ(SSL_key_update(ssl, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
    CHECK_EQ(SSL_do_handshake(ssl), 1);
}

/* A ClientHello of the greatest length, in records of a byte. */
static size_t make_hello_in_bytes(unsigned char *to)
{
    enum { LEN = 131000 };
    static const unsigned char begin[] = {1, LEN >> 16, LEN >> 8 & 255, LEN & 255, 3, 3};
    for (size_t i = 0; i < LEN; i++, to += 6)
        memcpy(to, (unsigned char[]){22, 3, 1, 0, 1, i < sizeof begin ? begin[i] : 0}, 6);
    return LEN * 6;
}

TEST_REAL(a_hello_in_records_of_a_byte_starves_nobody)
{
    static unsigned char hello[BURST_MOST];
    size_t len = make_hello_in_bytes(hello);
    int turns = 0;
    struct pair pair = {.server = server_of((coir_tls_options)COIR_TLS_OPTIONS)};
    CHECK_EQ(coir_duplex(BURST_MOST, &pair.a, &pair.b), 0);
    CHECK_EQ(coir_write_all(pair.a, hello, len), 0);
    CHECK_EQ(coir_shutdown_write(pair.a), 0);
    COIR_SCOPE(scope);
    flooding = true;
    CHECK_EQ(coir_go(scope, bystander, &turns), 0);
    CHECK_EQ(coir_tls_accept(pair.server, pair.b, &pair.tls_b), -COIR_ETLS_TRUNCATED);
    flooding = false;
    CHECK_EQ(coir_scope_wait(scope), 0);
    printf("%zu bytes of a ClientHello: another task ran %d times meanwhile\n", len, turns);
    CHECK(turns >= (int)(len / (5 + 16384 + 2048)));
    coir_close(pair.a);
    coir_close(pair.b);
    coir_tls_unref(pair.server);
}

static void make_one_byte(SSL *ssl)
{
    CHECK_EQ(SSL_write(ssl, "x", 1), 1);
}

/* The peer is refused after 32 of them without data, when what has come in one read is done. */
TEST_REAL(key_updates_starve_nobody)
{
    size_t bytes;
    int turns;
    CHECK_EQ(read_burst(make_key_update, &bytes, &turns), -COIR_ETLS);
    printf("%d KeyUpdates, %zu bytes: refused after %d\n", RECORDS, bytes, received);
    CHECK(received > 32);
    CHECK(received <= (5 + 16384 + 2048) * RECORDS / (int)bytes + 1);
}

/* With data in between they are welcome. */
TEST_REAL(key_updates_are_no_flood_where_data_is_read_or_written)
{
    struct pair pair = plain_pair(0);
    const struct ci_tls_stream *sender = coir_filter_arg(pair.tls_a, &ci_tls_filter);
    char byte;
    for (int i = 0; i < 100; i++) {
        for (int k = 0; k < 30; k++)
            make_key_update(sender->ssl);
        if (i % 2) {
            CHECK_EQ(coir_write(pair.tls_a, "x", 1), 1);
            CHECK_EQ(coir_read(pair.tls_b, &byte, 1), 1);
        } else {
            CHECK_EQ(coir_try_read(pair.tls_b, &byte, 1), -EAGAIN);
            CHECK_EQ(coir_write(pair.tls_b, "y", 1), 1);
            CHECK_EQ(coir_read(pair.tls_a, &byte, 1), 1);
        }
    }
    close_pair(&pair);
}

/* Also those that come right after the handshake, one by one. */
TEST_REAL(thirty_two_key_updates_are_no_flood)
{
    struct pair pair = plain_pair(0);
    const struct ci_tls_stream *sender = coir_filter_arg(pair.tls_a, &ci_tls_filter);
    char byte;
    for (int i = 0; i < 32; i++) {
        make_key_update(sender->ssl);
        CHECK_EQ(coir_try_read(pair.tls_b, &byte, 1), -EAGAIN);
    }
    CHECK_EQ(coir_write(pair.tls_a, "x", 1), 1);
    CHECK_EQ(coir_read(pair.tls_b, &byte, 1), 1);
    close_pair(&pair);
}

TEST_REAL(records_of_a_byte_starve_nobody)
{
    size_t bytes;
    int turns;
    CHECK_EQ(read_burst(make_one_byte, &bytes, &turns), RECORDS);
    printf("%d records of a byte, %zu bytes: another task ran %d times meanwhile\n", RECORDS, bytes,
           turns);
    CHECK(turns >= RECORDS / 200);
}

/* A peer that asks for answers (with data in between, so that it is welcome) and reads none: after
 * a while nothing more is read from it. */
static void make_request_for_update(SSL *ssl)
{
    CHECK_EQ(SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED), 1);
    CHECK_EQ(SSL_do_handshake(ssl), 1);
}

TEST_REAL(answers_that_nobody_reads_are_bounded)
{
    struct pair pair = plain_pair(20000);
    struct ci_tls_stream *sender = coir_filter_arg(pair.tls_a, &ci_tls_filter);
    const struct ci_tls_stream *reader = coir_filter_arg(pair.tls_b, &ci_tls_filter);
    char buf[16];
    size_t most = 0;
    for (int i = 0; i < RECORDS * 2; i++) {
        make_request_for_update(sender->ssl);
        if (i % 20)
            continue;
        make_one_byte(sender->ssl);
        ci_bio_flush(sender);
        CHECK_EQ(sender->write_error, 0);
        ssize_t n = coir_try_read(pair.tls_b, buf, sizeof buf);
        CHECK(n == -EAGAIN || n == 1);
        most = reader->out_len > most ? reader->out_len : most;
    }
    printf("%d KeyUpdates with answers that are not read: at most %zu bytes were kept\n",
           RECORDS * 2, most);
    CHECK(most > 60 * 1000);  /* it has come to the limit, */
    CHECK(most < 100 * 1000); /* and stayed there */
    close_pair(&pair);
}
