/* Sends and receives on a simulated ring: net.c of Linux 6.1 to 6.18.
 *
 * - A send or receive that must transfer everything (MSG_WAITALL) and transferred a part is tried
 *   again for the rest (io_net_retry); if the rest fails, the part is its result. A kernel thread
 *   that sends sleeps until all is sent, as send(2) does.
 * - A receive with IORING_RECVSEND_POLL_FIRST polls before its first attempt.
 * - A multishot receive continues until no data is left, and then waits. Since 6.6 it waits without
 *   another attempt if the socket reports that it is empty, and lets other requests run after 32
 *   rounds.
 * - It ends when a completion finds no room, with 0 at the end of the stream, or with an error
 *   (ENOBUFS, for instance). It may end at any time (without IORING_CQE_F_MORE).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/kernel/ring.h"
#include "sim/kernel/socket.h"

enum { ROUNDS = 32, PIECES_MOST = 1024 }; /* MULTISHOT_MAX_RETRY, UIO_MAXIOV */

enum ci_kring_try ci_kring_set(struct ci_krequest *request, ssize_t result)
{
    request->result = (int32_t)result;
    return CI_KRING_DONE;
}

/* ---- reading an entry ---- */

int ci_kring_prepare_bytes(struct ci_krequest *request, const struct io_uring_sqe *sqe)
{
    bool multi = sqe->ioprio & IORING_RECV_MULTISHOT;
    request->polls_first = sqe->ioprio & IORING_RECVSEND_POLL_FIRST;
    if (sqe->ioprio & ~(IORING_RECV_MULTISHOT | IORING_RECVSEND_POLL_FIRST) ||
        (sqe->ioprio && request->opcode != IORING_OP_RECV))
        ci_kunknown("a flag of a send or a receive");
    if (multi && (!request->selects || sqe->msg_flags & MSG_WAITALL || sqe->len))
        return -EINVAL;
    request->multi = multi;
    request->buf = (char *)(uintptr_t)sqe->addr;
    request->len = sqe->len;
    request->flags = (int)sqe->msg_flags;
    request->nowait = sqe->msg_flags & MSG_DONTWAIT;
    return 0;
}

static int copy_pieces(struct ci_krequest *request, const struct msghdr *message)
{
    if (message->msg_iovlen > PIECES_MOST)
        return -EMSGSIZE;
    if (message->msg_iovlen > CI_KREQUEST_IOVS) {
        request->iov = malloc(message->msg_iovlen * sizeof *request->iov);
        ci_check(request->iov, "kernel/kernel.h 5");
    }
    if (message->msg_iovlen)
        memcpy(request->iov, message->msg_iov, message->msg_iovlen * sizeof *request->iov);
    request->message.msg_iov = request->iov;
    request->message.msg_iovlen = message->msg_iovlen;
    return 0;
}

int ci_kring_prepare_message(struct ci_krequest *request, const struct io_uring_sqe *sqe)
{
    if (sqe->ioprio || request->selects || sqe->msg_flags & MSG_WAITALL)
        ci_kunknown("a flag of a message that is sent or received");
    request->user_message = (struct msghdr *)(uintptr_t)sqe->addr;
    request->message = *request->user_message;
    request->flags = (int)sqe->msg_flags;
    request->nowait = sqe->msg_flags & MSG_DONTWAIT;
    if (request->opcode == IORING_OP_SENDMSG && request->message.msg_name) {
        if (request->message.msg_namelen > sizeof request->address)
            return -EINVAL;
        memcpy(&request->address, request->message.msg_name, request->message.msg_namelen);
        request->message.msg_name = &request->address;
    }
    return copy_pieces(request, request->user_message);
}

/* ---- sending and receiving once ---- */

static struct msghdr rest(struct ci_krequest *request, struct iovec *iov)
{
    if (request->user_message)
        return request->message;
    *iov = (struct iovec){request->buf + request->done, request->len - request->done};
    return (struct msghdr){.msg_iov = iov, .msg_iovlen = 1};
}

/* The outcome of a try that transferred `n` bytes; with `all`, a partial transfer is tried
 * again. */
static enum ci_kring_try judge(struct ci_krequest *request, ssize_t n, bool all)
{
    if (n == -EAGAIN)
        return CI_KRING_AGAIN;
    if (n > 0)
        request->done += (size_t)n;
    if (n > 0 && all && request->done < request->len)
        return CI_KRING_AGAIN;
    request->failed = n < 0 || (request->flags & MSG_WAITALL && request->done < request->len);
    return ci_kring_set(request, request->done ? (ssize_t)request->done : n);
}

