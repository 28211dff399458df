/* The operations of a simulated ring: opdef.c, rw.c, sync.c, openclose.c and net.c of Linux 6.1 to
 * 6.18; io_uring_enter(2). */
#include <errno.h>
#include <string.h>

#include "sim/kernel/ring.h"
#include "sim/kernel/socket.h"

/* ---- reading an entry ---- */

static int prepare_poll(struct ci_krequest *request, const struct io_uring_sqe *sqe)
{
    if (sqe->len & ~IORING_POLL_ADD_MULTI)
        ci_kunknown("a flag of IORING_OP_POLL_ADD");
    if (sqe->buf_index || sqe->off || sqe->addr || (sqe->len && request->skips))
        return -EINVAL;
    if (sqe->poll32_events > 0xffff)
        ci_kunknown("an event of IORING_OP_POLL_ADD");
    request->multi = sqe->len & IORING_POLL_ADD_MULTI;
    request->flags = (int)sqe->poll32_events;
    return 0;
}

static int prepare_accept(struct ci_krequest *request, const struct io_uring_sqe *sqe)
{
    if (sqe->ioprio || sqe->addr || sqe->file_index)
        ci_kunknown("a flag of IORING_OP_ACCEPT");
    if (sqe->len || sqe->buf_index || sqe->accept_flags & ~(uint32_t)(SOCK_NONBLOCK | SOCK_CLOEXEC))
        return -EINVAL;
    request->flags = (int)sqe->accept_flags;
    return 0;
}

static int prepare_connect(struct ci_krequest *request, const struct io_uring_sqe *sqe)
{
    if (sqe->len || sqe->buf_index || sqe->rw_flags || sqe->splice_fd_in ||
        sqe->off > sizeof request->address)
        return -EINVAL;
    request->len = sqe->off;
    memcpy(&request->address, (const void *)(uintptr_t)sqe->addr, request->len);
    return 0;
}

static int prepare_cancel(struct ci_krequest *request, const struct io_uring_sqe *sqe)
{
    if (sqe->cancel_flags || (request->opcode == IORING_OP_POLL_REMOVE && sqe->len))
        ci_kunknown("a flag of a cancel");
    request->offset = (int64_t)sqe->addr;
    return sqe->off ? -EINVAL : 0;
}

static int prepare_operands(struct ci_krequest *request, const struct io_uring_sqe *sqe)
{
    if (ci_kring_is_call(sqe->opcode))
        return ci_kring_prepare_call(request, sqe);
    switch ((enum io_uring_op)sqe->opcode) {
    case IORING_OP_NOP: return 0;
    case IORING_OP_POLL_ADD: return prepare_poll(request, sqe);
    case IORING_OP_POLL_REMOVE:
    case IORING_OP_ASYNC_CANCEL: return prepare_cancel(request, sqe);
    case IORING_OP_SENDMSG:
    case IORING_OP_RECVMSG: return ci_kring_prepare_message(request, sqe);
    case IORING_OP_SEND:
    case IORING_OP_RECV: return ci_kring_prepare_bytes(request, sqe);
    case IORING_OP_ACCEPT: return prepare_accept(request, sqe);
    case IORING_OP_CONNECT: return prepare_connect(request, sqe);
    case IORING_OP_CLOSE: request->offset = sqe->fd; return 0;
    default: ci_kunknown("an operation of io_uring");
    }
}

static bool needs_file(uint8_t opcode)
{
    return opcode != IORING_OP_NOP && opcode != IORING_OP_POLL_REMOVE &&
           opcode != IORING_OP_ASYNC_CANCEL && opcode != IORING_OP_CLOSE &&
           !ci_kring_call_has_path(opcode);
}

/* Sends, receives and connects allocate what they keep while they wait as they are taken, since
 * 6.10: io_msg_alloc_async. */
static bool is_out_of_memory(uint8_t opcode)
{
    struct ci_node *node = ci_k.process->node;
    bool allocates = opcode == IORING_OP_SEND || opcode == IORING_OP_RECV ||
                     opcode == IORING_OP_SENDMSG || opcode == IORING_OP_RECVMSG ||
                     opcode == IORING_OP_CONNECT;
    return allocates && ci_kring_traits.version >= 10 &&
           ci_world_fault(ci_k.world, node, node->faults.no_memory, "no memory for a request");
}

