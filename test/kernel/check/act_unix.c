/* Calls on Unix sockets: check.h. Names are those that the kernel chooses, so that each is another
 * one. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "check.h"

enum { NAME_AT = offsetof(struct sockaddr_un, sun_path) };

static int64_t bind_anywhere(struct slot *slot)
{
    struct sockaddr_un any = {.sun_family = AF_UNIX};
    struct sockaddr_storage storage;
    int rc = ci_sys_bind(slot->fd, (const struct sockaddr *)(const void *)&any, NAME_AT);
    if (rc == 0 && ci_sys_name(slot->fd, false, &storage, &slot->name_len) == 0)
        memcpy(&slot->name, &storage, slot->name_len);
    return rc;
}

static bool has_own_name(const struct game *game, const struct slot *slot)
{
    for (int i = 0; i < SLOTS; i++) {
        const struct slot *other = &game->slots[i];
        if (other != slot && other->name_len && other->name_len == slot->name_len &&
            memcmp(&other->name, &slot->name, slot->name_len) == 0)
            return false;
    }
    return true;
}

/* The kernel chooses names at random, for streams and datagrams apart: until nobody else has the
 * name. */
static int64_t open_named(struct game *game, uint8_t at, enum kind kind)
{
    struct slot *slot = &game->slots[at];
    for (;;) {
        open_slot(game, at, kind,
                  kind == UNIX_DATAGRAM ? ci_sys_open_datagram(AF_UNIX) : ci_sys_socket(AF_UNIX));
        int64_t rc = bind_anywhere(slot);
        if (rc < 0 || (has_own_name(game, slot) && kernel_is_own_name(slot)))
            return rc;
        close_slot(slot);
    }
}

static const struct sockaddr *name_of(const struct slot *slot)
{
    return (const struct sockaddr *)(const void *)&slot->name;
}

static int64_t act_listen(struct game *game, const struct step *step)
{
    int64_t rc = open_named(game, step->a, UNIX_LISTENER);
    return rc ? rc : ci_sys_begin_listen(game->slots[step->a].fd, (int)step->x);
}

/* The name of its own tells its peer's slot: draw_unix.c. */
static int64_t act_connect(struct game *game, const struct step *step)
{
    struct slot *slot = &game->slots[step->a];
    const struct slot *to = &game->slots[step->b];
    if (slot->kind == NONE) {
        open_named(game, step->a, UNIX_STREAM);
        set_buffers(slot, step->x);
    }
    return ci_sys_connect(slot->fd, name_of(to), to->name_len);
}

static int64_t act_datagram(struct game *game, const struct step *step)
{
    if (step->x)
        return open_named(game, step->a, UNIX_DATAGRAM);
    open_slot(game, step->a, UNIX_DATAGRAM, ci_sys_open_datagram(AF_UNIX));
    return 0;
}

/* ---- descriptors ---- */

void put_passed(const struct game *game, uint8_t passed, struct msghdr *message, char *control)
{
    coir_fd fd = passed < SLOTS ? game->slots[passed].fd : -1;
    message->msg_control = control;
    message->msg_controllen = CMSG_SPACE(sizeof fd);
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
}

/* Puts a descriptor that has come into a slot; says of which slot's file it is. */
static void adopt(struct game *game, coir_fd fd, struct answer *answer)
{
    uint8_t of = 0, to = 0;
    while (of < SLOTS &&
           !(game->slots[of].kind == UNIX_DATAGRAM && kernel_is_same_file(game->slots[of].fd, fd)))
        of++;
    while (to < SLOTS && game->slots[to].kind != NONE)
        to++;
    say(answer, of);
    say(answer, to);
    if (to == SLOTS) {
        ci_sys_close(fd);
        return;
    }
    if (of < SLOTS)
        game->slots[of].copied = true;
    game->slots[to] = of < SLOTS ? game->slots[of] : (struct slot){.kind = UNIX_DATAGRAM};
    game->slots[to].fd = fd;
    game->slots[to].copied = true;
    game->slots[to].pending = 0;
}

