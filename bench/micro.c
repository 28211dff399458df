/* What the scheduler's operations cost on one worker, with 1,000 sleepers and 1,000 idle sockets
 * alive, and between two workers. Prints the median of several rounds, in nanoseconds, with the
 * least and the most. Usage: bench_micro [ROUNDS [WHAT]]: only what has WHAT in its name. */
#include <coir.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "loop/timer_wheel.h"
#include "sys/context.h"

enum { BYSTANDERS = 1000, ROUNDS_MOST = 101 };
static int rounds = 9;
static const char *wanted = "";

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Runs one round for warming up, then the others. */
static void measure(const char *name, double (*round)(void), double goal)
{
    double results[ROUNDS_MOST];
    if (!strstr(name, wanted))
        return;
    round();
    for (int i = 0; i < rounds; i++)
        results[i] = round();
    qsort(results, (size_t)rounds, sizeof *results, compare);
    printf("%-46s %8.1f   (%.1f to %.1f)", name, results[rounds / 2], results[0],
           results[rounds - 1]);
    if (goal > 0)
        printf("   goal %.1f", goal);
    printf("\n");
    fflush(stdout);
}

static double per(coir_time start, double count)
{
    return (double)(coir_now() - start) / count;
}

/* ---- a bare switch ---- */

enum { SWITCHES = 2000000 };
static struct ci_stack_view here_view, there_view;
static struct ci_context here = {.view = &here_view}, there = {.view = &there_view};
static char other_stack[64 * 1024] __attribute__((aligned(64)));

static void other_side(void)
{
    ci_context_entered();
    for (;;)
        ci_context_switch(&there, &here);
}

static double bare_switch(void)
{
    static int ready;
    if (!ready++) {
        ci_stack_view_adopt_thread(&here_view);
        ci_stack_view_init(&there_view, other_stack, other_stack + sizeof other_stack);
        ci_context_init(&there, other_side, other_stack + sizeof other_stack);
    }
    coir_time start = coir_now();
    for (int i = 0; i < SWITCHES / 2; i++)
        ci_context_switch(&here, &there);
    return per(start, SWITCHES);
}

/* ---- yield ---- */

enum { YIELDS = 1000000 };

static int yielder(void *arg)
{
    (void)arg;
    for (int i = 0; i < YIELDS; i++)
        coir_yield();
    return 0;
}

static CI_NOINLINE int other_yielder(void *arg)
{
    int sum = 0;
    for (int i = 0; i < YIELDS; i++) {
        sum += coir_yield() + *(volatile int *)arg;
        if (sum < 0)
            return sum;
    }
    return 0;
}

static double yield_two(void)
{
    coir_time start = coir_now();
    COIR_SCOPE(scope);
    coir_go(scope, yielder, NULL);
    coir_go(scope, yielder, NULL);
    coir_scope_wait(scope);
    return per(start, 2.0 * YIELDS);
}

static double yield_unlike(void)
{
    int zero = 0;
    coir_time start = coir_now();
    COIR_SCOPE(scope);
    coir_go(scope, yielder, NULL);
    coir_go(scope, other_yielder, &zero);
    coir_scope_wait(scope);
    return per(start, 2.0 * YIELDS);
}

/* ---- spawn and join ---- */

enum { SPAWNS = 300000, GANG = 10000 };

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static double spawn_join(void)
{
    coir_time start = coir_now();
    COIR_SCOPE(scope);
    for (int i = 0; i < SPAWNS; i++) {
        coir_go(scope, nothing, NULL);
        coir_scope_wait(scope);
    }
    return per(start, SPAWNS);
}

static double spawn_join_handle(void)
{
    coir_time start = coir_now();
    COIR_SCOPE(scope);
    for (int i = 0; i < SPAWNS; i++) {
        COIR_HANDLE(handle);
        coir_go_options options = COIR_GO_OPTIONS;
        options.handle = handle;
        coir_go_with(scope, &options, nothing, NULL);
        coir_join(handle);
    }
    return per(start, SPAWNS);
}

/* Blocks once, is woken, ends. */
static int block_once(void *arg)
{
    (void)arg;
    return coir_yield();
}