int ci_kring_prepare(struct ci_krequest *request, const struct io_uring_sqe *sqe)
{
    if (sqe->flags & ~(IOSQE_BUFFER_SELECT | IOSQE_CQE_SKIP_SUCCESS))
        ci_kunknown("a flag of an entry");
    request->skips = sqe->flags & IOSQE_CQE_SKIP_SUCCESS;
    request->selects = sqe->flags & IOSQE_BUFFER_SELECT;
    request->group = sqe->buf_group;
    if (request->selects && request->opcode != IORING_OP_RECV)
        return -EOPNOTSUPP;
    int rc = is_out_of_memory(request->opcode) ? -ENOMEM : prepare_operands(request, sqe);
    if (rc < 0 || !needs_file(request->opcode))
        return rc;
    struct ci_kfile *file = ci_kfd_find(sqe->fd);
    if (!file)
        return -EBADF;
    request->file = ci_kfile_ref(file);
    return 0;
}

/* ---- carrying it out ---- */

static enum ci_kring_try try_accept(struct ci_krequest *request)
{
    const struct ci_kfile_type *type = request->file->type;
    struct ci_kfile *accepted;
    /* Linux takes the descriptor number before it accepts */
    int rc = type->accept ? ci_klistener_refused() : -ENOTSOCK;
    if (rc == 0)
        rc = type->accept(request->file, &accepted);
    if (rc == -EAGAIN)
        return CI_KRING_AGAIN;
    if (rc == 0) {
        accepted->blocking = !(request->flags & SOCK_NONBLOCK);
        rc = ci_kfd_install(accepted);
        bool more = ci_kring_traits.version >= 10 && ci_kfile_poll(request->file) & POLLIN;
        if (!ci_kunix_is(ci_ksocket_of(request->file))) /* whose listeners do not say */
            request->cqe_flags = more ? IORING_CQE_F_SOCK_NONEMPTY : 0;
    }
    return ci_kring_set(request, rc);
}

/* The result of a connect in progress is read by connecting again. */
static enum ci_kring_try try_connect(struct ci_krequest *request)
{
    const struct ci_kfile_type *type = request->file->type;
    int rc = type->connect
                 ? type->connect(request->file, (const struct sockaddr *)&request->address,
                                 (socklen_t)request->len)
                 : -ENOTSOCK;
    if (rc == -EINPROGRESS || rc == -EAGAIN || (rc == -EALREADY && request->in_progress)) {
        request->in_progress = true;
        return CI_KRING_AGAIN;
    }
    return ci_kring_set(request, rc == -EISCONN && request->in_progress ? 0 : rc);
}

static int close_fd(coir_fd fd)
{
    struct ci_kfile *file = ci_kfd_find(fd);
    return file && ci_kring_of(file) ? -EBADF : ci_kfd_close(fd);
}

enum ci_kring_try ci_kring_perform(struct ci_krequest *request, enum ci_kring_from from)
{
    if (ci_kring_is_call(request->opcode))
        return ci_kring_call(request, from);
    switch ((enum io_uring_op)request->opcode) {
    case IORING_OP_NOP: return ci_kring_set(request, 0);
    case IORING_OP_POLL_ADD: return ci_kring_poll_add(request);
    case IORING_OP_POLL_REMOVE:
        return ci_kring_set(request,
                            ci_kring_poll_remove(request->ring, (uint64_t)request->offset));
    case IORING_OP_ASYNC_CANCEL:
        return ci_kring_set(request, ci_kring_cancel(request->ring, (uint64_t)request->offset));
    case IORING_OP_SENDMSG:
    case IORING_OP_SEND: return ci_kring_send(request, from);
    case IORING_OP_RECVMSG:
    case IORING_OP_RECV: return ci_kring_receive(request, from);
    case IORING_OP_ACCEPT: return try_accept(request);
    case IORING_OP_CONNECT: return try_connect(request);
    case IORING_OP_CLOSE: return ci_kring_set(request, close_fd((coir_fd)request->offset));
    default: ci_kunknown("an operation of io_uring");
    }
}

unsigned ci_kring_poll_events(const struct ci_krequest *request)
{
    if (ci_kring_on_disk(request))
        return 0;
    switch ((enum io_uring_op)request->opcode) {
    case IORING_OP_RECV:
    case IORING_OP_RECVMSG:
    case IORING_OP_ACCEPT:
    case IORING_OP_READ:
    case IORING_OP_READV: return POLLIN | POLLRDNORM;
    case IORING_OP_SEND:
    case IORING_OP_SENDMSG:
    case IORING_OP_CONNECT:
    case IORING_OP_WRITE:
    case IORING_OP_WRITEV: return POLLOUT | POLLWRNORM;
    default: return 0;
    }
}

bool ci_kring_heeds_nonblock(const struct ci_krequest *request)
{
    return request->opcode != IORING_OP_SEND && request->opcode != IORING_OP_RECV;
}
