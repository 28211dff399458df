/* Real sockets and files whose calls fail, move less than they could, and come late: what gets
 * through is right, and when the calls work again everything does. */
#include <coir.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "faults.h"
#include "harness.h"
#include "io/listener.h"
#include "plain.h"
#include "task/runtime.h"

enum { CLIENTS = 8, VISITS = 40, SIZE = 5000 };

static struct ci_driver *driver;
static char address[64];
static int good, bad;

static int open_faulty(void *arg, int worker, const coir_allocator *allocator,
                       struct ci_driver **ret_driver)
{
    (void)worker;
    struct ci_driver *real;
    int rc = ci_driver_open(arg, allocator, &real);
    if (rc == 0)
        *ret_driver = driver = faults_around(real, 7);
    return rc;
}

static int echo(coir_stream *stream, void *arg)
{
    char buf[1000];
    (void)arg;
    ssize_t n;
    while ((n = coir_read(stream, buf, sizeof buf)) > 0 &&
           (n = coir_write_all(stream, buf, (size_t)n)) == 0)
        continue;
    return (int)n;
}

static int serve(void *listener)
{
    return coir_serve_tcp_with(TCP_ON(listener), echo, NULL);
}

struct talk {
    coir_stream *stream;
    unsigned char bytes[SIZE], back[SIZE];
};

static int send_bytes(void *arg)
{
    struct talk *talk = arg;
    int rc = coir_write_all(talk->stream, talk->bytes, SIZE);
    if (rc < 0)
        coir_shutdown_write(talk->stream); /* the other end need not wait for the rest */
    return rc;
}

static int visit_with(struct talk *talk, int number)
{
    for (int i = 0; i < SIZE; i++)
        talk->bytes[i] = (unsigned char)(number * 31 + i * 7);
    COIR_DEADLINE(coir_in(30 * COIR_S));
    int rc = coir_tcp_connect(address, &talk->stream);
    if (rc < 0)
        return rc;
    {
        COIR_SCOPE(scope);
        size_t done = 0;
        rc = coir_go(scope, send_bytes, talk);
        if (rc == 0)
            rc = (int)coir_read_full(talk->stream, talk->back, SIZE, &done);
        CHECK(memcmp(talk->bytes, talk->back, done) == 0);
        coir_scope_cancel(scope);
    }
    coir_close(talk->stream);
    return rc < 0 ? rc : 0;
}

static int visit(int number)
{
    struct talk *talk = malloc(sizeof *talk);
    int rc = visit_with(talk, number);
    free(talk);
    return rc;
}

static int be_a_client(void *arg)
{
    for (int i = 0; i < VISITS; i++)
        *(visit((int)(intptr_t)arg * VISITS + i) == 0 ? &good : &bad) += 1;
    return 0;
}

static void use_sockets(void)
{
    coir_listener *listener;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    plain_reset_on_close(listener->fd);
    coir_listener_local(listener, address, sizeof address);
    {
        COIR_SCOPE(scope);
        CHECK_EQ(coir_go(scope, serve, listener), 0);
        faults_fail(driver, 30);
        {
            COIR_SCOPE(clients);
            for (intptr_t i = 0; i < CLIENTS; i++)
                CHECK_EQ(coir_go(clients, be_a_client, (void *)i), 0);
            CHECK_EQ(coir_scope_wait(clients), 0);
        }
        faults_fail(driver, 0);
        CHECK_EQ(visit(1), 0);
        coir_scope_cancel(scope);
    }
    coir_listener_close(listener);
    CHECK(bad > 20 && good + bad == CLIENTS * VISITS);
}

/* After any transient error of accept(2), or of waiting for it, the server continues. */
static void survive_failing_accepts(void)
{
    static const int errors[] = {-EMFILE,       -ENFILE, -ENOBUFS,      -ENOMEM,      -ENOSPC,
                                 -ECONNABORTED, -EPROTO, -EPERM,        -ENETDOWN,    -ENOPROTOOPT,
                                 -EHOSTDOWN,    -ENONET, -EHOSTUNREACH, -ENETUNREACH, -EOPNOTSUPP};
    coir_listener *listener;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    coir_listener_local(listener, address, sizeof address);
    {
        COIR_SCOPE(scope);
        CHECK_EQ(coir_go(scope, serve, listener), 0);
        for (size_t i = 0; i < ci_countof(errors); i++) {
            faults_fail_accepts(driver, errors[i], 1);
            CHECK_EQ(visit(1), 0);
            CHECK_EQ(visit(2), 0);
        }
        coir_scope_cancel(scope);
    }
    coir_listener_close(listener);
}

