/* The limit for a readiness loop, to compare with: one recv and one send a request, level-triggered
 * epoll, no parsing; every "\r\n\r\n" is answered with a fixed page, and the connection is closed
 * if the last request asks for that. A new connection is read at once: one with a single request
 * costs accept, recv, send and close. Usage: bench_bare_epoll PORT */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "listen.h"

enum { EVENTS = 512, INPUT = 16384 };
static const char page[] =
    "HTTP/1.1 200 OK\r\nContent-Length: 13\r\nContent-Type: text/plain\r\n\r\nHello, World!";
static char pages[(INPUT / 4 + 1) * (sizeof page - 1)];

/* Whether the connection goes on. */
static bool serve_one(int fd)
{
    static char in[INPUT];
    ssize_t n = recv(fd, in, sizeof in, 0);
    if (n < 0 && errno == EAGAIN)
        return true;
    if (n <= 0) {
        close(fd);
        return false;
    }
    size_t answers = 0;
    for (char *at = in, *end = in + n; (at = memmem(at, (size_t)(end - at), "\r\n\r\n", 4));
         at += 4)
        answers++;
    if (answers)
        send(fd, pages, answers * (sizeof page - 1), MSG_NOSIGNAL);
    if (!asks_to_close(in, (size_t)n))
        return true;
    close(fd);
    return false;
}

int main(int argc, char **argv)
{
    int listener = listen_on(argc > 1 ? atoi(argv[1]) : 9001, SOCK_NONBLOCK),
        epoll = epoll_create1(0);
    if (listener < 0) {
        perror("listen");
        return 1;
    }
    for (size_t i = 0; i < sizeof pages / (sizeof page - 1); i++)
        memcpy(pages + i * (sizeof page - 1), page, sizeof page - 1);
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener,
              &(struct epoll_event){.events = EPOLLIN, .data.fd = listener});
    for (;;) {
        static struct epoll_event events[EVENTS];
        int count = epoll_wait(epoll, events, EVENTS, -1), fd;
        for (int i = 0; i < count; i++) {
            if (events[i].data.fd != listener)
                serve_one(events[i].data.fd);
            else
                while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0)
                    if (serve_one(fd))
                        epoll_ctl(epoll, EPOLL_CTL_ADD, fd,
                                  &(struct epoll_event){.events = EPOLLIN, .data.fd = fd});
        }
    }
}
