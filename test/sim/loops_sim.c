/* TCP with callbacks on loops: a server that sends back what it reads, and clients that queue their
 * writes, on loops of two hosts, while connections break and descriptors run out.
 *
 * What must hold:
 * 1. Each queued write has exactly one outcome, in the order of the queue; none follows a close.
 * 2. A client reads what it has sent, in order; all of it and then the end, unless an error is
 * told.
 * 3. A read or connect that nothing answers ends by its timeout, neither sooner nor later. A read
 * that is cancelled ends, at once and once. Neither loses bytes: the next read goes on behind them.
 * 4. When the world is well again, every visit succeeds.
 * 5. A loop ends when its last socket, acceptor and timer are closed; or it is stopped, and what it
 *    has is closed when it is freed.
 * 6. Acceptors may close each other, and themselves, in their callbacks, while clients connect to
 * all of them at once: a connection that one of them has got by then is closed with it. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <string.h>

#include "sim/bytes.h"
#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { SILENT_MOST = 10 };
static const coir_time patience = 10 * COIR_S;
enum { CLIENTS = 3, CALM_VISITS = 2, WRITES = 5, LEN_MOST = 12000, PEERS = 64 };
enum { RIVALS = 3, KNOCK_ROUNDS = 6 };
static const char *const selectors[] = {"epoll", "poll", "io_uring"};
static const char *const rival_addresses[] = {"10.0.0.1:8", "10.0.0.1:9", "10.0.0.1:10"};

struct queued {
    coir_queued_write write;
    struct client *client;
    size_t number;
};

struct client {
    coir_loop *loop;
    coir_timer pause;
    coir_socket *socket;
    unsigned number;
    int visits, calm_visits;
    struct queued writes[WRITES + 1];
    size_t len, sent, heard, queued, told;
    bool closed, cancels, cancelled; /* the read that is in progress */
    coir_time timeout, read_since, heard_at, cancelled_at;
    coir_timer prod;
    char out[LEN_MOST], in[700];
};

/* What the server has of a connection. */
struct peer {
    coir_queued_write write;
    coir_socket *socket; /* NULL: free */
    char bytes[900];
};

/* A client's connection to an acceptor that others may close. */
struct knock {
    coir_socket *socket;
    char byte;
};

static struct {
    coir_sim *sim;
    coir_host *clients;
    coir_acceptor *acceptor, *rivals[RIVALS];
    coir_timer look, retry, reopen, knocking;
    struct knock knocks[RIVALS];
    uint64_t knock_rounds;
    int knocks_left;
    struct peer peers[PEERS];
    int silent;
    struct client table[CLIENTS];
    bool recovers, well, over;
} w;

static int open_loop(coir_loop **ret_loop)
{
    coir_loop_options options = COIR_LOOP_OPTIONS;
    options.driver = selectors[below(3)];
    return below(3) ? coir_loop_new_with(&options, ret_loop) : coir_loop_new(ret_loop);
}

static void passing(int rc)
{
    MUST(rc == -ECONNRESET || rc == -EPIPE || rc == -ECONNREFUSED || rc == -ETIMEDOUT ||
         rc == -EMFILE || rc == -ENFILE || rc == -ENOBUFS || rc == -ECANCELED ||
         rc == -ECONNABORTED || rc == -COIR_EEND);
}

/* ---- the server ---- */

static void on_bytes(coir_socket *socket, ssize_t n, void *arg);

static void drop(struct peer *peer)
{
    coir_socket *socket = peer->socket;
    peer->socket = NULL;
    coir_socket_close(socket);
}

/* Some connections are kept, and nothing is read from them any more. */
static void go_on(struct peer *peer)
{
    if (!w.recovers && w.silent < SILENT_MOST && below(40) == 0) {
        w.silent++;
        return;
    }
    if (coir_socket_read(peer->socket, peer->bytes, 1 + below(sizeof peer->bytes), on_bytes, peer) <
        0)
        drop(peer);
}

static void on_sent_back(coir_socket *socket, coir_queued_write *write, int result, void *arg)
{
    struct peer *peer = arg;
    MUST(write == &peer->write);
    if (!peer->socket)
        return; /* closed: told of by the close */
    MUST(socket == peer->socket);
    if (result < 0)
        drop(peer);
    else
        go_on(peer);
}

static void on_end_sent(coir_socket *socket, coir_queued_write *write, int result, void *arg)
{
    struct peer *peer = arg;
    (void)socket, (void)write, (void)result;
    if (peer->socket)
        drop(peer);
}

