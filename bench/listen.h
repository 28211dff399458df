/* The listener of the bare loops. */
#ifndef BENCH_LISTEN_H
#define BENCH_LISTEN_H

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

/* On a port of 127.0.0.1; `flags` as SOCK_NONBLOCK. -1: it cannot. */
static int listen_on(int port, int flags)
{
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | flags, 0);
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 4096) ? -1 : fd;
}

#endif
