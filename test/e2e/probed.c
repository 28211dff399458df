/* What bpftrace is to see: ping and pong wake each other, one computes, one offloads a call
 * and waits for a connection. On one worker. */
#include <coir.h>
#include <errno.h>
#include <stdio.h>

enum { ROUNDS = 500 };
static const coir_time spin_time = 30 * COIR_MS;

static coir_channel *there, *back;
static const char byte = 1;

static int ping(void *arg)
{
    char message;
    int rc = 0;
    (void)arg;
    for (int i = 0; rc == 0 && i < ROUNDS; i++)
        if ((rc = coir_channel_send(there, &byte)) == 0)
            rc = coir_channel_recv(back, &message);
    return rc;
}

static int pong(void *arg)
{
    char message;
    int rc = 0;
    (void)arg;
    for (int i = 0; rc == 0 && i < ROUNDS; i++)
        if ((rc = coir_channel_recv(there, &message)) == 0)
            rc = coir_channel_send(back, &message);
    return rc;
}

static int spin(void *arg)
{
    (void)arg;
    for (coir_time end = coir_in(spin_time); coir_now() < end;)
        ;
    return 0;
}

static int call(void *arg)
{
    (void)arg;
    return 0;
}

static int work(void *arg)
{
    coir_listener *listener;
    coir_stream *stream;
    (void)arg;
    int rc = coir_offload(call, NULL);
    if (rc < 0 || (rc = coir_tcp_listen("127.0.0.1:0", &listener)) < 0)
        return rc;
    COIR_DEADLINE(coir_in(1 * COIR_MS));
    rc = coir_accept(listener, &stream);
    coir_listener_close(listener);
    return rc == -ETIME ? 0 : rc;
}

static int go(coir_scope *scope, const char *name, coir_task_fn *fn)
{
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = name;
    return coir_go_with(scope, &options, fn, NULL);
}

static int go_all(void)
{
    int rc;
    COIR_SCOPE(scope);
    if ((rc = go(scope, "ping", ping)) < 0 || (rc = go(scope, "pong", pong)) < 0 ||
        (rc = go(scope, "spinner", spin)) < 0 || (rc = go(scope, "caller", work)) < 0)
        return rc;
    return coir_scope_wait(scope);
}

static int start(void *arg)
{
    (void)arg;
    int rc = coir_channel_new(1, 1, &there);
    if (rc == 0)
        rc = coir_channel_new(1, 1, &back);
    if (rc == 0)
        rc = go_all();
    coir_channel_free(there);
    coir_channel_free(back);
    return rc;
}

int main(void)
{
    coir_config config = COIR_CONFIG;
    coir_runtime *runtime;
    config.workers = 1;
    int rc = coir_runtime_new(&config, &runtime);
    if (rc == 0)
        rc = coir_runtime_run(runtime, start, NULL);
    coir_runtime_free(runtime);
    if (rc < 0)
        fprintf(stderr, "probed: %s\n", coir_strerror(rc));
    return rc < 0;
}