static double gang(void)
{
    coir_time start = coir_now();
    COIR_SCOPE(scope);
    for (int i = 0; i < GANG; i++)
        coir_go(scope, block_once, NULL);
    coir_scope_wait(scope);
    return per(start, GANG);
}

/* ---- timers ---- */

enum { TIMERS = 1000000 };
static struct ci_wheel wheel;
static struct ci_timer timers[TIMERS];
static uint32_t order[TIMERS];
static size_t fired;

static void on_fire(struct ci_timer *timer)
{
    (void)timer;
    fired++;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 31)) * 0x7fb5d329728ea185u;
    return x ^ (x >> 27);
}

static double timer_warm(void)
{
    ci_wheel_init(&wheel, 0);
    for (size_t i = 0; i < 64; i++)
        ci_timer_init(&timers[i], on_fire);
    coir_time start = coir_now();
    for (uint64_t i = 0; i < 1000000; i++) {
        struct ci_timer *timer = &timers[i % 64];
        ci_wheel_start(&wheel, timer, (coir_time)(mix(i) % (10 * COIR_S)));
        ci_wheel_cancel(&wheel, timer);
    }
    return per(start, 1000000);
}

static void start_a_million(void)
{
    ci_wheel_init(&wheel, 0);
    for (uint64_t i = 0; i < TIMERS; i++) {
        ci_timer_init(&timers[i], on_fire);
        ci_wheel_start(&wheel, &timers[i], (coir_time)(mix(i) % (10 * COIR_S)));
        order[i] = (uint32_t)(mix(i * 7 + 1) % TIMERS);
    }
}

static double timer_cold(void)
{
    start_a_million();
    coir_time start = coir_now();
    for (uint64_t i = 0; i < TIMERS; i++) {
        struct ci_timer *timer = &timers[order[i]];
        ci_wheel_cancel(&wheel, timer);
        ci_wheel_start(&wheel, timer, (coir_time)(mix(i) % (10 * COIR_S)));
    }
    return per(start, TIMERS);
}

static double timer_postpone(void)
{
    start_a_million();
    coir_time start = coir_now();
    for (uint64_t i = 0; i < TIMERS; i++)
        ci_wheel_move(&wheel, &timers[i], 11 * COIR_S);
    return per(start, TIMERS);
}

static double timer_fire(void)
{
    start_a_million();
    coir_time start = coir_now();
    for (coir_time now = 0; now <= 10 * COIR_S; now += COIR_MS)
        ci_wheel_fire(&wheel, now);
    return per(start, TIMERS);
}

/* ---- streams ---- */

enum { TRIPS = 200000 };

static int bounce(void *arg)
{
    char byte;
    ssize_t n;
    while ((n = coir_read(arg, &byte, 1)) == 1)
        coir_write(arg, &byte, 1);
    return (int)n;
}

static double duplex_round_trip(void)
{
    coir_stream *a, *b;
    char byte = 'x';
    if (coir_duplex(0, &a, &b) < 0)
        return 0;
    COIR_SCOPE(scope);
    coir_go(scope, bounce, b);
    coir_time start = coir_now();
    for (int i = 0; i < TRIPS; i++) {
        coir_write(a, &byte, 1);
        coir_read(a, &byte, 1);
    }
    double result = per(start, TRIPS);
    coir_close(a);
    coir_scope_wait(scope);
    coir_close(b);
    return result;
}

/* ---- futures ---- */

struct empty {
    coir_future future;
};

static coir_future *empty_poll(coir_future *future)
{
    COIR_BEGIN(future);
    COIR_END(future);
}

static const coir_future_kind empty_kind = COIR_FUTURE_KIND("nothing", empty_poll, NULL);

static double spawn_join_future(void)
{
    coir_future future;
    coir_time start = coir_now();
    COIR_SCOPE(scope);
    for (int i = 0; i < SPAWNS; i++) {
        coir_go_future(scope, coir_future_init(&future, &empty_kind));
        coir_scope_wait(scope);
    }
    return per(start, SPAWNS);
}

enum { DEPTH_MOST = 100000, RESUMES = 300000 };

struct deep {
    coir_future future;
    struct deep *callee;
    coir_future turn;
    int left;
};

