/* Sockets with callbacks, on each driver: connecting, reading, half-close, closing from inside of
 * every function. */
#include <fcntl.h>
#include <unistd.h>

#include "loop_pair.h"

static coir_queued_write last;
TEST(one_direction_ends_and_the_other_goes_on)
{
    ON_EACH_DRIVER()
    {
        ssize_t ended = -1, reply = -1;
        int count = 0;
        char byte, byte2;
        open_pair();
        CHECK_EQ(coir_socket_shutdown_write(client, &last, count_outcome, &count), 0);
        CHECK_EQ(coir_socket_read(server, &byte, 1, on_reply, &ended), 0);
        UNTIL(ended == 0 && count == 1);
        CHECK_EQ(coir_socket_write(server, &queued[0], "y", 1, count_outcome, &count), 0);
        CHECK_EQ(coir_socket_read(client, &byte2, 1, on_reply, &reply), 0);
        UNTIL(reply == 1 && count == 2);
        CHECK_EQ(byte2, 'y');
        close_pair();
    }
}

TEST(reads_and_writes_may_come_before_the_connection)
{
    ON_EACH_DRIVER()
    {
        char where[64], byte;
        ssize_t reply = -1;
        int count = 0;
        connects = accepts = 0;
        open_acceptor(where, sizeof where);
        CHECK_EQ(coir_socket_connect(loop, where, on_connect, &connects, &client), 0);
        CHECK_EQ(coir_socket_read(client, &byte, 1, on_reply, &reply), 0);
        CHECK_EQ(coir_socket_write(client, &queued[0], "z", 1, count_outcome, &count), 0);
        UNTIL(accepts && count);
        CHECK_EQ(connects, 1);
        CHECK_EQ(coir_socket_write(server, &queued[0], "w", 1, count_outcome, &count), 0);
        UNTIL(reply == 1 && count == 2);
        CHECK_EQ(byte, 'w');
        coir_acceptor_close(acceptor);
        close_pair();
    }
}

/* ---- errors ---- */

static int sequence[4], steps;

static void note_refusal(coir_socket *socket, ssize_t result, void *arg)
{
    (void)socket;
    CHECK_EQ(result, -ECONNREFUSED);
    sequence[steps++] = *(int *)arg;
}

static void note_failed(coir_socket *socket, coir_queued_write *write, int result, void *arg)
{
    (void)write;
    note_refusal(socket, result, arg);
}

TEST(what_waits_for_a_connection_fails_with_it)
{
    ON_EACH_DRIVER()
    {
        char where[64], byte;
        int numbers[] = {1, 2, 3};
        steps = 0;
        open_acceptor(where, sizeof where);
        coir_acceptor_close(acceptor);
        CHECK_EQ(coir_socket_connect(loop, where, note_refusal, &numbers[0], &client), 0);
        CHECK_EQ(coir_socket_read(client, &byte, 1, note_refusal, &numbers[1]), 0);
        CHECK_EQ(coir_socket_write(client, &queued[0], "z", 1, note_failed, &numbers[2]), 0);
        UNTIL(steps == 3);
        CHECK(sequence[0] == 1 && sequence[1] == 2 && sequence[2] == 3);
        CHECK_EQ(coir_socket_write(client, &last, "z", 1, note_failed, NULL), -ECONNREFUSED);
        CHECK_EQ(coir_socket_read(client, &byte, 1, note_refusal, NULL), -ECONNREFUSED);
        coir_socket_close(client);
        CHECK_EQ(steps, 3);
    }
}

static int told[2];

static void cancel_the_read(coir_socket *socket, ssize_t result, void *arg)
{
    told[0] = (int)result;
    CHECK(arg == told);
    coir_socket_cancel_read(socket);
}

static void note_cancelled(coir_socket *socket, ssize_t result, void *arg)
{
    (void)socket;
    CHECK_EQ(told[1], 0); /* once */
    CHECK(arg == told);
    told[1] = (int)result;
}

TEST(a_read_is_cancelled_while_its_connection_fails)
{
    ON_EACH_DRIVER()
    {
        char where[64], byte;
        told[0] = told[1] = 0;
        open_acceptor(where, sizeof where);
        coir_acceptor_close(acceptor);
        CHECK_EQ(coir_socket_connect(loop, where, cancel_the_read, told, &client), 0);
        CHECK_EQ(coir_socket_read(client, &byte, 1, note_cancelled, told), 0);
        UNTIL(told[1]);
        CHECK_EQ(told[0], -ECONNREFUSED);
        CHECK_EQ(told[1], -ECANCELED);
        coir_socket_close(client);
    }
}

