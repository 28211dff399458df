/* An echo server over TLS under every fault: handshakes, records and ends over a network that
 * delays, cuts and resets, beside clients that speak no TLS. What comes back is what was sent, a
 * connection that is cut is never taken for one that has ended, what fails one connection fails no
 * other, and when the faults are over everybody is served. */
#define OPENSSL_SUPPRESS_DEPRECATED /* the seed's randomness has no other way in */
#include <coir/tls.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bytes.h"
#include "chaos.h"
#include "openssl_alone.h"
#include "openssl_errors.h"
#include "openssl_memory.h"
#include "openssl_random.h" /* the lengths of signatures depend on it */
#include "openssl_time.h"

/* UPLOAD, then the client's number, begins a connection of which the server sends nothing back. No
 * message begins with it. */
enum { CLIENTS = 2, MESSAGES = 4, MOST = 40000, UPLOAD = 0xff };

static struct chaos chaos;
static coir_tls *server_tls, *client_tls;
static char *certificate, *key;
static int uploaded[CLIENTS]; /* the bytes of a client's last upload that has ended */

/* ---- the server ---- */

/* To TLS, a network that cuts a connection is one that truncates it. */
static int explains(int rc)
{
    return chaos_explains(rc == -COIR_ETLS_TRUNCATED ? -ECONNRESET : rc);
}

static int take_upload(coir_stream *stream)
{
    unsigned char client, buf[3000];
    int len = 0;
    COIR_DEADLINE(coir_in(20 * COIR_S));
    ssize_t n = coir_read(stream, &client, 1);
    if (n <= 0)
        return (int)n;
    while ((n = coir_read(stream, buf, sizeof buf)) > 0)
        len += (int)n;
    if (n == 0)
        uploaded[client] = len;
    return (int)n;
}

static int echo(coir_stream *stream, void *arg)
{
    unsigned char buf[3000];
    (void)arg;
    COIR_DEADLINE(coir_in(20 * COIR_S));
    ssize_t n = coir_read(stream, buf, 1);
    if (n == 1 && buf[0] == UPLOAD)
        return explains(take_upload(stream));
    if (n == 1)
        n = coir_write_all(stream, buf, 1);
    return explains(n < 0 ? (int)n : chaos_echo(stream, buf, sizeof buf));
}

static int serve(void *arg)
{
    (void)arg;
    coir_serve_tcp_options options = COIR_SERVE_TCP_OPTIONS;
    options.address = "0.0.0.0:7443";
    options.layer = coir_tls_layer;
    options.layer_arg = server_tls;
    int rc;
    do
        rc = chaos_explains(coir_serve_tcp_with(&options, echo, NULL));
    while (rc != -ECANCELED && coir_sleep_for(100 * COIR_MS) == 0);
    return rc;
}

static coir_host *start_server(struct chaos *of)
{
    coir_config config = COIR_CONFIG;
    config.stack_size = 256 * 1024; /* OpenSSL runs on the stacks of fibers */
    config.budget = coir_sim_random(of->sim) % 2 ? 0 : 2;
    coir_sim_configure(of->sim, &config);
    return coir_sim_host(of->sim, "server", serve, NULL);
}

/* ---- clients ---- */

struct conversation {
    coir_stream *stream;
    int client, len;
};

static int send_message(void *arg)
{
    const struct conversation *talk = arg;
    unsigned char buf[1000];
    for (int at = 0; at < talk->len;) {
        int len = talk->len - at < (int)sizeof buf ? talk->len - at : (int)sizeof buf;
        bytes_make(buf, (unsigned)talk->client, (size_t)at, (size_t)len);
        ssize_t n;
        {
            COIR_DEADLINE(coir_in((coir_time)(1 + chaos_below(&chaos, 300)) * COIR_MS));
            n = coir_write(talk->stream, buf, (size_t)len);
        }
        if (n == -ETIME && !coir_task_interrupted())
            continue; /* and nothing was written */
        if (n < 0)
            return (int)n;
        at += (int)n;
    }
    return 0;
}

static int hear_message(void *arg)
{
    const struct conversation *talk = arg;
    unsigned char buf[2000];
    for (int got = 0; got < talk->len;) {
        ssize_t n =
            chaos_read_soon(&chaos, talk->stream, buf, 1 + chaos_below(&chaos, sizeof buf - 1));
        if (n == -ETIME && !coir_task_interrupted())
            continue; /* and nothing is lost by that */
        if (n <= 0)
            return n < 0 ? (int)n : -COIR_EEND;
        if (n > talk->len - got || !bytes_are(buf, (unsigned)talk->client, (size_t)got, (size_t)n))
            __builtin_trap(); /* whatever goes wrong, this does not */
        got += (int)n;
    }
    return 0;
}

/* The server says that it is done only when the client has. */
static int end_well(coir_stream *stream)
{
    char more;
    int rc = coir_shutdown_write(stream);
    if (rc < 0)
        return rc;
    ssize_t n = coir_read(stream, &more, 1);
    if (n > 0)
        __builtin_trap();
    return (int)n;
}