enum ci_kring_try ci_kring_send(struct ci_krequest *request, enum ci_kring_from from)
{
    const struct ci_kfile_type *type = request->file->type;
    struct iovec iov;
    if (!type->send)
        return ci_kring_set(request, -ENOTSOCK);
    struct msghdr message = rest(request, &iov);
    ssize_t n = type->send(request->file, &message, request->flags | MSG_DONTWAIT);
    return judge(request, n,
                 !request->user_message &&
                     (request->flags & MSG_WAITALL || from == CI_KRING_WORKER));
}

static void write_back(const struct ci_krequest *request, const struct msghdr *message)
{
    struct msghdr *user = request->user_message;
    if (user->msg_name)
        user->msg_namelen = message->msg_namelen;
    user->msg_flags = message->msg_flags | (request->flags & MSG_CMSG_CLOEXEC);
    user->msg_controllen = message->msg_controllen;
}

/* Whether the socket says how much is left (msg_inq): a Unix stream does since 6.17. */
static bool tells_rest(const struct ci_krequest *request)
{
    return !ci_kunix_is(ci_ksocket_of(request->file)) || ci_kring_traits.version >= 17;
}

/* IORING_CQE_F_SOCK_NONEMPTY if the stream has more bytes (msg_inq); its end counts
 * (tcp_inq_hint). */
static uint32_t nonempty(const struct ci_krequest *request)
{
    const struct ci_ksocket *socket = ci_ksocket_of(request->file);
    bool is_more = tells_rest(request) && (socket->in.bytes || socket->done);
    return is_more ? IORING_CQE_F_SOCK_NONEMPTY : 0;
}

static enum ci_kring_try receive_once(struct ci_krequest *request)
{
    struct iovec iov;
    struct msghdr message = rest(request, &iov);
    int flags = (request->flags & ~MSG_CMSG_CLOEXEC) | MSG_DONTWAIT;
    ssize_t n = request->file->type->receive(request->file, &message, flags);
    if (n >= 0 && request->user_message)
        write_back(request, &message);
    request->cqe_flags = n >= 0 ? nonempty(request) : 0;
    return judge(request, n, request->flags & MSG_WAITALL);
}

/* ---- multishot receives ---- */

static ssize_t receive_into(struct ci_krequest *request, const struct io_uring_buf *buf)
{
    size_t len = request->len && request->len < buf->len ? request->len : buf->len;
    struct iovec iov = {(char *)(uintptr_t)buf->addr, len};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    return request->file->type->receive(request->file, &message, request->flags | MSG_DONTWAIT);
}

/* Receives into one buffer of the group: -EAGAIN, or the completion's result. */
static ssize_t receive_selected(struct ci_krequest *request)
{
    struct io_uring_buf buf;
    request->cqe_flags = 0;
    if (!ci_kring_buffer_choose(request->ring, request->group, &buf))
        return -ENOBUFS;
    ssize_t n = receive_into(request, &buf);
    if (n == 0)
        request->cqe_flags = nonempty(request);
    if (n <= 0)
        return n;
    ci_kring_buffer_use(request->ring, request->group);
    request->cqe_flags =
        IORING_CQE_F_BUFFER | (uint32_t)buf.bid << IORING_CQE_BUFFER_SHIFT | nonempty(request);
    return n;
}

static enum ci_kring_try wait_for_more(enum ci_kring_from from)
{
    return from == CI_KRING_POLL ? CI_KRING_WAITS : CI_KRING_AGAIN;
}

/* Called from a poll, AGAIN means: tried again by task work, after other requests. */
static enum ci_kring_try receive_on(struct ci_krequest *request, enum ci_kring_from from)
{
    bool newer = ci_kring_traits.version >= 6;
    for (int round = 0; !newer || round <= ROUNDS; round++) {
        ssize_t n = receive_selected(request);
        if (n == -EAGAIN)
            return wait_for_more(from);
        request->result = (int32_t)n;
        if (n <= 0 || ci_kone_in(ci_kring_traits.cut_one_in) ||
            !ci_kring_post_more(request->ring, request->name, request->result, request->cqe_flags))
            return CI_KRING_DONE;
        if (newer && tells_rest(request) && !(request->cqe_flags & IORING_CQE_F_SOCK_NONEMPTY))
            return wait_for_more(from);
    }
    return CI_KRING_AGAIN;
}

enum ci_kring_try ci_kring_receive(struct ci_krequest *request, enum ci_kring_from from)
{
    if (!request->file->type->receive)
        return ci_kring_set(request, -ENOTSOCK);
    if (request->polls_first && !request->polled)
        return CI_KRING_AGAIN;
    if (request->multi)
        return receive_on(request, from);
    if (!request->selects)
        return receive_once(request);
    ssize_t n = receive_selected(request);
    return n == -EAGAIN ? CI_KRING_AGAIN : ci_kring_set(request, n);
}
