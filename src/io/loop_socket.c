/* A connection with callbacks: connecting, reading, closing. */
#include "io/loop_socket.h"

#include <errno.h>
#include <string.h>

#include "base/address.h"
#include "io/io.h"
#include "sys/fork.h"
#include "sys/misuse.h"

/* ---- in the turn ---- */

static void start_read(coir_socket *socket)
{
    struct ci_op op = {.kind = CI_OP_READ, .buf = socket->in.op.buf, .len = socket->in.op.len};
    ci_direction_start(&socket->in, &op);
}

static void end_read(coir_socket *socket, int result)
{
    coir_socket_fn *fn = socket->on_read;
    ci_check(socket->calling, "loop_socket.h 1");
    socket->on_read = NULL;
    ci_loop_note_call(socket->loop, fn);
    fn(socket, result, socket->read_arg);
}

/* Those that wait for the connection go on, or fail. */
static void end_connect(coir_socket *socket, int result)
{
    coir_socket_fn *fn = socket->on_connect;
    socket->on_connect = NULL;
    socket->failed = result;
    if (result < 0)
        ci_loop_socket_fail_writes(socket, result);
    else if (socket->on_read && !socket->in.ended)
        start_read(socket);
    ci_loop_note_call(socket->loop, fn);
    fn(socket, result, socket->connect_arg);
    /* `in.ended`: the read was cancelled, in `fn` or before, and ends as that */
    if (result < 0 && socket->on_read && !socket->in.ended && !socket->closed)
        end_read(socket, result);
}

static void end_out(coir_socket *socket)
{
    int result = ci_direction_result(&socket->out);
    if (socket->on_connect)
        end_connect(socket, result);
    else
        ci_loop_socket_written(socket, result);
}

static void free_if_closed(coir_socket *socket)
{
    if (!socket->closed || socket->calling)
        return;
    ci_check(!socket->in.op.pending && !socket->out.op.pending, "loop_socket.h 2");
    ci_check(ci_list_empty(&socket->queue) && ci_list_empty(&socket->finished), "loop_socket.h 3");
    ci_free(socket->loop->allocator, socket, sizeof *socket);
}

static void socket_call(struct ci_resident *resident)
{
    coir_socket *socket = ci_container_of(resident, coir_socket, resident);
    socket->calling++;
    if (socket->out.ended)
        end_out(socket);
    ci_loop_socket_report(socket);
    if (!socket->closed && socket->in.ended)
        end_read(socket, ci_direction_result(&socket->in));
    if (!socket->closed)
        ci_loop_socket_flush(socket);
    socket->calling--;
    free_if_closed(socket);
}

/* ---- the beginning and the end ---- */

static void close_now(coir_socket *socket)
{
    socket->closed = true;
    socket->calling++;
    struct ci_driver *driver = socket->loop->driver;
    ci_direction_stop_timer(&socket->in);
    ci_direction_stop_timer(&socket->out);
    ci_driver_close(driver, socket->fd); /* completes what is in flight */
    ci_loop_remove_resident(socket->loop, &socket->resident);
    socket->on_read = NULL;
    ci_loop_socket_fail_writes(socket, -ECANCELED);
    ci_loop_socket_report(socket);
    socket->calling--;
    free_if_closed(socket);
}

static void close_resident(struct ci_resident *resident)
{
    close_now(ci_container_of(resident, coir_socket, resident));
}

int ci_loop_socket_new(coir_loop *loop, coir_fd fd, coir_socket **ret_socket)
{
    coir_socket *socket = ci_alloc_zero(loop->allocator, sizeof *socket);
    if (!socket)
        return -ENOMEM;
    socket->resident.call = socket_call;
    socket->resident.close = close_resident;
    ci_loop_add_resident(loop, &socket->resident);
    socket->loop = loop;
    socket->fd = fd;
    ci_direction_init(&socket->in, socket);
    ci_direction_init(&socket->out, socket);
    ci_list_init(&socket->queue);
    ci_list_init(&socket->finished);
    *ret_socket = socket;
    return 0;
}

int ci_loop_tcp_find(coir_loop *loop, const char *address, struct ci_where *ret_where)
{
    int rc = ci_where_find(loop->driver, address, ret_where);
    bool is_tcp =
        rc == 0 && ret_where->kind == CI_AT_ADDRESS && ret_where->address.ss_family != AF_UNIX;
    return rc == 0 && !is_tcp ? -COIR_EADDRESS : rc;
}

