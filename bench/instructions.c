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
        {"yield", run_yield},   {"spawn", run_spawn}, {"channel", run_channel},
        {"select", run_select}, {"mutex", run_mutex}, {"request", run_request},
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
