/* A connect with callbacks that the peer does not answer, on each driver of the real kernel. */
#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loop_pair.h"

enum { CONNECTS = 4 };
static ssize_t connected[CONNECTS];
static int reported;

static void on_result(coir_socket *socket, ssize_t result, void *arg)
{
    (void)socket;
    *(ssize_t *)arg = result;
    reported++;
}

/* Listens for one connection and accepts none: the system answers no further one. */
static int listen_for_one(char *where, size_t size)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&address, len), 0);
    CHECK_EQ(listen(fd, 0), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    snprintf(where, size, "127.0.0.1:%d", ntohs(address.sin_port));
    return fd;
}

TEST(a_connect_that_is_not_answered_fails_in_time)
{
    ON_EACH_DRIVER()
    {
        char where[64], byte;
        coir_socket *sockets[CONNECTS];
        ssize_t reply = 0;
        int fd = listen_for_one(where, sizeof where);
        reported = stuck = 0;
        coir_time began = coir_loop_update_now(loop);
        for (int i = 0; i < CONNECTS; i++) {
            CHECK_EQ(coir_socket_connect(loop, where, on_result, &connected[i], &sockets[i]), 0);
            CHECK_EQ(coir_socket_set_timeout(sockets[i], COIR_WRITE, 50 * COIR_MS), 0);
        }
        coir_socket *late = sockets[CONNECTS - 1];
        CHECK_EQ(coir_socket_read(late, &byte, 1, on_reply, &reply), 0);
        CHECK_EQ(coir_socket_write(late, &queued[0], "x", 1, on_stuck, NULL), 0);
        UNTIL(reported == CONNECTS && stuck == 1 && reply);
        CHECK_EQ(connected[0], 0);
        CHECK_EQ(connected[CONNECTS - 1], -ETIMEDOUT);
        CHECK(reply == -ETIMEDOUT && results[0] == -ETIMEDOUT);
        CHECK(coir_loop_update_now(loop) - began >= 50 * COIR_MS);
        for (int i = 0; i < CONNECTS; i++)
            coir_socket_close(sockets[i]);
        CHECK(!coir_loop_alive(loop));
        close(fd);
    }
}
