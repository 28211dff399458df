/* Copies between streams, and between streams and files: inside the kernel (splice, sendfile) where
 * both ends are sockets or files, and through a buffer otherwise.
 *
 * Before a socket is spliced from, its driver stops reading ahead, and the bytes it has already
 * read ahead are written first. */
#include <errno.h>

#include "coir/fiber.h"
#include "coir/file.h"
#include "coir/offload.h"
#include "io/io.h"
#include "sys/call.h"
#include "sys/splice.h"

enum { BUFFER = 64 * 1024, PIPE = 1024 * 1024, WINDOW = 4 * 1024 * 1024 };

/* A copy in progress. */
struct copy {
    size_t len, done;
    char *buffer; /* of a copy through a buffer */
};

static size_t left(const struct copy *copy, size_t most)
{
    return copy->len - copy->done < most ? copy->len - copy->done : most;
}

/* Whether the kernel can copy the bytes of the stream: an unbroken socket without a filter. */
static bool is_kernels(const coir_stream *stream)
{
    return stream->is_socket && !stream->under && !stream->worker->loop.driver->kind->simulated;
}

static int write_all(struct copy *copy, coir_stream *to, const char *bytes, size_t len)
{
    for (size_t at = 0; at < len;) {
        ssize_t n = coir_write(to, bytes + at, len - at);
        if (n < 0)
            return (int)n;
        at += (size_t)n;
        copy->done += (size_t)n;
    }
    return 0;
}

/* ---- through a buffer ---- */

static int open_buffer(struct copy *copy)
{
    copy->buffer = ci_alloc(&ci_worker_current->runtime->allocator, BUFFER);
    return copy->buffer ? 0 : -ENOMEM;
}

static void close_buffer(struct copy *copy)
{
    ci_free(&ci_worker_current->runtime->allocator, copy->buffer, BUFFER);
}

static int copy_plainly(struct copy *copy, coir_stream *to, coir_stream *from)
{
    int rc = open_buffer(copy);
    ssize_t n = 1;
    while (rc == 0 && copy->done < copy->len && n > 0) {
        n = coir_read(from, copy->buffer, left(copy, BUFFER));
        rc = n > 0 ? write_all(copy, to, copy->buffer, (size_t)n) : (int)n;
    }
    close_buffer(copy);
    return rc;
}

/* ---- by splice ---- */

/* After a splice or sendfile that returned `n`: waits for the stream on -EAGAIN. 1: call again. */
static int after_call(ssize_t n, coir_stream *stream, int events)
{
    if (n == -EAGAIN)
        n = ci_stream_wait_exact(stream, events);
    else
        ci_spend(ci_worker_current);
    if (n == -EINTR)
        return 1;
    return n < 0 ? (int)n : coir_task_interrupted() ? coir_task_interrupted() : 1;
}

