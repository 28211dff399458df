/* Listening that fails says where, why, and what to do about it; and what coir_main says of it
 * last. */
#include <coir.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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

/* ---- coir_main ---- */

static int end_with(void *arg)
{
    return (int)(intptr_t)arg;
}

static int stop_and_end(void *arg)
{
    coir_runtime_stop(coir_runtime_current());
    return coir_sleep_for(1000 * COIR_S) == -ECANCELED ? -ECANCELED : (int)(intptr_t)arg;
}

/* What coir_main prints and returns. */
static int status_of(coir_task_fn *fn, int result)
{
    int out[2], saved = dup(STDERR_FILENO);
    CHECK_EQ(pipe(out), 0);
    dup2(out[1], STDERR_FILENO);
    int status = coir_main(fn, (void *)(intptr_t)result);
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(out[1]);
    ssize_t n = read(out[0], said, sizeof said - 1);
    said[n > 0 ? n : 0] = 0;
    close(out[0]);
    close(saved);
    return status;
}

TEST(coir_main_says_how_the_program_ended)
{
    setenv("COIR_WORKERS", "1", 1);
    CHECK_EQ(status_of(end_with, 0), 0);
    CHECK_EQ(status_of(end_with, 7), 0);
    CHECK_EQ(status_of(stop_and_end, 0), 0); /* it was asked to end */
    CHECK(said[0] == 0);
    CHECK_EQ(status_of(end_with, -EXDEV), 1);
    CHECK(strstr(said, "error of its first task: it belongs to another worker") != NULL);
    CHECK_EQ(status_of(end_with, -ECANCELED), 1); /* it was not */
    setenv("COIR_DRIVER", "nonsense", 1);
    CHECK_EQ(status_of(end_with, 0), 1);
    CHECK(strstr(said, "\"nonsense\"") != NULL);
}

static int fail_in_the_background(void *arg)
{
    return coir_go(NULL, end_with, (void *)(intptr_t)-EIO) < 0 ? (int)(intptr_t)arg : 0;
}

TEST(coir_main_logs_what_the_environment_asks_for)
{
    setenv("COIR_WORKERS", "1", 1);
    unsetenv("COIR_LOG");
    CHECK_EQ(status_of(fail_in_the_background, -1), 0);
    CHECK(strstr(said, "coir: warning: ") != NULL);
    setenv("COIR_LOG", "warning", 1);
    CHECK_EQ(status_of(fail_in_the_background, -1), 0);
    CHECK(strstr(said, "coir: warning: ") != NULL);
    setenv("COIR_LOG", "error", 1);
    CHECK_EQ(status_of(fail_in_the_background, -1), 0);
    CHECK(said[0] == 0);
    setenv("COIR_LOG", "loud", 1);
    CHECK_EQ(status_of(end_with, 0), 0);
    CHECK(strstr(said, "COIR_LOG is \"loud\"; it may be none, error, warning, info or debug") !=
          NULL);
}

/* ---- the end of serving ---- */

/* Puts a connection aside for the seat of a worker that is busy: it has been told, and has not
 * looked. */
static int accept_what_another_was_to_have(void *arg)
{
    (void)arg;
    enum { MANY = 3 };
    char address[64], byte;
    coir_listener *listener;
    coir_stream *clients[MANY], *stream;
    struct ci_worker *worker = ci_worker_current;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    CHECK(coir_listener_local(listener, address, sizeof address) > 0);
    struct ci_seat *other = &listener->seats[1 - worker->index];
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(coir_tcp_connect(address, &clients[i]), 0);
        CHECK_EQ(coir_write_all(clients[i], "x", 1), 0);
    }
    coir_fd *spare = ci_alloc(listener->allocator, MANY * sizeof *spare);
    CHECK(spare);
    for (size_t i = 0; i < MANY; i++)
        CHECK((spare[i] = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0);
    listener->spare = spare;
    listener->spare_count = listener->spare_room = MANY;
    listener->reserved = other->reserved = MANY - 1;
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(ci_accept_now(listener, &stream), 0);
        CHECK_EQ(coir_read(stream, &byte, 1), 1);
        coir_close(stream);
    }
    CHECK(listener->spare_count == 0 && listener->reserved == 0 && other->reserved == 0);
    CHECK_EQ(ci_accept_now(listener, &stream), -EAGAIN);
    for (int i = 0; i < MANY; i++)
        coir_close(clients[i]);
    coir_listener_close(listener);
    return 0;
}

TEST(the_last_look_takes_what_is_reserved_for_others)
{
    coir_config config = COIR_CONFIG;
    coir_runtime *runtime;
    unsetenv("COIR_WORKERS");
    unsetenv("COIR_DRIVER");
    config.workers = 2;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    CHECK_EQ(coir_runtime_run(runtime, accept_what_another_was_to_have, NULL), 0);
    coir_runtime_free(runtime);
}
