/* Several tasks at one end of a connection, in memory, over TCP or under a filter, whose peer takes
 * nothing and says nothing: they read, write, wait for either or for a hang-up, or have a write
 * queue. Then something happens to the end.
 *
 * What must hold:
 * 1. Whoever waits for what has happened is told, soon, with the right result; nobody else is.
 * 2. Each buffer of a queue has one outcome; the function of the last one may free the queue.
 * 3. The peer of an end that was closed, or writes no more, reads up to that, and hears of it.
 * 4. A limit of the peer's time holds for a queue at once, and for others from their next wait on:
 *    a call ends with -ETIMEDOUT when the account is used up, neither sooner nor later. */
#include <coir.h>
#include <coir/filter.h>
#include <coir/sim.h>
#include <coir/write_queue.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum {
    PLAYERS = 2,
    ACTS = 3,
    HANG_UPS_MOST = 2,
    ITEMS = 3,
    KEPT_MOST = 10,
    PORT = 7000,
    READS_MOST = 20
};
static const coir_time just = 5 * COIR_MS, soon = 5 * COIR_S, patience = 100 * COIR_S;
static char nothing[4096];

enum role { READS, WAITS_TO_READ, WRITES, WAITS_TO_WRITE, WAITS_FOR_THE_END, WAITERS_MOST = 6 };

struct waiter {
    struct end *end;
    enum role role;
    int64_t result;
    bool ended;
};

/* A filter that passes bytes on, and keeps some of those that are written. */
struct veil {
    coir_stream *transport;
    size_t kept;
    int error; /* flush's */
    bool ends;
};

enum happening { NOTHING, CLOSED, SHUT, PEER_READS, PEER_CLOSES, LIMITED, OVERRUN, FAILED };

struct end {
    coir_stream *stream, *far; /* NULL: closed */
    coir_write_queue *queue;   /* NULL: none, or freed */
    bool is_tcp, has_queue, frees_queue;
    struct veil *veil; /* NULL: no filter. The filter frees it */
    int pushed, told, outcome;
    struct waiter waiters[WAITERS_MOST];
    int count;
};

/* ---- a filter ---- */

static ssize_t veil_read(void *buf, size_t len, int *events, void *arg)
{
    (void)events;
    return coir_try_read(((struct veil *)arg)->transport, buf, len);
}

static ssize_t veil_write(const void *buf, size_t len, int *events, void *arg)
{
    struct veil *veil = arg;
    (void)buf, (void)events;
    if (veil->kept == KEPT_MOST)
        return -EAGAIN;
    if (len > KEPT_MOST - veil->kept)
        len = KEPT_MOST - veil->kept;
    veil->kept += len;
    return (ssize_t)len;
}

static int veil_flush(void *arg)
{
    struct veil *veil = arg;
    while (veil->kept) {
        ssize_t n = coir_try_write(veil->transport, nothing, veil->kept);
        if (n < 0)
            return (int)n;
        if (veil->error)
            return veil->error;
        veil->kept -= (size_t)n;
    }
    return veil->ends ? coir_shutdown_write(veil->transport) : 0;
}

/* Nothing is ever sent to the end of a filter. */
static bool veil_readable(int *events, void *arg)
{
    (void)events, (void)arg;
    return false;
}

static int veil_end(void *arg)
{
    ((struct veil *)arg)->ends = true;
    return 0;
}

static const coir_filter_kind veils =
    COIR_FILTER_KIND(veil_read, veil_write, veil_flush, veil_readable, veil_end, free);

static void put_veil(struct end *end)
{
    MUST((end->veil = calloc(1, sizeof *end->veil)));
    end->veil->transport = end->stream;
    MUST_BE(coir_filter_new(&veils, end->veil, end->stream, &end->stream), 0);
}

/* ---- the end ---- */

