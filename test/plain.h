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

#endif
