/* A broken stream: every operation on it fails with one error. Its former kind is kept in `under`,
 * which closes it and cancels the operations that were started before. */
#include <errno.h>

#include "io/io.h"

static bool start(coir_stream *stream, struct ci_op *op)
{
    return ci_op_complete(op, stream->error);
}

/* Only of an operation that was started before the stream was broken. */
static bool cancel(coir_stream *stream, struct ci_op *op)
{
    return stream->under->cancel(stream, op);
}

static int shutdown_write(coir_stream *stream)
{
    return stream->error;
}

static int address(const coir_stream *stream, bool peer, struct sockaddr_storage *ret_address,
                   socklen_t *ret_len)
{
    return stream->under->address ? stream->under->address(stream, peer, ret_address, ret_len)
                                  : -EOPNOTSUPP;
}

static int detach(coir_stream *stream)
{
    return stream->error;
}

static void close_broken(coir_stream *stream)
{
    struct ci_driver *driver = ci_worker_current->loop.driver;
    if (stream->is_socket) /* ignores an error: the close is then an ordinary one */
        driver->kind->option(driver, stream->fd, COIR_TCP_RESET_ON_CLOSE, 1);
    stream->kind = stream->under;
    stream->kind->close(stream);
}

static const struct ci_stream_kind broken_kind = {
    .name = "broken",
    .start = start,
    .cancel = cancel,
    .shutdown_write = shutdown_write,
    .address = address,
    .detach = detach,
    .close = close_broken,
};

void ci_stream_break(coir_stream *stream, int error)
{
    struct ci_io_op *reader = stream->reader;
    if (stream->kind == &broken_kind)
        return;
    ci_stream_end_waits(stream, error);
    stream->under = stream->kind;
    stream->kind = &broken_kind;
    stream->error = (int16_t)error;
    if (reader && !reader->runnable)
        ci_io_fail_at_rest(reader, error);
    else if (reader && reader->future.kind->cancel(&reader->future, error))
        ci_wake(ci_worker_current, reader->runnable, &reader->future);
}
