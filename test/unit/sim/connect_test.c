/* A connect that is given up: the end that the server may have accepted meanwhile is reset, as a
 * kernel answers what it does not expect. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <string.h>

#include "harness.h"

enum { CONNECTS = 20 };

static struct {
    coir_sim *sim;
    coir_host *server, *client;
    bool cut; /* when the connect is given up */
    int accepted, given_up;
} w;

static int hear(coir_stream *stream, void *arg)
{
    char byte;
    (void)arg;
    w.accepted++;
    COIR_DEADLINE(coir_in(60 * COIR_S));
    CHECK_EQ(coir_read(stream, &byte, 1), -ECONNRESET);
    return 0;
}

static int serve(void *arg)
{
    (void)arg;
    return coir_serve_tcp("0.0.0.0:7777", hear, NULL);
}

static int cut_later(void *arg)
{
    (void)arg;
    coir_sleep_for(10 * COIR_MS + COIR_MS / 4);
    coir_sim_link(w.sim, w.client, w.server,
                  (coir_link){.latency = 10 * COIR_MS, .cut = w.cut, .one_way = true});
    return 0;
}

/* The first segment takes 10 ms, and so does the answer. */
static int give_up(void *arg)
{
    coir_stream *stream;
    (void)arg;
    coir_sleep_for(COIR_S);
    for (int i = 0; i < CONNECTS; i++) {
        COIR_SCOPE(scope);
        CHECK_EQ(coir_go(scope, cut_later, NULL), 0);
        {
            COIR_DEADLINE(coir_in((10 + i % 10) * COIR_MS + COIR_MS / 2));
            CHECK_EQ(coir_tcp_connect("server:7777", &stream), -ETIME);
        }
        w.given_up++;
        CHECK_EQ(coir_scope_wait(scope), 0);
        coir_sim_link(w.sim, NULL, NULL, (coir_link){.latency = 10 * COIR_MS});
    }
    return coir_sleep_for(70 * COIR_S);
}

static int wait_long(void *arg)
{
    (void)arg;
    return coir_sleep_for(100 * COIR_S);
}

static int scenario(coir_sim *sim, void *arg)
{
    (void)arg;
    w.sim = sim;
    w.server = coir_sim_host(sim, "server", serve, NULL);
    coir_sim_link(sim, NULL, NULL, (coir_link){.latency = 10 * COIR_MS});
    w.client = coir_sim_host(sim, "client", give_up, NULL);
    return coir_sim_host_main(sim, "clock", wait_long, NULL);
}

static void give_up_all(bool cut)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        memset(&w, 0, sizeof w);
        w.cut = cut;
        coir_sim_options options = test_sim_options(seed, 1 + (unsigned)(seed % 2));
        CHECK_EQ(coir_sim_run(&options, scenario, NULL, NULL), 0);
        CHECK_EQ(w.given_up, CONNECTS);
        CHECK_EQ(w.accepted, CONNECTS);
    }
}

TEST(a_connect_that_is_given_up_resets_what_was_accepted)
{
    give_up_all(false);
}

TEST(and_across_a_link_that_was_cut_meanwhile)
{
    give_up_all(true);
}
