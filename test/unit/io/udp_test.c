/* Datagrams, on the real driver and in the simulator; and that only the future whose datagram came
 * is polled. */
#include <coir.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"
#include "io/io.h"

static void echo_once(void)
{
    coir_udp *a, *b;
    char address[64], text[64], buf[64];
    coir_address from;
    CHECK_EQ(coir_udp_open("127.0.0.1:0", NULL, &a), 0);
    CHECK(coir_udp_local(a, address, sizeof address) > 0);
    CHECK_EQ(coir_udp_open("127.0.0.1:0", address, &b), 0);
    CHECK_EQ(coir_udp_send(a, "x", 1), -EDESTADDRREQ);
    CHECK_EQ(coir_udp_send(b, "hello", 5), 5);
    CHECK_EQ(coir_udp_recv(a, buf, sizeof buf, &from), 5);
    CHECK(memcmp(buf, "hello", 5) == 0);
    CHECK(coir_address_format(&from, text, sizeof text) > 0);
    CHECK_EQ(coir_udp_send_to(a, "a longer answer", 15, &from), 15);
    CHECK_EQ(coir_udp_recv(b, buf, 8, NULL), 8); /* cut, and the rest is gone */
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(coir_udp_recv(b, buf, sizeof buf, NULL), -ETIME);
    }
    CHECK_EQ(coir_udp_send_to(a, "", 0, &from), 0); /* an empty datagram is one */
    CHECK_EQ(coir_udp_recv(b, buf, sizeof buf, NULL), 0);
    CHECK_EQ(coir_udp_open("nonsense", NULL, &b), -COIR_EPORT);
    coir_udp_close(a);
    coir_udp_close(b);
    coir_udp_close(NULL);
}

/* A connected socket receives from its peer only, and reports that the peer is unreachable. */
static void be_connected(void)
{
    coir_udp *server, *client, *stranger;
    char address[64], own[64], buf[64];
    coir_address from, to;
    CHECK_EQ(coir_udp_open("127.0.0.1:0", NULL, &server), 0);
    CHECK_EQ(coir_udp_open("127.0.0.1:0", NULL, &stranger), 0);
    CHECK(coir_udp_local(server, address, sizeof address) > 0);
    CHECK_EQ(coir_udp_open("*:0", address, &client), 0);
    CHECK(coir_udp_local(client, own, sizeof own) > 0);
    CHECK_EQ(coir_address_parse(own, &to), 0);
    CHECK_EQ(coir_udp_send_to(stranger, "strange", 7, &to), 7);
    CHECK_EQ(coir_udp_send(client, "hello", 5), 5);
    CHECK_EQ(coir_udp_recv(server, buf, sizeof buf, &from), 5);
    CHECK_EQ(coir_udp_send_to(server, "answer", 6, &from), 6);
    CHECK_EQ(coir_udp_recv(client, buf, sizeof buf, NULL), 6);
    coir_udp_close(server);
    CHECK_EQ(coir_udp_send(client, "hello", 5), 5);
    CHECK_EQ(coir_udp_recv(client, buf, sizeof buf, NULL), -ECONNREFUSED);
    static char large[70000];
    CHECK_EQ(coir_udp_send(client, large, sizeof large), -EMSGSIZE);
    coir_udp_close(client);
    coir_udp_close(stranger);
}

TEST(a_peer_is_heard_alone_and_known_to_be_gone)
{
    test_in_runtime(be_connected, 1);
    for (uint64_t seed = 1; seed <= 50; seed++)
        test_in_sim(be_connected, 1, seed);
}

TEST(datagrams_go_there_and_back)
{
    test_in_runtime(echo_once, 1);
    for (uint64_t seed = 1; seed <= 50; seed++)
        test_in_sim(echo_once, 1, seed);
}

/* ---- ten sockets in one join: one poll a datagram ---- */

enum { SOCKETS = 10, DATAGRAMS = 1000 };

struct counter {
    coir_future future;
    coir_udp_op recv;
    coir_udp *udp;
    char buf[16];
    int received, polls;
    coir_event came;
};

