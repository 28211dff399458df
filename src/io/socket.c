/* The stream over a socket of the driver, and the pool of such streams on each worker. */
#include <errno.h>

#include "base/check.h"
#include "io/io.h"

static struct ci_driver *driver_of(const coir_stream *stream)
{
    return (stream->worker ? stream->worker : ci_worker_current)->loop.driver;
}

static bool socket_start(coir_stream *stream, struct ci_op *op)
{
    return ci_driver_start(driver_of(stream), op);
}

static bool socket_cancel(coir_stream *stream, struct ci_op *op)
{
    return ci_driver_cancel(driver_of(stream), op);
}

static int socket_shutdown_write(coir_stream *stream)
{
    return driver_of(stream)->kind->shutdown_write(driver_of(stream), stream->fd);
}

static int socket_address(const coir_stream *stream, bool peer,
                          struct sockaddr_storage *ret_address, socklen_t *ret_len)
{
    return driver_of(stream)->kind->address(driver_of(stream), stream->fd, peer, ret_address,
                                            ret_len);
}

static int socket_detach(coir_stream *stream)
{
    int rc = ci_driver_detach(driver_of(stream), stream->fd, &stream->ahead);
    if (rc == 0)
        ci_seat_leave(stream);
    return rc;
}

static int socket_adopt(coir_stream *stream, struct ci_worker *worker)
{
    int rc = ci_io_of(worker) ? 0 : -ENOMEM;
    if (rc == 0 && stream->ahead)
        rc = worker->loop.driver->kind->adopt(worker->loop.driver, stream->fd, stream->ahead);
    if (rc == 0)
        stream->ahead = NULL;
    return rc;
}

static void close_socket(coir_stream *stream, void (*close)(struct ci_driver *driver, coir_fd fd))
{
    struct ci_worker *worker = stream->worker ? stream->worker : ci_worker_current;
    /* the bytes that were read ahead go to a driver first: its close then resets the connection,
     * because unread bytes are lost */
    if (stream->ahead && socket_adopt(stream, worker) < 0)
        ci_ahead_free(stream->ahead);
    close(worker->loop.driver, stream->fd);
    ci_check(!ci_stream_used(stream), "io.h 3");
    ci_seat_leave(stream);
    stream->kind = &ci_closed_kind;
    stream->is_transport = false;
    ci_pool_give(&ci_io_of(worker)->streams, stream);
}

static void socket_close(coir_stream *stream)
{
    close_socket(stream, ci_driver_close);
}

static const struct ci_stream_kind socket_kind = {
    .name = "socket",
    .start = socket_start,
    .starts_in_driver = true,
    .cancel = socket_cancel,
    .shutdown_write = socket_shutdown_write,
    .address = socket_address,
    .detach = socket_detach,
    .adopt = socket_adopt,
    .close = socket_close,
};

void ci_stream_close_soon(coir_stream *stream)
{
    if (stream->kind == &socket_kind && !stream->writer) {
        ci_stream_end_holds(stream);
        close_socket(stream, ci_driver_close_soon);
    } else {
        coir_close(stream);
    }
}

int ci_socket_stream_new(struct ci_worker *worker, coir_fd fd, bool is_unix,
                         coir_stream **ret_stream)
{
    struct ci_io *io = ci_io_of(worker);
    coir_stream *stream = io ? ci_pool_take(&io->streams) : NULL;
    if (!stream)
        return -ENOMEM;
    *stream = (coir_stream){
        .kind = &socket_kind, .worker = worker, .fd = fd, .is_unix = is_unix, .is_socket = true};
    *ret_stream = stream;
    return 0;
}

void ci_socket_stream_free(coir_stream *stream)
{
    ci_pool_give(&ci_io_of(stream->worker)->streams, stream);
}

/* The socket that a stream stands on, also a broken one, for a call about it: 0, or why there is
 * none. */
