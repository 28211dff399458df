/* Anything is stopped, closed and freed by any callback, drawn from a seed: what has gone is not
 * called again, and its memory is not touched (which ASan sees). */
#include <coir/loop_tcp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "harness.h"

enum kind { NOTHING, WATCH, TIMER, TIMEOUT, HOOK, SOCKET, ACCEPTOR, KINDS };
enum { THINGS = 40, TIMEOUTS = 4, CALLS = 300, SEEDS = 25 };

struct timeouts {
    coir_timeout_set set;
    coir_timeout timeouts[TIMEOUTS];
};

/* What a callback gets is the number of its thing and of its life: no pointer to freed memory. */
static struct thing {
    enum kind kind;
    unsigned life;
    void *memory;
    int ends[2];
    coir_queued_write *write;
    bool writing;
} things[THINGS];

static coir_loop *loop;
static struct ci_random draw;
static unsigned calls, kinds_called[KINDS];
static char where[64];
static char buffer[THINGS][8];

static void *name_of(const struct thing *thing)
{
    return (void *)(uintptr_t)((size_t)(thing - things) + (size_t)thing->life * THINGS);
}

static struct thing *thing_of(void *name)
{
    return &things[(uintptr_t)name % THINGS];
}

/* ---- the end of a thing ---- */

static void forget(struct thing *thing, size_t size)
{
    memset(thing->memory, 0xdd, size);
    free(thing->memory);
    thing->memory = NULL;
}

static void end(struct thing *thing)
{
    enum kind kind = thing->kind;
    void *memory = thing->memory;
    struct timeouts *timeouts = memory;
    thing->kind = NOTHING;
    thing->life++;
    if (kind == WATCH) {
        coir_watch_stop(loop, memory);
        forget(thing, sizeof(coir_watch));
        close(thing->ends[0]);
        close(thing->ends[1]);
    } else if (kind == TIMER) {
        coir_timer_stop(loop, memory);
        forget(thing, sizeof(coir_timer));
    } else if (kind == TIMEOUT) {
        coir_timeout_set_done(&timeouts->set);
        forget(thing, sizeof *timeouts);
    } else if (kind == HOOK) {
        coir_hook_stop(loop, memory);
        forget(thing, sizeof(coir_hook));
    } else if (kind == SOCKET) {
        coir_socket_close(memory);
        CHECK(!thing->writing); /* its outcome was told */
    } else if (kind == ACCEPTOR) {
        coir_acceptor_close(memory);
    }
}

/* ---- callbacks ---- */

static void begin(struct thing *thing, enum kind kind);

/* Whatever is called: it lives, and it changes some things. */
static void act(void *name, enum kind kind)
{
    struct thing *thing = thing_of(name);
    CHECK(name_of(thing) == name && thing->kind == kind);
    kinds_called[kind]++;
    if (++calls > CALLS)
        return;
    for (uint64_t i = ci_random_below(&draw, 4); i; i--) {
        struct thing *other =
            ci_random_chance(&draw, 0.3) ? thing : &things[ci_random_below(&draw, THINGS)];
        if (other->kind == NOTHING)
            begin(other, (enum kind)(1 + ci_random_below(&draw, KINDS - 1)));
        else
            end(other);
    }
}

static void on_watch(coir_loop *own, coir_watch *watch, int events, void *name)
{
    CHECK(own == loop && events && watch == thing_of(name)->memory);
    act(name, WATCH);
}

static void on_timer(coir_loop *own, coir_timer *timer, void *name)
{
    CHECK(own == loop && timer == thing_of(name)->memory);
    act(name, TIMER);
}

static void on_timeout(coir_timeout_set *set, coir_timeout *timeout, void *name)
{
    CHECK(timeout && set == thing_of(name)->memory);
    act(name, TIMEOUT);
}

static void on_hook(coir_loop *own, coir_hook *hook, void *name)
{
    CHECK(own == loop && hook == thing_of(name)->memory);
    act(name, HOOK);
}

static void on_written(coir_socket *socket, coir_queued_write *write, int result, void *name)
{
    struct thing *thing = thing_of(name);
    CHECK(socket && write == thing->write && thing->writing && result <= 0);
    thing->writing = false;
    memset(write, 0xdd, sizeof *write);
    free(write);
    if (thing->kind == SOCKET && name_of(thing) == name) /* otherwise it is being closed */
        act(name, SOCKET);
}

static void on_read(coir_socket *socket, ssize_t result, void *name)
{
    struct thing *thing = thing_of(name);
    CHECK(socket == thing->memory);
    if (result > 0)
        CHECK_EQ(coir_socket_read(socket, buffer[thing - things], 8, on_read, name), 0);
    act(name, SOCKET);
}

static void on_connect(coir_socket *socket, ssize_t result, void *name)
{
    (void)socket, (void)result;
    act(name, SOCKET);
}

