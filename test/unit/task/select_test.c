/* Select: kinds of cases, order, and that nothing is ever lost by losing. */
#include <coir.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"

static int set_event(void *arg)
{
    coir_event_set(arg);
    return 0;
}

static int give_42(void *arg)
{
    coir_sleep_for(*(coir_time *)arg);
    return 42;
}

TEST_SIM(cases_of_every_kind)
{
    coir_channel *channel;
    coir_stream *a, *b;
    coir_event event = COIR_EVENT_INIT;
    int item = 5, got = 0;
    uint64_t seen;
    coir_latest *latest;
    CHECK_EQ(coir_channel_new(sizeof item, 1, &channel), 0);
    CHECK_EQ(coir_latest_new(sizeof item, &item, &latest), 0);
    CHECK_EQ(coir_duplex(0, &a, &b), 0);
    seen = coir_latest_get(latest, &got);
    COIR_SCOPE(scope);
    COIR_HANDLE(handle);
    coir_go_options options = COIR_GO_OPTIONS;
    coir_time nap = 3 * COIR_MS;
    options.handle = handle;
    CHECK_EQ(coir_go_with(scope, &options, give_42, &nap), 0);
    coir_case waits[] = {coir_case_recv(channel, &got), coir_case_stream(a, COIR_READ),
                         coir_case_event(&event),       coir_case_latest(latest, seen),
                         coir_case_after(1 * COIR_MS),  coir_case_join(handle)};
    CHECK_EQ(coir_select(waits, 6), 4);
    CHECK_EQ(waits[4].result, 0);
    waits[4] = coir_case_after(COIR_S);
    CHECK_EQ(coir_select(waits, 6), 5);
    CHECK_EQ(waits[5].result, 42);
    waits[5] = coir_case_send(channel, &item);
    CHECK_EQ(coir_select(waits, 6), 5);
    waits[5] = coir_case_at(COIR_NEVER);
    CHECK_EQ(coir_select(waits, 6), 0);
    CHECK_EQ(got, 5);
    CHECK_EQ(coir_write(b, "x", 1), 1);
    CHECK_EQ(coir_select(waits, 6), 1);
    CHECK_EQ(waits[1].result, COIR_READ);
    char byte;
    CHECK_EQ(coir_read(a, &byte, 1), 1);
    coir_go(scope, set_event, &event);
    CHECK_EQ(coir_select(waits, 6), 2);
    coir_event_reset(&event);
    coir_latest_set(latest, &item);
    CHECK_EQ(coir_select(waits, 6), 3);
    waits[3] = coir_case_latest(latest, seen + 1);
    coir_channel_close(channel);
    CHECK_EQ(coir_select(waits, 6), 0);
    CHECK_EQ(waits[0].result, -EPIPE);
    CHECK_EQ(coir_select(waits, 0), -EINVAL);
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(coir_select(waits + 1, 3), -ETIME);
    }
    coir_close(a);
    coir_close(b);
    coir_channel_free(channel);
    coir_latest_free(latest);
}

TEST_SIM(many_cases_and_priority)
{
    enum { MANY = 100 };
    coir_channel *channels[MANY];
    coir_case waits[MANY];
    int items[MANY], served[MANY] = {0}, item = 1;
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(coir_channel_new(sizeof(int), 3, &channels[i]), 0);
        waits[i] = coir_case_recv(channels[i], &items[i]);
    }
    for (int i = 0; i < 3 * MANY; i++)
        CHECK_EQ(coir_channel_send(channels[i % MANY], &item), 0);
    for (int i = 0; i < MANY; i++)
        served[coir_select(waits, MANY)]++;
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(served[i], 1); /* a select over members that are always ready serves all of them */
    for (int i = 0; i < 2 * MANY; i++)
        CHECK_EQ(coir_select_in_order(waits, MANY), i / 2);
    for (int i = 0; i < MANY; i++)
        coir_channel_free(channels[i]);
}

