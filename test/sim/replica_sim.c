/* A register that is replicated: a fixed leader appends each write to its log in a file, syncs it,
 * sends it to two followers over TCP, and acknowledges it when one of them has synced it too. All
 * of them lose their power again and again, links are cut, disks fail.
 *
 * What must hold:
 * 1. The history of the clients is linearizable; a write whose answer was lost may have taken
 * effect.
 * 2. Nothing that was acknowledged is missing from the leader's log when it comes back, nor, at the
 *    end, from both followers' logs.
 * 3. When the faults are over every request is answered within `patience`. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/models.h"
#include "sim/must.h"
#include "sim/scenario.h"
#include "sim/sync_names.h"

enum { NODES = 3, CLIENTS = 3, OPS = 10, RECORDS_MOST = 200, ACCIDENTS = 6 };
static const coir_time patience = 30 * COIR_S;

struct record {
    uint64_t index, hash;
    int64_t value;
};

/* What a node has in memory; its host is down before the next one under its name begins. */
struct node {
    int number;
    char name[8];
    coir_host *host;
    coir_file *file;
    struct record log[RECORDS_MOST];
    uint64_t count;
    /* of the leader */
    uint64_t acknowledged[NODES], committed, barrier; /* before that nothing is read */
    coir_latest *changes;
    coir_mutex appending;
    coir_event broken;
};

struct request {
    int64_t writes, value;
};

static struct {
    coir_sim *sim;
    struct node nodes[NODES];
    int64_t acked[RECORDS_MOST]; /* what clients were told, by index; 0: nothing */
    struct history history;
    int clients_left;
    int64_t last_value;
    bool well;
    coir_event all_well; /* for the clients: `well` is set */
} w;

static uint64_t hash_of(const struct record *record)
{
    return (record->index + 1) * 0x9e3779b97f4a7c15u ^
           (uint64_t)record->value * 0xff51afd7ed558ccdu;
}

/* ---- the log ---- */

static int move_record(struct node *node, struct record *record, uint64_t index, bool writes)
{
    char *bytes = (char *)record;
    for (size_t at = 0; at < sizeof *record;) {
        int64_t offset = (int64_t)(index * sizeof *record + at);
        ssize_t n = writes ? coir_file_write(node->file, bytes + at, sizeof *record - at, offset)
                           : coir_file_read(node->file, bytes + at, sizeof *record - at, offset);
        if (n <= 0)
            return n < 0 ? (int)n : -COIR_EEND;
        at += (size_t)n;
    }
    return 0;
}

/* What is read may be in the system's cache alone: a record whose sync failed before the node began
 * anew. It counts when it has been written and synced once more. Only the last one can be. */
static int make_durable(struct node *node)
{
    if (node->count == 0)
        return 0;
    struct record last = node->log[node->count - 1];
    int rc = move_record(node, &last, node->count - 1, true);
    return rc < 0 ? rc : coir_file_sync(node->file);
}

static int recover(struct node *node)
{
    struct record record;
    int rc = 0;
    for (node->count = 0; node->count < RECORDS_MOST; node->count++) {
        if ((rc = move_record(node, &record, node->count, false)) < 0)
            break;
        if (record.index != node->count || record.hash != hash_of(&record))
            break;
        node->log[node->count] = record;
    }
    return rc < 0 && rc != -COIR_EEND ? rc : make_durable(node);
}

static int append(struct node *node, const struct record *record)
{
    struct record copy = *record;
    int rc = move_record(node, &copy, record->index, true);
    if (rc == 0)
        rc = coir_file_sync(node->file);
    if (rc == 0)
        node->log[node->count++] = *record;
    return rc;
}

/* ---- a follower ---- */

