/* Plain sockets: peers that coir knows nothing about. */
#ifndef TEST_PLAIN_H
#define TEST_PLAIN_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "harness.h"

/* Connects to this machine, at the port of an address that coir_listener_local has written. */
static inline int plain_dial(const char *address)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const char *colon = strrchr(address, ':');
    CHECK(colon);
    to.sin_port = htons((uint16_t)atoi(colon + 1));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* The same; a receive gives up after so many seconds. */
static inline int plain_dial_for(const char *address, int seconds)
{
    struct timeval patience = {.tv_sec = seconds};
    int fd = plain_dial(address);
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    return fd;
}

/* Closing this socket, or one that was accepted from it, resets the connection, which leaves
 * TIME_WAIT at neither end. For tests that make thousands of connections: the machine has about
 * 28,000 ports for them, and one in TIME_WAIT is taken for a minute. */
static inline void plain_reset_on_close(int fd)
{
    struct linger linger = {.l_onoff = 1};
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
}

#endif
