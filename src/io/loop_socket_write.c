/* The queue of writes of a connection with callbacks (loop_socket.h 3). */
#include <errno.h>

#include "base/options.h"
#include "io/loop_socket.h"
#include "sys/fork.h"
#include "sys/misuse.h"

CI_LEAVES_SPARE_WORDS(struct ci_queued_write, coir_queued_write);

static struct ci_queued_write *first(const struct ci_list *list)
{
    return ci_container_of(list->next, struct ci_queued_write, link);
}

static void finish_first(coir_socket *socket, int result)
{
    struct ci_queued_write *write = first(&socket->queue);
    ci_list_unlink(&write->link);
    ci_list_push(&socket->finished, &write->link);
    socket->queued -= write->len;
    write->result = result;
}

void ci_loop_socket_report(coir_socket *socket)
{
    struct ci_list *node;
    ci_check(socket->calling, "loop_socket.h 1");
    while ((node = ci_list_pop(&socket->finished))) {
        struct ci_queued_write *write = ci_container_of(node, struct ci_queued_write, link);
        ci_loop_note_call(socket->loop, write->fn);
        write->fn(socket, (coir_queued_write *)(void *)write, write->result, write->arg);
    }
}

void ci_loop_socket_fail_writes(coir_socket *socket, int error)
{
    socket->error = error;
    while (!ci_list_empty(&socket->queue))
        finish_first(socket, error);
}

/* Those at the head of the queue that need no call, and the end. */
static void finish_empty(coir_socket *socket)
{
    struct ci_driver *driver = socket->loop->driver;
    while (!ci_list_empty(&socket->queue) && !first(&socket->queue)->len) {
        bool is_end = first(&socket->queue)->is_end;
        finish_first(socket, is_end ? driver->kind->shutdown_write(driver, socket->fd) : 0);
    }
}

void ci_loop_socket_flush(coir_socket *socket)
{
    int count = 0;
    if (socket->on_connect || socket->out.op.pending || socket->out.ended)
        return;
    finish_empty(socket);
    if (!ci_list_empty(&socket->finished))
        ci_loop_make_ready(socket->loop, &socket->resident);
    ci_list_for_each (node, &socket->queue) {
        const struct ci_queued_write *write = ci_container_of(node, struct ci_queued_write, link);
        if (count == CI_LOOP_WRITE_PIECES || write->is_end)
            break;
        socket->pieces[count++] = (struct iovec){(char *)write->data, write->len};
    }
    struct ci_op op = {.kind = CI_OP_WRITEV, .iov = socket->pieces, .count = count};
    if (count)
        ci_direction_start(&socket->out, &op);
}

void ci_loop_socket_written(coir_socket *socket, int result)
{
    if (result < 0) {
        ci_loop_socket_fail_writes(socket, result);
        return;
    }
    size_t bytes = (size_t)result;
    while (bytes) {
        struct ci_queued_write *write = first(&socket->queue);
        size_t taken = bytes < write->len ? bytes : write->len;
        write->data += taken;
        write->len -= taken;
        socket->queued -= taken;
        bytes -= taken;
        if (!write->len)
            finish_first(socket, 0);
    }
}

static void push(coir_socket *socket, struct ci_queued_write *write)
{
    ci_list_push(&socket->queue, &write->link);
    socket->queued += write->len;
    ci_loop_socket_flush(socket);
}

int coir_socket_write(coir_socket *socket, coir_queued_write *write, const void *data, size_t len,
                      coir_queued_write_fn *fn, void *arg)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!socket || !write || !data || !fn)
        return CI_MISUSE(-EINVAL, "socket, write, data or fn is NULL");
    if (CI_IS_FOREIGN(socket->loop))
        return -EXDEV;
    if (socket->error < 0)
        return socket->error;
    struct ci_queued_write *own = (struct ci_queued_write *)(void *)write;
    *own = (struct ci_queued_write){.data = data, .len = len, .fn = fn, .arg = arg};
    push(socket, own);
    return 0;
}

int coir_socket_shutdown_write(coir_socket *socket, coir_queued_write *write,
                               coir_queued_write_fn *fn, void *arg)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!socket || !write || !fn)
        return CI_MISUSE(-EINVAL, "socket, write or fn is NULL");
    if (CI_IS_FOREIGN(socket->loop))
        return -EXDEV;
    if (socket->error < 0)
        return socket->error;
    struct ci_queued_write *own = (struct ci_queued_write *)(void *)write;
    *own = (struct ci_queued_write){.fn = fn, .arg = arg, .is_end = true};
    socket->error = -EPIPE;
    push(socket, own);
    return 0;
}

size_t coir_socket_queued(const coir_socket *socket)
{
    return CI_REFUSED(!socket, "socket is NULL") ? 0 : socket->queued;
}