static coir_future *deep_poll(coir_future *future)
{
    struct deep *self = coir_frame(future, struct deep);
    COIR_BEGIN(future);
    if (self->callee) {
        COIR_AWAIT(future, &self->callee->future);
        COIR_END(future);
    }
    while (self->left-- > 0)
        COIR_AWAIT(future, coir_yield_op(&self->turn));
    COIR_END(future);
}

static const coir_future_kind deep_kind = COIR_FUTURE_KIND("deep", deep_poll, NULL);

static double resume_under(int depth)
{
    static struct deep frames[DEPTH_MOST];
    for (int i = 0; i < depth; i++) {
        coir_future_init(&frames[i].future, &deep_kind);
        frames[i].callee = i + 1 < depth ? &frames[i + 1] : NULL;
    }
    frames[depth - 1].left = RESUMES;
    coir_time start = coir_now();
    coir_await(&frames[0].future);
    return per(start, RESUMES);
}

static double resume_under_1(void)
{
    return resume_under(1);
}

static double resume_under_1000(void)
{
    return resume_under(1000);
}

static double resume_under_100000(void)
{
    return resume_under(DEPTH_MOST);
}

/* ---- channels, select, mutex ---- */

enum { MESSAGES = 1000000 };
struct pair {
    coir_channel *there, *back;
};

static int echo_items(void *arg)
{
    struct pair *pair = arg;
    uint64_t item;
    while (coir_channel_recv(pair->there, &item) == 0)
        coir_channel_send(pair->back, &item);
    return 0;
}

/* Sends to `echo`, which runs on a worker, and receives what it sends back: by a plain receive or
 * by a select with a timeout. */
CI_INLINE double round_trips(coir_task_fn *echo, int worker, int trips, bool by_select)
{
    struct pair pair;
    uint64_t item = 1;
    coir_channel_new(sizeof item, 1, &pair.there);
    coir_channel_new(sizeof item, 1, &pair.back);
    double result;
    {
        COIR_SCOPE(scope);
        coir_go_on(scope, worker, echo, &pair);
        coir_channel_send(pair.there, &item); /* until it runs */
        coir_channel_recv(pair.back, &item);
        coir_time start = coir_now();
        for (int i = 0; i < trips; i++) {
            coir_channel_send(pair.there, &item);
            if (by_select) {
                coir_case waits[] = {coir_case_recv(pair.back, &item),
                                     coir_case_after(30 * COIR_S)};
                coir_select(waits, 2);
            } else {
                coir_channel_recv(pair.back, &item);
            }
        }
        result = per(start, trips);
        coir_channel_close(pair.there);
        coir_scope_wait(scope);
    }
    coir_channel_free(pair.there);
    coir_channel_free(pair.back);
    return result;
}

static double channel_round_trip(void)
{
    return round_trips(echo_items, 0, MESSAGES / 4, false);
}

static int select_items(void *arg)
{
    struct pair *pair = arg;
    uint64_t item;
    for (;;) {
        coir_case waits[] = {coir_case_recv(pair->there, &item), coir_case_after(30 * COIR_S)};
        if (coir_select(waits, 2) != 0 || waits[0].result < 0)
            return 0;
        coir_channel_send(pair->back, &item);
    }
}

static double select_round_trip(void)
{
    return round_trips(select_items, 0, MESSAGES / 4, true);
}

static double select_of_100(void)
{
    enum { CASES = 100, TRIPS_100 = 5000 };
    coir_channel *channels[CASES];
    coir_case waits[CASES];
    uint64_t item = 1;
    for (int i = 0; i < CASES; i++) {
        coir_channel_new(sizeof item, 1, &channels[i]);
        waits[i] = coir_case_recv(channels[i], &item);
    }
    coir_time start = coir_now();
    for (int i = 0; i < TRIPS_100; i++) {
        coir_channel_send(channels[i % CASES], &item);
        coir_select(waits, CASES);
    }
    double result = per(start, TRIPS_100);
    for (int i = 0; i < CASES; i++)
        coir_channel_free(channels[i]);
    return result;
}