static void on_bytes(coir_socket *socket, ssize_t n, void *arg)
{
    struct peer *peer = arg;
    int rc = (int)n;
    if (n > 0)
        rc = coir_socket_write(socket, &peer->write, peer->bytes, (size_t)n, on_sent_back, peer);
    else if (n == 0)
        rc = coir_socket_shutdown_write(socket, &peer->write, on_end_sent, peer);
    if (rc < 0) {
        passing(rc);
        drop(peer);
    }
}

static void on_connection(coir_acceptor *acceptor, coir_socket *socket, int result, void *arg)
{
    char text[60];
    (void)acceptor, (void)arg;
    if (!socket) {
        passing(result);
        return;
    }
    struct peer *peer = w.peers;
    while (peer < w.peers + PEERS && peer->socket)
        peer++;
    if (peer == w.peers + PEERS) {
        coir_socket_close(socket);
        return;
    }
    int len = coir_socket_peer(socket, text, sizeof text);
    MUST(len > 0 || len == -ENOTCONN);
    peer->socket = socket;
    MUST_BE(coir_socket_set_timeout(socket, COIR_READ | COIR_WRITE, 20 * COIR_S), 0);
    go_on(peer);
}

/* ---- acceptors that close each other ---- */

static void close_rival(int i)
{
    coir_acceptor *rival = w.rivals[i];
    w.rivals[i] = NULL;
    coir_acceptor_close(rival);
}

static void on_knock(coir_acceptor *acceptor, coir_socket *socket, int result, void *arg)
{
    (void)acceptor, (void)arg;
    if (!socket)
        passing(result);
    coir_socket_close(socket);
    for (int i = 0; i < RIVALS; i++)
        if (below(2))
            close_rival(i);
}

static void open_rivals(coir_loop *loop, coir_timer *timer, void *arg)
{
    for (int i = 0; i < RIVALS; i++) {
        int rc = w.rivals[i] ? 0
                             : coir_acceptor_open(loop, strchr(rival_addresses[i], ':'), on_knock,
                                                  NULL, &w.rivals[i]);
        if (rc < 0)
            passing(rc);
    }
    if (w.knock_rounds)
        coir_timer_start(loop, timer, 1 + (coir_time)below(50 * COIR_MS), open_rivals, arg);
}

static void end_rivals(coir_loop *loop)
{
    coir_timer_stop(loop, &w.reopen);
    for (int i = 0; i < RIVALS; i++)
        close_rival(i);
}

static void look_whether_over(coir_loop *loop, coir_timer *timer, void *arg)
{
    if (!w.over) {
        coir_timer_start(loop, timer, 100 * COIR_MS, look_whether_over, arg);
        return;
    }
    if (below(2)) {
        coir_loop_stop(loop);
        return;
    }
    coir_acceptor_close(w.acceptor);
    end_rivals(loop);
    for (struct peer *peer = w.peers; peer < w.peers + PEERS; peer++)
        if (peer->socket)
            drop(peer);
}

static void listen_again(coir_loop *loop, coir_timer *timer, void *arg)
{
    char text[60];
    int rc = coir_acceptor_open(loop, "0.0.0.0:7", on_connection, NULL, &w.acceptor);
    if (rc < 0) {
        passing(rc);
        coir_timer_start(loop, timer, 10 * COIR_MS, listen_again, arg);
        return;
    }
    MUST(coir_acceptor_local(w.acceptor, text, sizeof text) > 0);
    coir_timer_start(loop, &w.look, COIR_MS, look_whether_over, NULL);
}

static int run_server(void *arg)
{
    coir_loop *loop;
    (void)arg;
    while (open_loop(&loop) < 0)
        continue;
    listen_again(loop, &w.retry, NULL);
    if (w.knock_rounds)
        open_rivals(loop, &w.reopen, NULL);
    MUST_BE(coir_loop_run(loop), 0); /* 5 */
    coir_loop_free(loop);
    return 0;
}

/* ---- clients ---- */

static void visit(coir_loop *loop, coir_timer *timer, void *arg);

/* What is still queued is told of by the close. */
static void end_visit(struct client *client, int rc)
{
    bool calm = w.well;
    if (rc < 0)
        passing(rc);
    client->closed = true;
    coir_timer_stop(client->loop, &client->prod);
    coir_socket_close(client->socket);
    MUST_BE(client->told, client->queued); /* 1 */
    client->calm_visits += calm;
    if (client->calm_visits < CALM_VISITS)
        coir_timer_start(client->loop, &client->pause,
                         (coir_time)below(w.recovers && !w.well ? 10000 : 500) * COIR_MS, visit,
                         client);
}

