/* Keys of tickets: shared by the workers, rotated, kept over a reload. */
#include "pair.h"
#include "tls/tls.h"

static struct pair two_sides(void)
{
    return (struct pair){.client = client_of((coir_tls_options)COIR_TLS_OPTIONS),
                         .server = server_of((coir_tls_options)COIR_TLS_OPTIONS)};
}

/* As if the newest key had been made half a day earlier. */
static void age(coir_tls *server)
{
    server->tickets[0].made -= 12LL * 3600 * COIR_S;
}

TEST_REAL(a_ticket_is_accepted_until_its_key_was_replaced_twice_more)
{
    struct pair pair = two_sides();
    unsigned char first[16];
    CHECK(!resumes(&pair));
    CHECK_EQ(pair.server->ticket_count, 1);
    memcpy(first, pair.server->tickets[0].name, sizeof first);
    age(pair.server);
    CHECK(resumes(&pair)); /* of the older key; the new ticket is of the newer one */
    CHECK_EQ(pair.server->ticket_count, 2);
    CHECK(memcmp(first, pair.server->tickets[0].name, sizeof first) != 0);
    CHECK(memcmp(first, pair.server->tickets[1].name, sizeof first) == 0);
    coir_tls *other = pair.client;
    for (int i = 0; i < CI_TICKET_KEYS; i++) { /* others come and go meanwhile */
        pair.client = client_of((coir_tls_options)COIR_TLS_OPTIONS);
        age(pair.server);
        CHECK(!resumes(&pair));
        coir_tls_unref(pair.client);
    }
    CHECK_EQ(pair.server->ticket_count, CI_TICKET_KEYS);
    pair.client = other;
    CHECK(!resumes(&pair));
    CHECK(resumes(&pair));
    close_pair(&pair);
}

TEST_REAL(a_young_key_is_kept)
{
    struct pair pair = two_sides();
    CHECK(!resumes(&pair));
    for (int i = 0; i < 5; i++)
        CHECK(resumes(&pair));
    CHECK_EQ(pair.server->ticket_count, 1);
    close_pair(&pair);
}

TEST_REAL(keys_survive_a_reload)
{
    struct pair pair = two_sides();
    struct ci_ticket_key before;
    CHECK(!resumes(&pair));
    before = pair.server->tickets[0];
    CHECK_EQ(coir_tls_reload(pair.server), 0);
    CHECK_EQ(pair.server->ticket_count, 1);
    CHECK(memcmp(&before, &pair.server->tickets[0], sizeof before) == 0);
    CHECK(resumes(&pair));
    close_pair(&pair);
}

TEST_REAL(a_ticket_of_another_server_is_not_accepted)
{
    struct pair pair = two_sides();
    coir_tls *one = pair.server, *other = server_of((coir_tls_options)COIR_TLS_OPTIONS);
    CHECK(!resumes(&pair));
    pair.server = other;
    CHECK(!resumes(&pair)); /* a full handshake */
    CHECK(resumes(&pair));
    pair.server = one;
    CHECK(!resumes(&pair));
    coir_tls_unref(other);
    close_pair(&pair);
}

static int meet_elsewhere(void *arg)
{
    struct pair *pair = arg;
    coir_close(pair->tls_a);
    coir_close(pair->tls_b);
    pair->tls_a = pair->tls_b = NULL;
    bool resumed = resumes(pair);
    close_pair(&(struct pair){.tls_a = pair->tls_a, .tls_b = pair->tls_b});
    pair->tls_a = pair->tls_b = NULL;
    return resumed;
}

static void meet_on_two_workers(void)
{
    struct pair pair = two_sides();
    for (int i = 0; i < 6; i++)
        CHECK_EQ(coir_call_on(i % 2, meet_elsewhere, &pair), i > 0);
    CHECK_EQ(pair.server->ticket_count, 1);
    close_pair(&pair);
}

TEST(workers_share_the_keys)
{
    test_in_runtime(meet_on_two_workers, 2);
}

static void change_a_byte(SSL_SESSION *session, bool of_name)
{
    const unsigned char *ticket;
    size_t len;
    SSL_SESSION_get0_ticket(session, &ticket, &len);
    CHECK(len > 100);
    ((unsigned char *)(uintptr_t)ticket)[of_name ? 3 : len - 3] ^= 1;
}

TEST_REAL(a_ticket_that_was_changed_is_not_accepted)
{
    struct pair pair = two_sides();
    CHECK(!resumes(&pair));
    for (int i = 0; i < 2; i++) {
        CHECK(pair.client->sessions);
        change_a_byte(pair.client->sessions->session, i);
        CHECK(!resumes(&pair)); /* a full handshake: the client is not turned away */
        CHECK(resumes(&pair));
    }
    close_pair(&pair);
}

/* ---- when it is sent ---- */

static const struct ci_tls_stream *inside(const coir_stream *stream)
{
    return coir_filter_arg(stream, &ci_tls_filter);
}

