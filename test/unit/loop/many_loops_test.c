/* Several loops in several threads: each sends to all others, while its own timer, watch and hook
 * are called. Messages come in the order of each sender, and nothing is lost. */
#include <coir/loop.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "harness.h"

enum { LOOPS = 4, MESSAGES = 1000, PER_TURN = 20, BYTES = 50, CALLS = 20 };

struct node {
    coir_loop *loop;
    pthread_t thread, self;
    coir_timer timer;
    coir_watch watch;
    coir_hook hook;
    int ends[2];
    unsigned sent, calls_sent, bytes_sent;
    /* what it was sent */
    unsigned next[LOOPS], messages, calls, bytes;
    bool ended;
};
static struct node nodes[LOOPS];

struct message {
    struct node *to;
    unsigned from, number;
};

static unsigned index_of(const struct node *node)
{
    return (unsigned)(node - nodes);
}

/* All that can come has come: what is left ends, and so does the run. */
static void end_if_complete(struct node *node)
{
    if (node->ended || node->messages < (LOOPS - 1) * MESSAGES || node->bytes < BYTES ||
        node->calls < index_of(node) * CALLS || node->sent < MESSAGES || node->bytes_sent < BYTES)
        return;
    node->ended = true;
    coir_timer_stop(node->loop, &node->timer);
    coir_watch_stop(node->loop, &node->watch);
    coir_hook_stop(node->loop, &node->hook);
}

static void on_message(void *arg)
{
    struct message *message = arg;
    struct node *node = message->to;
    CHECK(pthread_equal(pthread_self(), node->self));
    CHECK_EQ(message->number, node->next[message->from]++);
    free(message);
    node->messages++;
    end_if_complete(node);
}

static int on_call(void *arg)
{
    struct node *node = arg;
    CHECK(pthread_equal(pthread_self(), node->self));
    node->calls++;
    end_if_complete(node);
    return (int)index_of(node);
}

static void send_some(coir_loop *loop, coir_hook *hook, void *arg)
{
    struct node *node = arg;
    CHECK(loop == node->loop);
    for (int i = 0; i < PER_TURN && node->sent < MESSAGES; i++, node->sent++)
        for (unsigned to = 0; to < LOOPS; to++) {
            if (&nodes[to] == node)
                continue;
            struct message *message = malloc(sizeof *message);
            CHECK(message != NULL);
            *message = (struct message){&nodes[to], index_of(node), node->sent};
            CHECK_EQ(coir_loop_post(nodes[to].loop, on_message, message), 0);
        }
    if (node->calls_sent < CALLS) { /* to those behind it only: no circle of loops waits */
        node->calls_sent++;
        for (unsigned to = index_of(node) + 1; to < LOOPS; to++)
            CHECK_EQ(coir_loop_call(nodes[to].loop, on_call, &nodes[to]), (int)to);
    }
    if (node->sent == MESSAGES && node->calls_sent == CALLS)
        coir_hook_stop(loop, hook);
    end_if_complete(node);
}

static void on_timer(coir_loop *loop, coir_timer *timer, void *arg)
{
    struct node *node = arg;
    CHECK(loop == node->loop && timer == &node->timer);
    if (node->bytes_sent == BYTES)
        return;
    CHECK_EQ(write(nodes[(index_of(node) + 1) % LOOPS].ends[1], "x", 1), 1);
    node->bytes_sent++;
    end_if_complete(node);
}

static void on_byte(coir_loop *loop, coir_watch *watch, int events, void *arg)
{
    struct node *node = arg;
    char byte;
    CHECK(loop == node->loop && watch == &node->watch && events == COIR_READ);
    CHECK_EQ(read(node->ends[0], &byte, 1), 1);
    node->bytes++;
    end_if_complete(node);
}

static void *thread(void *arg)
{
    struct node *node = arg;
    coir_timer_options options = COIR_TIMER_OPTIONS;
    options.interval = COIR_MS;
    node->self = pthread_self();
    CHECK_EQ(coir_timer_start_with(node->loop, &node->timer, &options, on_timer, node), 0);
    CHECK_EQ(coir_watch_start(node->loop, &node->watch, node->ends[0], COIR_READ, on_byte, node),
             0);
    coir_hook_start(node->loop, &node->hook, COIR_HOOK_IN_TURN, send_some, node);
    CHECK_EQ(coir_loop_run(node->loop), 0);
    CHECK(node->ended);
    return NULL;
}

static void run_all(const char *driver)
{
    coir_loop_options options = COIR_LOOP_OPTIONS;
    options.driver = driver;
    for (int i = 0; i < LOOPS; i++) {
        nodes[i] = (struct node){0};
        CHECK_EQ(coir_loop_new_with(&options, &nodes[i].loop), 0);
        CHECK_EQ(pipe2(nodes[i].ends, O_NONBLOCK), 0);
    }
    for (int i = 0; i < LOOPS; i++)
        CHECK_EQ(pthread_create(&nodes[i].thread, NULL, thread, &nodes[i]), 0);
    for (int i = 0; i < LOOPS; i++)
        CHECK_EQ(pthread_join(nodes[i].thread, NULL), 0);
    for (int i = 0; i < LOOPS; i++) {
        coir_loop_counters counters = COIR_LOOP_COUNTERS;
        CHECK_EQ(coir_loop_counters_get(nodes[i].loop, &counters), 0);
        CHECK(counters.wakeups <= counters.sleeps);
        CHECK_EQ(nodes[i].messages, (LOOPS - 1) * MESSAGES);
        CHECK_EQ(nodes[i].calls, (unsigned)i * CALLS);
        CHECK_EQ(nodes[i].bytes, BYTES);
        coir_loop_free(nodes[i].loop);
        close(nodes[i].ends[0]);
        close(nodes[i].ends[1]);
    }
}

TEST(loops_of_several_threads_send_to_each_other)
{
    run_all("epoll");
    run_all("poll");
}

TEST(loops_on_rings_send_to_each_other)
{
    coir_loop_options options = COIR_LOOP_OPTIONS;
    coir_loop *loop;
    options.driver = "io_uring";
    if (coir_loop_new_with(&options, &loop) < 0)
        return; /* not here */
    coir_loop_free(loop);
    run_all("io_uring");
}
