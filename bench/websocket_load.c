/* Clients for WebSocket servers.
 * websocket_load echo PORT PATH CONNECTIONS SIZE MESSAGES: each connection has a message on its
 * way, until so many have come back. websocket_load chat PORT PATH CLIENTS MESSAGES: one client
 * after the other says something, when all have got what was said before; prints how many
 * microseconds it took to reach the others: the median, the 99th percentile, and the median of the
 * last one. websocket_load idle PORT PATH CLIENTS: connects, says "open", and waits to be killed.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CLIENTS_MAX = 20000, CHAT_SIZE = 32, ROUNDS_FIRST = 20 };

static int fds[CLIENTS_MAX], epoll;
static size_t came[CLIENTS_MAX]; /* bytes of the answer that is coming */
static char frame[(2 << 20)], in[1 << 20];
static size_t frame_len, answer_len;

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void die(const char *what)
{
    perror(what);
    exit(1);
}

/* A masked text frame of `size` letters. */
static void make_frame(size_t size)
{
    static const unsigned char key[4] = {0x12, 0x34, 0x56, 0x78};
    unsigned char *at = (unsigned char *)frame;
    size_t head = size < 126 ? 2 : size < 65536 ? 4 : 10;
    at[0] = 0x81;
    at[1] = (unsigned char)(0x80 | (head == 2 ? size : head == 4 ? 126 : 127));
    for (size_t i = 2; i < head; i++)
        at[i] = (unsigned char)(size >> 8 * (head - 1 - i));
    memcpy(at + head, key, 4);
    for (size_t i = 0; i < size; i++)
        at[head + 4 + i] = (unsigned char)('a' + i % 26) ^ key[i % 4];
    frame_len = head + 4 + size;
    answer_len = head + size;
}

static int connect_to(int port, const char *path)
{
    char text[512];
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(fd, (struct sockaddr *)&at, sizeof at) < 0)
        die("connect");
    int len = snprintf(text, sizeof text,
                       "GET %s HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                       "Sec-WebSocket-Version: 13\r\n"
                       "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
                       path);
    if (send(fd, text, (size_t)len, MSG_NOSIGNAL) != len)
        die("send");
    /* byte by byte: what comes behind it is of the chat */
    for (len = 0; len < 4 || memcmp(text + len - 4, "\r\n\r\n", 4) != 0; len++)
        if (len == sizeof text || recv(fd, text + len, 1, 0) != 1)
            die("handshake");
    if (memcmp(text, "HTTP/1.1 101", 12) != 0)
        die("status");
    return fd;
}

static void connect_all(int port, const char *path, int count)
{
    if (count > CLIENTS_MAX)
        exit(2);
    epoll = epoll_create1(0);
    for (int i = 0; i < count; i++) {
        fds[i] = connect_to(port, path);
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        epoll_ctl(epoll, EPOLL_CTL_ADD, fds[i], &event);
    }
}

static void say(int client)
{
    for (size_t sent = 0; sent < frame_len;) {
        ssize_t n = send(fds[client], frame + sent, frame_len - sent, MSG_NOSIGNAL);
        if (n < 0)
            die("send");
        sent += (size_t)n;
    }
}

/* Takes what a client has got; how many answers are whole by it. */
static int take(int client)
{
    ssize_t n = recv(fds[client], in, sizeof in, MSG_DONTWAIT);
    if (n == 0)
        die("the server has closed");
    came[client] += n > 0 ? (size_t)n : 0;
    int whole = (int)(came[client] / answer_len);
    came[client] %= answer_len;
    return whole;
}

static void echo(int connections, long messages)
{
    struct epoll_event events[256];
    long began = 0;
    for (int i = 0; i < connections; i++, began++)
        say(i);
    for (long back = 0; back < messages;) {
        int count = epoll_wait(epoll, events, 256, -1);
        for (int i = 0; i < count; i++) {
            int whole = take((int)events[i].data.u32);
            back += whole;
            if (whole && began < messages) {
                began++;
                say((int)events[i].data.u32);
            }
        }
    }
}

static int compare(const void *a, const void *b)
{
    return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b;
}

/* Writes how long it took each of the clients to get it. */
static void say_to_all(int from, int clients, double *took)
{
    struct epoll_event events[512];
    double began = now_us();
    say(from);
    for (int got = 0; got < clients;) {
        int count = epoll_wait(epoll, events, 512, -1);
        for (int i = 0; i < count; i++)
            if (take((int)events[i].data.u32))
                took[got++] = now_us() - began;
    }
}

static void chat(int clients, int messages)
{
    double *took = calloc((size_t)clients * (size_t)(messages + ROUNDS_FIRST), sizeof *took),
           *last = calloc((size_t)messages, sizeof *last);
    for (int i = 0; i < ROUNDS_FIRST && clients < 1000; i++)
        say_to_all(i % clients, clients, took);
    for (int i = 0; i < messages; i++) {
        say_to_all(i % clients, clients, took + (size_t)i * (size_t)clients);
        last[i] = took[(size_t)(i + 1) * (size_t)clients - 1];
    }
    size_t count = (size_t)clients * (size_t)messages;
    qsort(took, count, sizeof *took, compare);
    qsort(last, (size_t)messages, sizeof *last, compare);
    printf("%.1f %.1f %.1f\n", took[count / 2], took[count * 99 / 100], last[messages / 2]);
    free(took);
    free(last);
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    connect_all(atoi(argv[2]), argv[3], atoi(argv[4]));
    if (strcmp(argv[1], "echo") == 0 && argc == 7) {
        make_frame((size_t)atol(argv[5]));
        echo(atoi(argv[4]), atol(argv[6]));
    } else if (strcmp(argv[1], "chat") == 0 && argc == 6) {
        make_frame(CHAT_SIZE);
        chat(atoi(argv[4]), atoi(argv[5]));
    } else {
        puts("open");
        fflush(stdout);
        pause();
    }
    return 0;
}
