/* Connections that were accepted for other workers. */
#include <stdlib.h>
#include <sys/socket.h>

#include "harness.h"
#include "io/listener.h"

/* Puts a connection aside for the seat of a busy worker, which has been sent the message and has
 * not handled it. */
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
        CHECK_EQ(ci_accept_now(listener, true, &stream), 0);
        CHECK_EQ(coir_read(stream, &byte, 1), 1);
        coir_close(stream);
    }
    CHECK(listener->spare_count == 0 && listener->reserved == 0 && other->reserved == 0);
    CHECK_EQ(ci_accept_now(listener, true, &stream), -EAGAIN);
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

/* ---- reserved for a worker that does not accept ---- */

static char address[64];

/* Puts a connection aside for a worker without an accept: its message finds none, so the connection
 * is for any worker, and the accept that waits here takes it. */
static int put_and_accept(void *arg)
{
    coir_listener *listener = arg;
    struct ci_seat *other = &listener->seats[1 - ci_worker_current->index];
    coir_stream *client, *stream;
    char byte;
    CHECK_EQ(coir_tcp_connect(address, &client), 0);
    CHECK_EQ(coir_write_all(client, "x", 1), 0);
    coir_fd fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_EQ(ci_spare_put(listener, fd, other), 0);
    CHECK_EQ(coir_accept(listener, &stream), 0);
    CHECK_EQ(coir_read(stream, &byte, 1), 1);
    coir_close(stream);
    coir_close(client);
    return 0;
}

static int reserve_for_one_that_does_not_accept(void *arg)
{
    (void)arg;
    coir_listener *listener;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    CHECK(coir_listener_local(listener, address, sizeof address) > 0);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(put_and_accept(listener), 0);
    coir_listener_close(listener);
    return 0;
}

TEST(what_is_reserved_for_a_worker_that_does_not_accept_goes_to_another)
{
    coir_config config = COIR_CONFIG;
    coir_runtime *runtime;
    config.workers = 2;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    CHECK_EQ(coir_runtime_run(runtime, reserve_for_one_that_does_not_accept, NULL), 0);
    coir_runtime_free(runtime);
}
