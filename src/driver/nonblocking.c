#include "driver/nonblocking.h"

#include "sys/socket_call.h"

ssize_t ci_op_attempt(const struct ci_op *op)
{
    switch ((enum ci_op_kind)op->kind) {
    case CI_OP_READ:
        return op->peek ? ci_sys_peek(op->fd, op->buf, op->len)
                        : ci_sys_recv(op->fd, op->buf, op->len);
    case CI_OP_WRITE: return ci_sys_send(op->fd, op->data, op->len);
    case CI_OP_READV: return ci_sys_recvv(op->fd, op->iov, op->count);
    case CI_OP_WRITEV: return ci_sys_sendv(op->fd, op->iov, op->count);
    case CI_OP_RECEIVE: return ci_sys_recvmsg(op->fd, op->message);
    case CI_OP_SEND: return ci_sys_sendmsg(op->fd, op->message);
    case CI_OP_RECEIVE_MANY:
        return ci_sys_receive_datagrams(op->fd, op->datagrams, (size_t)op->count, op->ancillary);
    case CI_OP_SEND_MANY: return ci_sys_send_datagrams(op->fd, op->datagrams, (size_t)op->count);
    case CI_OP_ACCEPT: return ci_sys_accept(op->fd);
    case CI_OP_CONNECT:
    case CI_OP_POLL:
    case CI_OP_FOREIGN:
    case CI_OP_WATCH:
    case CI_OP_FILE: break;
    }
    return -EINVAL;
}
