/* What lies between OpenSSL and the transport. */
#include "openssl_memory.h"
#include "pair.h"
#include "tls/tls.h"

static const struct ci_tls_stream *inside(const coir_stream *stream)
{
    return coir_filter_arg(stream, &ci_tls_filter);
}

TEST_REAL(what_the_transport_does_not_take_is_kept_and_then_freed)
{
    struct pair pair = plain_pair(100);
    static char data[16000];
    CHECK_EQ(coir_write(pair.tls_a, data, sizeof data), sizeof data);
    const struct ci_tls_stream *sender = inside(pair.tls_a);
    CHECK(sender->out_len > sizeof data - 200);
    CHECK_EQ(coir_try_write(pair.tls_a, data, 1), -EAGAIN); /* a record at a time is kept */
    CHECK_EQ(coir_read_full(pair.tls_b, data, sizeof data, NULL), sizeof data);
    CHECK_EQ(coir_stream_wait(pair.tls_a, COIR_WRITE), COIR_WRITE);
    CHECK_EQ(sender->out_len, 0);
    CHECK(!sender->out);
    close_pair(&pair);
}

TEST_REAL(an_error_of_the_transport_is_the_handshakes)
{
    struct pair pair = {.client = client_of((coir_tls_options)COIR_TLS_OPTIONS)};
    CHECK_EQ(coir_duplex(0, &pair.a, &pair.b), 0);
    coir_close(pair.b);
    CHECK_EQ(coir_tls_connect(pair.client, "example.org", pair.a, &pair.tls_a), -EPIPE);
    CHECK(!pair.tls_a);
    coir_close(pair.a); /* is still the caller's */
    coir_tls_unref(pair.client);
}

TEST_REAL(a_transport_that_ends_in_a_handshake_truncates_it)
{
    struct pair pair = {.client = client_of((coir_tls_options)COIR_TLS_OPTIONS)};
    CHECK_EQ(coir_duplex(0, &pair.a, &pair.b), 0);
    CHECK_EQ(coir_shutdown_write(pair.b), 0);
    CHECK_EQ(coir_tls_connect(pair.client, "example.org", pair.a, &pair.tls_a),
             -COIR_ETLS_TRUNCATED);
    coir_close(pair.a);
    coir_close(pair.b);
    coir_tls_unref(pair.client);
}

/* How many buffers of OpenSSL's a connection is without: they are allocated, and counted. */
static long without(const coir_stream *stream)
{
    long before = openssl_live;
    CHECK_EQ(SSL_alloc_buffers(inside(stream)->ssl), 1);
    return openssl_live - before;
}

TEST_REAL(an_idle_connection_keeps_no_buffer)
{
    struct pair pair = plain_pair(0);
    char got[16];
    CHECK_EQ(coir_write_all(pair.tls_b, "z", 1), 0); /* and with it the ticket */
    CHECK_EQ(coir_write_all(pair.tls_a, "xy", 2), 0);
    CHECK_EQ(coir_read(pair.tls_b, got, 1), 1);
    CHECK(without(pair.tls_b) < 2); /* it is not idle: a byte is left */
    CHECK_EQ(coir_read(pair.tls_b, got, sizeof got), 1);
    CHECK_EQ(coir_try_read(pair.tls_b, got, sizeof got), -EAGAIN);
    CHECK_EQ(without(pair.tls_b), 2); /* for reading, for writing */
    coir_case cases[] = {coir_case_stream(pair.tls_b, COIR_READ), coir_case_after(COIR_MS)};
    CHECK_EQ(coir_select(cases, 2), 1); /* which asks whether it is readable */
    CHECK_EQ(without(pair.tls_b), 2);
    CHECK(!inside(pair.tls_b)->out);
    close_pair(&pair);
}

/* An answer that never ends, such as events for a browser: nothing is read meanwhile. */
TEST_REAL(a_connection_that_only_writes_keeps_no_buffer)
{
    struct pair pair = plain_pair(0);
    char got[16];
    CHECK_EQ(coir_write_all(pair.tls_a, "xy", 2), 0);
    CHECK_EQ(coir_read(pair.tls_b, got, sizeof got), 2); /* all there is, in one read */
    CHECK_EQ(coir_write_all(pair.tls_b, "z", 1), 0);
    CHECK_EQ(without(pair.tls_b), 2);
    close_pair(&pair);
}

/* Behind a full record there is probably another one. */
TEST_REAL(buffers_are_kept_from_one_full_record_to_the_next)
{
    static char data[16384], got[16384];
    struct pair pair = plain_pair(1 << 20);
    CHECK_EQ(coir_write_all(pair.tls_b, "z", 1), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(coir_write_all(pair.tls_a, data, sizeof data), 0);
        CHECK(without(pair.tls_a) < (i ? 1 : 2));
    }
    CHECK_EQ(coir_read(pair.tls_b, got, sizeof got), sizeof got);
    without(pair.tls_b);
    CHECK_EQ(coir_read(pair.tls_b, got, sizeof got), sizeof got);
    CHECK_EQ(without(pair.tls_b), 0);
    CHECK_EQ(coir_read_full(pair.tls_b, got, sizeof got, NULL), sizeof got);
    CHECK_EQ(coir_try_read(pair.tls_b, got, sizeof got), -EAGAIN);
    CHECK_EQ(without(pair.tls_b), 2);
    CHECK_EQ(coir_read(pair.tls_a, got, 1), 1);
    CHECK_EQ(coir_write_all(pair.tls_a, data, 100), 0);
    CHECK_EQ(without(pair.tls_a), 2);
    close_pair(&pair);
}
