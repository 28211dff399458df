/* An address that is in use: by a listener that closes soon, by one that stays, by a process that
 * was killed. */
#include <coir.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

static int ticks;

static int tick(void *arg)
{
    (void)arg;
    while (coir_sleep_for(10 * COIR_MS) == 0)
        ticks++;
    return 0;
}

static int close_later(void *listener)
{
    int rc = coir_sleep_for(COIR_S / 2);
    coir_listener_close(listener);
    return rc;
}

TEST_SIM(an_address_in_use_is_tried_again_for_a_second)
{
    coir_listener *first, *second;
    COIR_SCOPE(scope);
    coir_go(scope, tick, NULL);
    CHECK_EQ(coir_tcp_listen("127.0.0.1:80", &first), 0);
    coir_time start = coir_now();
    CHECK_EQ(coir_tcp_listen("127.0.0.1:80", &second), -EADDRINUSE);
    CHECK(coir_now() - start >= COIR_S);
    CHECK(ticks > 50); /* others ran meanwhile */
    CHECK_EQ(coir_go(scope, close_later, first), 0);
    CHECK_EQ(coir_tcp_listen("127.0.0.1:80", &second), 0);
    {
        COIR_DEADLINE(coir_in(COIR_S / 10));
        CHECK_EQ(coir_tcp_listen("127.0.0.1:80", &first), -ETIME);
    }
    coir_listener_close(second);
}

/* ---- after SIGKILL ---- */

static int ends[2];
static char address[64] = "127.0.0.1:0";

static int wait_for_client(coir_stream *stream, void *arg)
{
    (void)arg;
    char byte;
    return (int)coir_read(stream, &byte, 1);
}

static int listen_and_tell(void *arg)
{
    (void)arg;
    coir_listener *listener;
    int rc = coir_tcp_listen(address, &listener);
    if (rc < 0)
        _exit(-rc);
    CHECK(coir_listener_local(listener, address, sizeof address) > 0);
    CHECK_EQ(write(ends[1], address, sizeof address), sizeof address);
    return coir_serve_tcp_with(TCP_ON(listener), wait_for_client, NULL);
}

static pid_t start_server(void)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid > 0)
        return pid;
    coir_config config = COIR_CONFIG;
    coir_runtime *runtime;
    config.workers = 2;
    if (coir_runtime_new(&config, &runtime) < 0)
        _exit(1);
    coir_runtime_run(runtime, listen_and_tell, NULL);
    _exit(1);
}

TEST(a_server_that_was_killed_can_be_started_again_at_once)
{
    for (int round = 0; round < 12; round++) {
        CHECK_EQ(pipe(ends), 0);
        pid_t server = start_server();
        close(ends[1]);
        CHECK_EQ(read(ends[0], address, sizeof address), sizeof address);
        CHECK_EQ(kill(server, SIGKILL), 0);
        CHECK_EQ(waitpid(server, NULL, 0), server);
        close(ends[0]);
    }
}