/* Cases of objects are tried before anything is queued; others need their futures. */
TEST_SIM(what_is_tried_overtakes_nothing)
{
    coir_channel *channel;
    coir_stream *a, *b;
    coir_event event = COIR_EVENT_INIT;
    int item = 1, got = 0, served[3] = {0};
    CHECK_EQ(coir_channel_new(sizeof item, 1, &channel), 0);
    CHECK_EQ(coir_duplex(0, &a, &b), 0);
    CHECK_EQ(coir_write(b, "x", 1), 1);
    coir_event_set(&event);
    coir_case waits[] = {coir_case_stream(a, COIR_READ), coir_case_recv(channel, &got),
                         coir_case_event(&event)};
    for (int i = 0; i < 30; i++) {
        coir_channel_try_send(channel, &item);
        CHECK_EQ(coir_select_in_order(waits, 3), 0);
        int which = coir_select(waits, 3);
        CHECK(which >= 0);
        served[which]++;
    }
    CHECK_EQ(served[0], 10);
    CHECK_EQ(served[1], 10);
    CHECK_EQ(served[2], 10);
    waits[0] = coir_case_after(0);
    CHECK_EQ(coir_select_in_order(waits, 3), 1); /* a sleep is no case that happens at once */
    CHECK_EQ(coir_channel_count(channel), 0);
    CHECK_EQ(coir_select_in_order(waits, 3), 2);
    coir_event_reset(&event);
    CHECK_EQ(coir_select_in_order(waits, 3), 0);
    coir_close(a);
    coir_close(b);
    coir_channel_free(channel);
}

/* A select that always has something to do does not keep other tasks from running. */
static int count_turns(void *arg)
{
    for (; *(int *)arg < 3; ++*(int *)arg)
        coir_yield();
    return 0;
}

TEST_SIM(a_select_that_is_always_ready_lets_others_run)
{
    coir_event event = COIR_EVENT_INIT;
    int turns = 0;
    coir_event_set(&event);
    COIR_SCOPE(scope);
    coir_go(scope, count_turns, &turns);
    coir_case waits[] = {coir_case_event(&event)};
    while (turns < 3)
        CHECK_EQ(coir_select(waits, 1), 0);
}

TEST_SIM(an_interrupted_select_tries_nothing)
{
    coir_channel *channel;
    int item = 1, got = 0;
    CHECK_EQ(coir_channel_new(sizeof item, 1, &channel), 0);
    CHECK_EQ(coir_channel_send(channel, &item), 0);
    coir_case waits[] = {coir_case_recv(channel, &got)};
    {
        COIR_DEADLINE(coir_in(-COIR_S));
        CHECK_EQ(coir_select(waits, 1), -ETIME);
    }
    CHECK_EQ(got, 0);
    CHECK_EQ(coir_channel_count(channel), 1);
    CHECK_EQ(coir_select(waits, 1), 0);
    coir_channel_free(channel);
}

static int client(void *arg)
{
    coir_stream *stream;
    int rc = coir_tcp_connect(arg, &stream);
    if (rc < 0)
        return rc;
    char byte;
    rc = (int)coir_read(stream, &byte, 1);
    coir_close(stream);
    return rc == 1 ? 0 : -EIO;
}

/* Each accepts unless a timer is quicker. */
static bool accept_by_select(coir_listener *listener, coir_time patience, coir_stream **ret_stream)
{
    coir_case waits[] = {coir_case_after(patience), coir_case_accept(listener, ret_stream)};
    int which = coir_select(waits, 2);
    CHECK(which == 0 || (which == 1 && waits[1].result == 0));
    return which == 1;
}

