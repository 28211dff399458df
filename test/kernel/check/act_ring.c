/* Calls on a ring: check.h. A request's name is the number of its step. */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "check.h"

static struct request *find_request(struct game *game, uint64_t name)
{
    for (int i = 0; i < REQUESTS_MAX; i++)
        if (game->requests[i].name == name)
            return &game->requests[i];
    return NULL;
}

/* NULL: the ring, or the table of requests, is full. */
static struct io_uring_sqe *new_entry(struct game *game, const struct step *step, uint8_t opcode,
                                      uint8_t on, struct request **ret_request)
{
    struct request *request = find_request(game, 0);
    struct io_uring_sqe *sqe = request ? ci_ring_entry(&game->ring) : NULL;
    if (!sqe)
        return NULL;
    sqe->opcode = opcode;
    sqe->fd = on < SLOTS ? game->slots[on].fd : -1;
    sqe->user_data = game->number;
    *request =
        (struct request){.name = game->number, .op = step->op, .slot = on, .target = step->a};
    *ret_request = request;
    game->unsubmitted++;
    if (on < SLOTS)
        game->slots[on].pending++;
    return sqe;
}

static void add_control(struct game *game, const struct step *step, struct io_uring_sqe *sqe,
                        struct msghdr *message)
{
    size_t space = CMSG_SPACE(2 * sizeof(coir_fd));
    char *control = arena_take(game, space, false);
    if (step->op == OP_RING_SEND_MESSAGE && step->c < SLOTS) {
        put_passed(game, step->c, message, control);
    } else if (step->op == OP_RING_RECEIVE_MESSAGE && step->y) {
        message->msg_control = control;
        message->msg_controllen = space;
        sqe->msg_flags |= MSG_CMSG_CLOEXEC;
    }
}

static void fill_bytes(struct game *game, const struct step *step, struct io_uring_sqe *sqe,
                       struct request *request)
{
    bool sends = step->op == OP_RING_SEND || step->op == OP_RING_SEND_MESSAGE;
    request->buf = arena_take(game, step->x, sends);
    request->len = step->x;
    sqe->msg_flags = MSG_NOSIGNAL;
    if (step->op == OP_RING_RECEIVE || step->op == OP_RING_SEND) {
        sqe->addr = (uintptr_t)request->buf;
        sqe->len = step->x;
        sqe->msg_flags |= step->y;
        return;
    }
    struct iovec *iov = (struct iovec *)(void *)arena_take(game, 2 * sizeof *iov, false);
    request->message = (struct msghdr *)(void *)arena_take(game, sizeof *request->message, false);
    iov[0] = (struct iovec){request->buf, step->x / 3};
    iov[1] = (struct iovec){request->buf + step->x / 3, step->x - step->x / 3};
    *request->message = (struct msghdr){.msg_iov = iov, .msg_iovlen = 2};
    if ((request->is_unix = game->slots[step->a].kind == UNIX_STREAM))
        add_control(game, step, sqe, request->message);
    sqe->addr = (uintptr_t)request->message;
    sqe->len = 1;
}

static void fill_eventfd(struct game *game, const struct step *step, struct io_uring_sqe *sqe,
                         struct request *request)
{
    request->buf = arena_take(game, 8, false);
    request->len = 8;
    memcpy(request->buf, &(uint64_t){step->x}, 8);
    sqe->addr = (uintptr_t)request->buf;
    sqe->len = 8;
}

static void fill_connect(struct game *game, const struct step *step, struct io_uring_sqe *sqe)
{
    struct sockaddr_storage *address =
        (struct sockaddr_storage *)(void *)arena_take(game, sizeof *address, false);
    sqe->off = make_address(game, step->y, game->slots[step->b].port, address);
    sqe->addr = (uintptr_t)address;
}

static uint8_t opcode_of(enum op op)
{
    switch (op) {
    case OP_RING_RECEIVE:
    case OP_RING_RECEIVE_ALL:
    case OP_RING_RECEIVE_CHOSEN: return IORING_OP_RECV;
    case OP_RING_SEND: return IORING_OP_SEND;
    case OP_RING_RECEIVE_MESSAGE: return IORING_OP_RECVMSG;
    case OP_RING_SEND_MESSAGE: return IORING_OP_SENDMSG;
    case OP_RING_POLL: return IORING_OP_POLL_ADD;
    case OP_RING_POLL_REMOVE: return IORING_OP_POLL_REMOVE;
    case OP_RING_CANCEL: return IORING_OP_ASYNC_CANCEL;
    case OP_RING_ACCEPT: return IORING_OP_ACCEPT;
    case OP_RING_CONNECT: return IORING_OP_CONNECT;
    case OP_RING_READ: return IORING_OP_READ;
    case OP_RING_WRITE: return IORING_OP_WRITE;
    default: return IORING_OP_NOP;
    }
}

/* The slot whose descriptor the request is for; SLOTS: none. */
static uint8_t slot_of(const struct step *step)
{
    switch ((enum op)step->op) {
    case OP_RING_ACCEPT: return step->b;
    case OP_RING_POLL_REMOVE:
    case OP_RING_CANCEL:
    case OP_RING_NOP: return SLOTS;
    default: return step->a;
    }
}