/* Where accept(2) is forbidden for a while, the server neither ends nor spins. */
static void survive_forbidden_accepts(void)
{
    coir_listener *listener;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    coir_listener_local(listener, address, sizeof address);
    {
        COIR_SCOPE(scope);
        CHECK_EQ(coir_go(scope, serve, listener), 0);
        CHECK_EQ(visit(1), 0);
        coir_time begin = coir_now();
        faults_fail_accepts(driver, -EPERM, 40);
        CHECK_EQ(visit(2), 0); /* an accept may be in flight, and be this one's */
        CHECK_EQ(visit(3), 0);
        CHECK(coir_now() - begin >= 2 * ci_accept_pause);
        coir_scope_cancel(scope);
    }
    coir_listener_close(listener);
}

static int serve_and_drain(void *listener)
{
    coir_serve_tcp_options options = COIR_SERVE_TCP_OPTIONS;
    options.listener = listener;
    options.drain_timeout = 50 * COIR_MS;
    return coir_serve_tcp_with(&options, echo, NULL);
}

/* A server that ends does not try for ever to accept what is in its backlog. */
static void end_with_forbidden_accepts(void)
{
    coir_listener *listener;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    coir_listener_local(listener, address, sizeof address);
    {
        COIR_SCOPE(scope);
        CHECK_EQ(coir_go(scope, serve_and_drain, listener), 0);
        CHECK_EQ(visit(1), 0);
        faults_fail_accepts(driver, -EPERM, UINT_MAX);
        coir_scope_cancel(scope);
        coir_scope_wait(scope);
    }
    faults_fail_accepts(driver, 0, 0);
    coir_listener_close(listener);
}

/* Writes a file with short writes, repeating those that fail; then reads it the same way. */
static void use_a_file(void)
{
    char path[] = "/tmp/coir-fault-XXXXXX";
    int fd = mkstemp(path), failures = 0;
    CHECK(fd >= 0);
    close(fd);
    static unsigned char bytes[SIZE], back[SIZE];
    coir_file *file;
    CHECK_EQ(coir_file_open(path, O_RDWR, 0, &file), 0);
    for (int i = 0; i < SIZE; i++)
        bytes[i] = (unsigned char)(i * 11 + (i >> 8));
    faults_fail(driver, 3);
    for (int at = 0; at < SIZE;) {
        ssize_t n = coir_file_write(file, bytes + at, (size_t)(SIZE - at), at);
        CHECK(n > 0 || n == -ENOMEM);
        at += n > 0 ? (int)n : 0;
        failures += n < 0;
    }
    while (coir_file_sync(file) < 0)
        failures++;
    for (int at = 0; at < SIZE;) {
        ssize_t n = coir_file_read(file, back + at, (size_t)(SIZE - at), at);
        at += n > 0 ? (int)n : 0;
        failures += n < 0;
    }
    faults_fail(driver, 0);
    CHECK(memcmp(bytes, back, SIZE) == 0);
    CHECK(failures > 0);
    coir_file_close(file);
    unlink(path);
}

static int use_all(void *arg)
{
    (void)arg;
    use_sockets();
    survive_failing_accepts();
    survive_forbidden_accepts();
    end_with_forbidden_accepts();
    if (driver->file_calls)
        use_a_file();
    return 0;
}

static void on(const char *name)
{
    coir_runtime *runtime;
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    int rc = ci_runtime_new_on(&config, NULL, open_faulty, (void *)(uintptr_t)name, &runtime);
    if (rc < 0 && strcmp(name, "io_uring") == 0)
        return; /* it does not work here */
    CHECK_EQ(rc, 0);
    CHECK_EQ(coir_runtime_run(runtime, use_all, NULL), 0);
    coir_runtime_free(runtime);
}

TEST(failing_calls_on_io_uring)
{
    on("io_uring");
}

TEST(failing_calls_on_epoll)
{
    on("epoll");
}

TEST(failing_calls_on_poll)
{
    on("poll");
}