static void on_echo(coir_socket *socket, ssize_t n, void *arg);

static int read_on(struct client *client, size_t most)
{
    client->cancelled = false;
    client->read_since = coir_now();
    return coir_socket_read(client->socket, client->in, 1 + below(most), on_echo, client);
}

/* A read that came to nothing. Returns whether the visit goes on. */
static bool is_read_again(struct client *client, ssize_t n)
{
    MUST(n != -ECANCELED || client->cancelled); /* 3 */
    MUST(n != -ETIMEDOUT || coir_now() >= client->read_since + client->timeout);
    bool is_silent = coir_now() > client->heard_at + patience;
    return !is_silent && (n == -ECANCELED || (n == -ETIMEDOUT && client->timeout < patience));
}

static void cancel_at_times(coir_loop *loop, coir_timer *timer, void *arg)
{
    struct client *client = arg;
    MUST(!client->cancelled || coir_now() < client->cancelled_at + 100 * COIR_MS); /* 3 */
    if (!client->cancelled)
        client->cancelled_at = coir_now();
    client->cancelled = true;
    coir_socket_cancel_read(client->socket);
    coir_timer_start(loop, timer, 1 + (coir_time)below(20 * COIR_MS), cancel_at_times, client);
}

static void on_echo(coir_socket *socket, ssize_t n, void *arg)
{
    struct client *client = arg;
    int rc = (int)n;
    MUST(!client->closed && socket == client->socket);
    MUST(coir_now() <= client->read_since + patience + COIR_S); /* 3 */
    if (is_read_again(client, n)) {
        rc = read_on(client, sizeof client->in);
        n = 1;
    } else if (n > 0) {
        MUST((size_t)n <= client->sent - client->heard &&
             bytes_are(client->in, client->number, client->heard, (size_t)n)); /* 2 */
        client->heard += (size_t)n;
        client->heard_at = coir_now();
        rc = read_on(client, sizeof client->in);
    }
    if (n == 0 && client->heard < client->len)
        rc = -COIR_EEND;
    MUST(rc >= 0 || client->calm_visits == 0 || !w.well); /* 4 */
    if (rc < 0 || n == 0)
        end_visit(client, rc);
}

static void on_written(coir_socket *socket, coir_queued_write *write, int result, void *arg)
{
    struct queued *queued = arg;
    struct client *client = queued->client;
    MUST(write == &queued->write && queued->number == client->told); /* 1 */
    MUST(result == 0 || client->calm_visits == 0 || client->closed);
    client->told++;
    if (!client->closed && below(50) == 0 && !w.well)
        end_visit(client, -ECANCELED);
    (void)socket;
}

/* In pieces, and then the end. */
static int queue_all(struct client *client)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i <= WRITES; i++) {
        struct queued *queued = &client->writes[i];
        size_t rest = client->len - client->sent, n = i + 1 < WRITES ? below(rest + 1) : rest;
        *queued = (struct queued){.client = client, .number = i};
        rc = i == WRITES
                 ? coir_socket_shutdown_write(client->socket, &queued->write, on_written, queued)
                 : coir_socket_write(client->socket, &queued->write, client->out + client->sent, n,
                                     on_written, queued);
        client->queued += rc == 0;
        client->sent += rc == 0 && i < WRITES ? n : 0;
    }
    MUST(coir_socket_queued(client->socket) <= client->len);
    return rc;
}

static void on_connected(coir_socket *socket, ssize_t result, void *arg)
{
    struct client *client = arg;
    char text[60];
    MUST(!client->closed && socket == client->socket);
    MUST(result == 0 || client->calm_visits == 0 || !w.well); /* 4 */
    if (result < 0) {
        end_visit(client, (int)result);
        return;
    }
    MUST(coir_socket_local(socket, text, sizeof text) > 0);
    coir_socket_set_option(socket, COIR_TCP_RESET_ON_CLOSE, (int)below(2));
}

static void visit(coir_loop *loop, coir_timer *timer, void *arg)
{
    struct client *client = arg;
    client->len = below(LEN_MOST);
    client->sent = client->heard = client->queued = client->told = 0;
    client->closed = false;
    client->cancels = below(3) == 0;
    client->timeout = below(3) ? patience : 1 + (coir_time)below(20 * COIR_MS);
    bytes_make(client->out, client->number, 0, client->len);
    int rc = coir_socket_connect(loop, "10.0.0.1:7", on_connected, client, &client->socket);
    if (rc < 0) {
        passing(rc);
        coir_timer_start(loop, timer, 10 * COIR_MS, visit, client);
        return;
    }
    MUST_BE(coir_socket_set_timeout(client->socket, COIR_READ, client->timeout), 0);
    MUST_BE(coir_socket_set_timeout(client->socket, COIR_WRITE, patience), 0); /* 3 */
    rc = queue_all(client);
    if (rc == 0)
        rc = read_on(client, sizeof client->in);
    client->heard_at = coir_now();
    if (rc == 0 && client->cancels)
        coir_timer_start(loop, &client->prod, 1, cancel_at_times, client);
    if (rc < 0)
        end_visit(client, rc);
}

