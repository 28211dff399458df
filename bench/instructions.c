/* One operation, again and again, for bench/instructions and test/e2e/costs to count. "request",
 * "pipelined", "connections" and "idle" are clients of a server of which something is counted.
 * Usage: bench_instructions OPERATION TIMES [ADDRESS] */
#include <coir.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "loop/timer_wheel.h"

static int times;
static coir_channel *there, *back;
static coir_mutex mutex = COIR_MUTEX_INIT;

static int yields(void *arg)
{
    (void)arg;
    for (int i = 0; i < times; i++)
        coir_yield();
    return 0;
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int echoes(void *arg)
{
    char byte;
    for (int i = 0; i < times; i++)
        if (coir_channel_recv(there, &byte) < 0 || coir_channel_send(back, &byte) < 0)
            return -1;
    return nothing(arg);
}

static int run_yield(void)
{
    COIR_SCOPE(scope);
    coir_go(scope, yields, NULL);
    coir_go(scope, yields, NULL);
    return coir_scope_wait(scope);
}

static int run_spawn(void)
{
    for (int i = 0; i < times; i++) {
        COIR_SCOPE(scope);
        coir_go(scope, nothing, NULL);
        coir_scope_wait(scope);
    }
    return 0;
}

static int receive(int by_select, char *byte)
{
    if (!by_select)
        return coir_channel_recv(back, byte);
    coir_case waits[] = {coir_case_recv(back, byte), coir_case_after(COIR_S)};
    return coir_select(waits, 2);
}

static int round_trips(int by_select)
{
    char byte = 0;
    COIR_SCOPE(scope);
    coir_go(scope, echoes, NULL);
    for (int i = 0; i < times; i++)
        if (coir_channel_send(there, &byte) < 0 || receive(by_select, &byte) < 0)
            return -1;
    return coir_scope_wait(scope);
}

static int run_channel(void)
{
    return round_trips(0);
}

static int run_select(void)
{
    return round_trips(1);
}

/* Items through a channel with room for 16, which fills and empties. */
static int sends(void *arg)
{
    char byte = 0;
    int rc = 0;
    for (int i = 0; i < times && rc == 0; i++)
        rc = coir_channel_send(arg, &byte);
    return rc;
}

static int run_items(size_t capacity)
{
    char byte;
    coir_channel *channel;
    int rc = coir_channel_new(1, capacity, &channel);
    if (rc < 0)
        return rc;
    COIR_SCOPE(scope);
    coir_go(scope, sends, channel);
    for (int i = 0; i < times && rc == 0; i++)
        rc = coir_channel_recv(channel, &byte);
    coir_scope_wait(scope);
    coir_channel_free(channel);
    return rc;
}

static int run_stream(void)
{
    return run_items(16);
}

/* Items through a channel without room. */
static int run_handover(void)
{
    return run_items(0);
}

/* A select of 100 channels of which one has an item, each time another one. */
static int run_select100(void)
{
    enum { MANY = 100 };
    static coir_channel *channels[MANY];
    coir_case waits[MANY];
    char byte = 0;
    int rc = 0;
    for (int i = 0; i < MANY; i++) {
        if (coir_channel_new(1, 1, &channels[i]) < 0)
            return -1;
        waits[i] = coir_case_recv(channels[i], &byte);
    }
    for (int i = 0; i < times && rc >= 0; i++) {
        coir_channel_try_send(channels[i * 7 % MANY], &byte);
        rc = coir_select(waits, MANY);
    }
    for (int i = 0; i < MANY; i++)
        coir_channel_free(channels[i]);
    return rc < 0 ? rc : 0;
}

/* A generator's next: two switches. */
static int generate(coir_generator *generator, uint64_t first, void *arg)
{
    (void)first, (void)arg;
    for (;;) {
        int rc = coir_generator_yield(generator, 1, NULL);
        if (rc < 0)
            return rc;
    }
}

static int run_switch(void)
{
    coir_generator *generator;
    uint64_t value;
    int rc = coir_generator_new(generate, NULL, &generator);
    if (rc < 0)
        return rc;
    for (int i = 0; i < times && rc >= 0; i++)
        rc = coir_generator_next(generator, 0, &value);
    coir_generator_free(generator);
    return rc < 0 ? rc : 0;
}

/* A timeout that is set and taken back, as most are. */
static void on_timer(coir_loop *loop, coir_timer *timer, void *arg)
{
    (void)loop, (void)timer, (void)arg;
}

/* One alone: how many share a slot of the wheel depends on how long the machine has run. */
static int run_timer(void)
{
    coir_timer timer = {0};
    coir_loop *loop;
    int rc = coir_loop_new(&loop);
    if (rc < 0)
        return rc;
    for (int i = 0; i < times; i++) {
        coir_timer_start(loop, &timer, 1000 * COIR_S, on_timer, NULL);
        coir_timer_stop(loop, &timer);
    }
    coir_loop_free(loop);
    return 0;
}

/* Timers that fire, spread over levels of the wheel: 100 in each millisecond. */
static int fired;

static void on_fire(struct ci_timer *timer)
{
    (void)timer;
    fired++;
}

static int run_fire(void)
{
    static struct ci_wheel wheel;
    coir_time span = times * (COIR_MS / 100);
    struct ci_timer *timers = calloc((size_t)times, sizeof *timers);
    if (!timers)
        return -1;
    ci_wheel_init(&wheel, 0);
    for (int i = 0; i < times; i++) {
        ci_timer_init(&timers[i], on_fire);
        ci_wheel_start(&wheel, &timers[i], (coir_time)i * 7919 * COIR_US % span);
    }
    for (coir_time now = 0; now < span + COIR_MS; now += COIR_MS)
        ci_wheel_fire(&wheel, now);
    free(timers);
    return fired == times ? 0 : -1;
}

static coir_future *end_at_once(coir_future *future)
{
    COIR_BEGIN(future);
    COIR_END(future);
}

static int run_future(void)
{
    static const coir_future_kind kind = COIR_FUTURE_KIND("nothing", end_at_once, NULL);
    coir_future future;
    for (int i = 0; i < times; i++) {
        COIR_SCOPE(scope);
        coir_go_future(scope, coir_future_init(&future, &kind));
        coir_scope_wait(scope);
    }
    return 0;
}

static int run_mutex(void)
{
    for (int i = 0; i < times; i++) {
        if (coir_mutex_lock(&mutex) < 0)
            return -1;
        coir_mutex_unlock(&mutex);
    }
    return 0;
}

/* 64 bytes over a pair of Unix sockets and back: two echoes, each a read that waits and a write. */
enum { PAIRS_MOST = 64 };
static int pairs;

static int answers(void *arg)
{
    char bytes[4096];
    ssize_t n;
    while ((n = coir_read(arg, bytes, sizeof bytes)) > 0)
        coir_write_all(arg, bytes, (size_t)n);
    return (int)n;
}

static int asks(void *arg)
{
    char bytes[64] = {0};
    int rc = 0;
    for (int i = 0; i < times / pairs && rc == 0; i++)
        if ((rc = coir_write_all(arg, bytes, sizeof bytes)) == 0)
            rc = coir_read(arg, bytes, sizeof bytes) == sizeof bytes ? 0 : -1;
    coir_close(arg);
    return rc;
}

static int run_pairs(int count)
{
    coir_stream *near, *far[PAIRS_MOST];
    COIR_SCOPE(scope);
    for (int i = 0; i < count; i++) {
        int fds[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) < 0 ||
            coir_stream_adopt(fds[0], &near) < 0 || coir_stream_adopt(fds[1], &far[i]) < 0 ||
            coir_go(scope, asks, near) < 0 || coir_go(scope, answers, far[i]) < 0)
            return -1;
    }
    pairs = count;
    int rc = coir_scope_wait(scope);
    for (int i = 0; i < count; i++)
        coir_close(far[i]);
    return rc;
}

