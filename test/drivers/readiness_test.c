/* What a completion may do: from inside `done` any operation may be cancelled or started, and any
 * descriptor closed or forgotten, the one that is being dispatched included. No operation completes
 * twice, or after it was withdrawn. The memory of an operation that has ended is its owner's at
 * once: here it is overwritten. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/random.h"
#include "env.h"

enum { ACTS = 40, LEN = 24 };

/* An operation, and its memory. */
struct act {
    struct ci_op op;
    bool live;
    void (*then)(void); /* called by `done`, when the operation is over */
    struct iovec iov[2];
    char buf[LEN];
};

static struct act acts[ACTS];
static int ended, withdrawn;
static char flood[1 << 16];

static void overwrite(struct act *act)
{
    act->live = false;
    memset(&act->op, 0xee, sizeof act->op);
    memset(act->iov, 0xee, sizeof act->iov);
    memset(act->buf, 0xee, sizeof act->buf);
}

static void on_done(struct ci_op *op)
{
    struct act *act = ci_container_of(op, struct act, op);
    CHECK(act->live); /* once, and never after it was withdrawn */
    void (*then)(void) = act->then;
    ended++;
    overwrite(act);
    if (then)
        then();
}

/* True: it waits. */
static bool begin(struct act *act, struct ci_op op, void (*then)(void))
{
    CHECK(!act->live);
    act->op = op;
    act->op.done = on_done;
    act->live = true;
    act->then = then;
    if (!ci_driver_start(env.driver, &act->op))
        return true;
    overwrite(act);
    return false;
}

static struct act *free_act(void)
{
    for (int i = 0; i < ACTS; i++)
        if (!acts[i].live)
            return &acts[i];
    return NULL;
}

static void cancel(struct act *act)
{
    if (!act->live || !ci_driver_cancel(env.driver, &act->op))
        return; /* it is over, or `done` will be called */
    CHECK_EQ(act->op.result, -ECANCELED);
    withdrawn++;
    overwrite(act);
}

/* On one descriptor, or on all (-1). */
static int live_on(coir_fd fd)
{
    int count = 0;
    for (int i = 0; i < ACTS; i++)
        count += acts[i].live && (fd < 0 || acts[i].op.fd == fd);
    return count;
}

static void cancel_on(coir_fd fd)
{
    for (int i = 0; i < ACTS; i++)
        if (acts[i].live && (fd < 0 || acts[i].op.fd == fd))
            cancel(&acts[i]);
}

static int no_wait(struct ci_op op)
{
    op.no_wait = true;
    return run(op);
}

static void fill(coir_fd fd)
{
    while (no_wait((struct ci_op){
               .fd = fd, .kind = CI_OP_WRITE, .data = flood, .len = sizeof flood}) > 0)
        continue;
}

/* True: it waits. */
static bool begin_read(coir_fd fd, void (*then)(void))
{
    struct act *act = free_act();
    return begin(act, (struct ci_op){.fd = fd, .kind = CI_OP_READ, .buf = act->buf, .len = LEN},
                 then);
}

/* ---- one reset ends a reader, a writer and a poll ---- */

static void begin_three(coir_fd fd, void (*then)(void))
{
    struct ci_op polling = {.fd = fd, .kind = CI_OP_POLL};
    begin_read(fd, then);
    begin(free_act(),
          (struct ci_op){.fd = fd, .kind = CI_OP_WRITE, .data = flood, .len = sizeof flood}, then);
    begin(free_act(), polling, then);
}

/* The three wait, and each calls `then` when it ends; the connection is reset. */
static void reset_three(void (*then)(void))
{
    ended = withdrawn = 0;
    fill(env.server);
    CHECK(wait_events(env.client, COIR_READ) & COIR_READ); /* unread: closing is a reset */
    begin_three(env.server, then);
    CHECK_EQ(live_on(env.server), 3);
    close_fd(env.client);
    while (live_on(-1))
        pass();
}