TEST(an_address_that_is_wrong_is_refused)
{
    CHECK_EQ(coir_loop_new(&loop), 0);
    CHECK_EQ(coir_socket_connect(loop, "127.0.0.1", on_connect, NULL, &client), -COIR_EPORT);
    CHECK_EQ(coir_socket_connect(loop, ":80", on_connect, NULL, &client), -COIR_EADDRESS);
    CHECK_EQ(coir_socket_connect(loop, "unix:/x", on_connect, NULL, &client), -COIR_EADDRESS);
    CHECK_EQ(coir_acceptor_open(loop, "fd:0", on_accept, NULL, &acceptor), -COIR_EADDRESS);
    CHECK(!coir_loop_alive(loop));
    coir_loop_free(loop);
}

/* ---- a read that is given up ---- */

TEST(a_read_is_cancelled_and_the_next_one_gets_what_came)
{
    ON_EACH_DRIVER()
    {
        char where[64], byte = 0;
        ssize_t result = 0;
        int count = 0;
        open_pair();
        coir_socket_cancel_read(server); /* no read */
        CHECK_EQ(coir_socket_read(server, &byte, 1, on_reply, &result), 0);
        coir_socket_cancel_read(server);
        CHECK_EQ(result, 0); /* never from inside the call */
        coir_socket_cancel_read(server);
        UNTIL(result);
        CHECK_EQ(result, -ECANCELED);
        CHECK_EQ(coir_socket_write(client, &queued[0], "q", 1, count_outcome, &count), 0);
        UNTIL(count);
        CHECK_EQ(byte, 0);
        CHECK_EQ(coir_socket_read(server, &byte, 1, on_reply, &result), 0);
        UNTIL(result == 1);
        CHECK_EQ(byte, 'q');
        close_pair();
        connects = accepts = 0;
        open_acceptor(where, sizeof where);
        CHECK_EQ(coir_socket_connect(loop, where, on_connect, &connects, &client), 0);
        CHECK_EQ(coir_socket_read(client, &byte, 1, on_reply, &result), 0);
        coir_socket_cancel_read(client); /* before the connection */
        UNTIL(connects && accepts && result < 0);
        CHECK_EQ(result, -ECANCELED);
        coir_acceptor_close(acceptor);
        close_pair();
    }
}

/* ---- closing ---- */

static void close_both(coir_socket *socket, ssize_t result, void *arg)
{
    (void)socket, (void)result, (void)arg;
    coir_socket_close(server);
    coir_socket_close(client);
    server = client = NULL;
    steps++;
}

static void never(coir_socket *socket, ssize_t result, void *arg)
{
    (void)socket, (void)result, (void)arg;
    test_fail(__FILE__, __LINE__, "it was called");
}

TEST(a_function_closes_its_own_socket_and_another)
{
    ON_EACH_DRIVER()
    {
        char byte, byte2;
        int count = 0;
        steps = 0;
        open_pair();
        CHECK_EQ(coir_socket_read(client, &byte, 1, close_both, NULL), 0);
        CHECK_EQ(coir_socket_read(server, &byte2, 1, never, NULL), 0);
        CHECK_EQ(coir_socket_write(server, &queued[0], "z", 1, count_outcome, &count), 0);
        UNTIL(steps);
        CHECK_EQ(count, 1);
        close_pair();
    }
}

static void close_on_connect(coir_socket *socket, ssize_t result, void *arg)
{
    (void)arg;
    CHECK_EQ(result, 0);
    coir_socket_close(socket);
    steps++;
}

static void close_on_accept(coir_acceptor *own, coir_socket *socket, int result, void *arg)
{
    (void)arg;
    CHECK_EQ(result, 0);
    accepts++;
    coir_socket_close(socket);
    coir_acceptor_close(own);
    coir_acceptor_close(own);
}

