/* Connecting by name (RFC 8305): which address is tried when, in virtual time; and that whoever
 * gives up leaves nothing behind, on real sockets too. */
#include <coir.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "io/listener.h"
#include "open_files.h"
#include "plain.h"
#include "sys/lookup.h"

static const coir_time one_way = 20 * COIR_MS, round_trip = 40 * COIR_MS;

/* ---- in the simulated world ---- */

static int both(void *arg);
static int four_alone(void *arg);

static struct {
    coir_sim *sim;
    int served;
} w;

static int answer(coir_stream *stream, void *arg)
{
    char byte;
    (void)arg;
    w.served += coir_read(stream, &byte, 1) == 0;
    return 0;
}

static int both(void *arg)
{
    (void)arg;
    return coir_serve_tcp(":80", answer, NULL);
}

static int four_alone(void *arg)
{
    (void)arg;
    return coir_serve_tcp("0.0.0.0:80", answer, NULL);
}

/* What the name servers say about "www", what comes of a connect, and after how long, give or take
 * a millisecond. */
static const struct row {
    const char *what;
    coir_name_answer says;
    int result;
    const char *peer; /* how its address begins */
    coir_time after;
} rows[] = {
    {"IPv6 comes first", {.addresses = "both"}, 0, "[fd00::1]", round_trip},
    {"IPv6 does not answer",
     {.addresses = "2001:db8::1 10.0.0.1"},
     0,
     "10.0.0.1",
     250 * COIR_MS + round_trip},
    {"IPv6 is refused", {.addresses = "four"}, 0, "10.0.0.2", 2 * round_trip},
    {"no route to IPv6", {.addresses = "2a00::1 10.0.0.1"}, 0, "10.0.0.1", round_trip},
    {"IPv4 alone", {.addresses = "10.0.0.1"}, 0, "10.0.0.1", round_trip},
    {"IPv6 alone", {.addresses = "fd00::1"}, 0, "[fd00::1]", round_trip},
    {"AAAA is not answered",
     {.addresses = "both", .latency_ipv6 = 5 * COIR_S},
     0,
     "10.0.0.1",
     50 * COIR_MS + round_trip},
    {"AAAA is later than A",
     {.addresses = "both", .latency = 10 * COIR_MS, .latency_ipv6 = 30 * COIR_MS},
     0,
     "[fd00::1]",
     30 * COIR_MS + round_trip},
    {"A is later than AAAA",
     {.addresses = "both", .latency = 5 * COIR_S, .latency_ipv6 = COIR_MS},
     0,
     "[fd00::1]",
     COIR_MS + round_trip},
    {"AAAA fails",
     {.addresses = "both", .latency = 10 * COIR_MS, .error_ipv6 = -COIR_ENAMESERVER},
     0,
     "10.0.0.1",
     10 * COIR_MS + round_trip},
    {"AAAA fails late",
     {.addresses = "both", .latency_ipv6 = 20 * COIR_MS, .error_ipv6 = -COIR_ENAMESERVER},
     0,
     "10.0.0.1",
     20 * COIR_MS + round_trip},
    {"A comes when IPv6 has failed",
     {.addresses = "2001:db8::1 10.0.0.1", .latency = 4 * COIR_S},
     0,
     "10.0.0.1",
     4 * COIR_S + round_trip},
    {"the families in turn",
     {.addresses = "2001:db8::1 2001:db8::2 192.0.2.1 10.0.0.1"},
     0,
     "10.0.0.1",
     750 * COIR_MS + round_trip},
    {"one family goes on alone",
     {.addresses = "2001:db8::1 192.0.2.1 192.0.2.2 192.0.2.3 10.0.0.1"},
     0,
     "10.0.0.1",
     1000 * COIR_MS + round_trip},
    {"a refusal begins the next at once",
     {.addresses = "2001:db8::1 10.0.0.3 10.0.0.1"},
     0,
     "10.0.0.1",
     250 * COIR_MS + 2 * round_trip},
    {"all are refused", {.addresses = "client"}, -ECONNREFUSED, "", 2 * round_trip},
    {"none answers",
     {.addresses = "2001:db8::1 192.0.2.1"},
     -ETIMEDOUT,
     "",
     250 * COIR_MS + 3 * COIR_S + one_way},
    {"none can be reached", {.addresses = "2a00::1"}, -ENETUNREACH, "", 0},
    {"the name is unknown",
     {.addresses = "", .latency = COIR_MS, .latency_ipv6 = 2 * COIR_MS},
     -COIR_ENAME,
     "",
     2 * COIR_MS},
    {"the name servers fail",
     {.error = -COIR_ENAMESERVER, .error_ipv6 = -COIR_ENAMESERVER},
     -COIR_ENAMESERVER,
     "",
     0},
    {"one unknown, one failed",
     {.addresses = "", .error = -COIR_ENAMESERVER},
     -COIR_ENAMESERVER,
     "",
     0},
};

