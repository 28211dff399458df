/* Streams made of the program's descriptors, and descriptors given back to the program. */
#include <errno.h>
#include <string.h>

#include "io/io.h"

int coir_stream_adopt(coir_fd fd, coir_stream **ret_stream)
{
    struct ci_worker *worker = ci_worker_current;
    if (!worker)
        return ci_no_worker();
    if (!ret_stream)
        return CI_MISUSE(-EINVAL, "ret_stream is NULL");
    struct ci_driver *driver = worker->loop.driver;
    int rc = driver->kind->take(driver, fd, CI_PASSED_STREAM);
    return rc < 0 ? rc
                  : ci_socket_stream_new(worker, fd, ci_socket_is_unix(driver, fd), ret_stream);
}

/* -EMSGSIZE if the bytes read ahead do not fit into `buf`, or the error read ahead; 0: neither. */
static int error_of(const struct ci_ahead *ahead, size_t len, size_t size)
{
    return len > size ? -EMSGSIZE : ahead ? -ahead->error : 0;
}

static int release(coir_stream *stream, void *buf, size_t size, size_t *ret_len, coir_fd *ret_fd)
{
    int rc = coir_stream_detach(stream);
    if (rc < 0)
        return rc;
    struct ci_ahead *ahead = stream->ahead;
    size_t len = ahead ? ahead->len - ahead->at : 0;
    *ret_len = len; /* also with -EMSGSIZE */
    if ((rc = error_of(ahead, len, size)) < 0)
        return rc;
    if (len)
        memcpy(buf, ahead->bytes + ahead->at, len);
    ci_ahead_free(ahead);
    ci_stream_drop_timeouts(stream);
    *ret_fd = stream->fd;
    stream->worker = ci_worker_current;
    ci_socket_stream_free(stream);
    return 0;
}

int coir_stream_release(coir_stream *stream, void *buf, size_t size, size_t *ret_len,
                        coir_fd *ret_fd)
{
    if (!ci_worker_current)
        return ci_no_worker();
    if (!stream || (!buf && size) || !ret_len || !ret_fd)
        return CI_MISUSE(-EINVAL, "stream, buf, ret_len or ret_fd is NULL");
    int rc = stream->worker ? CI_ELSEWHERE(stream->worker) : 0;
    if (rc < 0)
        return rc;
    return stream->is_socket ? release(stream, buf, size, ret_len, ret_fd) : -EOPNOTSUPP;
}