static int find_socket(const coir_stream *stream, const coir_stream **ret_socket, const char *call,
                       const void *place)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!stream)
        return ci_misused(-EINVAL, "stream is NULL", call, place);
    int rc = ci_stream_refused(stream, call, place);
    if (rc < 0)
        return rc;
    while (ci_stream_base(stream)->transport)
        stream = ci_stream_base(stream)->transport((coir_stream *)(uintptr_t)stream);
    *ret_socket = stream;
    return stream->is_socket ? 0 : -EOPNOTSUPP;
}

int coir_tcp_set_option(coir_stream *stream, enum coir_tcp_option option, int value)
{
    const coir_stream *socket = NULL;
    int rc = find_socket(stream, &socket, CI_CALL, CI_PLACE);
    if (rc < 0)
        return rc;
    return driver_of(socket)->kind->option(driver_of(socket), socket->fd, option, value);
}

int coir_tcp_get_option(const coir_stream *stream, enum coir_tcp_option option)
{
    const coir_stream *socket = NULL;
    int rc = find_socket(stream, &socket, CI_CALL, CI_PLACE);
    if (rc < 0)
        return rc;
    struct ci_driver *driver = driver_of(socket);
    return driver->kind->get_option ? driver->kind->get_option(driver, socket->fd, option)
                                    : -EOPNOTSUPP;
}

int coir_tcp_info_get(const coir_stream *stream, coir_tcp_info *ret_info)
{
    const coir_stream *socket = NULL;
    coir_tcp_info info = COIR_TCP_INFO;
    if (!ret_info)
        return CI_MISUSE(-EINVAL, "ret_info is NULL");
    int rc = find_socket(stream, &socket, CI_CALL, CI_PLACE);
    if (rc < 0)
        return rc;
    if (socket->is_unix || !driver_of(socket)->kind->tcp_info)
        return -EOPNOTSUPP;
    rc = driver_of(socket)->kind->tcp_info(driver_of(socket), socket->fd, &info);
    return rc < 0 ? rc : ci_result_write(ret_info, &info, sizeof info);
}

/* ---- the pools ---- */

static const char io_key;

static void free_io(struct ci_worker_extension *extension, const coir_allocator *allocator)
{
    struct ci_io *io = ci_container_of(extension, struct ci_io, extension);
    ci_pool_done(&io->streams);
    ci_free(allocator, io, sizeof *io);
}

static enum ci_trim trim_io(struct ci_worker_extension *extension)
{
    return ci_pool_trim(&ci_container_of(extension, struct ci_io, extension)->streams);
}

static size_t live_io(const struct ci_worker_extension *extension)
{
    return ci_container_of(extension, struct ci_io, extension)->streams.live;
}

static size_t name_io(const struct ci_worker_extension *extension, struct ci_named_pool *pools)
{
    pools[0] = (struct ci_named_pool){
        "streams", &ci_container_of(extension, const struct ci_io, extension)->streams};
    return 1;
}

struct ci_io *ci_io_of(struct ci_worker *worker)
{
    struct ci_worker_extension *found = ci_worker_find_extension(worker, &io_key);
    if (ci_likely(found != NULL))
        return ci_container_of(found, struct ci_io, extension);
    const coir_allocator *allocator = &worker->runtime->allocator;
    struct ci_io *io = ci_alloc_zero(allocator, sizeof *io);
    if (!io)
        return NULL;
    io->extension.key = &io_key;
    io->extension.free = free_io;
    io->extension.trim = trim_io;
    io->extension.live = live_io;
    io->extension.what = "streams";
    io->extension.pools = name_io;
    ci_pool_init(&io->streams, allocator, sizeof(coir_stream), 0);
    io->streams.grown = &worker->grown;
    ci_list_init(&io->seats);
    io->file_turns = (coir_semaphore)COIR_SEMAPHORE_INIT(worker->runtime->config.file_calls_max);
    ci_worker_add_extension(worker, &io->extension);
    return io;
}
