/* What a peer sees of a stream that is closed, while the worker does not enter the kernel again. */
#include <arpa/inet.h>
#include <coir.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"

/* A peer that coir knows nothing about. */
static int dial(coir_listener *listener)
{
    char text[64];
    struct timeval patience = {.tv_sec = 1};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    coir_listener_local(listener, text, sizeof text);
    address.sin_port = htons((uint16_t)atoi(strrchr(text, ':') + 1));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

TEST_REAL(a_peer_sees_the_end_while_the_fiber_that_closed_computes)
{
    coir_listener *listener;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", NULL, &listener), 0);
    for (int i = 0; i < 4; i++) {
        char buf[8];
        coir_stream *stream;
        int peer = dial(listener);
        CHECK_EQ(coir_accept(listener, &stream), 0);
        if (i & 1) {
            CHECK_EQ(send(peer, "x", 1, 0), 1);
            CHECK_EQ(coir_read(stream, buf, sizeof buf), 1);
        }
        if (i & 2)
            CHECK_EQ(coir_write_all(stream, "last", 4), 0);
        coir_close(stream);
        if (i & 2)
            CHECK_EQ(recv(peer, buf, sizeof buf, 0), 4);
        CHECK_EQ(recv(peer, buf, sizeof buf, 0), 0); /* blocks the worker's thread: it enters nothing */
        close(peer);
    }
    coir_listener_close(listener);
}
