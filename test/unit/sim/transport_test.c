/* Nothing crosses a link that is cut, in the direction in which it is cut, and all crosses it in
 * the other: connections, data, ends, resets, room and datagrams, from either side. What a stream
 * sent meanwhile crosses when the link is well again. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <string.h>

#include "harness.h"
#include "net.h"
#include "sim/link.h"

enum act { WRITE, END, CLOSE, CLOSE_UNREAD, ROOM, ACTS };
enum { WINDOW = 64 * 1024, FORTH = 1, BACK = 2 };

static struct {
    coir_sim *sim;
    coir_host *server, *client;
    bool server_sends;
    bool listens;
    enum act act;
    int cut; /* FORTH: from the client to the server */
} w;

static coir_time at(coir_time when)
{
    return COIR_S + when; /* the world begins at 1 s */
}

static void cut(int directions)
{
    static const coir_link whole = {.latency = COIR_MS};
    coir_link cut = {.latency = COIR_MS, .cut = true, .one_way = true};
    coir_sim_link(w.sim, NULL, NULL, whole);
    if (directions & FORTH)
        coir_sim_link(w.sim, w.client, w.server, cut);
    if (directions & BACK)
        coir_sim_link(w.sim, w.server, w.client, cut);
}

/* ---- streams ---- */

static ssize_t read_until(coir_stream *stream, coir_time until)
{
    char byte;
    COIR_DEADLINE(until);
    return coir_read(stream, &byte, 1);
}

static ssize_t write_until(coir_stream *stream, coir_time until)
{
    COIR_DEADLINE(until);
    return coir_write(stream, "x", 1);
}

static char block[WINDOW];

/* From 1 s to 3 s, nothing goes from here to the other end. */
static void send_part(coir_stream *stream)
{
    size_t done;
    coir_sleep_until(at(COIR_S));
    cut(w.server_sends ? BACK : FORTH);
    switch (w.act) {
    case WRITE: CHECK_EQ(coir_write(stream, "x", 1), 1); break;
    case END: CHECK_EQ(coir_shutdown_write(stream), 0); break;
    case ROOM: CHECK_EQ(coir_read_full(stream, block, WINDOW, &done), WINDOW); break;
    case CLOSE_UNREAD: break;
    case CLOSE: CHECK_EQ(read_until(stream, COIR_NEVER), 1); break;
    case ACTS: break;
    }
    if (w.act == CLOSE || w.act == CLOSE_UNREAD)
        coir_close(stream);
    else if (w.act != ROOM)
        CHECK_EQ(read_until(stream, at(2 * COIR_S)), 1); /* the other direction is open */
    coir_sleep_until(at(3 * COIR_S));
    cut(0);
    coir_sleep_until(at(30 * COIR_S));
    if (w.act != CLOSE && w.act != CLOSE_UNREAD)
        coir_close(stream);
}

static void hear_part(coir_stream *stream)
{
    static const int then[ACTS] = {
        [WRITE] = 1, [END] = 0, [CLOSE] = -ECONNRESET, [CLOSE_UNREAD] = -ECONNRESET};
    if (w.act == CLOSE || w.act == CLOSE_UNREAD)
        CHECK_EQ(coir_write(stream, "z", 1), 1);
    coir_sleep_until(at(3 * COIR_S / 2));
    if (w.act == ROOM) {
        CHECK_EQ(coir_write_all(stream, block, WINDOW), 0);
        CHECK_EQ(write_until(stream, at(29 * COIR_S / 10)), -ETIME);
        CHECK_EQ(write_until(stream, at(20 * COIR_S)), 1);
    } else {
        CHECK_EQ(coir_write(stream, "y", 1), 1);
        CHECK_EQ(read_until(stream, at(29 * COIR_S / 10)), -ETIME);
        CHECK_EQ(read_until(stream, at(20 * COIR_S)), then[w.act]);
    }
    CHECK(coir_now() >= at(3 * COIR_S));
    coir_sleep_until(at(40 * COIR_S));
    coir_close(stream);
}

static int serve(void *arg)
{
    coir_listener *listener;
    coir_stream *stream;
    (void)arg;
    CHECK_EQ(coir_tcp_listen("0.0.0.0:7777", &listener), 0);
    CHECK_EQ(coir_accept(listener, &stream), 0);
    coir_listener_close(listener);
    (w.server_sends ? send_part : hear_part)(stream);
    return 0;
}