int coir_socket_connect(coir_loop *loop, const char *address, coir_socket_fn *fn, void *arg,
                        coir_socket **ret_socket)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!loop || !address || !fn || !ret_socket)
        return CI_MISUSE(-EINVAL, "loop, address, fn or ret_socket is NULL");
    if (CI_IS_FOREIGN(loop))
        return -EXDEV;
    struct ci_where where;
    int rc = ci_loop_tcp_find(loop, address, &where);
    if (rc == 0 && where.any)
        rc = -COIR_EADDRESS;
    if (rc < 0)
        return rc;
    coir_fd fd = loop->driver->kind->socket(loop->driver, where.address.ss_family);
    coir_socket *socket;
    if (fd < 0)
        return fd;
    if ((rc = ci_loop_socket_new(loop, fd, &socket)) < 0) {
        ci_driver_close(loop->driver, fd);
        return rc;
    }
    socket->on_connect = fn;
    socket->connect_arg = arg;
    socket->peer = where.address;
    struct ci_op op = {
        .kind = CI_OP_CONNECT,
        .address = (struct sockaddr *)&socket->peer,
        .count = (int32_t)ci_address_len(&socket->peer),
    };
    ci_direction_start(&socket->out, &op);
    *ret_socket = socket;
    return 0;
}

void coir_socket_close(coir_socket *socket)
{
    if (!socket || ci_forked() || socket->closed || CI_IS_FOREIGN(socket->loop))
        return;
    close_now(socket);
}

/* ---- what a program does with it ---- */

int coir_socket_read(coir_socket *socket, void *buffer, size_t size, coir_socket_fn *fn, void *arg)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!socket || !buffer || !fn || !size)
        return CI_MISUSE(-EINVAL, "socket, buffer or fn is NULL, or size is 0");
    if (CI_IS_FOREIGN(socket->loop))
        return -EXDEV;
    if (socket->on_read)
        return CI_MISUSE(-EBUSY, "a read is in progress");
    if (socket->closed || socket->failed < 0)
        return socket->closed ? -ECANCELED : socket->failed;
    socket->on_read = fn;
    socket->read_arg = arg;
    socket->in.op.buf = buffer;
    socket->in.op.len = size;
    if (!socket->on_connect)
        start_read(socket);
    return 0;
}

void coir_socket_cancel_read(coir_socket *socket)
{
    if (ci_forked() || CI_REFUSED(!socket, "socket is NULL") || CI_IS_FOREIGN(socket->loop) ||
        !socket->on_read || socket->in.ended)
        return;
    if (socket->in.op.pending) {
        ci_direction_cancel(&socket->in);
    } else { /* it waits for the connection */
        socket->in.op.result = -ECANCELED;
        socket->in.ended = true;
        ci_loop_make_ready(socket->loop, &socket->resident);
    }
}

int coir_socket_set_timeout(coir_socket *socket, int events, coir_time timeout)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!socket || timeout <= 0 || !events || events & ~(COIR_READ | COIR_WRITE))
        return CI_MISUSE(-EINVAL, "socket is NULL, or events or timeout is wrong");
    if (CI_IS_FOREIGN(socket->loop))
        return -EXDEV;
    if (socket->closed)
        return -ECANCELED;
    if (events & COIR_READ)
        ci_direction_set_timeout(&socket->in, timeout);
    if (events & COIR_WRITE)
        ci_direction_set_timeout(&socket->out, timeout);
    return 0;
}

int coir_socket_set_option(coir_socket *socket, enum coir_tcp_option option, int value)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!socket)
        return CI_MISUSE(-EINVAL, "socket is NULL");
    if (socket->closed)
        return -ECANCELED;
    struct ci_driver *driver = socket->loop->driver;
    return driver->kind->option(driver, socket->fd, option, value);
}

static int tell_address(const coir_socket *socket, bool peer, char *text, size_t size)
{
    struct ci_driver *driver = socket->loop->driver;
    struct sockaddr_storage address;
    socklen_t len;
    if (socket->closed)
        return -ECANCELED;
    int rc = driver->kind->address(driver, socket->fd, peer, &address, &len);
    return rc < 0 ? rc : ci_address_format(&address, text, size);
}

int coir_socket_local(const coir_socket *socket, char *text, size_t size)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!socket || !text)
        return CI_MISUSE(-EINVAL, "socket or text is NULL");
    return tell_address(socket, false, text, size);
}

int coir_socket_peer(const coir_socket *socket, char *text, size_t size)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!socket || !text)
        return CI_MISUSE(-EINVAL, "socket or text is NULL");
    return tell_address(socket, true, text, size);
}