static coir_future *counter_poll(coir_future *future)
{
    struct counter *self = coir_frame(future, struct counter);
    self->polls++;
    COIR_BEGIN(future);
    for (;;) {
        COIR_AWAIT(future,
                   coir_udp_recv_op(&self->recv, self->udp, self->buf, sizeof self->buf, NULL));
        if (self->recv.future.result <= 0)
            COIR_RETURN(future, self->recv.future.result);
        self->received++;
        coir_event_set(&self->came);
    }
}

static const coir_future_kind counter_kind = COIR_FUTURE_KIND("datagrams", counter_poll, NULL);
static struct counter counters[SOCKETS];

static int receive_all(void *arg)
{
    coir_branch branches[SOCKETS];
    (void)arg;
    for (int i = 0; i < SOCKETS; i++)
        branches[i] =
            (coir_branch)COIR_BRANCH(coir_future_init(&counters[i].future, &counter_kind));
    return coir_join_all(branches, SOCKETS, 0);
}

static void ten_sockets(void)
{
    coir_udp *senders[SOCKETS];
    char address[64];
    memset(counters, 0, sizeof counters);
    for (int i = 0; i < SOCKETS; i++) {
        CHECK_EQ(coir_udp_open("127.0.0.1:0", NULL, &counters[i].udp), 0);
        coir_udp_local(counters[i].udp, address, sizeof address);
        CHECK_EQ(coir_udp_open("127.0.0.1:0", address, &senders[i]), 0);
    }
    {
        COIR_SCOPE(scope);
        coir_go(scope, receive_all, NULL);
        unsigned random = 1;
        for (int i = 0; i < DATAGRAMS; i++) {
            struct counter *counter =
                &counters[(random = random * 1103515245 + 12345) / 65536 % SOCKETS];
            coir_event_reset(&counter->came);
            CHECK_EQ(coir_udp_send(senders[counter - counters], "ping", 4), 4);
            CHECK_EQ(coir_event_wait(&counter->came), 0);
        }
        for (int i = 0; i < SOCKETS; i++)
            CHECK_EQ(coir_udp_send(senders[i], "", 0), 0);
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    int polls = 0, received = 0;
    for (int i = 0; i < SOCKETS; i++) {
        polls += counters[i].polls;
        received += counters[i].received;
        coir_udp_close(counters[i].udp);
        coir_udp_close(senders[i]);
    }
    CHECK_EQ(received, DATAGRAMS);
    CHECK_EQ(polls, DATAGRAMS + 2 * SOCKETS); /* one each; to begin with; and for the end */
}

TEST(only_the_future_that_was_woken_is_polled)
{
    test_in_runtime(ten_sockets, 1);
    test_in_sim(ten_sockets, 1, 1);
}

/* ---- the program of the tour: three pings without a stack, in a world that loses some ---- */

struct beat {
    coir_future future;
    coir_udp *sock;
    coir_sleep_op pause;
    coir_udp_op ping;
    int sent;
};

static coir_future *beat_poll(coir_future *future)
{
    struct beat *self = coir_frame(future, struct beat);
    COIR_BEGIN(future);
    for (self->sent = 0; self->sent < 3; self->sent++) {
        COIR_AWAIT(future, coir_udp_send_op(&self->ping, self->sock, "ping", 4));
        COIR_AWAIT(future, coir_sleep_for_op(&self->pause, 100 * COIR_MS));
    }
    COIR_END(future);
}

static const coir_future_kind beat_kind = COIR_FUTURE_KIND("beat", beat_poll, NULL);
/* ---- what wakes an epoll ---- */

static bool by_many;

static ssize_t receive_one(coir_udp *udp, coir_datagram *datagram)
{
    return by_many ? coir_udp_recv_many(udp, datagram, 1)
                   : coir_udp_recv(udp, datagram->data, 1, &datagram->peer);
}

static ssize_t send_one(coir_udp *udp, const coir_datagram *datagram)
{
    return by_many ? coir_udp_send_many(udp, datagram, 1)
                   : coir_udp_send_to(udp, datagram->data, 1, &datagram->peer);
}

/* When an answer has left there is room in the socket, which nothing waits for. */
static int send_answers(void *arg)
{
    char text[64], byte;
    coir_udp *udp;
    coir_address server;
    coir_datagram datagram = {.size = sizeof datagram, .data = &byte, .room = 1, .len = 1};
    struct ci_driver *driver = ci_worker_current->loop.driver;
    struct pollfd epoll = {driver->kind->descriptor(driver), POLLIN, 0};
    int client = socket(AF_INET, SOCK_DGRAM, 0);
    (void)arg;
    CHECK(client >= 0);
    CHECK_EQ(coir_udp_open("127.0.0.1:0", NULL, &udp), 0);
    CHECK(coir_udp_local(udp, text, sizeof text) > 0);
    CHECK_EQ(coir_address_parse(text, &server), 0);
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(receive_one(udp, &datagram), -ETIME);
    }
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(sendto(client, "x", 1, 0, (struct sockaddr *)&server, sizeof(struct sockaddr_in)),
                 1);
        CHECK_EQ(receive_one(udp, &datagram), 1);
        while (poll(&epoll, 1, 0))
            coir_sleep_for(COIR_US);
        CHECK_EQ(send_one(udp, &datagram), 1);
        CHECK_EQ(poll(&epoll, 1, 0), 0);
        CHECK_EQ(recv(client, &byte, 1, 0), 1);
    }
    coir_udp_close(udp);
    close(client);
    return 0;
}