/* Writes and closes at once, with the server's ticket unread. All of it arrives: what is to arrive
 * when the faults are over must. */
static int upload(coir_stream *stream, int client)
{
    static const char data[MOST];
    unsigned char begin[] = {UPLOAD, (unsigned char)client};
    coir_time pause = 0;
    int len = (int)chaos_below(&chaos, sizeof data);
    uploaded[client] = -1;
    int rc = coir_write_all(stream, begin, sizeof begin);
    if (rc == 0)
        rc = coir_write_all(stream, data, (size_t)len);
    coir_close(stream);
    while (rc == 0 && uploaded[client] < 0)
        rc = chaos_pause(&pause);
    if (rc == 0 && uploaded[client] != len)
        __builtin_trap();
    return rc;
}

/* HTTP to a port of TLS, or a handshake that begins with a certificate: the server refuses it, the
 * second with an alert, so that OpenSSL writes while its queue of errors is not empty. */
static int speak_no_tls(coir_stream *transport)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: server\r\n\r\n",
                      handshake[] = {0x16, 3, 1, 0, 4, 11, 0, 0, 0};
    char buf[100];
    bool is_http = chaos_below(&chaos, 2);
    ssize_t n = coir_write_all(transport, is_http ? request : handshake,
                               is_http ? sizeof request - 1 : sizeof handshake);
    while (n == 0 && (n = coir_read(transport, buf, sizeof buf)) > 0)
        n = 0; /* the alert */
    coir_close(transport);
    return n == -ECONNRESET ? 0 : (int)n;
}

static int visit(int client)
{
    struct conversation talk = {.client = client};
    coir_stream *transport;
    COIR_DEADLINE(coir_in(20 * COIR_S));
    int rc = coir_tcp_connect("server:7443", &transport);
    if (rc < 0)
        return rc;
    if (chaos_below(&chaos, 4) == 0)
        return explains(speak_no_tls(transport));
    if ((rc = coir_tls_connect(client_tls, "server", transport, &talk.stream)) < 0) {
        coir_close(transport);
        return explains(rc);
    }
    if (chaos_below(&chaos, 3) == 0)
        return explains(upload(talk.stream, client));
    for (int i = 0; rc == 0 && i < MESSAGES; i++) {
        talk.len = 1 + (int)chaos_below(&chaos, MOST >> chaos_below(&chaos, 8));
        rc = chaos_both(send_message, hear_message, &talk);
    }
    if (rc == 0)
        rc = end_well(talk.stream);
    coir_close(talk.stream);
    return explains(rc);
}

/* Anew for each world: tickets and sessions are a part of it. */
static int make_sides(void)
{
    coir_tls_options server = COIR_TLS_OPTIONS, client = COIR_TLS_OPTIONS;
    server.certificate = client.ca = certificate;
    server.key = key;
    int rc = coir_tls_server_new(&server, &server_tls);
    return rc < 0 ? rc : coir_tls_client_new(&client, &client_tls);
}

static void drop_sides(void)
{
    coir_tls_unref(server_tls);
    coir_tls_unref(client_tls);
    server_tls = client_tls = NULL;
}

/* ---- what is left of OpenSSL's when every host has ended ---- */

static long allocated; /* before each world; -1: not known yet */

static int see_the_server_end(void *arg)
{
    int rc = 0;
    while (rc == 0 && !coir_host_is_down(arg))
        rc = coir_sleep_for(100 * COIR_MS);
    return rc;
}

static int audit(coir_sim *sim)
{
    coir_sim_stop(sim, chaos.server);
    int rc = coir_sim_host_main(sim, "audit", see_the_server_end, chaos.server);
    drop_sides();
    OPENSSL_thread_stop(); /* errors keep where they were raised after they were read */
    if (allocated >= 0 && openssl_live != allocated) {
        fprintf(stderr, "%ld allocations of OpenSSL are left\n", openssl_live - allocated);
        __builtin_trap();
    }
    allocated = openssl_live;
    return rc;
}

static int scenario(coir_sim *sim, void *arg)
{
    (void)arg;
    openssl_random_state = coir_sim_random(sim);
    int rc = make_sides();
    chaos = (struct chaos){.restart = start_server, .calm = 120 * COIR_S /* handshakes are dear */};
    if (rc == 0)
        rc = chaos_run(&chaos, sim, visit, CLIENTS);
    return rc == 0 ? audit(sim) : rc;
}

/* A world in which nothing goes wrong: what OpenSSL allocates once is allocated then. */
static int warm_up(void)
{
    coir_sim_options options = COIR_SIM_OPTIONS;
    options.choose_faults = true;
    allocated = -1;
    return coir_sim_run(&options, scenario, NULL, NULL);
}

int main(int argc, char **argv)
{
    RAND_set_rand_method(&openssl_seeded);
    ci_kthread_exchange = openssl_errors_exchange;
    if (coir_tls_make_certificate("server", &certificate, &key) < 0 || warm_up() < 0)
        return 2;
    return coir_sim_main(argc, argv, scenario, NULL);
}