static int drain(void *arg)
{
    uint64_t item;
    while (coir_channel_recv(arg, &item) == 0)
        continue;
    return 0;
}

static double channel_stream(size_t capacity)
{
    coir_channel *channel;
    double result;
    coir_channel_new(sizeof(uint64_t), capacity, &channel);
    {
        COIR_SCOPE(scope);
        coir_go(scope, drain, channel);
        coir_time start = coir_now();
        for (uint64_t i = 0; i < MESSAGES; i++)
            coir_channel_send(channel, &i);
        result = per(start, MESSAGES);
        coir_channel_close(channel);
        coir_scope_wait(scope);
    }
    coir_channel_free(channel);
    return result;
}

static double channel_stream_16(void)
{
    return channel_stream(16);
}

static double channel_stream_0(void)
{
    return channel_stream(0);
}

static double mutex_free(void)
{
    coir_mutex mutex = COIR_MUTEX_INIT;
    coir_time start = coir_now();
    for (int i = 0; i < MESSAGES; i++) {
        coir_mutex_lock(&mutex);
        coir_mutex_unlock(&mutex);
    }
    return per(start, MESSAGES);
}

/* ---- two workers ---- */

static double across_round_trip(void)
{
    return round_trips(echo_items, 1, MESSAGES / 50, false);
}

/* Both tasks on the worker that spawns the other one, as coir_go places them. */
static double together_round_trip(void)
{
    return round_trips(echo_items, 0, MESSAGES / 5, false);
}

static double together_stream(void)
{
    return channel_stream(1024);
}

static double across_stream(void)
{
    coir_channel *channel;
    double result;
    coir_channel_new(sizeof(uint64_t), 1024, &channel);
    {
        COIR_SCOPE(scope);
        coir_go_on(scope, 1, drain, channel);
        coir_time start = coir_now();
        for (uint64_t i = 0; i < MESSAGES; i++)
            coir_channel_send(channel, &i);
        coir_channel_close(channel);
        coir_scope_wait(scope);
        result = per(start, MESSAGES);
    }
    coir_channel_free(channel);
    return result;
}

static int posts;

static void count_post(void *arg)
{
    (void)arg;
    __atomic_store_n(&posts, posts + 1, __ATOMIC_RELAXED);
}

static double across_posts(void)
{
    posts = 0;
    coir_time start = coir_now();
    for (int i = 0; i < MESSAGES; i++)
        coir_runtime_post(coir_runtime_current(), 1, count_post, NULL);
    while (__atomic_load_n(&posts, __ATOMIC_RELAXED) < MESSAGES)
        coir_yield();
    return per(start, MESSAGES);
}

static void *post_often(void *runtime)
{
    for (int i = 0; i < MESSAGES; i++)
        coir_runtime_post(runtime, 1, count_post, NULL);
    return NULL;
}

static double thread_posts(void)
{
    pthread_t thread;
    posts = 0;
    coir_time start = coir_now();
    if (pthread_create(&thread, NULL, post_often, coir_runtime_current()))
        return 0;
    while (__atomic_load_n(&posts, __ATOMIC_RELAXED) < MESSAGES)
        coir_sleep_for(COIR_MS);
    double result = per(start, MESSAGES);
    pthread_join(thread, NULL);
    return result;
}

static int lock_often(void *arg)
{
    for (int i = 0; i < MESSAGES; i++) {
        coir_mutex_lock(arg);
        coir_mutex_unlock(arg);
    }
    return 0;
}

static double across_mutex(void)
{
    coir_mutex mutex = COIR_MUTEX_INIT;
    coir_time start = coir_now();
    COIR_SCOPE(scope);
    coir_go(scope, lock_often, &mutex);
    coir_go_on(scope, 1, lock_often, &mutex);
    coir_scope_wait(scope);
    return per(start, 2.0 * MESSAGES);
}

static int start_two(void *arg)
{
    (void)arg;
    measure("channel round trip, two workers", across_round_trip, 0);
    measure("channel stream, two workers, 1024 slots", across_stream, 0);
    measure("channel round trip, one of two workers", together_round_trip, 0);
    measure("channel stream, one of two workers, 1024 slots", together_stream, 0);
    measure("posts from worker to worker", across_posts, 12);
    measure("posts from a thread to a worker", thread_posts, 12);
    measure("mutex contended by two workers", across_mutex, 15);
    return 0;
}