static int run_echo(void)
{
    return run_pairs(1);
}

/* Of many, so that few of them wait alone. */
static int run_echoes(void)
{
    return run_pairs(PAIRS_MOST);
}

static const char *address;

static const char request[] = "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n";

/* Sends some requests at once, and takes their answers. */
static int ask(coir_stream *stream, int count)
{
    enum { MOST = 16 };
    static const char end[] = "World!";
    static char bytes[MOST * sizeof request], answers[MOST * 500];
    size_t len = 0, got = 0;
    for (int i = 0; i < count; i++, len += sizeof request - 1)
        memcpy(bytes + len, request, sizeof request - 1);
    int rc = coir_write_all(stream, bytes, len);
    for (int ends = 0; rc == 0 && ends < count;) {
        ssize_t n = coir_read(stream, answers + got, sizeof answers - 1 - got);
        rc = n > 0 ? 0 : n < 0 ? (int)n : -COIR_EEND;
        got += n > 0 ? (size_t)n : 0;
        answers[got] = '\0';
        ends = 0;
        for (const char *at = answers; (at = strstr(at, end)); at += sizeof end - 1)
            ends++;
    }
    return rc;
}

/* Asks on one connection, `count` requests at a time, each time when the answers have come. */
static int ask_again_and_again(int count)
{
    coir_stream *stream;
    int rc = coir_tcp_connect(address, &stream);
    if (rc < 0)
        return rc;
    for (int i = 0; rc == 0 && i < times; i += count)
        rc = ask(stream, count);
    coir_close(stream);
    return rc;
}

