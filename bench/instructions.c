/* One operation, again and again, for bench/instructions to count. "request" is the client of a
 * server whose instructions are counted. Usage: bench_instructions OPERATION TIMES [ADDRESS] */
#include <coir.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static int run_stream(void)
{
    char byte;
    coir_channel *channel;
    int rc = coir_channel_new(1, 16, &channel);
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

/* Items through a channel without room. */
static int run_handover(void)
{
    char byte;
    coir_channel *channel;
    int rc = coir_channel_new(1, 0, &channel);
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

/* Timers of many times that fire in one run; each is started again by its callback. */
static int timers_left;

static void on_timer(coir_loop *loop, coir_timer *timer, void *arg)
{
    if (timers_left-- > 0)
        coir_timer_start(loop, timer, (coir_time)(1 + timers_left % 977) * COIR_US, on_timer, arg);
}

static int run_timer(void)
{
    enum { MANY = 1000 };
    static coir_timer timers[MANY];
    coir_loop *loop;
    int rc = coir_loop_new(&loop);
    if (rc < 0)
        return rc;
    timers_left = times;
    for (int i = 0; i < MANY; i++)
        coir_timer_start(loop, &timers[i], i * COIR_US, on_timer, NULL);
    rc = coir_loop_run(loop);
    coir_loop_free(loop);
    return rc;
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

static const char *address;

/* Asks for /hello on one connection, each time when the answer has come. */
static int run_request(void)
{
    static const char request[] = "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n";
    char answer[1000];
    coir_stream *stream;
    int rc = coir_tcp_connect(address, &stream);
    if (rc < 0)
        return rc;
    for (int i = 0; rc == 0 && i < times; i++) {
        ssize_t n = 0, len = 0;
        rc = coir_write_all(stream, request, sizeof request - 1);
        while (rc == 0 && (len < 6 || memcmp(answer + len - 6, "World!", 6) != 0)) {
            n = coir_read(stream, answer + len, sizeof answer - (size_t)len);
            rc = n > 0 ? 0 : n < 0 ? (int)n : -COIR_EEND;
            len += n;
        }
    }
    coir_close(stream);
    return rc;
}

static int start(void *arg)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } operations[] = {
        {"yield", run_yield},         {"spawn", run_spawn},       {"channel", run_channel},
        {"stream", run_stream},       {"handover", run_handover}, {"select", run_select},
        {"select100", run_select100}, {"mutex", run_mutex},       {"timer", run_timer},
        {"request", run_request},
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
    if (argc < 3 || (strcmp(argv[1], "request") == 0 && argc != 4))
        return 2;
    times = atoi(argv[2]);
    address = argv[3];
    setenv("COIR_WORKERS", "1", 1);
    return coir_main(start, argv[1]);
}
