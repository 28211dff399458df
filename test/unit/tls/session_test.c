/* Sessions of clients. */
#include <coir.h>
#include <coir/sim.h>
#include <coir/tls.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pair.h"
#include "pki.h"
#include "tls/tls.h"

TEST_REAL(sessions_are_resumed_also_after_a_reload_of_the_server)
{
    struct pair pair = {.client = client_of((coir_tls_options)COIR_TLS_OPTIONS),
                        .server = server_of((coir_tls_options)COIR_TLS_OPTIONS)};
    CHECK(!resumes(&pair));
    CHECK(resumes(&pair));
    CHECK(resumes(&pair));
    CHECK_EQ(coir_tls_reload(pair.server), 0);
    CHECK(resumes(&pair));
    CHECK_EQ(coir_tls_reload(pair.client), 0);
    CHECK(!resumes(&pair)); /* what is trusted may have changed */
    close_pair(&pair);
}

/* ---- where the trust changes ---- */

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* A server that demands certificates by `root`, or asks for them; and a client that has one. */
struct trusting {
    struct identity root, client;
    char path[32], *list;
    struct pair pair;
};

static void make_trusting(struct trusting *t)
{
    strcpy(t->path, "/tmp/coir-tls-XXXXXX");
    int fd = mkstemp(t->path);
    CHECK(fd >= 0);
    close(fd);
    t->root = pki_make((struct wish){.name = "root", .ca = true});
    t->client =
        pki_make((struct wish){.name = "client", .issuer = &t->root, .purpose = "clientAuth"});
    coir_tls_options server = COIR_TLS_OPTIONS, client = COIR_TLS_OPTIONS;
    server.client_certificates = COIR_TLS_REQUIRED_CLIENT_CERTIFICATES;
    server.ca = t->root.certificate_text;
    server.crl = t->path;
    client.certificate = t->client.certificate_text;
    client.key = t->client.key_text;
    t->list = pki_revoke(&t->root, NULL);
    write_file(t->path, t->list);
    t->pair.client = client_of(client);
    t->pair.server = server_of(server);
}

TEST_REAL(a_revoked_client_does_not_come_back_by_its_session)
{
    struct trusting t = {0};
    make_trusting(&t);
    CHECK(!resumes(&t.pair));
    CHECK(resumes(&t.pair));
    CHECK_EQ(coir_tls_reload(t.pair.server), 0);
    CHECK(resumes(&t.pair)); /* the same list */
    free(t.list);
    t.list = pki_revoke(&t.root, &t.client);
    write_file(t.path, t.list);
    CHECK_EQ(coir_tls_reload(t.pair.server), 0);
    close_pair(&(struct pair){.tls_a = t.pair.tls_a, .tls_b = t.pair.tls_b});
    t.pair.tls_a = t.pair.tls_b = NULL;
    connect_pair(&t.pair);
    CHECK_EQ(t.pair.server_rc, -COIR_ECERT_REVOKED);
    close_pair(&t.pair);
    unlink(t.path);
    free(t.list);
    pki_free(&t.client);
    pki_free(&t.root);
}

/* A client that has a ticket of the name a.example offers it to b.example. */
static void offer_to_another(coir_tls *server, int version)
{
    coir_tls_options client = COIR_TLS_OPTIONS;
    client.insecure = COIR_TLS_INSECURE_NO_VERIFICATION;
    struct pair pair = {.client = client_of(client), .server = server, .host = "a.example"};
    char byte;
    CHECK_EQ(SSL_CTX_set_max_proto_version(pair.client->hosts->context, version), 1);
    connect_pair(&pair);
    CHECK_EQ(coir_write_all(pair.tls_b, "x", 1), 0);
    CHECK_EQ(coir_read(pair.tls_a, &byte, 1), 1);
    CHECK(pair.client->sessions);
    pair.client->sessions->destination[0] = 'b';
    for (int i = 0; i < 3; i++) {
        close_pair(&(struct pair){.tls_a = pair.tls_a, .tls_b = pair.tls_b});
        pair.host = i < 2 ? "b.example" : "B.example";
        pair.client->sessions->destination[0] = *pair.host;
        connect_pair(&pair);
        coir_tls_info info = COIR_TLS_INFO;
        CHECK_EQ(coir_tls_describe(pair.tls_b, &info), 0);
        CHECK_EQ(info.resumed, i > 0); /* the second time it is one of this name */
        CHECK_EQ(coir_write_all(pair.tls_b, "x", 1), 0);
        CHECK_EQ(coir_read(pair.tls_a, &byte, 1), 1);
    }
    close_pair(&pair);
}

