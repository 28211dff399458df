/* The limit for a completion loop, to compare with: multishot accept and receive into a ring of
 * buffers, sends whose success says nothing, one enter a turn, no parsing; every "\r\n\r\n" is
 * answered with a fixed page. If the first bytes of a connection end with a request to close it,
 * send and close are linked. Usage: bench_bare_uring PORT */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "listen.h"
#include "sys/ring.h"

enum {
    ENTRIES = 4096,
    COMPLETIONS = 8192,
    BUFFERS = 1024,
    BUFFER = 4096,
    ANSWERS_MOST = BUFFER / 4 + 1
};
enum { ACCEPT = 1, FIRST, RECEIVE, SEND, CLOSE };

static const char page[] =
    "HTTP/1.1 200 OK\r\nContent-Length: 13\r\nContent-Type: text/plain\r\n\r\nHello, World!";
static char pages[ANSWERS_MOST * (sizeof page - 1)];
static struct ci_ring ring;
static struct ci_ring_buffers buffers;

static struct io_uring_sqe *entry(uint8_t opcode, int fd, uint64_t what)
{
    struct io_uring_sqe *sqe;
    while (!(sqe = ci_ring_entry(&ring)))
        ci_ring_submit(&ring);
    sqe->opcode = opcode;
    sqe->fd = fd;
    sqe->user_data = what << 32 | (uint32_t)fd;
    return sqe;
}

static void accept_on(int listener)
{
    entry(IORING_OP_ACCEPT, listener, ACCEPT)->ioprio = IORING_ACCEPT_MULTISHOT;
}

static void receive_first(int fd)
{
    struct io_uring_sqe *sqe = entry(IORING_OP_RECV, fd, FIRST);
    sqe->len = BUFFER;
    sqe->flags = IOSQE_BUFFER_SELECT;
}

static void receive_from(int fd)
{
    struct io_uring_sqe *sqe = entry(IORING_OP_RECV, fd, RECEIVE);
    sqe->ioprio = IORING_RECV_MULTISHOT;
    sqe->flags = IOSQE_BUFFER_SELECT;
}

static void answer(int fd, const char *in, size_t len, bool closes)
{
    size_t answers = 0;
    for (const char *at = in, *end = in + len; (at = memmem(at, (size_t)(end - at), "\r\n\r\n", 4));
         at += 4)
        answers++;
    if (!answers)
        return;
    struct io_uring_sqe *sqe = entry(IORING_OP_SEND, fd, SEND);
    sqe->addr = (uintptr_t)pages;
    sqe->len = (uint32_t)(answers * (sizeof page - 1));
    sqe->msg_flags = MSG_NOSIGNAL | MSG_WAITALL;
    sqe->flags = (uint8_t)(IOSQE_CQE_SKIP_SUCCESS | (closes ? IOSQE_IO_LINK : 0));
    if (closes)
        entry(IORING_OP_CLOSE, fd, CLOSE)->flags = IOSQE_CQE_SKIP_SUCCESS;
}

static void received(int fd, int result, uint32_t flags, bool is_first)
{
    bool closes = false;
    if (result <= 0 && result != -ENOBUFS) {
        close(fd);
        return;
    }
    if (result > 0) {
        uint16_t id = (uint16_t)(flags >> IORING_CQE_BUFFER_SHIFT);
        const char *in = ci_ring_buffer(&buffers, id);
        closes = is_first && asks_to_close(in, (size_t)result);
        answer(fd, in, (size_t)result, closes);
        ci_ring_buffer_give(&buffers, id);
    }
    if (!closes && !(flags & IORING_CQE_F_MORE))
        receive_from(fd);
}

int main(int argc, char **argv)
{
    int listener = listen_on(argc > 1 ? atoi(argv[1]) : 9002, 0);
    if (listener < 0 || ci_ring_open(&ring, ENTRIES, COMPLETIONS, false) < 0 ||
        ci_ring_buffers_make(&buffers, BUFFERS, BUFFER) < 0 ||
        ci_ring_buffers_register(&ring, &buffers, 0) < 0) {
        perror("bench_bare_uring");
        return 1;
    }
    for (size_t i = 0; i < ANSWERS_MOST; i++)
        memcpy(pages + i * (sizeof page - 1), page, sizeof page - 1);
    for (uint16_t id = 0; id < BUFFERS; id++)
        ci_ring_buffer_give(&buffers, id);
    accept_on(listener);
    for (;;) {
        ci_ring_enter(&ring, 1, -1);
        const struct io_uring_cqe *completion;
        while ((completion = ci_ring_completion(&ring))) {
            uint64_t what = completion->user_data >> 32;
            int fd = (int)(uint32_t)completion->user_data, result = completion->res;
            uint32_t flags = completion->flags;
            ci_ring_seen(&ring);
            if (what == RECEIVE || what == FIRST)
                received(fd, result, flags, what == FIRST);
            else if (what == ACCEPT && result >= 0)
                receive_first(result);
            if (what == ACCEPT && !(flags & IORING_CQE_F_MORE))
                accept_on(listener);
        }
    }
}