static void connect_end(struct end *end, int player)
{
    char address[32];
    coir_listener *listener;
    if (!end->is_tcp) {
        MUST_BE(coir_duplex(1 + below(100), &end->stream, &end->far), 0);
        return;
    }
    snprintf(address, sizeof address, "127.0.0.1:%d", PORT + player);
    MUST_BE(coir_tcp_listen(address, &listener), 0);
    MUST_BE(coir_tcp_connect(address, &end->stream), 0);
    MUST_BE(coir_accept(listener, &end->far), 0);
    coir_listener_close(listener);
}

/* What is written to a socket goes on to the peer's for a while. */
static void fill(struct end *end)
{
    for (int vain = 0; vain < (end->is_tcp ? 4 : 1); vain++) {
        while (coir_try_write(end->stream, nothing, sizeof nothing) > 0)
            vain = 0;
        if (end->is_tcp)
            MUST_BE(coir_sleep_for(just), 0);
    }
}

static void on_outcome(coir_buffer *buffer, int result, void *arg)
{
    struct end *end = arg;
    (void)buffer;
    MUST(end->told < end->pushed);
    MUST(!end->told || result == end->outcome);
    end->outcome = result;
    if (++end->told == end->pushed && end->frees_queue) {
        coir_write_queue *queue = end->queue;
        end->queue = NULL;
        coir_write_queue_free(queue);
    }
}

static int push(struct end *end)
{
    coir_buffer *buffer;
    MUST_BE(coir_buffer_new(nothing, 1 + below(20), &buffer), 0);
    end->pushed++;
    int rc = coir_write_queue_try_push(end->queue, buffer);
    end->pushed -= rc < 0;
    coir_buffer_unref(buffer);
    return rc;
}

static void add_queue(struct end *end, enum happening what)
{
    coir_write_queue_options options = COIR_WRITE_QUEUE_OPTIONS;
    options.overflow = what == OVERRUN ? COIR_OVERFLOW_CLOSE : COIR_OVERFLOW_WAIT;
    options.items_max = ITEMS;
    options.on_outcome = on_outcome;
    options.arg = end;
    end->frees_queue = what != OVERRUN && below(2);
    MUST_BE(coir_write_queue_new_with(end->stream, &options, &end->queue), 0);
    for (uint64_t items = 1 + below(ITEMS); items; items--)
        MUST_BE(push(end), 0);
}

/* ---- those who wait ---- */

static int64_t call(coir_stream *stream, enum role role)
{
    char byte;
    switch (role) {
    case READS: return coir_read(stream, &byte, 1);
    case WAITS_TO_READ: return coir_stream_wait(stream, COIR_READ);
    case WRITES: return coir_write(stream, nothing, 1);
    case WAITS_TO_WRITE: return coir_stream_wait(stream, COIR_WRITE);
    default: return coir_stream_wait(stream, 0);
    }
}

/* The same, by a call that may make several operations. */
static int64_t call_for_all(coir_stream *stream, enum role role)
{
    char byte;
    if (role == WRITES) {
        int rc = coir_write_all(stream, nothing, 1);
        return rc < 0 ? rc : 1;
    }
    if (role != READS)
        return call(stream, role);
    ssize_t n = coir_read_full(stream, &byte, 1, NULL);
    return n == -COIR_EEND ? 0 : n;
}

static coir_future *future_of(coir_io_op *op, coir_stream *stream, enum role role, char *byte)
{
    switch (role) {
    case READS: return coir_read_op(op, stream, byte, 1);
    case WAITS_TO_READ: return coir_stream_wait_op(op, stream, COIR_READ);
    case WRITES: return coir_write_op(op, stream, nothing, 1);
    case WAITS_TO_WRITE: return coir_stream_wait_op(op, stream, COIR_WRITE);
    default: return coir_stream_wait_op(op, stream, 0);
    }
}