static int64_t prepare(struct game *game, const struct step *step)
{
    struct request *request;
    if (step->op == OP_RING_CONNECT) {
        open_slot(game, step->a, STREAM, ci_sys_socket(step->y & SIX ? AF_INET6 : AF_INET));
        ci_sys_no_delay(game->slots[step->a].fd);
    }
    struct io_uring_sqe *sqe =
        new_entry(game, step, opcode_of((enum op)step->op), slot_of(step), &request);
    if (!sqe)
        return -1;
    switch ((enum op)step->op) {
    case OP_RING_RECEIVE:
        sqe->ioprio = step->c ? IORING_RECVSEND_POLL_FIRST : 0;
        __attribute__((fallthrough));
    case OP_RING_SEND:
    case OP_RING_RECEIVE_MESSAGE:
    case OP_RING_SEND_MESSAGE: fill_bytes(game, step, sqe, request); break;
    case OP_RING_RECEIVE_ALL:
    case OP_RING_RECEIVE_CHOSEN:
        sqe->ioprio = step->op == OP_RING_RECEIVE_ALL ? IORING_RECV_MULTISHOT : 0;
        sqe->flags = IOSQE_BUFFER_SELECT;
        sqe->len = step->op == OP_RING_RECEIVE_ALL ? 0 : step->x;
        sqe->msg_flags = MSG_NOSIGNAL;
        break;
    case OP_RING_POLL:
        sqe->poll32_events = step->x;
        sqe->len = step->y ? IORING_POLL_ADD_MULTI : 0;
        break;
    case OP_RING_POLL_REMOVE:
    case OP_RING_CANCEL: sqe->addr = step->x; break;
    case OP_RING_ACCEPT:
        sqe->accept_flags = SOCK_NONBLOCK | SOCK_CLOEXEC;
        game->slots[step->a].kind = RESERVED;
        request->is_unix = game->slots[step->b].kind == UNIX_LISTENER;
        break;
    case OP_RING_CONNECT: fill_connect(game, step, sqe); break;
    case OP_RING_READ:
    case OP_RING_WRITE: fill_eventfd(game, step, sqe, request); break;
    default: break;
    }
    return 0;
}

/* ---- completions ---- */

static int64_t adopt(struct game *game, const struct request *request, int32_t result)
{
    open_slot(game, request->target, request->is_unix ? UNIX_STREAM : STREAM, result);
    if (result < 0)
        return result;
    if (!request->is_unix)
        ci_sys_no_delay(result);
    return 0;
}

static void hold(struct game *game, uint32_t flags, int32_t result, struct answer *answer)
{
    uint16_t id = (uint16_t)(flags >> IORING_CQE_BUFFER_SHIFT);
    ci_check(id < BUFFERS && game->held_count < HELD_MAX);
    game->held[game->held_count++] = id;
    say(answer, hash_bytes(ci_ring_buffer(&game->buffers, id), (size_t)result));
}

static void tell_completion(struct game *game, const struct io_uring_cqe *cqe,
                            struct answer *answer)
{
    struct request *request = find_request(game, cqe->user_data);
    int64_t result = cqe->res;
    say(answer, (int64_t)cqe->user_data);
    ci_check(request);
    if (request->op == OP_RING_ACCEPT)
        result = adopt(game, request, cqe->res);
    say(answer, result);
    say(answer, cqe->flags);
    if (cqe->flags & IORING_CQE_F_BUFFER)
        hold(game, cqe->flags, cqe->res, answer);
    else if (cqe->res > 0 &&
             (request->op == OP_RING_RECEIVE || request->op == OP_RING_RECEIVE_MESSAGE ||
              request->op == OP_RING_READ))
        say(answer, hash_bytes(request->buf, (size_t)cqe->res));
    if (request->op == OP_RING_RECEIVE_MESSAGE && request->is_unix && cqe->res >= 0)
        say_passed(game, request->message, answer);
    if (cqe->flags & IORING_CQE_F_MORE)
        return;
    if (request->slot < SLOTS && game->slots[request->slot].pending)
        game->slots[request->slot].pending--;
    request->name = 0;
}

static void enter(struct game *game, const struct step *step, struct answer *answer)
{
    game->unsubmitted = 0;
    say(answer, step->op == OP_RING_SUBMIT ? ci_ring_submit(&game->ring)
                                           : ci_ring_enter(&game->ring, step->x, 0));
    say(answer, ci_ring_overflowed(&game->ring));
    for (const struct io_uring_cqe *cqe; (cqe = ci_ring_completion(&game->ring));) {
        tell_completion(game, cqe, answer);
        ci_ring_seen(&game->ring);
    }
}

static void give(struct game *game, uint32_t count)
{
    if (count > game->held_count)
        count = game->held_count;
    for (uint32_t i = 0; i < count; i++)
        ci_ring_buffer_give(&game->buffers, game->held[i]);
    memmove(game->held, game->held + count, (game->held_count - count) * sizeof game->held[0]);
    game->held_count -= count;
}

void act_ring(struct game *game, const struct step *step, struct answer *answer)
{
    switch ((enum op)step->op) {
    case OP_RING_SUBMIT:
    case OP_RING_ENTER: enter(game, step, answer); break;
    case OP_RING_GIVE: give(game, step->x); break;
    case OP_RING_TAKE_BACK: say(answer, ci_ring_take_back(&game->ring, step->x)); break;
    default: say(answer, prepare(game, step));
    }
}