static void connect_and_measure(const struct row *row)
{
    coir_stream *stream = NULL;
    char peer[64] = "";
    CHECK_EQ(coir_sim_name(w.sim, "www", row->says), 0);
    coir_time start = coir_now();
    int rc = coir_tcp_connect("www:80", &stream);
    coir_time after = coir_now() - start;
    if (stream)
        coir_stream_peer(stream, peer, sizeof peer);
    if (rc != row->result || strncmp(peer, row->peer, strlen(row->peer)) != 0 ||
        after < row->after || after > row->after + COIR_MS)
        test_fail(__FILE__, __LINE__, "%s: %d (%s) after %lld us, from %s", row->what, rc,
                  coir_strerror(rc), (long long)(after / COIR_US), peer);
    coir_close(stream);
    CHECK_EQ(coir_sleep_for(20 * COIR_S), 0); /* nothing of the name is kept any more */
}

static int measure_all(void *arg)
{
    (void)arg;
    CHECK_EQ(coir_sleep_for(COIR_S), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        connect_and_measure(&rows[i]);
    return 0;
}

static int scenario(coir_sim *sim, void *arg)
{
    coir_task_fn **client = arg;
    w.sim = sim;
    coir_sim_host(sim, "both", both, NULL);
    coir_sim_host(sim, "four", four_alone, NULL);
    coir_sim_link(sim, NULL, NULL, (coir_link){.latency = one_way});
    return coir_sim_host_main(sim, "client", *client, NULL);
}

TEST(each_address_is_tried_when_it_should_be)
{
    coir_task_fn *client = measure_all;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        coir_sim_options options = test_sim_options(seed, 1 + (unsigned)(seed % 2));
        CHECK_EQ(coir_sim_run(&options, scenario, &client, NULL), 0);
    }
}

/* At any moment: the world says what was left open. */
static int give_up_at_any_moment(void *arg)
{
    (void)arg;
    CHECK_EQ(coir_sleep_for(COIR_S), 0);
    coir_sim_name(w.sim, "www",
                  (coir_name_answer){.addresses = "2001:db8::1 both four",
                                     .latency = 7 * COIR_MS,
                                     .latency_ipv6 = 90 * COIR_MS});
    for (int i = 0; i < 700; i++) {
        coir_stream *stream = NULL;
        COIR_DEADLINE(
            coir_in(i * COIR_MS + (coir_time)(coir_sim_random(w.sim) % (uint64_t)COIR_MS)));
        int rc = coir_tcp_connect("www:80", &stream);
        CHECK(rc == 0 || rc == -ETIME);
        CHECK_EQ(rc == 0, stream != NULL);
        coir_close(stream);
    }
    return 0;
}

TEST(who_gives_up_leaves_nothing_open)
{
    coir_task_fn *client = give_up_at_any_moment;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        coir_sim_options options = test_sim_options(seed, 1);
        CHECK_EQ(coir_sim_run(&options, scenario, &client, NULL), 0);
    }
}