static int run_request(void)
{
    return ask_again_and_again(1);
}

static int run_pipelined(void)
{
    return ask_again_and_again(16);
}

/* Connections that have had an answer and are kept, until this program is killed. */
static int run_idle(void)
{
    int rc = 0;
    for (int i = 0; i < times && rc == 0; i++) {
        coir_stream *stream;
        if ((rc = coir_tcp_connect(address, &stream)) == 0)
            rc = ask(stream, 1);
    }
    if (rc < 0)
        return rc;
    puts("idle");
    fflush(stdout);
    return coir_sleep_for(1000 * COIR_S);
}

/* Connections with one request each, all of them sent before the first answer is read. */
static int run_connections(void)
{
    static const char last_request[] =
        "GET /hello HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    static char answer[500];
    coir_stream **streams = calloc((size_t)times, sizeof *streams);
    int rc = streams ? 0 : -1;
    for (int i = 0; rc == 0 && i < times; i++)
        if ((rc = coir_tcp_connect(address, &streams[i])) == 0)
            rc = coir_write_all(streams[i], last_request, sizeof last_request - 1);
    puts("sent");
    fflush(stdout);
    for (int i = 0; rc == 0 && i < times; i++) {
        ssize_t n = coir_read(streams[i], answer, sizeof answer);
        rc = n > 0 ? 0 : -1;
        coir_close(streams[i]);
    }
    free(streams);
    return rc;
}

static int start(void *arg)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } operations[] = {
        {"switch", run_switch},   {"yield", run_yield},         {"spawn", run_spawn},
        {"channel", run_channel}, {"stream", run_stream},       {"handover", run_handover},
        {"select", run_select},   {"select100", run_select100}, {"mutex", run_mutex},
        {"timer", run_timer},     {"fire", run_fire},           {"future", run_future},
        {"request", run_request}, {"pipelined", run_pipelined}, {"idle", run_idle},
        {"echo", run_echo},       {"echoes", run_echoes},       {"connections", run_connections},
    };
    if (coir_channel_new(1, 1, &there) < 0 || coir_channel_new(1, 1, &back) < 0)
        return -1;
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++)
        if (strcmp(operations[i].name, arg) == 0)
            return operations[i].run();
    fprintf(stderr, "unknown operation: %s\n", (char *)arg);
    return -1;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    times = atoi(argv[2]);
    address = argv[3];
    setenv("COIR_WORKERS", "1", 1);
    return coir_main(start, argv[1]);
}