TEST_REAL(a_ticket_is_sent_with_what_the_server_writes_next)
{
    struct pair pair = two_sides();
    char byte;
    connect_pair(&pair);
    CHECK(inside(pair.tls_b)->held && inside(pair.tls_b)->out_len > 0);
    CHECK_EQ(coir_try_read(pair.tls_a, &byte, 1), -EAGAIN);
    CHECK_EQ(pair.client->session_count, 0);
    CHECK_EQ(coir_write_all(pair.tls_b, "x", 1), 0);
    CHECK(!inside(pair.tls_b)->held && !inside(pair.tls_b)->out);
    CHECK_EQ(coir_try_read(pair.tls_a, &byte, 1), 1);
    CHECK_EQ(pair.client->session_count, 1);
    close_pair(&pair);
}

TEST_REAL(a_server_that_writes_nothing_sends_its_ticket_when_it_ends)
{
    struct pair pair = two_sides();
    char byte;
    connect_pair(&pair);
    CHECK_EQ(coir_shutdown_write(pair.tls_b), 0);
    CHECK_EQ(coir_read(pair.tls_a, &byte, 1), 0);
    CHECK_EQ(pair.client->session_count, 1);
    close_pair(&pair);
}

TEST_REAL(a_ticket_that_the_transport_does_not_take_whole_arrives)
{
    struct pair pair = two_sides();
    pair.capacity = 1;
    CHECK(!resumes(&pair));
    CHECK_EQ(pair.client->session_count, 1);
    CHECK(resumes(&pair));
    close_pair(&pair);
}

/* ---- handed over ---- */

static coir_tls *successor(coir_tls *server)
{
    unsigned char keys[COIR_TLS_TICKETS_MAX];
    coir_tls *next = server_of((coir_tls_options)COIR_TLS_OPTIONS);
    int len = coir_tls_server_save_tickets(server, keys, sizeof keys);
    CHECK(len > 0);
    CHECK_EQ(coir_tls_server_restore_tickets(next, keys, (size_t)len), 0);
    coir_tls_unref(server);
    return next;
}

TEST_REAL(a_session_resumes_at_the_process_that_takes_over)
{
    struct pair pair = two_sides();
    CHECK(!resumes(&pair));
    for (int i = 0; i < 5; i++) {
        pair.server = successor(pair.server);
        CHECK(resumes(&pair));
        if (i % 2)
            age(pair.server);
    }
    coir_tls_unref(pair.server);
    pair.server = server_of((coir_tls_options)COIR_TLS_OPTIONS);
    CHECK(!resumes(&pair)); /* a process that has not taken over */
    close_pair(&pair);
}

TEST_REAL(keys_that_are_taken_over_are_in_the_order_of_their_ages)
{
    unsigned char keys[COIR_TLS_TICKETS_MAX];
    coir_tls *old = server_of((coir_tls_options)COIR_TLS_OPTIONS);
    coir_tls *server = server_of((coir_tls_options)COIR_TLS_OPTIONS);
    int len = 0;
    for (int i = 0; i < CI_TICKET_KEYS; i++) {
        if (i > 0)
            age(old);
        CHECK((len = coir_tls_server_save_tickets(old, keys, sizeof keys)) > 0);
    }
    CHECK_EQ(old->ticket_count, CI_TICKET_KEYS);
    CHECK(coir_tls_server_save_tickets(server, keys, sizeof keys) >
          0); /* has its own, the newest */
    unsigned char own[16];
    memcpy(own, server->tickets[0].name, sizeof own);
    for (int i = 0; i < CI_TICKET_KEYS; i++) /* apart, all older than the server's own */
        old->tickets[i].made -= (i + 1) * COIR_S;
    CHECK((len = coir_tls_server_save_tickets(old, keys, sizeof keys)) > 0);
    for (int again = 0; again < 2; again++) {
        CHECK_EQ(coir_tls_server_restore_tickets(server, keys, (size_t)len), 0);
        CHECK_EQ(server->ticket_count, CI_TICKET_KEYS);
        CHECK(memcmp(own, server->tickets[0].name, sizeof own) == 0);
        for (int i = 1; i < CI_TICKET_KEYS; i++)
            CHECK(server->tickets[i - 1].made >= server->tickets[i].made);
    }
    coir_tls_unref(old);
    coir_tls_unref(server);
}

TEST_REAL(damaged_keys_change_nothing)
{
    unsigned char keys[COIR_TLS_TICKETS_MAX];
    coir_tls *old = server_of((coir_tls_options)COIR_TLS_OPTIONS);
    coir_tls *server = server_of((coir_tls_options)COIR_TLS_OPTIONS);
    int len = coir_tls_server_save_tickets(old, keys, sizeof keys);
    CHECK(len > 0);
    CHECK_EQ(coir_tls_server_save_tickets(old, keys, (size_t)len - 1), -EMSGSIZE);
    for (int cut = 0; cut < len; cut++)
        CHECK_EQ(coir_tls_server_restore_tickets(server, keys, (size_t)cut), -EINVAL);
    keys[0] ^= 1;
    CHECK_EQ(coir_tls_server_restore_tickets(server, keys, (size_t)len), -EINVAL);
    CHECK_EQ(server->ticket_count, 0);
    coir_tls_unref(old);
    coir_tls_unref(server);
}
