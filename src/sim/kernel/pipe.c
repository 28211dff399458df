/* Pipes: pipe(7); fs/pipe.c of Linux 6.1. Writers are woken only if the pipe was full. Linux counts
 * pages: while one is free, a write of up to PIPE_BUF bytes succeeds. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "sim/kernel/kernel.h"

enum { CAPACITY = 65536 };

struct pipe {
    char *bytes;
    size_t start, len;
    struct end *ends[2]; /* to read, to write; NULL: closed */
};

struct end {
    struct ci_kfile file;
    struct pipe *pipe;
};

static struct end *end_of(struct ci_kfile *file)
{
    return ci_container_of(file, struct end, file);
}

static bool is_full(const struct pipe *pipe)
{
    return CAPACITY - pipe->len < PIPE_BUF;
}

static void tell(const struct end *end, unsigned key)
{
    if (end)
        ci_kfile_wake((struct ci_kfile *)(uintptr_t)&end->file, key);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t take(struct pipe *pipe, char *to, size_t size)
{
    size_t n = least(size, pipe->len), ahead = least(n, CAPACITY - pipe->start);
    if (n == 0)
        return 0;
    memcpy(to, pipe->bytes + pipe->start, ahead);
    memcpy(to + ahead, pipe->bytes, n - ahead);
    pipe->start = (pipe->start + n) % CAPACITY;
    pipe->len -= n;
    return n;
}

static size_t put(struct pipe *pipe, const char *from, size_t len)
{
    size_t end = (pipe->start + pipe->len) % CAPACITY, n = least(len, CAPACITY - pipe->len),
           ahead = least(n, CAPACITY - end);
    if (n == 0)
        return 0;
    memcpy(pipe->bytes + end, from, ahead);
    memcpy(pipe->bytes, from + ahead, n - ahead);
    pipe->len += n;
    return n;
}

static unsigned poll_reader(struct ci_kfile *file)
{
    const struct pipe *pipe = end_of(file)->pipe;
    return (pipe->len ? POLLIN | POLLRDNORM : 0u) | (pipe->ends[1] ? 0u : POLLHUP);
}

static unsigned poll_writer(struct ci_kfile *file)
{
    const struct pipe *pipe = end_of(file)->pipe;
    return (!is_full(pipe) ? POLLOUT | POLLWRNORM : 0u) | (pipe->ends[0] ? 0u : POLLERR);
}

static ssize_t read_pipe(struct ci_kfile *file, const struct iovec *iov, int count)
{
    struct pipe *pipe = end_of(file)->pipe;
    bool was_full = is_full(pipe);
    size_t taken = 0;
    if (!pipe->len)
        return pipe->ends[1] ? -EAGAIN : 0;
    for (int i = 0; i < count; i++)
        taken += take(pipe, iov[i].iov_base, iov[i].iov_len);
    if (was_full && !is_full(pipe))
        tell(pipe->ends[1], POLLOUT | POLLWRNORM);
    return (ssize_t)taken;
}

static ssize_t write_pipe(struct ci_kfile *file, const struct iovec *iov, int count)
{
    struct pipe *pipe = end_of(file)->pipe;
    size_t written = 0;
    if (!pipe->ends[0])
        return -EPIPE;
    if (is_full(pipe))
        return -EAGAIN;
    for (int i = 0; i < count; i++)
        written += put(pipe, iov[i].iov_base, iov[i].iov_len);
    tell(pipe->ends[0], POLLIN | POLLRDNORM);
    return (ssize_t)written;
}

static void release(struct ci_kfile *file)
{
    struct end *end = end_of(file);
    struct pipe *pipe = end->pipe;
    int mine = pipe->ends[1] == end;
    pipe->ends[mine] = NULL;
    tell(pipe->ends[!mine], POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM | POLLERR | POLLHUP);
    if (!pipe->ends[!mine]) {
        free(pipe->bytes);
        free(pipe);
    }
    free(end);
}

static const struct ci_kfile_type types[2] = {
    {.name = "pipe to read", .poll = poll_reader, .read = read_pipe, .release = release},
    {.name = "pipe to write", .poll = poll_writer, .write = write_pipe, .release = release},
};

/* ---- splice: fs/splice.c ---- */

/* How many of `wanted` bytes move at once. Linux counts pages, of which the pipe holds so many and
 * the bytes of a socket fill only parts: the seed chooses how many bytes they are. */
static size_t choose(size_t wanted, size_t possible)
{
    size_t n = least(wanted, possible);
    return n > 1 && ci_kone_in(ci_k.settings.part_one_in) ? 1 + (size_t)ci_kbelow(n) : n;
}

static ssize_t splice_in(struct ci_kfile *from, struct end *to, size_t len)
{
    struct pipe *pipe = to->pipe;
    size_t end = (pipe->start + pipe->len) % CAPACITY, room = CAPACITY - pipe->len;
    if (!pipe->ends[0])
        return -EPIPE;
    if (is_full(pipe))
        return -EAGAIN;
    struct iovec part = {pipe->bytes + end, choose(len, least(room, CAPACITY - end))};
    ssize_t n = from->type->read(from, &part, 1);
    if (n > 0) {
        pipe->len += (size_t)n;
        tell(pipe->ends[0], POLLIN | POLLRDNORM);
    }
    return n;
}

static ssize_t splice_out(struct end *from, struct ci_kfile *to, size_t len)
{
    struct pipe *pipe = from->pipe;
    bool was_full = is_full(pipe);
    if (!pipe->len)
        return pipe->ends[1] ? -EAGAIN : 0;
    size_t possible = CAPACITY - pipe->start < pipe->len ? CAPACITY - pipe->start : pipe->len;
    struct iovec part = {pipe->bytes + pipe->start, choose(len, possible)};
    ssize_t n = to->type->write(to, &part, 1);
    if (n > 0) {
        pipe->start = (pipe->start + (size_t)n) % CAPACITY;
        pipe->len -= (size_t)n;
        if (was_full && !is_full(pipe))
            tell(pipe->ends[1], POLLOUT | POLLWRNORM);
    }
    return n;
}

ssize_t ci_kpipe_splice(struct ci_kfile *from, struct ci_kfile *to, size_t len)
{
    if (to->type == &types[1] && from->type->is_socket)
        return splice_in(from, end_of(to), len);
    if (from->type == &types[0] && to->type->is_socket)
        return splice_out(end_of(from), to, len);
    return -EINVAL;
}

int ci_kpipe(coir_fd ret_fds[2])
{
    ci_kcall();
    struct pipe *pipe = calloc(1, sizeof *pipe);
    ci_check(pipe && (pipe->bytes = malloc(CAPACITY)), "kernel/kernel.h 5");
    for (int i = 0; i < 2; i++) {
        struct end *end = pipe->ends[i] = ci_kalloc(sizeof *end);
        ci_kfile_init(&end->file, &types[i]);
        end->file.blocking = true;
        end->pipe = pipe;
        ret_fds[i] = ci_kfd_install(&end->file);
    }
    return 0;
}