TEST(an_answer_that_is_sent_does_not_wake_the_server)
{
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.driver = "epoll";
    for (int many = 0; many < 2; many++) {
        by_many = many;
        CHECK_EQ(test_run(&config, send_answers, NULL), 0);
    }
}

static int heard;

static int listen_for_beats(void *arg)
{
    coir_udp *udp;
    char buf[16];
    ssize_t n;
    int rc = coir_udp_open("*:7000", NULL, &udp);
    (void)arg;
    if (rc < 0)
        return rc;
    while ((n = coir_udp_recv(udp, buf, sizeof buf, NULL)) > 0)
        heard++;
    coir_udp_close(udp);
    return n == -ECANCELED ? 0 : (int)n;
}

static int send_beats(void *arg)
{
    struct beat beats[20];
    (void)arg;
    COIR_SCOPE(scope);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(coir_udp_open("*:0", "listener:7000", &beats[i].sock), 0);
        CHECK_EQ(coir_go_future(scope, coir_future_init(&beats[i].future, &beat_kind)), 0);
    }
    CHECK_EQ(coir_scope_wait(scope), 0);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(beats[i].sent, 3);
        coir_udp_close(beats[i].sock);
    }
    return 0;
}

static int lossy_world(coir_sim *sim, void *arg)
{
    (void)arg;
    coir_host *listener = coir_sim_host(sim, "listener", listen_for_beats, NULL);
    coir_sim_link(sim, listener, NULL,
                  (coir_link){.latency = 2 * COIR_MS, .jitter = 5 * COIR_MS, .loss = 0.25});
    return coir_sim_host_main(sim, "sender", send_beats, NULL);
}

TEST(beats_of_tasks_without_a_stack_in_a_world_that_loses_some)
{
    int all = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        coir_sim_options options = test_sim_options(seed, 1);
        heard = 0;
        CHECK_EQ(coir_sim_run(&options, lossy_world, NULL, NULL), 0);
        CHECK(heard <= 60);
        all += heard;
    }
    CHECK(all > 20 * 60 / 2 && all < 20 * 60);
}

/* Text and addresses become each other without a runtime. */
TEST(addresses_in_a_plain_thread)
{
    static const char *const same[] = {"127.0.0.1:80", "[::1]:65535", "0.0.0.0:0"};
    coir_address address;
    char text[64];
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        CHECK_EQ(coir_address_parse(same[i], &address), 0);
        CHECK_EQ(coir_address_format(&address, text, sizeof text), strlen(same[i]));
        CHECK(strcmp(text, same[i]) == 0);
    }
    CHECK_EQ(coir_address_parse("localhost:1", &address), 0);
    CHECK(coir_address_format(&address, text, sizeof text) > 0 && strcmp(text, "127.0.0.1:1") == 0);
    CHECK_EQ(coir_address_parse("no-such-host:1", &address), -COIR_ENAME);
    CHECK_EQ(coir_address_parse("127.0.0.1", &address), -COIR_EPORT);
}