static void on_knock_ended(coir_socket *socket, ssize_t n, void *arg)
{
    struct knock *knock = arg;
    MUST(n <= 0 && socket == knock->socket);
    passing(n ? (int)n : -COIR_EEND);
    coir_socket_close(socket);
    w.knocks_left--;
}

static void on_knock_connected(coir_socket *socket, ssize_t result, void *arg)
{
    struct knock *knock = arg;
    MUST(socket == knock->socket);
    int rc =
        result < 0 ? (int)result : coir_socket_read(socket, &knock->byte, 1, on_knock_ended, arg);
    if (rc < 0)
        on_knock_ended(socket, rc, arg);
}

static void knock_at_one(coir_loop *loop, int i)
{
    struct knock *knock = &w.knocks[i];
    int rc =
        coir_socket_connect(loop, rival_addresses[i], on_knock_connected, knock, &knock->socket);
    if (rc < 0) {
        passing(rc);
        return;
    }
    w.knocks_left++;
    MUST_BE(coir_socket_set_timeout(knock->socket, COIR_READ, patience), 0);
}

static void knock_at_all(coir_loop *loop, coir_timer *timer, void *arg)
{
    for (int i = 0, before = w.knocks_left; i < RIVALS && !before; i++)
        knock_at_one(loop, i);
    if (--w.knock_rounds)
        coir_timer_start(loop, timer, (coir_time)below(100 * COIR_MS), knock_at_all, arg);
}

static int run_clients(void *arg)
{
    coir_loop *loop;
    (void)arg;
    while (open_loop(&loop) < 0)
        continue;
    for (unsigned i = 0; i < CLIENTS; i++) {
        struct client *client = &w.table[i];
        client->loop = loop;
        client->number = i;
        coir_timer_start(loop, &client->pause, (1 + (coir_time)below(10)) * COIR_MS, visit, client);
    }
    if (w.knock_rounds)
        coir_timer_start(loop, &w.knocking, 10 * COIR_MS, knock_at_all, NULL);
    MUST_BE(coir_loop_run(loop), 0); /* 5 */
    coir_loop_free(loop);
    w.over = true;
    return 0;
}

/* ---- the world ---- */

/* Loops are run by plain threads: here, those of the pool. */
static int serve(void *arg)
{
    return coir_offload(run_server, arg);
}

static int be_everybody(void *arg)
{
    return coir_offload(run_clients, arg);
}

static int befall(void *arg)
{
    (void)arg;
    coir_sleep_for((coir_time)below(5000) * COIR_MS);
    coir_sim_faults(w.sim, NULL, (coir_faults){0});
    coir_sim_link(w.sim, NULL, NULL, (coir_link){.latency = COIR_MS});
    w.recovers = true;
    coir_sleep_for(30 * COIR_S); /* what was broken ends */
    w.well = true;
    COIR_DEADLINE(coir_in(600 * COIR_S));
    coir_time pause = 0;
    while (!coir_host_is_down(w.clients))
        MUST_BE(chaos_pause(&pause), 0);
    return 0;
}

int scenario(coir_sim *sim)
{
    if (!posix_has_kernel())
        return -ENOTSUP;
    memset(&w, 0, sizeof w);
    w.sim = sim;
    w.knock_rounds = below(KNOCK_ROUNDS);
    MUST_BE(chaos_configure(sim), 0);
    if (!coir_sim_host(sim, "server", serve, NULL) ||
        !(w.clients = coir_sim_host(sim, "clients", be_everybody, NULL)))
        return -ENOMEM;
    coir_sim_link(sim, NULL, NULL,
                  (coir_link){.latency = (coir_time)below(2000) * COIR_US,
                              .loss = some(0.1),
                              .reset = some(0.01),
                              .short_io = some(0.7)});
    coir_sim_faults(sim, NULL, (coir_faults){.late = some(0.5), .no_descriptor = some(0.05)});
    return coir_sim_host_main(sim, "fate", befall, NULL);
}
