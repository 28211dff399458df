/* Connecting by name: what name servers answer, with what delay, is the seed's choice: one or
 * several addresses of which some do not answer, none, an error. Tasks of all workers ask for the
 * same names together, and some give up.
 *
 * What must hold:
 * 1. A connection is there 250 ms, for each address before it that does not answer, and a round
 *    trip after the answer (RFC 8305); within that of the timers.
 * 2. Whoever gives up leaves nothing open.
 * 3. A name that has no address, and an error of the name servers, are what the connect says. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim/chaos.h"
#include "sim/must.h"

enum { SERVERS = 2, ROUNDS = 8, ASKERS = 3, ADDRESSES_MOST = 4 };
static const coir_time one_way = 20 * COIR_MS, slack = 10 * COIR_MS, resolution = 50 * COIR_MS,
                       staleness = COIR_MS / 10; /* of coir_now within a turn of the loop */

/* What is known about one name, and what must come of it. */
struct plan {
    char name[32], addresses[80];
    coir_time after;
    int result, count;
};

static struct {
    coir_sim *sim;
    struct plan plan;
} w;

static uint64_t below(uint64_t bound)
{
    return coir_sim_random(w.sim) % bound;
}

/* ---- servers ---- */

static int answer(coir_stream *stream, void *arg)
{
    char byte;
    (void)arg;
    ssize_t n = coir_read(stream, &byte, 1);
    MUST(n == 0 || n == -ECONNRESET || n == -ECANCELED);
    return 0;
}

static int serve(void *arg)
{
    (void)arg;
    return coir_serve_tcp("0.0.0.0:80", answer, NULL);
}

/* ---- names ---- */

static coir_time some(coir_time most)
{
    return (coir_time)below((uint64_t)most >> below(10));
}

/* IPv4 addresses, so many of which do not answer before the first that does. */
static int draw_addresses(struct plan *plan)
{
    static const char *const all[] = {"10.0.0.1", "10.0.0.2", "192.0.2.1", "192.0.2.2"};
    bool used[ADDRESSES_MOST] = {false};
    int silent = 0, first = -1;
    plan->count = (int)below(ADDRESSES_MOST + 1);
    for (int i = 0; i < plan->count; i++) {
        uint64_t which;
        while (used[which = below(ADDRESSES_MOST)])
            continue;
        used[which] = true;
        snprintf(plan->addresses + strlen(plan->addresses),
                 sizeof plan->addresses - strlen(plan->addresses), "%s ", all[which]);
        if (which < SERVERS && first < 0)
            first = silent;
        silent += which >= SERVERS;
    }
    return first;
}

static void draw_plan(int round)
{
    struct plan *plan = &w.plan;
    coir_name_answer says = {.latency = some(300 * COIR_MS), .latency_ipv6 = some(300 * COIR_MS)};
    *plan = (struct plan){.result = 0};
    snprintf(plan->name, sizeof plan->name, "www%d:80", round);
    int silent = draw_addresses(plan);
    coir_time both = says.latency > says.latency_ipv6 ? says.latency : says.latency_ipv6;
    coir_time begin = both < says.latency + resolution ? both : says.latency + resolution;
    if (below(6) == 0) {
        says.error = says.error_ipv6 = -COIR_ENAMESERVER;
        plan->result = -COIR_ENAMESERVER;
        plan->after = both;
    } else if (plan->count == 0) {
        plan->result = -COIR_ENAME;
        plan->after = both;
    } else if (silent < 0) {
        plan->result = -ETIMEDOUT;
        plan->after = begin; /* and some seconds */
    } else {
        plan->after = begin + silent * 250 * COIR_MS + 2 * one_way;
    }
    says.addresses = plan->addresses;
    char host[32];
    snprintf(host, sizeof host, "www%d", round);
    MUST_BE(coir_sim_name(w.sim, host, says), 0);
}

/* ---- clients ---- */

static int ask(void *arg)
{
    const struct plan *plan = &w.plan;
    coir_stream *stream = NULL;
    coir_time start = coir_now(), patience = below(3) ? 30 * COIR_S : 1 + some(COIR_S);
    int rc;
    (void)arg;
    {
        COIR_DEADLINE(coir_in(patience));
        rc = coir_tcp_connect(plan->name, &stream);
    }
    coir_time after = coir_now() - start;
    MUST_BE(stream != NULL, rc == 0);
    coir_close(stream);
    if (rc == -ETIME && patience < 30 * COIR_S) {
        MUST(after >= patience && after <= patience + slack);
        return 0;
    }
    MUST_BE(rc, plan->result);
    MUST(after + staleness >= plan->after);
    MUST(after <= plan->after + slack || rc == -ETIMEDOUT);
    return 0;
}

static int resolve(void *arg)
{
    coir_address found[ADDRESSES_MOST];
    (void)arg;
    int rc = coir_resolve(w.plan.name, found, ADDRESSES_MOST);
    MUST_BE(rc, w.plan.result == -COIR_ENAMESERVER ? -COIR_ENAMESERVER
                : w.plan.count                     ? w.plan.count
                                                   : -COIR_ENAME);
    return 0;
}

static int be_clients(void *arg)
{
    coir_stream *stream;
    (void)arg;
    MUST_BE(coir_sleep_for(COIR_S), 0);
    MUST_BE(coir_tcp_connect("server2:80", &stream), 0); /* a host, by its own name */
    coir_close(stream);
    for (int round = 0; round < ROUNDS; round++) {
        COIR_SCOPE(scope);
        draw_plan(round);
        for (uint64_t i = 1 + below(ASKERS); i; i--)
            MUST_BE(coir_go_anywhere(scope, ask, NULL), 0);
        if (below(2))
            MUST_BE(coir_go_anywhere(scope, resolve, NULL), 0);
        MUST_BE(coir_scope_wait(scope), 0);
    }
    return 0;
}

static int scenario(coir_sim *sim, void *arg)
{
    (void)arg;
    memset(&w, 0, sizeof w);
    w.sim = sim;
    MUST_BE(chaos_configure(sim), 0);
    coir_sim_host(sim, "server1", serve, NULL);
    coir_sim_host(sim, "server2", serve, NULL);
    coir_sim_link(sim, NULL, NULL, (coir_link){.latency = one_way});
    return coir_sim_host_main(sim, "clients", be_clients, NULL);
}

int main(int argc, char **argv)
{
    return coir_sim_main(argc, argv, scenario, NULL);
}
