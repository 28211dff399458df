/* Connecting by name (RFC 8305): which address is tried when, in virtual time; and that whoever
 * gives up leaves nothing behind, on real sockets too. */
#include <coir.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "giving_up.h"
#include "harness.h"
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

/* With a time for each attempt. */
static const struct {
    coir_time attempt_timeout;
    struct row row;
} limited[] = {
    {100 * COIR_MS,
     {"an attempt is given up before the next is due",
      {.addresses = "2001:db8::1 10.0.0.1"},
      0,
      "10.0.0.1",
      100 * COIR_MS + round_trip}},
    {100 * COIR_MS,
     {"each attempt has its time",
      {.addresses = "2001:db8::1 192.0.2.1 2001:db8::2 10.0.0.1"},
      0,
      "10.0.0.1",
      300 * COIR_MS + round_trip}},
    {400 * COIR_MS,
     {"an attempt is given up while the next is made",
      {.addresses = "2001:db8::1 192.0.2.1"},
      -ETIMEDOUT,
      "",
      650 * COIR_MS}},
    {100 * COIR_MS, {"time enough", {.addresses = "both"}, 0, "[fd00::1]", round_trip}},
};

static void connect_and_measure(const struct row *row, coir_time attempt_timeout)
{
    coir_stream *stream = NULL;
    char peer[64] = "";
    CHECK_EQ(coir_sim_name(w.sim, "www", row->says), 0);
    coir_tcp_connect_options options = COIR_TCP_CONNECT_OPTIONS;
    options.attempt_timeout = attempt_timeout;
    coir_time start = coir_now();
    int rc = coir_tcp_connect_with("www:80", &options, &stream);
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
        connect_and_measure(&rows[i], 0);
    for (size_t i = 0; i < sizeof limited / sizeof *limited; i++)
        connect_and_measure(&limited[i].row, limited[i].attempt_timeout);
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

bool ci_sys_hosts_lack(const char *host, int family)
{
    (void)host, (void)family;
    return false;
}

uint64_t ci_sys_lookup_stamp(void)
{
    return 0;
}

static void give_up_all(void)
{
    give_up_connecting(open_files);
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

/* ---- a black hole on real sockets ---- */

/* A listener whose backlog is full: what else connects to it gets no answer. */
struct hole {
    int listener, fills[4];
};

static int socket_at(int family, in_port_t port, bool listens)
{
    struct sockaddr_in6 at = {
        .sin6_family = AF_INET6, .sin6_port = port, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | (listens ? 0 : SOCK_NONBLOCK), 0);
    CHECK(fd >= 0);
    int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (listens)
        CHECK_EQ(bind(fd, (struct sockaddr *)&at, sizeof at) < 0 ? -errno : listen(fd, 0), 0);
    else
        CHECK(connect(fd, (struct sockaddr *)&at, sizeof at) == 0 || errno == EINPROGRESS);
    return fd;
}

static void open_hole(struct hole *hole, in_port_t port)
{
    hole->listener = socket_at(AF_INET6, port, true);
    for (size_t i = 0; i < sizeof hole->fills / sizeof *hole->fills; i++)
        hole->fills[i] = socket_at(AF_INET6, port, false);
}

static void close_hole(struct hole *hole)
{
    for (size_t i = 0; i < sizeof hole->fills / sizeof *hole->fills; i++)
        close(hole->fills[i]);
    close(hole->listener);
}

/* IPv6 is tried first, and gets 250 ms to answer; after that it is no longer waited for. */
static void connect_past_hole(void)
{
    struct hole hole;
    coir_listener *listener;
    coir_stream *client, *server;
    char local[64], name[64];
    if (coir_tcp_listen("[::1]:0", &listener) < 0) {
        printf("left out: this machine has no IPv6\n");
        return;
    }
    coir_listener_close(listener);
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    CHECK(coir_listener_local(listener, local, sizeof local) > 0);
    const char *colon = strrchr(local, ':');
    open_hole(&hole, htons((in_port_t)atoi(colon + 1)));
    snprintf(name, sizeof name, "example.org%s", colon);
    int before = open_files();
    COIR_DEADLINE(coir_in(100 * COIR_S)); /* IPv6 alone would take 130 s */
    coir_tcp_connect_options options = COIR_TCP_CONNECT_OPTIONS;
    options.attempt_timeout = 20 * COIR_MS;
    coir_time start = coir_now();
    snprintf(local, sizeof local, "[::1]%s", strrchr(name, ':'));
    CHECK_EQ(coir_tcp_connect_with(local, &options, &client), -ETIMEDOUT);
    CHECK(coir_now() - start >= 20 * COIR_MS);
    CHECK_EQ(open_files(), before);
    start = coir_now();
    CHECK_EQ(coir_tcp_connect(name, &client), 0);
    coir_time after = coir_now() - start;
    CHECK(after >= 250 * COIR_MS); /* the delay was waited for, as it would not have been after a
                                      refusal */
    CHECK_EQ(open_files(), before + 1); /* that of IPv6 has been closed */
    printf("connected past a black hole after %.1f ms\n", (double)after / (double)COIR_MS);
    CHECK_EQ(coir_accept(listener, &server), 0);
    coir_close(client);
    coir_close(server);
    coir_listener_close(listener);
    close_hole(&hole);
}

TEST(a_black_hole_of_one_family_costs_the_delay_of_an_attempt)
{
    test_in_runtime(connect_past_hole, 1);
}