/* ---- the bystanders ---- */

static int sleeper(void *arg)
{
    (void)arg;
    return coir_sleep_for(3600 * COIR_S);
}

static int wait_for_bytes(coir_stream *stream, void *arg)
{
    char byte;
    (void)arg;
    return (int)coir_read(stream, &byte, 1);
}

static int serve(void *arg)
{
    return coir_serve_tcp_with(
        &(coir_serve_tcp_options){.size = sizeof(coir_serve_tcp_options), .listener = arg},
        wait_for_bytes, NULL);
}

static int start(void *arg)
{
    (void)arg;
    static coir_stream *idle[BYSTANDERS];
    coir_listener *listener;
    char address[64];
    int rc = coir_tcp_listen("127.0.0.1:0", &listener);
    if (rc < 0)
        return rc;
    coir_listener_local(listener, address, sizeof address);
    {
        COIR_SERVING_SCOPE(bystanders);
        coir_go(bystanders, serve, listener);
        for (int i = 0; i < BYSTANDERS; i++) {
            coir_go(bystanders, sleeper, NULL);
            if ((rc = coir_tcp_connect(address, &idle[i])) < 0)
                return rc;
        }
        coir_sleep_for(10 * COIR_MS);
        measure("context switch alone", bare_switch, 2.6);
        measure("yield between 2 fibers, one call site", yield_two, 6);
        measure("yield between 2 fibers, unlike call sites", yield_unlike, 16);
        measure("spawn + join, fiber, by its scope", spawn_join, 20);
        measure("spawn + join, fiber, by its handle", spawn_join_handle, 20);
        measure("gang of 10,000: spawn, block, wake, join", gang, 90);
        measure("duplex round trip of 1 byte", duplex_round_trip, 32);
        measure("spawn + join, future", spawn_join_future, 20);
        measure("resume of a leaf under 1 await", resume_under_1, 12);
        measure("resume of a leaf under 1,000 awaits", resume_under_1000, 12);
        measure("resume of a leaf under 100,000 awaits", resume_under_100000, 12);
        measure("channel round trip", channel_round_trip, 32);
        measure("channel round trip by select {channel, time}", select_round_trip, 49);
        measure("select of 100 channels, one ready", select_of_100, 0);
        measure("channel stream, 16 slots", channel_stream_16, 8);
        measure("channel stream, unbuffered", channel_stream_0, 20);
        measure("mutex, free", mutex_free, 4);
        measure("timer start + cancel, warm", timer_warm, 12);
        measure("timer cancel + start, random one of a million", timer_cold, 170);
        measure("timer postponed, of a million", timer_postpone, 20);
        measure("timer fired, of a million", timer_fire, 180);
        coir_scope_cancel(bystanders);
    }
    for (int i = 0; i < BYSTANDERS; i++)
        coir_close(idle[i]);
    coir_listener_close(listener);
    return 0;
}

int main(int argc, char **argv)
{
    struct rlimit files = {20000, 20000};
    if (argc > 1 && atoi(argv[1]) > 0 && atoi(argv[1]) < ROUNDS_MOST)
        rounds = atoi(argv[1]);
    if (argc > 2)
        wanted = argv[2];
    setrlimit(RLIMIT_NOFILE, &files);
    setenv("COIR_WORKERS", "1", 1);
    printf("nanoseconds an operation: median of %d rounds (least to most), %d sleepers and %d idle "
           "sockets alive\n",
           rounds, BYSTANDERS, BYSTANDERS);
    if (coir_main(start, NULL))
        return 1;
    unsetenv("COIR_WORKERS");
    coir_config config = COIR_CONFIG;
    config.workers = 2;
    config.pin_workers = 1;
    coir_runtime *runtime;
    if (coir_runtime_new(&config, &runtime) < 0)
        return 1;
    printf("two workers, each on a CPU of its own\n");
    int rc = coir_runtime_run(runtime, start_two, NULL);
    coir_runtime_free(runtime);
    return rc < 0;
}
