/* The least that a WebSocket server can be: one epoll loop, no limits, no checks, no close, and no
 * answer to a ping. /echo sends every message back, every other path is a room.
 * Usage: bench_bare_websocket PORT */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "listen.h"

enum { CONNECTIONS_MAX = 30000, FIRST_SIZE = 2048, HEAD = 10 };

static struct connection {
    char *in;
    size_t size, len;
    bool open, echoes;
} connections[CONNECTIONS_MAX];
static int room[CONNECTIONS_MAX], room_count;

static void write_all(int fd, const char *data, size_t len)
{
    while (len) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            return;
        if (n < 0)
            poll(&(struct pollfd){fd, POLLOUT, 0}, 1, -1);
        data += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
}

static void end(int fd)
{
    struct connection *c = &connections[fd];
    for (int i = 0; i < room_count; i++)
        if (room[i] == fd)
            room[i] = room[--room_count];
    free(c->in);
    memset(c, 0, sizeof *c);
    close(fd);
}

static bool shake_hands(int fd, struct connection *c)
{
    static const char hello[] = "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, World!";
    static const char upgrade[] = /* the load does not look at the key */
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
    if (!memmem(c->in, c->len, "\r\n\r\n", 4))
        return false;
    if (!memmem(c->in, c->len, "Upgrade", 7)) {
        write_all(fd, hello, sizeof hello - 1);
        c->len = 0;
        return false;
    }
    c->echoes = memmem(c->in, c->len, "/echo", 5) != NULL;
    c->open = true;
    c->len = 0;
    if (!c->echoes)
        room[room_count++] = fd;
    write_all(fd, upgrade, sizeof upgrade - 1);
    return true;
}

static uint64_t big_endian(const uint8_t *at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

/* The frame goes back as it came, unmasked: its head is at most as long as the one it replaces. */
static void answer(int fd, const struct connection *c, uint8_t *payload, size_t len, size_t head)
{
    uint8_t *frame = payload - head;
    uint8_t first = (uint8_t)c->in[0];
    memmove(frame + 1, c->in + 1, head - 1);
    frame[0] = first;
    frame[1] &= 0x7f;
    if (c->echoes) {
        write_all(fd, (char *)frame, head + len);
        return;
    }
    for (int i = 0; i < room_count; i++)
        write_all(room[i], (char *)frame, head + len);
}

static void unmask(uint8_t *payload, size_t len, const uint8_t *key)
{
    uint64_t word;
    uint32_t half;
    memcpy(&half, key, 4);
    uint64_t mask = half | (uint64_t)half << 32;
    size_t i = 0;
    for (; i + 8 <= len; i += 8) {
        memcpy(&word, payload + i, 8);
        word ^= mask;
        memcpy(payload + i, &word, 8);
    }
    for (; i < len; i++)
        payload[i] ^= key[i % 4];
}

/* The bytes of a whole frame; 0: it is not there yet. */
static size_t take_frame(int fd, struct connection *c)
{
    uint8_t *in = (uint8_t *)c->in;
    if (c->len < 6)
        return 0;
    size_t len = in[1] & 0x7f, head = 2;
    if (len == 126 || len == 127)
        head = len == 126 ? 4 : HEAD;
    if (c->len < head + 4)
        return 0;
    if (head > 2)
        len = big_endian(in + 2, (int)head - 2);
    size_t whole = head + 4 + len;
    if (c->size < whole) {
        c->in = realloc(c->in, c->size = whole);
        return 0;
    }
    if (c->len < whole)
        return 0;
    unmask(in + head + 4, len, in + head);
    answer(fd, c, in + head + 4, len, head);
    return whole;
}

static void on_readable(int fd)
{
    struct connection *c = &connections[fd];
    if (!c->in)
        c->in = malloc(c->size = FIRST_SIZE);
    ssize_t n = recv(fd, c->in + c->len, c->size - c->len, 0);
    if (n <= 0) {
        if (n == 0 || errno != EAGAIN)
            end(fd);
        return;
    }
    c->len += (size_t)n;
    if (!c->open) {
        shake_hands(fd, c);
        return;
    }
    for (size_t taken; (taken = take_frame(fd, c)) > 0;) {
        c->len -= taken;
        memmove(c->in, c->in + taken, c->len);
    }
}

int main(int argc, char **argv)
{
    int listener = listen_on(argc > 1 ? atoi(argv[1]) : 7792, SOCK_NONBLOCK),
        epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[512];
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int count = epoll_wait(epoll, events, 512, -1);
        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd;
            if (fd != listener) {
                on_readable(fd);
                continue;
            }
            while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
                int on = 1;
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                event = (struct epoll_event){.events = EPOLLIN, .data.fd = fd};
                epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
            }
        }
    }
}
