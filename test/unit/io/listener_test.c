/* Opening and closing listeners. Listening that fails logs where, why, and what to do about it. */
#include <coir.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "io/listener.h"

static char said[400];

static void log_line(enum coir_log_level level, const char *line, void *context)
{
    (void)context;
    if (level == COIR_LOG_ERROR)
        snprintf(said, sizeof said, "%s", line);
}

static void fails(const char *address, int error, const char *remedy)
{
    char begin[100];
    coir_listener *listener = NULL;
    said[0] = 0;
    CHECK_EQ(coir_tcp_listen(address, &listener), error);
    snprintf(begin, sizeof begin, "cannot listen on \"%s\": %s", address, coir_strerror(error));
    CHECK(strncmp(said, begin, strlen(begin)) == 0);
    CHECK(strstr(said, remedy) != NULL);
}

static int listen_badly(void *arg)
{
    (void)arg;
    char address[64];
    coir_listener *listener;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    CHECK(said[0] == 0);
    CHECK(coir_listener_local(listener, address, sizeof address) > 0);
    fails(address, -EADDRINUSE, "choose another port");
    fails("192.0.2.1:0", -EADDRNOTAVAIL, "0.0.0.0");
    fails("nonsense", -COIR_EPORT, "127.0.0.1:8080");
    fails("unix:nonsense", -COIR_EPATH, "unix:/");
    fails("fd:999", -COIR_EPASSED, "listens already");
    coir_listener_close(listener);
    return 0;
}

TEST(listening_that_fails_says_where_why_and_what_to_do)
{
    coir_config config = COIR_CONFIG;
    coir_runtime *runtime;
    config.workers = 1;
    config.log = log_line;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    CHECK_EQ(coir_runtime_run(runtime, listen_badly, NULL), 0);
    coir_runtime_free(runtime);
}

/* ---- closing ---- */

struct accepting {
    coir_listener *listener;
    int rc;
};

static int accept_one(void *arg)
{
    struct accepting *accepting = arg;
    coir_stream *stream;
    accepting->rc = coir_accept(accepting->listener, &stream);
    return 0;
}

/* The record outlives the accepts that waited on the worker that closes it. */
static void close_under_an_accept(void)
{
    struct accepting waits[3];
    coir_listener *listener;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    COIR_SCOPE(scope);
    for (int i = 0; i < 3; i++) {
        waits[i] = (struct accepting){listener, 1};
        CHECK_EQ(coir_go(scope, accept_one, &waits[i]), 0);
    }
    while (listener->seats[ci_worker_current->index].waiting < 3)
        coir_yield();
    coir_listener_close(listener);
    CHECK_EQ(coir_scope_wait(scope), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(waits[i].rc, -ECANCELED);
}

TEST_REAL(accepts_that_wait_end_when_the_listener_is_closed)
{
    close_under_an_accept();
}

TEST_SIM(accepts_that_wait_end_when_a_simulated_listener_is_closed)
{
    close_under_an_accept();
}