/* One leader at a time: an older connection of it has ended, or will bring nothing new. */
static int follow(coir_stream *stream, void *arg)
{
    struct node *node = arg;
    struct record record;
    int rc = coir_write_all(stream, &node->count, sizeof node->count);
    while (rc == 0) {
        ssize_t n = coir_read_full(stream, &record, sizeof record, NULL);
        if (n < 0 || coir_event_is_set(&node->broken))
            return n < 0 ? (int)n : -EIO;
        MUST(record.hash == hash_of(&record));
        if ((rc = coir_mutex_lock(&node->appending)) < 0)
            break;
        MUST(record.index <= node->count);
        if (record.index == node->count && !coir_event_is_set(&node->broken))
            rc = append(node, &record);
        else
            MUST(node->log[record.index].value == record.value);
        if (rc < 0)
            coir_event_set(&node->broken);
        coir_mutex_unlock(&node->appending);
        if (rc == 0)
            rc = coir_write_all(stream, &node->count, sizeof node->count);
    }
    return rc;
}

/* ---- the leader ---- */

static void commit(struct node *leader)
{
    uint64_t most = leader->acknowledged[1] > leader->acknowledged[2] ? leader->acknowledged[1]
                                                                      : leader->acknowledged[2];
    if (most <= leader->committed)
        return;
    leader->committed = most;
    coir_latest_set(leader->changes, &most);
}

static int wait_for_change(struct node *leader)
{
    uint64_t ignored, version = coir_latest_get(leader->changes, &ignored);
    int rc;
    {
        COIR_DEADLINE(coir_in(w.clients_left ? 100 * COIR_MS : 2 * COIR_S));
        rc = coir_latest_wait(leader->changes, version);
    }
    return rc == -ETIME ? coir_task_interrupted() : rc; /* 0: that was this block's deadline */
}

static int replicate_to(struct node *leader, int number)
{
    char address[20];
    coir_stream *stream;
    snprintf(address, sizeof address, "%s:7001", w.nodes[number].name);
    COIR_DEADLINE(coir_in(60 * COIR_S));
    int rc = coir_tcp_connect(address, &stream);
    if (rc < 0)
        return rc;
    uint64_t has;
    ssize_t n = coir_read_full(stream, &has, sizeof has, NULL);
    while (n > 0 && rc == 0) {
        MUST(has <= leader->count);
        leader->acknowledged[number] = has;
        commit(leader);
        while (rc == 0 && has == leader->count)
            rc = wait_for_change(leader);
        rc = rc < 0 ? rc : coir_write_all(stream, &leader->log[has], sizeof(struct record));
        if (rc == 0)
            n = coir_read_full(stream, &has, sizeof has, NULL);
    }
    coir_close(stream);
    return n < 0 ? (int)n : rc;
}

static int replicate(void *arg)
{
    struct node *node = arg; /* the follower */
    int rc;
    do
        rc = chaos_explains(replicate_to(&w.nodes[0], node->number));
    while (rc != -ECANCELED && coir_sleep_for(20 * COIR_MS) == 0);
    return 0;
}

static int wait_for_commit(struct node *leader, uint64_t count)
{
    int rc = 0;
    while (rc == 0 && leader->committed < count)
        rc = wait_for_change(leader);
    return rc;
}

static int write_value(struct node *leader, int64_t value)
{
    struct record record = {.value = value};
    int rc = coir_mutex_lock(&leader->appending);
    if (rc < 0)
        return rc;
    record.index = leader->count;
    record.hash = hash_of(&record);
    rc = coir_event_is_set(&leader->broken) || leader->count == RECORDS_MOST
             ? -EIO
             : append(leader, &record);
    if (rc < 0)
        coir_event_set(
            &leader->broken); /* what it has written may be there or not: it begins anew */
    coir_mutex_unlock(&leader->appending);
    if (rc == 0)
        coir_latest_set(leader->changes, &leader->committed);
    rc = rc < 0 ? rc : wait_for_commit(leader, record.index + 1);
    if (rc == 0)
        w.acked[record.index] = value;
    return rc;
}