TEST(connecting_and_accepting_close_from_inside)
{
    ON_EACH_DRIVER()
    {
        char where[64], byte;
        steps = accepts = stuck = 0;
        CHECK_EQ(coir_acceptor_open(loop, "127.0.0.1:0", close_on_accept, NULL, &acceptor), 0);
        CHECK(coir_acceptor_local(acceptor, where, sizeof where) > 0);
        CHECK_EQ(coir_socket_connect(loop, where, close_on_connect, NULL, &client), 0);
        CHECK_EQ(coir_socket_read(client, &byte, 1, never, NULL), 0);
        CHECK_EQ(coir_socket_write(client, &queued[0], "z", 1, on_stuck, NULL), 0);
        CHECK_EQ(coir_loop_run(loop), 0); /* nothing is left */
        CHECK(steps == 1 && accepts == 1 && stuck == 1);
        CHECK_EQ(results[0], -ECANCELED);
    }
}

TEST(a_loop_that_is_freed_closes_what_is_left)
{
    CHECK((large = calloc(1, LARGE)));
    ON_EACH_DRIVER()
    {
        char where[64], byte;
        stuck = 0;
        open_pair();
        open_acceptor(where, sizeof where);
        CHECK_EQ(coir_socket_read(server, &byte, 1, never, NULL), 0);
        int count = fill();
        coir_loop_free(loop);
        CHECK_EQ(stuck, count);
        CHECK_EQ(coir_loop_new(&loop), 0);
    }
    free(large);
}

static int posted_calls;

static void connect_again(void *arg)
{
    coir_socket *late;
    posted_calls++;
    CHECK_EQ(coir_socket_connect(loop, arg, never, NULL, &late), 0);
}

static void post_on_outcome(coir_socket *socket, coir_queued_write *write, int result, void *arg)
{
    (void)socket, (void)write;
    CHECK_EQ(result, -ECANCELED);
    CHECK_EQ(coir_loop_post(loop, connect_again, arg), 0);
}

/* And what such a call opens is closed. */
TEST(a_call_that_an_outcome_posts_while_its_loop_is_freed_is_made)
{
    ON_EACH_DRIVER()
    {
        char where[64];
        posted_calls = 0;
        open_acceptor(where, sizeof where);
        CHECK_EQ(coir_socket_connect(loop, where, never, NULL, &client), 0);
        CHECK_EQ(coir_socket_write(client, &queued[0], "x", 1, post_on_outcome, where), 0);
        coir_loop_free(loop);
        CHECK_EQ(posted_calls, 1);
        CHECK_EQ(coir_loop_new(&loop), 0);
    }
}

/* ---- many ---- */

enum { CLIENTS = 100 };
static coir_socket *clients[CLIENTS];
static coir_queued_write answers[CLIENTS];
static int closed_servers;

static void on_answered(coir_socket *socket, coir_queued_write *write, int result, void *arg)
{
    (void)write, (void)arg;
    CHECK_EQ(result, 0);
    coir_socket_close(socket);
    closed_servers++;
}

static void answer_all(coir_acceptor *own, coir_socket *socket, int result, void *arg)
{
    (void)arg;
    CHECK_EQ(result, 0);
    CHECK_EQ(coir_socket_write(socket, &answers[accepts], "ok", 2, on_answered, NULL), 0);
    if (++accepts == CLIENTS)
        coir_acceptor_close(own);
}

static void on_ok(coir_socket *socket, ssize_t result, void *arg)
{
    (void)arg;
    CHECK_EQ(result, 2);
    coir_socket_close(socket);
    steps++;
}

static void ignore(coir_socket *socket, ssize_t result, void *arg)
{
    (void)socket, (void)arg;
    CHECK_EQ(result, 0);
}

TEST(a_hundred_clients_at_once)
{
    static char replies[CLIENTS][2];
    ON_EACH_DRIVER()
    {
        char where[64];
        steps = accepts = closed_servers = 0;
        CHECK_EQ(coir_acceptor_open(loop, "127.0.0.1:0", answer_all, NULL, &acceptor), 0);
        CHECK(coir_acceptor_local(acceptor, where, sizeof where) > 0);
        for (int i = 0; i < CLIENTS; i++) {
            CHECK_EQ(coir_socket_connect(loop, where, ignore, NULL, &clients[i]), 0);
            CHECK_EQ(coir_socket_read(clients[i], replies[i], 2, on_ok, NULL), 0);
        }
        CHECK_EQ(coir_loop_run(loop), 0);
        CHECK(steps == CLIENTS && closed_servers == CLIENTS);
    }
}

static void count_and_close(coir_acceptor *own, coir_socket *socket, int result, void *arg)
{
    (void)own, (void)arg;
    CHECK_EQ(result, 0);
    accepts++;
    coir_socket_close(socket);
}