static void on_accept(coir_acceptor *acceptor, coir_socket *socket, int result, void *name)
{
    CHECK(acceptor == thing_of(name)->memory && result == 0);
    coir_socket_close(socket); /* what the other end has sent is lost: it fails */
    act(name, ACCEPTOR);
}

/* ---- the beginning of a thing ---- */

static void begin_socket(struct thing *thing)
{
    void *name = name_of(thing);
    int rc = coir_socket_connect(loop, where, on_connect, name, (coir_socket **)&thing->memory);
    CHECK_EQ(rc, 0);
    rc = coir_socket_read(thing->memory, buffer[thing - things], 8, on_read, name);
    CHECK_EQ(rc, 0);
    thing->write = malloc(sizeof *thing->write);
    thing->writing = true;
    CHECK_EQ(coir_socket_write(thing->memory, thing->write, "text", 4, on_written, name), 0);
}

static void begin_acceptor(struct thing *thing)
{
    coir_acceptor *acceptor;
    CHECK_EQ(coir_acceptor_open(loop, "127.0.0.1:0", on_accept, name_of(thing), &acceptor), 0);
    CHECK(coir_acceptor_local(acceptor, where, sizeof where) > 0);
    thing->memory = acceptor;
}

static void begin_watch(struct thing *thing)
{
    int events = ci_random_chance(&draw, 0.2) ? COIR_READ | COIR_WATCH_ONCE : COIR_READ;
    CHECK_EQ(pipe2(thing->ends, O_NONBLOCK), 0);
    CHECK_EQ(write(thing->ends[1], "x", 1), 1);
    thing->memory = calloc(1, sizeof(coir_watch));
    CHECK_EQ(
        coir_watch_start(loop, thing->memory, thing->ends[0], events, on_watch, name_of(thing)), 0);
}

static void begin_timeouts(struct thing *thing)
{
    struct timeouts *timeouts = thing->memory = calloc(1, sizeof *timeouts);
    coir_time delay = (coir_time)ci_random_below(&draw, 2) * COIR_US;
    CHECK_EQ(coir_timeout_set_init(&timeouts->set, loop, delay, on_timeout), 0);
    for (int i = 0; i < TIMEOUTS; i++)
        coir_timeout_start(&timeouts->set, &timeouts->timeouts[i], name_of(thing));
}

static void begin(struct thing *thing, enum kind kind)
{
    coir_timer_options options = COIR_TIMER_OPTIONS;
    thing->kind = kind;
    if (kind == WATCH) {
        begin_watch(thing);
    } else if (kind == TIMER) {
        options.delay = (coir_time)ci_random_below(&draw, 3) * COIR_US;
        options.interval = (coir_time)ci_random_below(&draw, 3) * COIR_US;
        thing->memory = calloc(1, sizeof(coir_timer));
        CHECK_EQ(coir_timer_start_with(loop, thing->memory, &options, on_timer, name_of(thing)), 0);
    } else if (kind == TIMEOUT) {
        begin_timeouts(thing);
    } else if (kind == HOOK) {
        thing->memory = calloc(1, sizeof(coir_hook));
        coir_hook_start(loop, thing->memory, (enum coir_hook_when)ci_random_below(&draw, 3),
                        on_hook, name_of(thing));
    } else if (kind == SOCKET) {
        begin_socket(thing);
    } else {
        begin_acceptor(thing);
    }
}

static void run_seed(const char *driver, uint64_t seed)
{
    coir_loop_options options = COIR_LOOP_OPTIONS;
    options.driver = driver;
    if (coir_loop_new_with(&options, &loop) < 0) {
        CHECK(strcmp(driver, "io_uring") == 0); /* not here */
        return;
    }
    draw = (struct ci_random){seed};
    calls = 0;
    memset(things, 0, sizeof things);
    begin(&things[0], ACCEPTOR);
    for (int i = 1; i < THINGS; i++)
        begin(&things[i], (enum kind)(1 + i % (KINDS - 1)));
    while (calls < CALLS) {
        coir_time deadline = coir_loop_update_now(loop) + COIR_MS;
        CHECK_EQ(coir_loop_run_once(loop, deadline), 0);
        struct thing *thing = &things[ci_random_below(&draw, THINGS)];
        if (thing->kind == NOTHING) /* few may be left */
            begin(thing, (enum kind)(1 + ci_random_below(&draw, KINDS - 1)));
    }
    for (int i = 0; i < THINGS; i++)
        end(&things[i]);
    CHECK(!coir_loop_alive(loop));
    coir_loop_free(loop);
}

TEST(any_callback_ends_anything)
{
    static const char *const drivers[] = {"epoll", "poll", "io_uring"};
    for (int driver = 0; driver < 3; driver++)
        for (uint64_t seed = 1; seed <= SEEDS; seed++)
            run_seed(drivers[driver], seed);
    for (int kind = WATCH; kind < KINDS; kind++)
        CHECK(kinds_called[kind] > 100);
}