static int lead(coir_stream *stream, void *arg)
{
    struct node *leader = arg;
    struct request request;
    int rc = 0;
    while (rc == 0 && coir_read_full(stream, &request, sizeof request, NULL) > 0) {
        rc = request.writes ? write_value(leader, request.value)
                            : wait_for_commit(leader, leader->barrier);
        if (!request.writes && leader->committed)
            request.value = leader->log[leader->committed - 1].value;
        if (rc == 0)
            rc = coir_write_all(stream, &request, sizeof request);
    }
    return rc;
}

/* ---- a node ---- */

/* Cancels the others. */
static int end_when_broken(void *arg)
{
    struct node *node = arg;
    int rc = coir_event_wait(&node->broken);
    return rc < 0 ? rc : -EIO;
}

static int serve_node(void *arg)
{
    struct node *node = arg;
    return coir_serve_tcp(node->number ? "0.0.0.0:7001" : "0.0.0.0:7000",
                          node->number ? follow : lead, node);
}

static int serve_all(struct node *node)
{
    COIR_SCOPE(scope);
    int rc = coir_go(scope, end_when_broken, node);
    rc = rc < 0 ? rc : coir_go(scope, serve_node, node);
    for (int i = 1; rc == 0 && i < NODES && node->number == 0; i++)
        rc = coir_go(scope, replicate, &w.nodes[i]);
    return rc < 0 ? rc : coir_scope_wait(scope);
}

static int live_once(struct node *node)
{
    uint64_t none = 0;
    memset(node->acknowledged, 0, sizeof node->acknowledged);
    node->committed = 0;
    node->broken = (coir_event)COIR_EVENT_INIT;
    node->appending = (coir_mutex)COIR_MUTEX_INIT;
    int rc = recover(node);
    if (rc < 0)
        return rc;
    for (uint64_t i = 0; i < RECORDS_MOST && node->number == 0; i++)
        MUST(!w.acked[i] || (i < node->count && node->log[i].value == w.acked[i]));
    node->barrier = node->count;
    if ((rc = coir_latest_new(sizeof none, &none, &node->changes)) < 0)
        return rc;
    rc = serve_all(node);
    coir_latest_free(node->changes);
    return rc;
}

static int live(void *arg)
{
    struct node *node = arg;
    int rc;
    do {
        if ((rc = coir_file_open("log", O_RDWR | O_CREAT, 0600, &node->file)) == 0) {
            if ((rc = sync_names()) == 0)
                rc = live_once(node);
            coir_file_close(node->file);
        }
        chaos_explains(rc);
    } while (rc != -ECANCELED && coir_sleep_for(10 * COIR_MS) == 0);
    return 0;
}

/* ---- clients ---- */

/* 0: answered. Afterwards nothing is known of the request, and the connection is closed. */
static int ask(struct request *request)
{
    coir_stream *stream;
    COIR_DEADLINE(coir_in(w.well ? patience : (coir_time)(1 + below(3000)) * COIR_MS));
    int rc = coir_tcp_connect("node0:7000", &stream);
    if (rc < 0)
        return rc;
    rc = coir_write_all(stream, request, sizeof *request);
    ssize_t n = rc < 0 ? rc : coir_read_full(stream, request, sizeof *request, NULL);
    coir_close(stream);
    return n < 0 ? (int)n : 0;
}

static int ask_once(int client)
{
    struct request request = {.writes = (int64_t)below(2)};
    if (request.writes)
        request.value = ++w.last_value;
    int64_t value = request.value;
    uint64_t invoked = history_now();
    int rc = ask(&request);
    if (rc == 0 && request.writes)
        history_add(&w.history, client, REGISTER_WRITE, value, 0, invoked);
    else if (rc == 0)
        history_add(&w.history, client, REGISTER_READ, 0, request.value, invoked);
    else if (value)
        history_add_open(&w.history, client, REGISTER_WRITE, value, invoked);
    return rc;
}

static int be_a_client(void *arg)
{
    int client = (int)(intptr_t)arg;
    for (int i = 0; i < OPS; i++) {
        chaos_explains(ask_once(client));
        coir_sleep_for((coir_time)below(500) * COIR_MS);
    }
    w.clients_left--;
    MUST_BE(coir_event_wait(&w.all_well), 0);
    for (int i = 0; i < 2; i++)
        MUST_BE(ask_once(client), 0);
    return 0;
}