static int visit(void *arg)
{
    coir_stream *stream;
    (void)arg;
    coir_sleep_for(100 * COIR_MS);
    CHECK_EQ(coir_tcp_connect("server:7777", &stream), 0);
    (w.server_sends ? hear_part : send_part)(stream);
    return coir_sleep_until(at(50 * COIR_S));
}

static int wait_for(void *arg)
{
    coir_sleep_until(at((coir_time)(intptr_t)arg * COIR_S));
    return 0;
}

static int begin(coir_sim *sim, coir_task_fn *server, coir_task_fn *client, int seconds)
{
    w.sim = sim;
    w.server = coir_sim_host(sim, "server", server, NULL);
    w.client = coir_sim_host(sim, "client", client, NULL);
    cut(w.cut);
    return coir_sim_host_main(sim, "clock", wait_for, (void *)(intptr_t)seconds);
}

static int stream_scenario(coir_sim *sim, void *arg)
{
    (void)arg;
    return begin(sim, serve, visit, 60);
}

static void run(coir_scenario_fn *scenario)
{
    coir_sim_result result = COIR_SIM_RESULT;
    coir_sim_options options = test_sim_options(1, 1);
    int rc = coir_sim_run(&options, scenario, NULL, &result);
    if (rc < 0)
        test_fail(__FILE__, __LINE__, "%s %s", coir_strerror(rc), result.left);
}

static void from_either_side(enum act act)
{
    for (int server_sends = 0; server_sends < 2; server_sends++) {
        memset(&w, 0, sizeof w);
        w.act = act;
        w.server_sends = server_sends;
        run(stream_scenario);
    }
}

TEST(data_wait_for_a_cut_link)
{
    from_either_side(WRITE);
}

TEST(an_end_waits_for_a_cut_link)
{
    from_either_side(END);
}

TEST(a_reset_does_not_cross_a_cut_link)
{
    from_either_side(CLOSE_UNREAD);
}

TEST(a_closed_end_does_not_answer_across_a_cut_link)
{
    from_either_side(CLOSE);
}

TEST(room_waits_for_a_cut_link)
{
    from_either_side(ROOM);
}

/* ---- a stream whose link stays cut ---- */

static int accept_and_wait(void *arg)
{
    coir_listener *listener;
    coir_stream *stream;
    (void)arg;
    CHECK_EQ(coir_tcp_listen("0.0.0.0:7777", &listener), 0);
    CHECK_EQ(coir_accept(listener, &stream), 0);
    CHECK_EQ(read_until(stream, at(200 * COIR_S)), -ETIME); /* it is never told */
    coir_listener_close(listener);
    coir_close(stream);
    return 0;
}

static int wait_for_the_end(void *arg)
{
    coir_stream *stream;
    (void)arg;
    coir_sleep_for(100 * COIR_MS);
    CHECK_EQ(coir_tcp_connect("server:7777", &stream), 0);
    cut(FORTH | BACK);
    CHECK_EQ(coir_write(stream, "x", 1), 1);
    CHECK_EQ(read_until(stream, at(150 * COIR_S)), -ETIMEDOUT);
    coir_close(stream);
    return 0;
}

static int patience_scenario(coir_sim *sim, void *arg)
{
    (void)arg;
    return begin(sim, accept_and_wait, wait_for_the_end, 250);
}

TEST(a_stream_over_a_link_that_stays_cut_times_out)
{
    memset(&w, 0, sizeof w);
    run(patience_scenario);
}

/* ---- connections ---- */

static int accept_late(void *arg)
{
    coir_listener *listener;
    coir_stream *stream;
    (void)arg;
    if (!w.listens)
        return 0;
    CHECK_EQ(coir_tcp_listen("0.0.0.0:7777", &listener), 0);
    {
        COIR_DEADLINE(at(20 * COIR_S));
        CHECK_EQ(coir_accept(listener, &stream), -ETIME);
    }
    CHECK_EQ(coir_accept(listener, &stream), 0);
    coir_listener_close(listener);
    coir_close(stream);
    return 0;
}