/* ---- on real sockets ---- */

/* Every name is this machine. */
int ci_sys_lookup(const char *host, int family, struct ci_ips *ret_ips)
{
    (void)host;
    *ret_ips = (struct ci_ips){.count = 1};
    if (family == AF_INET)
        ret_ips->ip[0].four =
            (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    else
        ret_ips->ip[0].six =
            (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    return 0;
}

uint64_t ci_sys_lookup_stamp(void)
{
    return 0;
}

enum { CONNECTS = 10000 };
static struct {
    coir_listener *listener;
    char name[2][64];
    int connected;
} real;

static int connect_to(void *arg)
{
    coir_stream *stream = NULL;
    int rc = coir_tcp_connect(arg, &stream);
    CHECK_EQ(rc == 0, stream != NULL);
    real.connected += rc == 0;
    coir_close(stream);
    return rc == -ECANCELED || rc == -ECONNREFUSED || rc == -ETIMEDOUT ? 0 : rc;
}

/* A new name has to be asked for; one that is known, not. */
static void give_up_after(int yields, int i)
{
    COIR_SCOPE(scope);
    snprintf(real.name[1], sizeof real.name[1], "new%d.example%s", i, strrchr(real.name[0], ':'));
    CHECK_EQ(coir_go(scope, connect_to, real.name[i % 2]), 0);
    for (int turn = 0; turn < yields; turn++)
        CHECK_EQ(i % 3 ? coir_yield() : coir_sleep_for(1), 0);
    coir_scope_cancel(scope);
    CHECK_EQ(coir_scope_wait(scope), 0);
}

static int accept_all(void *arg)
{
    coir_stream *stream;
    char byte;
    int rc;
    (void)arg;
    while ((rc = coir_accept(real.listener, &stream)) == 0) {
        rc = (int)coir_read(stream, &byte, 1); /* a reset before the client closes is an error */
        CHECK(rc == 0 || rc == -ECANCELED);
        coir_close(stream);
    }
    return rc == -ECANCELED ? 0 : rc;
}

static void give_up_all(void)
{
    char local[64];
    CHECK_EQ(coir_tcp_listen(":0", &real.listener), 0);
    plain_reset_on_close(real.listener->fd);
    CHECK(coir_listener_local(real.listener, local, sizeof local) > 0);
    snprintf(real.name[0], sizeof real.name[0], "known.example%s", strrchr(local, ':'));
    CHECK_EQ(connect_to(real.name[0]), 0);
    int before = open_files();
    {
        COIR_SCOPE(server);
        CHECK_EQ(coir_go(server, accept_all, NULL), 0);
        for (int i = 0; i < CONNECTS; i++)
            give_up_after(i % 11, i);
        coir_scope_cancel(server);
        CHECK_EQ(coir_scope_wait(server), 0);
    }
    CHECK_EQ(open_files(), before);
    CHECK(real.connected > 1 && real.connected < CONNECTS);
    coir_listener_close(real.listener);
}

TEST(ten_thousand_connects_by_name_are_given_up_and_leave_no_descriptor)
{
    test_in_runtime(give_up_all, 1);
}

static void connect_by_name(void)
{
    coir_listener *listener;
    coir_stream *client, *server;
    char local[64], name[64];
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    CHECK(coir_listener_local(listener, local, sizeof local) > 0);
    snprintf(name, sizeof name, "example.org%s", strrchr(local, ':'));
    CHECK_EQ(coir_tcp_connect(name, &client), 0); /* IPv6 is refused */
    CHECK_EQ(coir_accept(listener, &server), 0);
    coir_close(client);
    coir_close(server);
    coir_listener_close(listener);
    CHECK_EQ(coir_tcp_connect(name, &client), -ECONNREFUSED);
}

TEST(a_name_of_a_real_machine_is_connected_to)
{
    test_in_runtime(connect_by_name, 1);
}