static void cancel_everything(void)
{
    cancel_on(-1);
}

CONFORM(inside_done_all_others_are_cancelled)
{
    reset_three(cancel_everything);
    CHECK_EQ(ended + withdrawn, 3);
    close_fd(env.server);
}

static void close_server(void)
{
    if (env.server < 0)
        return;
    coir_fd fd = env.server;
    env.server = -1;
    close_fd(fd);
    CHECK_EQ(live_on(fd), 0); /* inside close */
}

CONFORM(inside_done_the_descriptor_is_closed)
{
    reset_three(close_server);
    CHECK_EQ(ended, 3);
    CHECK_EQ(env.server, -1);
}

static void forget_server(void)
{
    env.driver->kind->forget(env.driver, env.server);
}

CONFORM(inside_done_the_descriptor_is_forgotten)
{
    reset_three(forget_server);
    CHECK_EQ(ended, 3);
    close_fd(env.server);
}

/* A descriptor has one reader, one writer and one poll for hang-ups at most, as a stream does. */
static int role_of(const struct ci_op *op)
{
    switch (op->kind) {
    case CI_OP_WRITE: return 1;
    case CI_OP_POLL: return op->events & COIR_READ ? 0 : op->events & COIR_WRITE ? 1 : 2;
    default: return 0;
    }
}

static bool role_is_taken(const struct ci_op *op)
{
    for (int i = 0; i < ACTS; i++)
        if (acts[i].live && acts[i].op.fd == op->fd && role_of(&acts[i].op) == role_of(op))
            return true;
    return false;
}

static int again;

static void start_again(void)
{
    struct ci_op reading = {.fd = env.server, .kind = CI_OP_READ};
    while (again++ < 20 && !role_is_taken(&reading) && !begin_read(env.server, start_again))
        continue;
}

CONFORM(inside_done_it_is_started_again)
{
    again = 0;
    reset_three(start_again);
    CHECK(ended >= 3);
    close_fd(env.server);
    make_pair();
    again = 0;
    begin_read(env.server, start_again);
    while (live_on(-1)) {
        CHECK_EQ(write_some(env.client, "x", 1), 1);
        pass();
    }
    CHECK_EQ(again, 21);
    close_fd(env.client);
    close_fd(env.server);
}

/* Forgetting ends what was pending before, not what its completions start. */
static void forget_starts_again(void)
{
    if (again++ < 3)
        begin_read(env.server, forget_starts_again);
}

CONFORM(inside_forget_it_is_started_again)
{
    again = 0;
    begin_read(env.server, forget_starts_again);
    begin(free_act(), (struct ci_op){.fd = env.server, .kind = CI_OP_POLL}, NULL);
    forget_server();
    CHECK_EQ(again, 1);
    CHECK_EQ(live_on(env.server), 1);
    CHECK_EQ(write_some(env.client, "x", 1), 1); /* and it is waited for like any other */
    while (again < 2)
        pass();
    cancel_everything();
    close_fd(env.client);
    close_fd(env.server);
    CHECK_EQ(live_on(-1), 0);
}

/* Descriptors far beyond those in use: the driver's table grows while a slot is dispatched. */
static coir_fd far_away;

static void grow(void)
{
    far_away += 5000;
    begin_read(far_away, NULL);
    cancel_on(env.server);
}

CONFORM(inside_done_the_table_grows)
{
    far_away = 5000;
    for (int i = 0; i < 5; i++) {
        reset_three(grow);
        close_fd(env.server);
        make_pair();
    }
    close_fd(env.client);
    close_fd(env.server);
}

/* ---- anything at all, as a seed chooses ---- */

enum { ENDS = 8, DEPTH_MAX = 3 };
static struct ci_random choice;
static coir_fd ends[ENDS]; /* pairs; -1: closed */
static bool going[ENDS];   /* being closed or forgotten */
static int depth;

static uint64_t below(uint64_t limit)
{
    return ci_random_below(&choice, limit);
}