/* By a call, or by a future that is awaited, alone or beside one that never completes. */
static int64_t wait_for(coir_stream *stream, enum role role)
{
    coir_io_op op;
    coir_sleep_op sleep;
    char byte;
    uint64_t way = below(4);
    if (way == 0)
        return call(stream, role);
    if (way == 3)
        return call_for_all(stream, role);
    coir_future *future = future_of(&op, stream, role, &byte);
    if (way == 1)
        return coir_await(future);
    coir_branch branches[] = {COIR_BRANCH(future),
                              COIR_BRANCH(coir_sleep_until_op(&sleep, COIR_NEVER))};
    int rc = coir_any(branches, 2);
    return rc < 0 ? rc : op.future.result;
}

static int be_a_waiter(void *arg)
{
    struct waiter *waiter = arg;
    waiter->result = wait_for(waiter->end->stream, waiter->role);
    waiter->ended = true;
    return 0;
}

static void add_waiter(struct end *end, coir_scope *scope, enum role role)
{
    struct waiter *waiter = &end->waiters[end->count++];
    *waiter = (struct waiter){.end = end, .role = role};
    MUST_BE(coir_go(scope, be_a_waiter, waiter), 0);
}

static void add_waiters(struct end *end, coir_scope *scope)
{
    if (below(2))
        add_waiter(end, scope, below(2) ? READS : WAITS_TO_READ);
    if (!end->has_queue && below(4))
        add_waiter(end, scope, below(2) ? WRITES : WAITS_TO_WRITE);
    for (uint64_t n = below(HANG_UPS_MOST + 1); n; n--)
        add_waiter(end, scope, WAITS_FOR_THE_END);
    MUST_BE(coir_sleep_for(just), 0); /* all of them wait, and the queue does */
    for (int i = 0; i < end->count; i++)
        MUST(!end->waiters[i].ended);
    MUST_BE(end->told, 0);
}

/* ---- what happens ---- */

/* What may happen to this end, with a result that is known. */
static bool can_happen(const struct end *end, enum happening what)
{
    switch (what) {
    case SHUT: return !end->veil;
    case PEER_READS: return !end->is_tcp;                /* room is made when the system says */
    case PEER_CLOSES: return !end->veil && !end->is_tcp; /* with bytes unread that is a reset */
    case LIMITED:
    case OVERRUN: return end->has_queue;
    case FAILED: return end->veil && !end->is_tcp;
    default: return true;
    }
}

static void drain(struct end *end)
{
    char bytes[1000];
    for (int i = 0; i < 2; i++) {
        while (coir_try_read(end->far, bytes, sizeof bytes) > 0)
            continue;
        MUST_BE(coir_sleep_for(just), 0);
    }
}

static void limit(struct end *end)
{
    coir_time most = COIR_MS + (coir_time)below(COIR_S);
    int told = end->told;
    if (below(2)) { /* which is replaced */
        MUST_BE(coir_stream_set_timeout(end->stream, COIR_WRITE, most, 0), 0);
        MUST_BE(coir_sleep_for(most / 2), 0);
        MUST_BE(coir_stream_set_timeout(end->stream, COIR_WRITE, COIR_NEVER, 0), 0);
        MUST_BE(coir_sleep_for(most), 0);
    }
    MUST_BE(coir_stream_set_timeout(end->stream, COIR_WRITE, most, 0), 0);
    MUST_BE(coir_sleep_for(most - COIR_MS / 2), 0);
    MUST_BE(end->told, told);
}

static void let_happen(struct end *end, enum happening what)
{
    switch (what) {
    case NOTHING: return;
    case CLOSED:
        coir_close(end->stream);
        end->stream = NULL;
        return;
    case SHUT: MUST_BE(coir_shutdown_write(end->stream), 0); return;
    case PEER_READS: drain(end); return;
    case PEER_CLOSES:
        coir_close(end->far);
        end->far = NULL;
        return;
    case LIMITED: limit(end); return;
    case OVERRUN:
        while (push(end) == 0)
            continue;
        return;
    case FAILED:
        end->veil->error = -EPROTO;
        drain(end);
        return;
    }
}