static void offer_to_others(int version)
{
    static const char *const hosts[][2] = {
        {"a.example", "b.example"}, {"*.example", NULL}, {NULL, NULL}};
    coir_tls_options host = COIR_TLS_OPTIONS;
    make_once();
    host.certificate = own_certificate;
    host.key = own_key;
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        coir_tls *server = server_of((coir_tls_options)COIR_TLS_OPTIONS);
        for (int k = 0; k < 2 && hosts[i][k]; k++)
            CHECK_EQ(coir_tls_server_add_host(server, hosts[i][k], &host), 0);
        offer_to_another(server, version);
    }
}

TEST_REAL(a_session_of_one_name_is_not_one_of_another_with_the_same_trust)
{
    offer_to_others(TLS1_3_VERSION);
    offer_to_others(TLS1_2_VERSION);
}

/* ---- destinations ---- */

/* "::1" on port N, and the address "::1:N" over a transport without a port. */
TEST_REAL(an_address_and_a_port_are_not_another_address)
{
    coir_listener *listener;
    coir_stream *tcp, *accepted, *a, *b;
    char where[64], longer[64];
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    CHECK(coir_listener_local(listener, where, sizeof where) > 0);
    CHECK_EQ(coir_tcp_connect(where, &tcp), 0);
    CHECK_EQ(coir_accept(listener, &accepted), 0);
    CHECK_EQ(coir_duplex(0, &a, &b), 0);
    snprintf(longer, sizeof longer, "::1%s", strrchr(where, ':'));
    char *one = ci_session_destination("::1", tcp), *other = ci_session_destination(longer, a);
    CHECK(strcmp(one, other) != 0);
    free(one);
    free(other);
    coir_stream *all[] = {tcp, accepted, a, b};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        coir_close(all[i]);
    coir_listener_close(listener);
}

static int accept_from(void *arg)
{
    struct pair *pair = ((void **)arg)[0];
    int rc = coir_accept(((void **)arg)[1], &pair->b);
    return rc < 0 ? rc : accept_it(pair);
}

/* Whether a connection to the listener resumes a session. */
static bool resumes_over_tcp(struct pair *pair, coir_listener *listener)
{
    char address[64], byte;
    void *both[] = {pair, listener};
    CHECK(coir_listener_local(listener, address, sizeof address) > 0);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, accept_from, both), 0);
    CHECK_EQ(coir_tcp_connect(address, &pair->a), 0);
    CHECK_EQ(coir_tls_connect(pair->client, "example.org", pair->a, &pair->tls_a), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(pair->server_rc, 0);
    CHECK_EQ(coir_write_all(pair->tls_b, "x", 1), 0);
    CHECK_EQ(coir_read(pair->tls_a, &byte, 1), 1); /* and the ticket has come */
    coir_tls_info info = COIR_TLS_INFO;
    CHECK_EQ(coir_tls_describe(pair->tls_a, &info), 0);
    close_pair(&(struct pair){.tls_a = pair->tls_a, .tls_b = pair->tls_b});
    return info.resumed;
}

