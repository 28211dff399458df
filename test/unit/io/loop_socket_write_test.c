/* The queue of writes of a socket with callbacks, on each driver: order, exactly one outcome of
 * each write, the end of what is sent. */
#include "loop_pair.h"

static coir_queued_write last;
static int outcomes;
static char text[WRITES][16], got[WRITES * 16 + 1], buffer[7];
static size_t received;
static bool at_end;

static void on_written(coir_socket *socket, coir_queued_write *write, int result, void *arg)
{
    (void)socket, (void)arg;
    CHECK(write == (outcomes < WRITES ? &queued[outcomes] : &last)); /* in their order */
    results[outcomes++] = result;
}

static void on_bytes(coir_socket *socket, ssize_t result, void *arg)
{
    CHECK(arg == buffer);
    CHECK(result >= 0 && received + (size_t)result < sizeof got);
    memcpy(got + received, buffer, (size_t)result);
    received += (size_t)result;
    at_end = result == 0;
    if (!at_end)
        CHECK_EQ(coir_socket_read(socket, buffer, sizeof buffer, on_bytes, buffer), 0);
}

TEST(what_is_queued_arrives_in_order_and_then_the_end)
{
    ON_EACH_DRIVER()
    {
        size_t sent = 0;
        open_pair();
        outcomes = 0;
        received = 0;
        at_end = false;
        CHECK_EQ(coir_socket_read(server, buffer, sizeof buffer, on_bytes, buffer), 0);
        for (int i = 0; i < WRITES; i++) {
            size_t len = (size_t)(i % 16); /* some are empty */
            memset(text[i], 'a' + i % 26, len);
            CHECK_EQ(coir_socket_write(client, &queued[i], text[i], len, on_written, NULL), 0);
            sent += len;
        }
        CHECK_EQ(coir_socket_shutdown_write(client, &last, on_written, NULL), 0);
        CHECK_EQ(coir_socket_write(client, &queued[0], "x", 1, on_written, NULL), -EPIPE);
        CHECK_EQ(outcomes, 0);
        UNTIL(at_end && outcomes == WRITES + 1);
        CHECK_EQ(received, sent);
        CHECK_EQ(coir_socket_queued(client), 0);
        size_t at = 0;
        for (int i = 0; i <= WRITES; i++) {
            CHECK_EQ(results[i], 0);
            CHECK(i == WRITES || memcmp(got + at, text[i], (size_t)(i % 16)) == 0);
            at += (size_t)(i % 16);
        }
        close_pair();
    }
}

TEST(each_write_has_an_outcome_if_its_socket_is_closed)
{
    CHECK((large = calloc(1, LARGE)));
    ON_EACH_DRIVER()
    {
        stuck = 0;
        open_pair();
        int count = fill();
        turn();
        coir_socket_close(client); /* with a write in flight, most probably */
        CHECK_EQ(stuck, count);
        CHECK_EQ(results[count - 1], -ECANCELED);
        client = NULL;
        close_pair();
        CHECK_EQ(stuck, count);
    }
    free(large);
}

static void close_in_outcome(coir_socket *socket, coir_queued_write *write, int result, void *arg)
{
    (void)write, (void)arg;
    results[stuck++] = result;
    coir_socket_close(socket);
    coir_socket_close(socket); /* again, while it is being closed */
}

/* Two writes that are done at the same time: the first one's function closes the socket. */
TEST(what_was_written_is_told_although_the_socket_is_closed_meanwhile)
{
    ON_EACH_DRIVER()
    {
        stuck = 0;
        open_pair();
        CHECK_EQ(coir_socket_write(client, &queued[0], "a", 1, on_stuck, NULL), 0);
        UNTIL(stuck == 1); /* the next two are queued behind one in progress, or not at all */
        stuck = 0;
        for (int i = 0; i < 3; i++)
            CHECK_EQ(coir_socket_write(client, &queued[i], "abc", 3,
                                       i == 1 ? close_in_outcome : on_stuck, NULL),
                     0);
        UNTIL(stuck == 3);
        CHECK(results[0] == 0 && results[1] == 0 && results[2] == 0);
        client = NULL;
        close_pair();
    }
}
/* ---- much ---- */

enum { PIECE = 70001, PIECES = 60 };
static unsigned char *sent_bytes, window[4099];
static size_t next_piece, checked;
static coir_queued_write in_turns[2];

static void write_next(coir_socket *socket, coir_queued_write *write, int result, void *arg)
{
    CHECK_EQ(result, 0);
    if (next_piece < PIECES)
        CHECK_EQ(coir_socket_write(socket, write, sent_bytes + PIECE * next_piece++, PIECE,
                                   write_next, NULL),
                 0);
    else if (next_piece++ == PIECES)
        CHECK_EQ(coir_socket_shutdown_write(socket, write, write_next, arg), 0);
}

static void check_next(coir_socket *socket, ssize_t result, void *arg)
{
    CHECK(result >= 0);
    for (ssize_t i = 0; i < result; i++, checked++)
        CHECK_EQ(window[i], checked % 251);
    at_end = result == 0;
    if (!at_end)
        CHECK_EQ(coir_socket_read(socket, window, sizeof window, check_next, arg), 0);
}

/* More than the buffers of the system hold: writes are taken in parts. */
TEST(all_bytes_arrive_in_their_order)
{
    CHECK((sent_bytes = malloc(PIECE * PIECES)));
    for (size_t i = 0; i < PIECE * PIECES; i++)
        sent_bytes[i] = (unsigned char)(i % 251);
    ON_EACH_DRIVER()
    {
        open_pair();
        next_piece = checked = 0;
        at_end = false;
        for (int i = 0; i < 2; i++) /* the second is queued behind the first, always */
            write_next(client, &in_turns[i], 0, NULL);
        CHECK_EQ(coir_socket_queued(client), 2 * PIECE);
        for (int i = 0; i < 100; i++) /* the buffers fill */
            CHECK_EQ(coir_loop_run_once(loop, 0), 0);
        CHECK_EQ(coir_socket_read(server, window, sizeof window, check_next, NULL), 0);
        UNTIL(at_end && next_piece > PIECES + 1);
        CHECK_EQ(checked, PIECE * PIECES);
        close_pair();
    }
    free(sent_bytes);
}