static void close_after_accepts(coir_loop *own, coir_hook *hook, void *arg)
{
    (void)arg;
    if (!accepts)
        return;
    coir_hook_stop(own, hook);
    coir_acceptor_close(acceptor);
    acceptor = NULL;
}

static void on_any_end(coir_socket *socket, ssize_t result, void *arg)
{
    (void)arg;
    CHECK(result == 0 || result == -ECONNRESET || result == -ECONNREFUSED);
    coir_socket_close(socket);
    steps++;
}

static void any_result(coir_socket *socket, ssize_t result, void *arg)
{
    (void)socket, (void)arg;
    CHECK(result == 0 || result == -ECONNRESET || result == -ECONNREFUSED);
}

/* The acceptor takes no more than some in a row: one more is accepted then, and not told. The audit
 * of the simulated kernel finds a descriptor that is left open. */
TEST(a_connection_that_was_not_told_yet_is_closed_with_its_acceptor)
{
    static char replies[CLIENTS][2];
    ON_EACH_DRIVER()
    {
        char where[64];
        coir_hook hook = {{0}};
        steps = accepts = 0;
        CHECK_EQ(coir_acceptor_open(loop, "127.0.0.1:0", count_and_close, NULL, &acceptor), 0);
        CHECK(coir_acceptor_local(acceptor, where, sizeof where) > 0);
        coir_hook_start(loop, &hook, COIR_HOOK_AFTER_TURN, close_after_accepts, NULL);
        for (int i = 0; i < CLIENTS; i++) {
            CHECK_EQ(coir_socket_connect(loop, where, any_result, NULL, &clients[i]), 0);
            CHECK_EQ(coir_socket_read(clients[i], replies[i], 2, on_any_end, NULL), 0);
        }
        CHECK_EQ(coir_loop_run(loop), 0);
        CHECK_EQ(steps, CLIENTS);
        CHECK(accepts < CLIENTS);
    }
}

/* ---- from a watch, which is called inside of the driver's wait ---- */

static int ends[2];

static void close_all(coir_loop *own, coir_watch *watch, int events, void *arg)
{
    (void)events, (void)arg;
    coir_watch_stop(own, watch);
    coir_socket_close(client);
    coir_socket_close(server);
    coir_acceptor_close(acceptor);
    client = server = NULL;
    acceptor = NULL;
    steps++;
}

static void any_reply(coir_socket *socket, ssize_t result, void *arg)
{
    (void)socket, (void)arg;
    CHECK(steps == 0 && result > 0); /* not after it was closed */
}

/* With reads, a write and an accept in flight, and events of each that come with the watch's. */
TEST(a_watch_closes_sockets_that_are_ready_too)
{
    CHECK((large = calloc(1, LARGE)));
    ON_EACH_DRIVER()
    {
        for (int round = 0; round < 10; round++) {
            char where[64], byte, byte2;
            coir_watch watch = {{0}};
            coir_socket *third;
            stuck = steps = 0;
            CHECK_EQ(pipe2(ends, O_NONBLOCK), 0);
            open_pair();
            open_acceptor(where, sizeof where);
            CHECK_EQ(coir_watch_start(loop, &watch, ends[0], COIR_READ, close_all, NULL), 0);
            CHECK_EQ(coir_socket_read(client, &byte, 1, any_reply, NULL), 0);
            CHECK_EQ(coir_loop_run_once(loop, 0), 0);
            int count = fill();
            CHECK_EQ(coir_loop_run_once(loop, 0), 0);
            CHECK_EQ(coir_socket_read(server, &byte2, 1, any_reply, NULL), 0);
            CHECK_EQ(coir_socket_write(server, &last, "x", 1, on_stuck, NULL), 0);
            CHECK_EQ(write(ends[1], "x", 1), 1);
            CHECK_EQ(coir_socket_connect(loop, where, any_result, NULL, &third), 0);
            UNTIL(steps);
            CHECK_EQ(stuck, count + 1);
            for (int i = 0; i < 5; i++)
                CHECK_EQ(coir_loop_run_once(loop, 0), 0);
            coir_socket_close(third);
            CHECK(!coir_loop_alive(loop));
            CHECK_EQ(close(ends[0]), 0);
            CHECK_EQ(close(ends[1]), 0);
        }
    }
    free(large);
}
