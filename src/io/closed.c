/* A stream that was closed, as long as its memory lies in the pool of its worker: what is still
 * called on it is named. When the memory is another stream's, or was given back, it cannot be. */
#include <errno.h>

#include "io/io.h"

#define CLOSED "the stream was closed before"

static bool start(coir_stream *stream, struct ci_op *op)
{
    (void)stream;
    return ci_op_complete(op, ci_misused(-EBADF, CLOSED, "an operation on a stream", NULL));
}

static bool cancel(coir_stream *stream, struct ci_op *op)
{
    (void)stream, (void)op;
    return false;
}

static int shutdown_write(coir_stream *stream)
{
    (void)stream;
    return ci_misused(-EBADF, CLOSED, "coir_shutdown_write", NULL);
}

static int detach(coir_stream *stream)
{
    (void)stream;
    return ci_misused(-EBADF, CLOSED, "coir_stream_detach", NULL);
}

static void close_again(coir_stream *stream)
{
    (void)stream;
    (void)ci_misused(-EBADF, CLOSED, "coir_close", NULL);
}

const struct ci_stream_kind ci_closed_kind = {
    .name = "closed",
    .start = start,
    .cancel = cancel,
    .shutdown_write = shutdown_write,
    .detach = detach,
    .close = close_again,
};
