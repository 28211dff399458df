/* Timeouts of a socket with callbacks, on each driver: of a read, of the queue; of a
 * connect: loop_connect_test.c. */
#include "loop_pair.h"

TEST(a_read_that_gets_nothing_fails_and_loses_nothing)
{
    ON_EACH_DRIVER()
    {
        ssize_t result = 0;
        char byte = 0;
        int count = 0;
        open_pair();
        coir_time began = coir_loop_update_now(loop);
        CHECK_EQ(coir_socket_set_timeout(client, COIR_READ, 20 * COIR_MS), 0);
        CHECK_EQ(coir_socket_read(client, &byte, 1, on_reply, &result), 0);
        UNTIL(result);
        CHECK_EQ(result, -ETIMEDOUT);
        CHECK(coir_loop_update_now(loop) - began >= 20 * COIR_MS); /* never early */
        CHECK_EQ(coir_socket_set_timeout(client, COIR_READ, COIR_NEVER), 0);
        CHECK_EQ(coir_socket_read(client, &byte, 1, on_reply, &result), 0);
        CHECK_EQ(coir_socket_write(server, &queued[0], "z", 1, count_outcome, &count), 0);
        UNTIL(result == 1 && count == 1);
        CHECK_EQ(byte, 'z');
        close_pair();
    }
}

TEST(a_peer_that_takes_nothing_ends_the_queue)
{
    CHECK((large = calloc(1, LARGE)));
    ON_EACH_DRIVER()
    {
        stuck = 0;
        open_pair();
        CHECK_EQ(coir_socket_set_timeout(client, COIR_WRITE, 50 * COIR_MS), 0);
        int count = fill();
        UNTIL(stuck == count);
        CHECK_EQ(results[count - 1], -ETIMEDOUT);
        for (int i = 1; i < count; i++) /* once failed, all fail */
            CHECK(results[i - 1] == 0 || results[i] == results[i - 1]);
        CHECK_EQ(coir_socket_queued(client), 0);
        CHECK_EQ(coir_socket_write(client, &queued[0], "z", 1, on_stuck, NULL), -ETIMEDOUT);
        close_pair();
        CHECK_EQ(stuck, count);
    }
    free(large);
}