static void act_at_random(void);

static void begin_at_random(coir_fd fd)
{
    struct act *act = free_act();
    if (!act)
        return;
    struct ci_op op = {.fd = fd, .kind = CI_OP_POLL, .events = (uint8_t)below(4)};
    switch (below(5)) {
    case 0: op = (struct ci_op){.fd = fd, .kind = CI_OP_READ, .buf = act->buf, .len = LEN}; break;
    case 1:
        act->iov[0] = (struct iovec){act->buf, 1};
        act->iov[1] = (struct iovec){act->buf + 1, LEN - 1};
        op = (struct ci_op){.fd = fd, .kind = CI_OP_READV, .iov = act->iov, .count = 2};
        break;
    case 2: op = (struct ci_op){.fd = fd, .kind = CI_OP_WRITE, .data = act->buf, .len = LEN}; break;
    default: break;
    }
    if (!role_is_taken(&op))
        begin(act, op, act_at_random);
}

static void leave(int end, bool closes)
{
    coir_fd fd = ends[end];
    going[end] = true;
    if (closes) {
        ends[end] = -1;
        close_fd(fd);
    } else {
        int pending = live_on(fd), before = ended + withdrawn;
        env.driver->kind->forget(env.driver, fd);
        CHECK(ended + withdrawn - before >= pending);
    }
    if (closes)
        CHECK_EQ(live_on(fd), 0);
    going[end] = false;
}

/* At most DEPTH_MAX completions inside of one another. */
static void act_at_random(void)
{
    if (depth == DEPTH_MAX)
        return;
    depth++;
    for (uint64_t i = below(3); i > 0; i--) {
        int end = (int)below(ENDS);
        if (ends[end] < 0 || going[end])
            continue;
        switch (below(8)) {
        case 0: leave(end, true); break;
        case 1: leave(end, false); break;
        case 2: cancel_on(ends[end]); break;
        case 3: cancel(&acts[below(ACTS)]); break;
        default: begin_at_random(ends[end]); break;
        }
    }
    depth--;
}

static void stir(coir_fd fd)
{
    char in[LEN];
    switch (below(5)) {
    case 0:
        no_wait((struct ci_op){.fd = fd, .kind = CI_OP_READ, .buf = in, .len = sizeof in});
        break;
    case 1: fill(fd); break;
    case 2: env.driver->kind->shutdown_write(env.driver, fd); break;
    default:
        no_wait((struct ci_op){.fd = fd, .kind = CI_OP_WRITE, .data = flood, .len = LEN});
        break;
    }
}

static void reopen(int end)
{
    int other = end ^ 1;
    if (ends[other] >= 0)
        leave(other, true);
    make_pair();
    ends[end] = env.client;
    ends[other] = env.server;
}

/* Completions start nothing meanwhile. What is asked to end does. */
static void end_all(void)
{
    depth = DEPTH_MAX;
    cancel_on(-1);
    while (live_on(-1))
        pass();
    depth = 0;
}

CONFORM(inside_done_anything_may_happen)
{
    const char *given = getenv("RACES");
    int rounds = given ? atoi(given) : 20000;
    size_t pending = env.driver->pending;
    close_fd(env.client);
    close_fd(env.server);
    for (int i = 0; i < ENDS; i++)
        ends[i] = -1;
    for (int i = 0; i < rounds; i++) {
        int end = (int)below(ENDS);
        if (ends[end] < 0)
            reopen(end);
        if (ends[end] >= 0 && below(2))
            stir(ends[end]);
        act_at_random();
        env.world ? pass() : env.driver->kind->wait(env.driver, 0);
        if (below(20) == 0)
            end_all();
    }
    for (int i = 0; i < ENDS; i++)
        if (ends[i] >= 0)
            leave(i, true);
    CHECK_EQ(live_on(-1), 0);
    CHECK_EQ(env.driver->pending, pending);
}