void say_passed(struct game *game, struct msghdr *message, struct answer *answer)
{
    const struct cmsghdr *header = CMSG_FIRSTHDR(message);
    say(answer, message->msg_flags);
    say(answer, (int64_t)message->msg_controllen);
    size_t count = header ? (header->cmsg_len - CMSG_LEN(0)) / sizeof(coir_fd) : 0;
    for (size_t i = 0; i < count; i++) {
        coir_fd fd;
        memcpy(&fd, CMSG_DATA((struct cmsghdr *)(uintptr_t)header) + i * sizeof fd, sizeof fd);
        adopt(game, fd, answer);
    }
}

static int64_t act_pass(struct game *game, const struct step *step)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(coir_fd))] = {0};
    struct iovec iov = {arena_take(game, step->x, true), step->x};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    put_passed(game, step->c, &message, control);
    return ci_sys_sendmsg(game->slots[step->a].fd, &message);
}

static void act_receive_passed(struct game *game, const struct step *step, struct answer *answer)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(2 * sizeof(coir_fd))] = {0};
    struct iovec iov = {arena_take(game, step->x, false), step->x};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = step->y ? sizeof control : 0};
    ssize_t n = ci_sys_recvmsg(game->slots[step->a].fd, &message);
    say(answer, n);
    if (n < 0)
        return;
    say(answer, hash_bytes(iov.iov_base, (size_t)n));
    say_passed(game, &message, answer);
}

/* ---- datagrams ---- */

static int64_t act_send_to(struct game *game, const struct step *step)
{
    const struct slot *to = &game->slots[step->b % SLOTS];
    return send_datagram(game, step, &to->name, to->name_len);
}

static uint8_t slot_named(const struct game *game, const struct sockaddr_un *name, socklen_t len)
{
    uint8_t at = 0;
    while (at < SLOTS && !(game->slots[at].name_len == len && len &&
                           memcmp(&game->slots[at].name, name, len) == 0))
        at++;
    return at;
}

static void act_receive_from(struct game *game, const struct step *step, struct answer *answer)
{
    struct sockaddr_un from = {0};
    struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof from};
    int64_t hash;
    if (!receive_datagram(game, step, answer, &message, &hash))
        return;
    say(answer, message.msg_namelen);
    say(answer, slot_named(game, &from, message.msg_namelen));
    say(answer, hash);
}

/* ---- all of them ---- */

static int64_t act_credentials(const struct game *game, const struct step *step)
{
    coir_credentials peer = COIR_CREDENTIALS;
    int rc = ci_sys_credentials(game->slots[step->a].fd, &peer);
    return rc < 0 ? rc : peer.pid > 0;
}

static int64_t act_one(struct game *game, const struct step *step)
{
    const struct slot *slot = &game->slots[step->a], *other = &game->slots[step->b % SLOTS];
    switch ((enum op)step->op) {
    case OP_UNIX_LISTEN: return act_listen(game, step);
    case OP_UNIX_CONNECT: return act_connect(game, step);
    case OP_UNIX_REFUSE: return ci_sys_refuse(slot->fd);
    case OP_UNIX_DATAGRAM: return act_datagram(game, step);
    case OP_UNIX_ASSOCIATE: return ci_sys_connect(slot->fd, name_of(other), other->name_len);
    case OP_UNIX_SEND_TO: return act_send_to(game, step);
    case OP_UNIX_PASS: return act_pass(game, step);
    case OP_UNIX_CREDENTIALS: return act_credentials(game, step);
    default: return 0;
    }
}

void act_unix(struct game *game, const struct step *step, struct answer *answer)
{
    switch ((enum op)step->op) {
    case OP_UNIX_RECEIVE_PASSED: act_receive_passed(game, step, answer); break;
    case OP_UNIX_RECEIVE_FROM: act_receive_from(game, step, answer); break;
    default: say(answer, act_one(game, step));
    }
}