static bool accept_by_any(coir_listener *listener, coir_time patience, coir_stream **ret_stream)
{
    coir_open_op op;
    coir_sleep_op sleep;
    coir_branch race[] = {COIR_BRANCH(coir_sleep_for_op(&sleep, patience)),
                          COIR_BRANCH(coir_accept_op(&op, listener, ret_stream))};
    int which = coir_any(race, 2);
    CHECK(which == 0 || (which == 1 && race[1].future->result == 0));
    return which == 1;
}

static void accepts(void)
{
    enum { CLIENTS = 30 };
    coir_listener *listener;
    char address[64];
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    coir_listener_local(listener, address, sizeof address);
    {
        COIR_SCOPE(scope);
        for (int i = 0; i < CLIENTS; i++)
            coir_go(scope, client, address);
        /* Connections are not counted: one may be another program's, to a server that had this
         * port before. */
        for (int tries = 0; coir_scope_live(scope) > 0; tries++) {
            coir_stream *stream;
            if (!(tries % 2 ? accept_by_select : accept_by_any)(listener, tries % 3, &stream))
                continue;
            coir_write(stream, "x", 1); /* if this fails, the client returns an error */
            coir_close(stream);
        }
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    coir_listener_close(listener);
}

TEST(an_accept_that_loses_loses_no_connection)
{
    for (int i = 0; i < 20; i++)
        test_in_runtime(accepts, 1);
}

/* ---- any select, random cancels, deadlines and closes: every message is received exactly once or
 * still there ---- */

enum { CHANNELS = 3, TASKS = 6, ROUNDS = 12, IDS = TASKS * ROUNDS };

struct world {
    coir_channel *channels[CHANNELS];
    uint32_t sent[IDS + 1], received[IDS + 1]; /* the model: how often */
    uint64_t random;
    int next_id;
};

static uint64_t draw(struct world *world, uint64_t below)
{
    uint64_t x = __atomic_add_fetch(&world->random, 0x9e3779b97f4a7c15, __ATOMIC_RELAXED);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return (x ^ (x >> 31)) % below;
}

static coir_channel *any_channel(struct world *world)
{
    return world->channels[draw(world, CHANNELS)];
}

static void did_send(struct world *world, int id)
{
    __atomic_add_fetch(&world->sent[id], 1, __ATOMIC_RELAXED);
}

static void did_receive(struct world *world, int id)
{
    CHECK(id > 0 && id <= IDS);
    __atomic_add_fetch(&world->received[id], 1, __ATOMIC_RELAXED);
}

/* Each task's own pair of streams: what it writes at one end it reads at the other, when a select
 * says so. */
struct pipe {
    coir_stream *in, *out;
    int written, read;
};

/* One select over two or three random channel cases, some of them on the same channel in both
 * directions, a stream, and time. */
static int select_once(struct world *world, struct pipe *pipe)
{
    int id = __atomic_add_fetch(&world->next_id, 1, __ATOMIC_RELAXED), got[3] = {0},
        count = 2 + (int)draw(world, 2);
    coir_case waits[5];
    bool sends[5] = {false};
    char byte = 'x';
    if (draw(world, 4) == 0 && coir_try_write(pipe->out, &byte, 1) == 1)
        pipe->written++;
    for (int i = 0; i < count; i++) {
        sends[i] = draw(world, 2);
        waits[i] = sends[i] ? coir_case_send(any_channel(world), &id)
                            : coir_case_recv(any_channel(world), &got[i]);
    }
    waits[count] = coir_case_after((coir_time)draw(world, 40) * COIR_US);
    waits[count + 1] = coir_case_stream(pipe->in, COIR_READ);
    int which = coir_select(waits, (size_t)count + 2);
    if (which < 0)
        return which;
    if (which == count)
        return 0;
    if (which == count + 1) {
        /* it was readable, and no other task reads */
        CHECK_EQ(coir_try_read(pipe->in, &byte, 1), 1);
        pipe->read++;
        return 0;
    }
    if (waits[which].result == 0 && sends[which])
        did_send(world, id);
    else if (waits[which].result == 0)
        did_receive(world, got[which]);
    else
        CHECK_EQ(waits[which].result, -EPIPE);
    return 0;
}

static int act_on(struct world *world, struct pipe *pipe)
{
    for (int i = 0; i < ROUNDS; i++) {
        COIR_DEADLINE(draw(world, 3) ? COIR_NEVER : coir_in((coir_time)draw(world, 20) * COIR_US));
        int id = 0, rc = 0;
        switch (draw(world, 6)) {
        case 0:
            id = __atomic_add_fetch(&world->next_id, 1, __ATOMIC_RELAXED);
            {
                COIR_DEADLINE(coir_in(30 * COIR_US));
                if (coir_channel_send(any_channel(world), &id) == 0)
                    did_send(world, id);
            }
            break;
        case 1: {
            COIR_DEADLINE(coir_in(30 * COIR_US));
            if (coir_channel_recv(any_channel(world), &id) == 0)
                did_receive(world, id);
            break;
        }
        default: rc = select_once(world, pipe);
        }
        if (rc == -ECANCELED)
            return rc;
        if (draw(world, 4) == 0)
            coir_yield();
    }
    return 0;
}

static int act(void *arg)
{
    struct pipe pipe = {0};
    char bytes[IDS];
    CHECK_EQ(coir_duplex(IDS, &pipe.in, &pipe.out), 0);
    int rc = act_on(arg, &pipe);
    ssize_t left = coir_try_read(pipe.in, bytes, sizeof bytes);
    CHECK_EQ(pipe.read + (left > 0 ? left : 0), pipe.written); /* read once, or still there */
    coir_close(pipe.in);
    coir_close(pipe.out);
    return rc;
}

static uint64_t current_seed;

static void random_selects(void)
{
    struct world world = {.random = current_seed * 7919};
    int workers = (int)coir_worker_count(coir_runtime_current());
    for (int i = 0; i < CHANNELS; i++)
        CHECK_EQ(coir_channel_new(sizeof(int), draw(&world, 3), &world.channels[i]), 0);
    {
        COIR_SERVING_SCOPE(scope);
        coir_handle handles[TASKS];
        memset(handles, 0, sizeof handles);
        for (int i = 0; i < TASKS; i++) {
            coir_go_options options = COIR_GO_OPTIONS;
            options.handle = &handles[i];
            options.place = COIR_ON_WORKER(i % workers);
            CHECK_EQ(coir_go_with(scope, &options, act, &world), 0);
        }
        for (int i = 0; i < 4; i++) {
            coir_sleep_for((coir_time)draw(&world, 100) * COIR_US);
            if (draw(&world, 2))
                coir_cancel(&handles[draw(&world, TASKS)]);
            if (draw(&world, 8) == 0)
                coir_channel_close(any_channel(&world));
        }
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    for (int i = 0; i < CHANNELS; i++) {
        int id;
        while (coir_channel_try_recv(world.channels[i], &id) == 0)
            did_receive(&world, id);
        coir_channel_free(world.channels[i]);
    }
    for (int id = 1; id <= IDS; id++)
        CHECK_EQ(world.received[id], world.sent[id]);
}

TEST(nothing_is_lost_or_doubled_by_any_select)
{
    const char *text = getenv("SEEDS");
    uint64_t seeds = text ? strtoull(text, NULL, 0) : 10000, seed;
    if (test_one_seed(&seed)) {
        current_seed = seed;
        test_in_sim(random_selects, 1 + (unsigned)seed % 3, seed);
        return;
    }
    for (current_seed = 1; current_seed <= seeds; current_seed++)
        test_in_sim(random_selects, 1 + (unsigned)current_seed % 3, current_seed);
}

TEST(nothing_is_lost_or_doubled_on_real_workers)
{
    for (current_seed = 1; current_seed <= 200; current_seed++)
        test_in_runtime(random_selects, 3);
}
