/* What the bare loops share: their listener, and the end of an HTTP connection. */
#ifndef BENCH_LISTEN_H
#define BENCH_LISTEN_H

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <string.h>
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

/* Whether the requests that have come end with one after which the client wants no other. */
static inline bool asks_to_close(const char *in, size_t n)
{
    static const char last[] = "Connection: close\r\n\r\n";
    size_t size = sizeof last - 1;
    return n >= size && memcmp(in + n - size, last, size) == 0;
}

#endif