static int connect_twice(void *arg)
{
    coir_stream *stream;
    (void)arg;
    coir_sleep_until(at(COIR_S));
    CHECK_EQ(coir_tcp_connect("server:7777", &stream), -ETIMEDOUT);
    coir_sleep_until(at(30 * COIR_S));
    cut(0);
    CHECK_EQ(coir_tcp_connect("server:7777", &stream), w.listens ? 0 : -ECONNREFUSED);
    if (w.listens)
        coir_close(stream);
    return 0;
}

static int connect_scenario(coir_sim *sim, void *arg)
{
    (void)arg;
    return begin(sim, accept_late, connect_twice, 60);
}

static void run_with_each_cut(coir_scenario_fn *scenario)
{
    for (int listens = 0; listens < 2; listens++)
        for (int directions = 1; directions <= (FORTH | BACK); directions++) {
            memset(&w, 0, sizeof w);
            w.cut = directions;
            w.listens = listens;
            run(scenario);
        }
}

TEST(a_connection_is_neither_made_nor_refused_across_a_cut_link)
{
    run_with_each_cut(connect_scenario);
}

/* ---- datagrams ---- */

static int recv_until(coir_udp *udp, coir_time until)
{
    char buf[8];
    COIR_DEADLINE(until);
    return (int)coir_udp_recv(udp, buf, sizeof buf, NULL);
}

/* Each side sends "cut" while the link is cut, and "more" when it is whole; what comes in when,
 * `lost` says. */
static void exchange(coir_udp *udp, bool lost)
{
    coir_sleep_until(at(COIR_S));
    CHECK_EQ(coir_udp_send(udp, "cut", 3), 3);
    CHECK_EQ(recv_until(udp, at(2 * COIR_S)), lost ? -ETIME : 3);
    coir_sleep_until(at(3 * COIR_S));
    cut(0);
    coir_sleep_until(at(4 * COIR_S));
    CHECK_EQ(coir_udp_send(udp, "more", 4), 4);
    CHECK_EQ(recv_until(udp, at(5 * COIR_S)), 4);
    coir_sleep_until(at(6 * COIR_S));
    coir_udp_close(udp);
}

static int exchange_at_server(void *arg)
{
    coir_udp *udp;
    (void)arg;
    coir_sleep_for(COIR_MS);
    if (!w.listens)
        return 0;
    CHECK_EQ(coir_udp_open("0.0.0.0:7000", "client:7001", &udp), 0);
    exchange(udp, w.cut & FORTH);
    return 0;
}

static int exchange_at_client(void *arg)
{
    coir_udp *udp;
    (void)arg;
    coir_sleep_for(COIR_MS);
    CHECK_EQ(coir_udp_open("0.0.0.0:7001", "server:7000", &udp), 0);
    if (w.listens) {
        exchange(udp, w.cut & BACK);
        return 0;
    }
    CHECK_EQ(coir_udp_send(udp, "x", 1), 1);
    CHECK_EQ(recv_until(udp, at(2 * COIR_S)), -ETIME); /* the refusal does not come */
    cut(0);
    CHECK_EQ(coir_udp_send(udp, "x", 1), 1);
    CHECK_EQ(recv_until(udp, at(3 * COIR_S)), -ECONNREFUSED);
    coir_udp_close(udp);
    return 0;
}

static int datagram_scenario(coir_sim *sim, void *arg)
{
    (void)arg;
    return begin(sim, exchange_at_server, exchange_at_client, 20);
}

TEST(datagrams_and_their_refusals_are_lost_on_a_cut_link)
{
    run_with_each_cut(datagram_scenario);
}

/* The outbox is filled, emptied, and filled again. */
TEST(what_waits_for_a_link_that_is_cut_twice_arrives)
{
    static const coir_link whole = {.latency = COIR_MS},
                           cut_off = {.latency = COIR_MS, .cut = true};
    struct net net;
    coir_fd client, server;
    char text[4] = "";
    net_open(&net, 1);
    net_pair(&net, &client, &server);
    for (int i = 0; i < 3; i++) {
        ci_world_link(&net.world, NULL, NULL, &cut_off);
        CHECK_EQ(net_write(&net, net.on_b, client, "a"), 1);
        CHECK_EQ(net_write(&net, net.on_b, client, "b"), 1);
        ci_world_link(&net.world, NULL, NULL, &whole);
        for (char c = 'a'; c <= 'b'; c++) {
            CHECK_EQ(net_read(&net, net.on_a, server, text, 1), 1);
            CHECK_EQ(text[0], c);
        }
    }
    net_close(&net);
}