enum { GOES_ON = 1000 };

/* The result of who waits, or GOES_ON. */
static int64_t result_of(enum happening what, enum role role)
{
    bool is_wait = role == WAITS_TO_WRITE || role == WAITS_TO_READ,
         writes = role == WRITES || role == WAITS_TO_WRITE;
    int event = writes ? COIR_WRITE : COIR_READ;
    switch (what) {
    case CLOSED: return -ECANCELED;
    case SHUT: return !writes ? GOES_ON : is_wait ? event : -EPIPE;
    case PEER_READS: return !writes ? GOES_ON : is_wait ? event : 1;
    case PEER_CLOSES:
        return role == WAITS_FOR_THE_END ? COIR_HANGUP
               : is_wait                 ? event | COIR_HANGUP
               : writes                  ? -EPIPE
                                         : 0;
    case LIMITED:
    case OVERRUN: return -ECONNABORTED;
    case FAILED: return !writes ? GOES_ON : is_wait ? event : -EPROTO;
    case NOTHING: break;
    }
    return GOES_ON;
}

static int outcome_of(enum happening what)
{
    switch (what) {
    case CLOSED: return -ECANCELED;
    case SHUT:
    case PEER_CLOSES: return -EPIPE;
    case PEER_READS: return 0;
    case LIMITED: return -ETIMEDOUT;
    case OVERRUN: return -COIR_EFULL;
    case FAILED: return -EPROTO;
    case NOTHING: break;
    }
    return GOES_ON;
}

static void check(const struct end *end, enum happening what)
{
    for (int i = 0; i < end->count; i++) { /* 1 */
        const struct waiter *waiter = &end->waiters[i];
        int64_t result = result_of(what, waiter->role);
        MUST_BE(waiter->ended, result != GOES_ON);
        if (waiter->ended)
            MUST_BE(waiter->result, result);
    }
    if (outcome_of(what) == GOES_ON) /* 2 */
        MUST_BE(end->told, 0);
    else
        MUST(end->told == end->pushed && (!end->pushed || end->outcome == outcome_of(what)));
    MUST(!end->frees_queue || !end->queue || end->told < end->pushed);
}

static void hear_of_the_end(const struct end *end) /* 3 */
{
    char bytes[1000];
    ssize_t n;
    COIR_DEADLINE(coir_in(soon));
    while ((n = coir_read(end->far, bytes, sizeof bytes)) > 0)
        continue;
    MUST_BE(n, 0);
}

static void end_all(struct end *end, coir_scope *scope)
{
    coir_scope_cancel(scope);
    MUST_BE(coir_scope_wait(scope), 0);
    for (int i = 0; i < end->count; i++)
        MUST(end->waiters[i].ended);
    end->frees_queue = false;
    coir_write_queue_free(end->queue);
    MUST_BE(end->told, end->pushed);
    coir_close(end->stream);
    coir_close(end->far);
}

static void use_end(int player)
{
    struct end end = {.is_tcp = below(4) == 0, .has_queue = below(2)};
    enum happening what;
    COIR_SCOPE(scope);
    connect_end(&end, player);
    fill(&end);
    if (below(3) == 0)
        put_veil(&end);
    if (below(3) == 0) /* that is not used up */
        MUST_BE(coir_stream_set_timeout(end.stream, COIR_READ | COIR_WRITE, patience, 0), 0);
    do
        what = (enum happening)below(FAILED + 1);
    while (!can_happen(&end, what));
    fill(&end);
    if (end.has_queue)
        add_queue(&end, what);
    add_waiters(&end, scope);
    if (end.is_tcp && !end.veil && (end.count || end.has_queue))
        MUST_BE(coir_stream_detach(end.stream), -EBUSY);
    let_happen(&end, what);
    MUST_BE(coir_sleep_for(just), 0);
    check(&end, what);
    if ((what == CLOSED || what == SHUT) && !end.veil)
        hear_of_the_end(&end);
    end_all(&end, scope);
}