/* ---- fate ---- */

static int start(struct node *node)
{
    return (node->host = coir_sim_host(w.sim, node->name, live, node)) ? 0 : -ENOMEM;
}

static int lose_power(struct node *node)
{
    coir_sim_crash(w.sim, node->host);
    coir_time pause = 0;
    while (!coir_host_is_down(node->host))
        chaos_pause(&pause);
    coir_sleep_for((coir_time)below(1000) * COIR_MS);
    return start(node);
}

static int befall(void)
{
    for (uint64_t accidents = below(ACCIDENTS); accidents && w.clients_left; accidents--) {
        struct node *node = &w.nodes[below(NODES)];
        coir_sleep_for((coir_time)below(2000) * COIR_MS);
        if (below(2) && lose_power(node) < 0)
            return -ENOMEM;
        coir_sim_link(w.sim, node->host, NULL,
                      (coir_link){.latency = (coir_time)below(20) * COIR_MS,
                                  .jitter = (coir_time)below(20) * COIR_MS,
                                  .loss = some(0.3),
                                  .reset = some(0.05),
                                  .cut = below(4) == 0});
        coir_sim_faults(w.sim, w.nodes[below(NODES)].host,
                        (coir_faults){.disk_error = some(0.1),
                                      .disk_short = some(0.5),
                                      .late = some(0.5),
                                      .no_descriptor = some(0.2)});
    }
    coir_sim_link(w.sim, NULL, NULL, (coir_link){.latency = COIR_MS});
    coir_sim_faults(w.sim, NULL, (coir_faults){0});
    coir_sleep_for(90 * COIR_S); /* what retransmits, and waits for what is gone, is over */
    w.well = true;
    coir_event_set(&w.all_well);
    return 0;
}

static int be_everybody(void *arg)
{
    (void)arg;
    COIR_SCOPE(scope);
    w.clients_left = CLIENTS;
    for (intptr_t i = 0; i < CLIENTS; i++)
        MUST_BE(coir_go(scope, be_a_client, (void *)i), 0);
    MUST_BE(befall(), 0);
    MUST_BE(coir_scope_wait(scope), 0);
    for (uint64_t i = 0; i < RECORDS_MOST; i++)
        MUST(!w.acked[i] || i < w.nodes[1].count || i < w.nodes[2].count);
    return 0;
}

static bool is_read(const struct history *history, int64_t value)
{
    for (size_t i = 0; i < history->count; i++)
        if (history->ops[i].kind == REGISTER_READ && history->ops[i].ret == value)
            return true;
    return false;
}

/* Each value is written once. A write without an answer whose value nobody has read may as well
 * have had no effect; with many of them the search has too many orders to try. */
static void leave_out_unseen_writes(struct history *history)
{
    size_t kept = 0;
    for (size_t i = 0; i < history->count; i++)
        if (!history->ops[i].open || is_read(history, history->ops[i].arg))
            history->ops[kept++] = history->ops[i];
    history->count = kept;
}

int scenario(coir_sim *sim)
{
    memset(&w, 0, sizeof w);
    w.sim = sim;
    w.all_well = (coir_event)COIR_EVENT_INIT;
    MUST_BE(chaos_configure(sim), 0);
    history_init(&w.history, &register_model, NULL, "a replicated register");
    for (int i = 0; i < NODES; i++) {
        w.nodes[i].number = i;
        snprintf(w.nodes[i].name, sizeof w.nodes[i].name, "node%d", i);
        if (start(&w.nodes[i]) < 0)
            return -ENOMEM;
    }
    coir_sim_link(sim, NULL, NULL, (coir_link){.latency = (coir_time)below(5) * COIR_MS});
    int rc = coir_sim_host_main(sim, "clients", be_everybody, NULL);
    leave_out_unseen_writes(&w.history);
    history_must_be_linearizable(&w.history);
    return rc;
}