TEST_REAL(a_session_of_one_port_is_not_offered_to_another)
{
    struct pair pair = {.client = client_of((coir_tls_options)COIR_TLS_OPTIONS),
                        .server = server_of((coir_tls_options)COIR_TLS_OPTIONS)};
    coir_listener *one, *other;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &one), 0);
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &other), 0);
    CHECK(!resumes_over_tcp(&pair, one));
    CHECK(!resumes_over_tcp(&pair, other));
    CHECK(resumes_over_tcp(&pair, one));
    CHECK(resumes_over_tcp(&pair, other));
    CHECK_EQ(pair.client->session_count, 2);
    coir_listener_close(one);
    coir_listener_close(other);
    close_pair(&(struct pair){.client = pair.client, .server = pair.server});
}

TEST_REAL(a_session_that_comes_after_a_reload_on_a_connection_from_before_is_not_kept)
{
    struct pair pair = {.client = client_of((coir_tls_options)COIR_TLS_OPTIONS),
                        .server = server_of((coir_tls_options)COIR_TLS_OPTIONS)};
    char byte;
    connect_pair(&pair);
    CHECK_EQ(pair.client->session_count, 0); /* it has not read the ticket yet */
    CHECK_EQ(coir_tls_reload(pair.client), 0);
    CHECK_EQ(coir_write_all(pair.tls_b, "x", 1), 0);
    CHECK_EQ(coir_read(pair.tls_a, &byte, 1), 1);
    CHECK_EQ(pair.client->session_count, 0);
    CHECK(!resumes(&pair));
    CHECK_EQ(pair.client->session_count, 1);
    close_pair(&pair);
}

/* ---- how many are kept ---- */

static void put_in(coir_tls *client, const char *destination)
{
    struct ci_session *session = calloc(1, sizeof *session + strlen(destination) + 1);
    CHECK(session && (session->session = SSL_SESSION_new()));
    strcpy(session->destination, destination);
    session->next = client->sessions;
    client->sessions = session;
    client->session_count++;
}

static int count_of(const coir_tls *client, const char *destination)
{
    int count = 0;
    for (const struct ci_session *at = client->sessions; at; at = at->next)
        count += strcmp(at->destination, destination) == 0;
    return count;
}

TEST_REAL(the_oldest_sessions_go)
{
    struct pair pair = {.client = client_of((coir_tls_options)COIR_TLS_OPTIONS),
                        .server = server_of((coir_tls_options)COIR_TLS_OPTIONS)};
    char name[16];
    for (int i = 0; i < 256; i++) {
        snprintf(name, sizeof name, "%d", i);
        put_in(pair.client, name);
    }
    CHECK(!resumes(&pair));
    CHECK_EQ(pair.client->session_count, 256);
    CHECK_EQ(count_of(pair.client, "0"), 0);
    CHECK_EQ(count_of(pair.client, "1"), 1);
    CHECK_EQ(count_of(pair.client, "example.org "), 1);
    close_pair(&pair);
}

TEST_REAL(one_servers_tickets_drive_out_only_its_own)
{
    struct pair pair = {.client = client_of((coir_tls_options)COIR_TLS_OPTIONS),
                        .server = server_of((coir_tls_options)COIR_TLS_OPTIONS)};
    char byte;
    put_in(pair.client, "other");
    connect_pair(&pair);
    struct ci_tls_stream *server = coir_filter_arg(pair.tls_b, &ci_tls_filter);
    for (int i = 0; i < 300; i++) {
        CHECK_EQ(SSL_new_session_ticket(server->ssl), 1);
        CHECK_EQ(coir_write_all(pair.tls_b, "x", 1), 0);
        CHECK_EQ(coir_read(pair.tls_a, &byte, 1), 1);
    }
    CHECK_EQ(count_of(pair.client, "example.org "), 4);
    CHECK_EQ(pair.client->session_count, 5);
    CHECK_EQ(count_of(pair.client, "other"), 1);
    close_pair(&pair);
}

/* ---- how long they live ---- */