/* ---- the account of a limit that is changed while a task waits ---- */

struct account {
    coir_stream *stream, *far;
    coir_time limit, behind, set_at;
    size_t rate;
    bool over;
};

static int send_now_and_then(void *arg)
{
    const struct account *account = arg;
    while (!account->over) {
        MUST_BE(coir_sleep_for((coir_time)below(8 * COIR_MS)), 0);
        MUST(coir_try_write(account->far, nothing, 1 + below(12)) != 0);
    }
    return 0;
}

static void set_limit(struct account *account)
{
    account->limit = below(5) ? 2 * COIR_MS + (coir_time)below(20 * COIR_MS) : COIR_NEVER;
    account->rate = below(2) ? 0 : 100 + below(1900);
    account->behind = 0;
    account->set_at = coir_now();
    MUST_BE(coir_stream_set_timeout(account->stream, COIR_READ, account->limit, account->rate), 0);
}

static int change_limit(void *arg)
{
    struct account *account = arg;
    while (!account->over) {
        MUST_BE(coir_sleep_for((coir_time)below(40 * COIR_MS)), 0);
        set_limit(account);
    }
    return 0;
}

static ssize_t read_or_wait(const struct account *account, bool reads)
{
    char bytes[8];
    COIR_DEADLINE(below(2) ? COIR_NEVER : coir_in((coir_time)below(15 * COIR_MS)));
    return reads ? coir_read(account->stream, bytes, 1 + below(sizeof bytes))
                 : coir_stream_wait(account->stream, COIR_READ);
}

static void read_in_time(struct account *account)
{
    bool reads = below(2), is_limited = account->limit != COIR_NEVER;
    coir_time begin = coir_now(), left = account->limit - account->behind;
    ssize_t n = read_or_wait(account, reads);
    coir_time end = coir_now(), since = account->set_at > begin ? account->set_at : begin;
    MUST(n > 0 || n == -ETIME || (n == -ETIMEDOUT && is_limited));
    if (is_limited) { /* 4 */
        MUST(end - begin <= left + just || end - begin <= just);
        MUST(n != -ETIMEDOUT || end - begin >= left - COIR_MS);
        account->behind += end - since;
    }
    coir_time earned = n <= 0 || !reads ? 0
                       : account->rate  ? n * COIR_S / (coir_time)account->rate
                                        : account->behind;
    account->behind -= earned < account->behind ? earned : account->behind;
}

static void use_account(void)
{
    struct account account = {.over = false};
    COIR_SCOPE(scope);
    MUST_BE(coir_duplex(0, &account.stream, &account.far), 0);
    set_limit(&account);
    MUST_BE(coir_go(scope, send_now_and_then, &account), 0);
    MUST_BE(coir_go(scope, change_limit, &account), 0);
    for (uint64_t reads = below(READS_MOST); reads; reads--)
        read_in_time(&account);
    account.over = true;
    MUST_BE(coir_scope_wait(scope), 0);
    coir_close(account.stream);
    coir_close(account.far);
}

/* ---- all of it ---- */

static int play(void *arg)
{
    const int *player = arg;
    for (int i = 0; i < ACTS; i++)
        if (below(4))
            use_end(*player);
        else
            use_account();
    return 0;
}

static int be_everybody(void *arg)
{
    static int numbers[PLAYERS];
    (void)arg;
    COIR_DEADLINE(coir_in(patience));
    COIR_SCOPE(scope);
    for (int i = 0; i < PLAYERS; i++) {
        numbers[i] = i;
        MUST_BE(coir_go_anywhere(scope, play, &numbers[i]), 0);
    }
    return coir_scope_wait(scope);
}

int scenario(coir_sim *sim)
{
    MUST_BE(chaos_configure(sim), 0);
    return coir_sim_host_main(sim, "host", be_everybody, NULL);
}
