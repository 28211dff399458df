/* Two ends of a connection with callbacks, on a loop on each driver; and writes that get stuck. */
#ifndef TEST_LOOP_PAIR_H
#define TEST_LOOP_PAIR_H

#include <coir/loop_tcp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

/* A loop on each driver. NULL: it does not work here. */
static coir_loop *loop_on(int driver)
{
    static const char *const drivers[] = {"epoll", "poll", "io_uring"};
    coir_loop_options options = COIR_LOOP_OPTIONS;
    coir_loop *loop;
    options.driver = drivers[driver];
    int rc = coir_loop_new_with(&options, &loop);
    CHECK(rc == 0 || driver == 2);
    return rc == 0 ? loop : NULL;
}

/* ---- the two ends ---- */

static coir_loop *loop;
static coir_acceptor *acceptor;
static coir_socket *client, *server;
static int connects, accepts;

static void on_connect(coir_socket *socket, ssize_t result, void *arg)
{
    CHECK(arg == &connects);
    CHECK(socket == client);
    CHECK_EQ(result, 0);
    connects++;
}

static void on_accept(coir_acceptor *own, coir_socket *socket, int result, void *arg)
{
    CHECK(arg == &accepts);
    CHECK(own == acceptor);
    CHECK_EQ(result, 0);
    accepts++;
    server = socket;
}

static void turn(void)
{
    CHECK_EQ(coir_loop_run_once(loop, coir_loop_update_now(loop) + 10 * COIR_S), 0);
}

#define UNTIL(condition) \
    while (!(condition)) \
    turn()

static void open_acceptor(char *where, size_t size)
{
    CHECK_EQ(coir_acceptor_open(loop, "127.0.0.1:0", on_accept, &accepts, &acceptor), 0);
    CHECK(coir_acceptor_local(acceptor, where, size) > 0);
}

/* Connects a client to a server; the acceptor is closed. */
static inline void open_pair(void)
{
    char where[64], theirs[64];
    connects = accepts = 0;
    open_acceptor(where, sizeof where);
    CHECK_EQ(coir_socket_connect(loop, where, on_connect, &connects, &client), 0);
    CHECK_EQ(connects, 0); /* never from inside the call */
    CHECK_EQ(coir_socket_set_option(client, COIR_TCP_NODELAY, 1), 0);
    CHECK_EQ(coir_socket_set_option(client, (enum coir_tcp_option)99, 1), -EINVAL);
    UNTIL(connects && accepts);
    CHECK(coir_socket_peer(client, theirs, sizeof theirs) > 0);
    CHECK(strcmp(where, theirs) == 0);
    CHECK(coir_socket_local(client, where, sizeof where) > 0);
    CHECK(coir_socket_peer(server, theirs, sizeof theirs) > 0);
    CHECK(strcmp(where, theirs) == 0);
    coir_acceptor_close(acceptor);
    acceptor = NULL;
}

static inline void close_pair(void)
{
    coir_socket_close(client);
    coir_socket_close(server);
    CHECK(!coir_loop_alive(loop)); /* nothing is left */
    CHECK_EQ(coir_loop_run(loop), 0);
}

#define ON_EACH_DRIVER()                          \
    for (int driver_ = 0; driver_ < 3; driver_++) \
        for (loop = loop_on(driver_); loop; coir_loop_free(loop), loop = NULL)
/* ---- results ---- */

static inline void on_reply(coir_socket *socket, ssize_t result, void *arg)
{
    (void)socket;
    *(ssize_t *)arg = result;
}

static inline void count_outcome(coir_socket *socket, coir_queued_write *write, int result,
                                 void *arg)
{
    (void)socket, (void)write;
    CHECK_EQ(result, 0);
    ++*(int *)arg;
}

/* ---- writes that get stuck ---- */

enum { WRITES = 200, LARGE = 1 << 20 };

static coir_queued_write queued[WRITES];
static int results[WRITES + 1];
static char *large;
static int stuck;

static inline void on_stuck(coir_socket *socket, coir_queued_write *write, int result, void *arg)
{
    (void)socket, (void)write, (void)arg;
    results[stuck++] = result;
}

/* More than the buffers of both ends hold, to a peer that does not read. Returns how many. */
static inline int fill(void)
{
    for (int i = 0; i < 64; i++)
        CHECK_EQ(coir_socket_write(client, &queued[i], large, LARGE, on_stuck, NULL), 0);
    return 64;
}

#endif
