/* Requests over UDP, sent again until an answer comes, to a server that is told the same thing
 * twice: datagrams are lost, doubled and overtake each other, and links are cut for a while.
 *
 * What must hold:
 * 1. Every request is carried out once at most, and once exactly if its client got an answer; the
 *    answer is the request's own.
 * 2. A datagram comes whole, as it was sent.
 * 3. The server's memory of requests is bounded: a client has one at a time.
 * 4. When the faults are over every request is answered. */
#include <coir/udp.h>
#include <errno.h>
#include <string.h>

#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { CLIENTS = 3, REQUESTS = 8, LEN_MOST = 1200 };

struct message {
    uint32_t client, number, len; /* of all */
    int32_t amount;               /* to be added; in an answer, the sum */
    char padding[LEN_MOST];
};

static struct {
    coir_sim *sim;
    coir_host *server;
    int64_t sums[CLIENTS];
    uint32_t last[CLIENTS]; /* carried out */
    int carried_out[CLIENTS][REQUESTS + 1];
    int clients_left;
    bool serving;
} w;

static void fill(struct message *message)
{
    message->len = (uint32_t)(offsetof(struct message, padding) + below(LEN_MOST));
    for (uint32_t i = offsetof(struct message, padding); i < message->len; i++)
        ((char *)message)[i] = (char)(i * 7 + message->number);
}

static void check(const struct message *message, ssize_t n)
{
    MUST(n >= (ssize_t)offsetof(struct message, padding) && n == message->len);
    MUST(message->client < CLIENTS && message->number >= 1 && message->number <= REQUESTS);
    for (uint32_t i = offsetof(struct message, padding); i < message->len; i++)
        MUST(((const char *)message)[i] == (char)(i * 7 + message->number));
}

/* What may fail, and is tried again. */
static ssize_t passing(ssize_t n)
{
    bool passes = n == -ENOBUFS || n == -ENOMEM || n == -ECONNREFUSED || n == -ETIME ||
                  n == -EMFILE || n == -ENFILE || n == -ENOSPC;
    MUST(n >= 0 || passes || n == -ECANCELED);
    return n;
}

/* ---- the server ---- */

/* Older ones were answered: their client has gone on. */
static bool carry_out(struct message *message)
{
    uint32_t *last = &w.last[message->client];
    if (message->number < *last)
        return false;
    if (message->number > *last) {
        MUST_BE(message->number, *last + 1);
        *last = message->number;
        w.sums[message->client] += message->amount;
        MUST_BE(++w.carried_out[message->client][message->number], 1);
    }
    message->amount = (int32_t)w.sums[message->client];
    return true;
}

static int serve(void *arg)
{
    (void)arg;
    coir_udp *udp;
    while (passing(coir_udp_open("0.0.0.0:7000", NULL, &udp)) < 0)
        if (coir_sleep_for(COIR_MS) < 0)
            return 0;
    w.serving = true;
    for (;;) {
        struct message message;
        coir_address from;
        ssize_t n = passing(coir_udp_recv(udp, &message, sizeof message, &from));
        if (n == -ECANCELED)
            break;
        if (n < 0)
            continue;
        check(&message, n);
        if (carry_out(&message) &&
            passing(coir_udp_send_to(udp, &message, message.len, &from)) == -ECANCELED)
            break;
    }
    coir_udp_close(udp);
    return 0;
}

/* ---- clients ---- */

/* Whether the answer to this request came in time; others may come late. */
static bool hear_answer(coir_udp *udp, const struct message *request, int64_t sum)
{
    COIR_DEADLINE(coir_in((coir_time)(1 + below(100)) * COIR_MS));
    for (;;) {
        struct message answer;
        ssize_t n = passing(coir_udp_recv(udp, &answer, sizeof answer, NULL));
        if (n < 0)
            return false;
        check(&answer, n);
        MUST_BE(answer.client, request->client);
        if (answer.number != request->number)
            continue;
        MUST_BE(answer.amount, sum);
        return true;
    }
}

static coir_udp *open_one(void)
{
    coir_udp *udp;
    while (passing(coir_udp_open("0.0.0.0:0", "server:7000", &udp)) < 0)
        coir_sleep_for(COIR_MS);
    return udp;
}

/* Sends until an answer comes, sometimes from another port. */
static void request_it(coir_udp **udp, struct message *message, int64_t sum)
{
    for (;;) {
        passing(coir_udp_send(*udp, message, message->len));
        if (hear_answer(*udp, message, sum))
            return;
        if (below(8) == 0) {
            coir_udp_close(*udp);
            *udp = open_one();
        }
    }
}

static int be_a_client(void *arg)
{
    struct message message = {.client = (uint32_t)(intptr_t)arg};
    coir_udp *udp = open_one();
    int64_t sum = 0;
    for (message.number = 1; message.number <= REQUESTS; message.number++) {
        message.amount = (int32_t)below(1000);
        sum += message.amount;
        fill(&message);
        request_it(&udp, &message, sum);
        MUST_BE(w.carried_out[message.client][message.number], 1);
    }
    coir_udp_close(udp);
    w.clients_left--;
    return 0;
}

static void befall(void)
{
    for (uint64_t accidents = below(6); accidents && w.clients_left; accidents--) {
        coir_sim_link(w.sim, NULL, NULL,
                      (coir_link){.latency = (coir_time)below(50) * COIR_MS,
                                  .jitter = (coir_time)below(50) * COIR_MS,
                                  .loss = some(0.7),
                                  .duplicate = some(0.7),
                                  .cut = below(5) == 0});
        coir_sim_faults(w.sim, NULL,
                        (coir_faults){.no_buffers = some(0.3),
                                      .no_memory = some(0.1),
                                      .late = some(0.5),
                                      .no_descriptor = some(0.5)});
        coir_sleep_for((coir_time)below(1000) * COIR_MS);
    }
    coir_sim_link(w.sim, NULL, NULL, (coir_link){.latency = COIR_US});
    coir_sim_faults(w.sim, NULL, (coir_faults){0});
}

static int be_everybody(void *arg)
{
    (void)arg;
    COIR_SCOPE(scope);
    w.clients_left = CLIENTS;
    for (intptr_t i = 0; i < CLIENTS; i++)
        MUST_BE(coir_go(scope, be_a_client, (void *)i), 0);
    while (!w.serving) /* a host that cannot start for want of memory is not what is asked here */
        coir_sleep_for(COIR_MS);
    befall();
    COIR_DEADLINE(coir_in(20 * COIR_S));
    MUST_BE(coir_scope_wait(scope), 0);
    coir_sim_stop(w.sim, w.server);
    return 0;
}

int scenario(coir_sim *sim)
{
    memset(&w, 0, sizeof w);
    w.sim = sim;
    MUST_BE(chaos_configure(sim), 0);
    w.server = coir_sim_host(sim, "server", serve, NULL);
    if (!w.server)
        return -ENOMEM;
    return coir_sim_host_main(sim, "clients", be_everybody, NULL);
}
