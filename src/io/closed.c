/* A stream that was closed, as long as its memory lies in the pool of its worker: what is still
 * called on it is named. When the memory is another stream's, or was given back, it cannot be. */
#include <errno.h>

#include "io/io.h"

static bool start(coir_stream *stream, struct ci_op *op)
{
    (void)stream;
    return ci_op_complete(op,
                          ci_misused(-EBADF, CI_STREAM_CLOSED, "an operation on a stream", NULL));
}

static bool cancel(coir_stream *stream, struct ci_op *op)
{
    (void)stream, (void)op;
    return false;
}

static int shutdown_write(coir_stream *stream)
{
    (void)stream;
    return ci_misused(-EBADF, CI_STREAM_CLOSED, "coir_shutdown_write", NULL);
}

static int address(const coir_stream *stream, bool peer, struct sockaddr_storage *ret_address,
                   socklen_t *ret_len)
{
    (void)stream, (void)peer, (void)ret_address, (void)ret_len;
    return ci_misused(-EBADF, CI_STREAM_CLOSED, "the address of a stream", NULL);
}

static int detach(coir_stream *stream)
{
    (void)stream;
    return ci_misused(-EBADF, CI_STREAM_CLOSED, "coir_stream_detach", NULL);
}

static void close_again(coir_stream *stream)
{
    (void)stream;
    (void)ci_misused(-EBADF, CI_STREAM_CLOSED, "coir_close", NULL);
}

const struct ci_stream_kind ci_closed_kind = {
    .name = "closed",
    .start = start,
    .cancel = cancel,
    .shutdown_write = shutdown_write,
    .address = address,
    .detach = detach,
    .close = close_again,
};