/* Each resumption gives a new ticket, whose life does not begin anew. */
static int live(void *server_alone)
{
    struct pair pair = {.client = client_of((coir_tls_options)COIR_TLS_OPTIONS),
                        .server = server_of((coir_tls_options)COIR_TLS_OPTIONS)};
    CHECK(!resumes(&pair));
    for (int i = 0; i < 7; i++) {
        CHECK_EQ(coir_sleep_for(15 * 60 * COIR_S), 0);
        CHECK(resumes(&pair));
    }
    CHECK_EQ(coir_sleep_for(15 * 60 * COIR_S), 0);
    if (*(bool *)server_alone)
        pair.client->sessions->verified = coir_now();
    CHECK(!resumes(&pair));
    CHECK(resumes(&pair));
    close_pair(&pair);
    return 0;
}

static int live_in_a_world(coir_sim *sim, void *server_alone)
{
    return coir_sim_host_main(sim, "host", live, server_alone);
}

static void live_long(bool server_alone)
{
    coir_sim_options options = test_sim_options(1, 1);
    options.time_max = 4 * 3600 * COIR_S;
    CHECK_EQ(coir_sim_run(&options, live_in_a_world, &server_alone, NULL), 0);
}

TEST(a_session_lives_for_two_hours_after_its_peer_was_verified)
{
    live_long(false);
}

TEST(a_server_keeps_its_clients_to_that)
{
    live_long(true);
}

TEST_REAL(a_client_does_not_offer_what_is_older)
{
    struct pair pair = {.client = client_of((coir_tls_options)COIR_TLS_OPTIONS),
                        .server = server_of((coir_tls_options)COIR_TLS_OPTIONS)};
    CHECK(!resumes(&pair));
    coir_time verified = pair.client->sessions->verified -= 3600 * COIR_S;
    CHECK(resumes(&pair));
    CHECK_EQ(pair.client->sessions->verified, verified);
    pair.client->sessions->verified -= 3600 * COIR_S;
    CHECK(!resumes(&pair)); /* though the server would */
    CHECK(pair.client->sessions->verified > verified);
    CHECK(resumes(&pair));
    close_pair(&pair);
}

static time_t ahead;

/* In place of the C library's, OpenSSL's clock. */
time_t time(time_t *ret_time)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (ret_time)
        *ret_time = now.tv_sec + ahead;
    return now.tv_sec + ahead;
}

/* Resumes twice, lets half an hour pass, and connects again. */
static struct pair outlive(coir_tls_options server, coir_tls_options client)
{
    struct pair pair = {.client = client_of(client), .server = server_of(server)};
    CHECK(!resumes(&pair));
    CHECK(resumes(&pair));
    ahead = 1800;
    close_pair(&(struct pair){.tls_a = pair.tls_a, .tls_b = pair.tls_b});
    pair.tls_a = pair.tls_b = NULL;
    connect_pair(&pair);
    ahead = 0;
    return pair;
}

static void expire(bool of_server)
{
    struct identity root = pki_make((struct wish){.name = "root", .ca = true}),
                    one = pki_make((struct wish){.name = "one",
                                                 .names = "DNS:example.org",
                                                 .purpose = of_server ? NULL : "clientAuth",
                                                 .issuer = &root,
                                                 .until = 900});
    coir_tls_options server = COIR_TLS_OPTIONS, client = COIR_TLS_OPTIONS,
                     *side = of_server ? &server : &client;
    side->certificate = one.certificate_text;
    side->key = one.key_text;
    (of_server ? &client : &server)->ca = root.certificate_text;
    if (!of_server)
        server.client_certificates = COIR_TLS_REQUIRED_CLIENT_CERTIFICATES;
    struct pair pair = outlive(server, client);
    CHECK_EQ(of_server ? pair.client_rc : pair.server_rc, -COIR_ECERT_EXPIRED);
    close_pair(&pair);
    pki_free(&one);
    pki_free(&root);
}

TEST_REAL(a_session_ends_with_the_servers_certificate)
{
    expire(true);
}

TEST_REAL(a_session_ends_with_the_clients_certificate)
{
    expire(false);
}