static int empty_pipe(struct copy *copy, coir_stream *to, coir_fd pipe, size_t len)
{
    while (len) {
        ssize_t n = ci_sys_splice(pipe, to->fd, len);
        if (n > 0) {
            len -= (size_t)n;
            copy->done += (size_t)n;
        }
        int rc = after_call(n, to, COIR_WRITE);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int splice_on(struct copy *copy, coir_stream *to, coir_stream *from, const coir_fd *pipe,
                     size_t size)
{
    while (copy->done < copy->len) {
        ssize_t n = ci_sys_splice(from->fd, pipe[1], left(copy, size));
        int rc = n > 0    ? empty_pipe(copy, to, pipe[0], (size_t)n)
                 : n == 0 ? 0
                          : after_call(n, from, COIR_READ);
        if (n == 0 || rc < 0)
            return rc;
    }
    return 0;
}

/* Stops reading ahead, and writes the bytes that were read ahead. */
static int write_ahead(struct copy *copy, coir_stream *to, coir_stream *from)
{
    struct ci_driver *driver = from->worker->loop.driver;
    size_t ahead = driver->kind->stop_ahead ? driver->kind->stop_ahead(driver, from->fd) : 0;
    ssize_t n = 1;
    char bytes[4096];
    while (ahead && copy->done < copy->len && n > 0) {
        size_t most = ahead < sizeof bytes ? ahead : sizeof bytes;
        n = ci_stream_try_read_exact(from, bytes, left(copy, most));
        ahead -= n > 0 ? (size_t)n : 0;
        int rc = n > 0 ? write_all(copy, to, bytes, (size_t)n) : (int)n;
        if (rc < 0)
            return rc;
    }
    /* an error that the driver has already read from the socket */
    n = ci_stream_try_peek(from, bytes, 1);
    return n < 0 && n != -EAGAIN && n != -EINTR ? (int)n : 0;
}

/* -EOPNOTSUPP: nothing was copied, copy through a buffer. */
static int copy_by_splice(struct copy *copy, coir_stream *to, coir_stream *from)
{
    coir_fd pipe[2];
    size_t size = 0;
    int rc = ci_sys_pipe(pipe, PIPE, &size);
    if (rc < 0)
        return -EOPNOTSUPP;
    rc = write_ahead(copy, to, from);
    if (rc == 0)
        rc = splice_on(copy, to, from, pipe, size);
    ci_sys_close(pipe[0]);
    ci_sys_close(pipe[1]);
    return rc;
}

/* ---- the calls ---- */

/* Adopts the stream if it has no worker; an error if another worker or task uses it. */
static int check(coir_stream *stream, struct ci_io_op *const *slot)
{
    struct ci_worker *worker = ci_worker_current;
    int rc = stream->worker == worker ? 0 : ci_stream_adopt(stream, worker);
    return rc < 0 ? rc : *slot ? -EBUSY : 0;
}

static ssize_t finish(const struct copy *copy, int rc, size_t *ret_done)
{
    if (ret_done)
        *ret_done = copy->done;
    return rc < 0 ? rc : (ssize_t)copy->done;
}

ssize_t coir_stream_copy(coir_stream *to, coir_stream *from, size_t len, size_t *ret_done)
{
    int rc = 0;
    struct copy copy = {.len = len};
    if (!to || !from)
        return CI_MISUSE(-EINVAL, "to or from is NULL");
    if (!ci_fiber_enter(&rc) || (rc = check(from, &from->reader)) < 0 ||
        (rc = check(to, &to->writer)) < 0)
        return finish(&copy, rc, ret_done);
    rc = is_kernels(to) && is_kernels(from) ? copy_by_splice(&copy, to, from) : -EOPNOTSUPP;
    if (rc == -EOPNOTSUPP)
        rc = copy_plainly(&copy, to, from);
    return finish(&copy, rc, ret_done);
}

/* ---- files ---- */

struct part {
    coir_fd fd;
    int64_t offset;
    size_t len;
};

/* On a thread of the pool, so that sendfile does not block on the disk. An error is not reported:
 * sendfile reads the file itself then. */
static int read_ahead(void *arg)
{
    const struct part *part = arg;
    ci_sys_read_ahead(part->fd, part->offset, part->len);
    return 0;
}

static int send_part(struct copy *copy, coir_stream *to, struct part *part)
{
    int rc = coir_offload(read_ahead, part);
    while (rc >= 0 && part->len) {
        ssize_t n = ci_sys_sendfile(to->fd, part->fd, part->offset, part->len);
        if (n == 0)
            return 0;
        if (n > 0) {
            part->offset += n;
            part->len -= (size_t)n;
            copy->done += (size_t)n;
        }
        rc = after_call(n, to, COIR_WRITE);
    }
    return rc < 0 ? rc : 1;
}

static int send_file(struct copy *copy, coir_stream *to, coir_fd fd, int64_t offset)
{
    int rc = 1;
    while (rc > 0 && copy->done < copy->len) {
        struct part part = {fd, offset + (int64_t)copy->done, left(copy, WINDOW)};
        rc = send_part(copy, to, &part);
    }
    return rc < 0 ? rc : 0;
}

static int send_plainly(struct copy *copy, coir_stream *to, coir_file *file, int64_t offset)
{
    int rc = open_buffer(copy);
    ssize_t n = 1;
    while (rc == 0 && copy->done < copy->len && n > 0) {
        n = coir_file_read(file, copy->buffer, left(copy, BUFFER), offset + (int64_t)copy->done);
        rc = n > 0 ? write_all(copy, to, copy->buffer, (size_t)n) : (int)n;
    }
    close_buffer(copy);
    return rc;
}

ssize_t coir_file_copy_to(coir_file *file, int64_t offset, size_t len, coir_stream *to,
                          size_t *ret_done)
{
    int rc = 0;
    struct copy copy = {.len = len};
    if (!file || !to)
        return CI_MISUSE(-EINVAL, "file or to is NULL");
    if (offset < 0)
        return finish(&copy, -EINVAL, ret_done);
    if (!ci_fiber_enter(&rc) || (rc = check(to, &to->writer)) < 0)
        return finish(&copy, rc, ret_done);
    rc = is_kernels(to) ? send_file(&copy, to, ci_file_fd(file), offset) : -EOPNOTSUPP;
    if (copy.done == 0 && (rc == -EOPNOTSUPP || rc == -EINVAL)) /* not supported for the file */
        rc = send_plainly(&copy, to, file, offset);
    return finish(&copy, rc, ret_done);
}

static int write_to_file(struct copy *copy, coir_file *file, int64_t offset, size_t len)
{
    for (size_t at = 0; at < len;) {
        ssize_t n =
            coir_file_write(file, copy->buffer + at, len - at, offset + (int64_t)copy->done);
        if (n <= 0)
            return n < 0 ? (int)n : -EIO;
        at += (size_t)n;
        copy->done += (size_t)n;
    }
    return 0;
}

ssize_t coir_file_copy_from(coir_file *file, int64_t offset, size_t len, coir_stream *from,
                            size_t *ret_done)
{
    int rc = 0;
    ssize_t n = 1;
    struct copy copy = {.len = len};
    if (!file || !from)
        return CI_MISUSE(-EINVAL, "file or from is NULL");
    if (offset < 0)
        return finish(&copy, -EINVAL, ret_done);
    if (ci_fiber_enter(&rc))
        rc = open_buffer(&copy);
    while (rc == 0 && copy.done < copy.len && n > 0) {
        n = coir_read(from, copy.buffer, left(&copy, BUFFER));
        rc = n > 0 ? write_to_file(&copy, file, offset, (size_t)n) : (int)n;
    }
    if (copy.buffer)
        close_buffer(&copy);
    return finish(&copy, rc, ret_done);
}
