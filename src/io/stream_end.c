/* The end of a stream: of one direction, of its place on a worker, of all of it. */
#include <errno.h>

#include "io/io.h"
#include "io/write_queue.h"

int coir_shutdown_write(coir_stream *stream)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!stream)
        return CI_MISUSE(-EINVAL, "stream is NULL");
    int rc = ci_stream_elsewhere(stream, CI_CALL, CI_PLACE);
    return rc < 0 ? rc : stream->kind->shutdown_write(stream);
}

int coir_stream_detach(coir_stream *stream)
{
    if (!ci_worker_current)
        return ci_no_worker();
    if (!stream)
        return CI_MISUSE(-EINVAL, "stream is NULL");
    if (stream->worker != ci_worker_current)
        return stream->worker ? CI_ELSEWHERE(stream->worker) : 0;
    if (!stream->kind->detach)
        return -EOPNOTSUPP;
    if (ci_stream_used(stream))
        return -EBUSY;
    int rc = stream->kind->detach(stream);
    if (rc == 0)
        stream->worker = NULL;
    return rc;
}

static void leave_queue(coir_stream *stream)
{
    coir_write_queue *queue = ci_write_queue_of(stream);
    if (ci_unlikely(queue != NULL))
        ci_write_queue_leave(queue);
}

void coir_close(coir_stream *stream)
{
    if (!stream || ci_forked() || ci_stream_elsewhere(stream, CI_CALL, CI_PLACE) ||
        CI_REFUSED_AS(-EBUSY, stream->is_transport, "a stream stands on it, and closes it"))
        return;
    leave_queue(stream);
    ci_stream_end_holds(stream);
    ci_stream_end_waits(stream, -ECANCELED);
    stream->kind->close(stream);
}
