/* An acceptor when descriptors are short, and sockets on the loop of a worker. */
#include <coir.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "harness.h"

static int connects, accepts, shortages, taken[64], taken_count;
static coir_socket *sockets[2];

static void take_all(void)
{
    while ((taken[taken_count] = open("/dev/null", O_RDONLY)) >= 0)
        taken_count++;
    CHECK_EQ(errno, EMFILE);
}

static void on_accept(coir_acceptor *acceptor, coir_socket *socket, int result, void *arg)
{
    (void)arg;
    if (result == -EMFILE) {
        CHECK(!socket);
        if (++shortages == 2) /* it goes on by itself */
            while (taken_count)
                CHECK_EQ(close(taken[--taken_count]), 0);
        return;
    }
    CHECK_EQ(result, 0);
    accepts++;
    coir_socket_close(socket);
    coir_acceptor_close(acceptor);
}

static void on_connect(coir_socket *socket, ssize_t result, void *arg)
{
    (void)socket, (void)arg;
    CHECK_EQ(result, 0);
    connects++;
}

static void on_end(coir_socket *socket, ssize_t result, void *arg)
{
    (void)arg;
    CHECK_EQ(result, 0);
    coir_socket_close(socket);
}

TEST(without_descriptors_the_error_is_told_and_connections_wait)
{
    struct rlimit files = {32, 32};
    coir_acceptor *acceptor;
    coir_loop *loop;
    char where[64], byte;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
    CHECK_EQ(coir_loop_new(&loop), 0);
    CHECK_EQ(coir_acceptor_open(loop, "127.0.0.1:0", on_accept, NULL, &acceptor), 0);
    CHECK(coir_acceptor_local(acceptor, where, sizeof where) > 0);
    CHECK_EQ(coir_socket_connect(loop, where, on_connect, NULL, &sockets[0]), 0);
    CHECK_EQ(coir_socket_read(sockets[0], &byte, 1, on_end, NULL), 0);
    take_all();
    CHECK_EQ(coir_socket_connect(loop, where, on_connect, NULL, &sockets[1]), -EMFILE);
    CHECK_EQ(coir_loop_run(loop), 0);
    CHECK(connects == 1 && accepts == 1 && shortages == 2);
    coir_loop_free(loop);
}

/* ---- beside fibers ---- */

static coir_acceptor *of_worker;

static void on_echoed(coir_socket *socket, coir_queued_write *write, int result, void *arg)
{
    (void)write, (void)arg;
    CHECK_EQ(result, 0);
    coir_socket_close(socket);
}

static void on_byte(coir_socket *socket, ssize_t result, void *arg)
{
    static coir_queued_write write;
    CHECK_EQ(result, 1);
    CHECK_EQ(coir_socket_write(socket, &write, arg, 1, on_echoed, NULL), 0);
}

static void echo_one(coir_acceptor *acceptor, coir_socket *socket, int result, void *arg)
{
    static char byte;
    (void)arg;
    CHECK_EQ(result, 0);
    CHECK_EQ(coir_socket_read(socket, &byte, 1, on_byte, &byte), 0);
    coir_acceptor_close(acceptor);
}

static void talk(void)
{
    char where[64], byte = 0;
    coir_stream *stream;
    CHECK_EQ(coir_acceptor_open(coir_worker_loop(), "127.0.0.1:0", echo_one, NULL, &of_worker), 0);
    CHECK(coir_acceptor_local(of_worker, where, sizeof where) > 0);
    CHECK_EQ(coir_tcp_connect(where, &stream), 0);
    CHECK_EQ(coir_write_all(stream, "x", 1), 0);
    CHECK_EQ(coir_read(stream, &byte, 1), 1);
    CHECK_EQ(byte, 'x');
    CHECK_EQ(coir_read(stream, &byte, 1), 0);
    coir_close(stream);
}

TEST_REAL(a_fiber_talks_to_callbacks_on_its_worker)
{
    talk();
}

TEST(a_fiber_talks_to_callbacks_in_the_simulated_world)
{
    for (uint64_t seed = 1; seed <= 20; seed++)
        test_in_sim(talk, 1, seed);
}

/* Nobody closes the acceptor: the end of the runtime does. */
TEST_REAL(what_is_left_on_a_worker_is_closed)
{
    char where[64];
    CHECK_EQ(coir_acceptor_open(coir_worker_loop(), "127.0.0.1:0", echo_one, NULL, &of_worker), 0);
    CHECK(coir_acceptor_local(of_worker, where, sizeof where) > 0);
    CHECK_EQ(coir_socket_connect(coir_worker_loop(), where, on_connect, NULL, &sockets[0]), 0);
}
