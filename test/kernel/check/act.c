/* Calls on sockets, epoll, poll and eventfd: check.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

#include "check.h"
#include "sys/datagram_call.h"
#include "sys/splice.h"

const char *const mode_names[MODE_COUNT] = {"epoll", "poll", "io_uring"};

const char *const op_names[OP_COUNT] = {
    "listen",
    "connect",
    "accept",
    "send",
    "receive",
    "fill",
    "drain",
    "shutdown",
    "linger",
    "error",
    "close",
    "copy",
    "datagram",
    "associate",
    "send to",
    "receive from",
    "eventfd",
    "add",
    "clear",
    "poll",
    "epoll",
    "control",
    "wait",
    "unix listen",
    "unix connect",
    "unix refuse",
    "unix pass",
    "unix receive passed",
    "unix credentials",
    "unix datagram",
    "unix associate",
    "unix send to",
    "unix receive from",
    "ring receive",
    "ring send",
    "ring recvmsg",
    "ring sendmsg",
    "ring receive all",
    "ring receive chosen",
    "ring poll",
    "ring poll remove",
    "ring cancel",
    "ring take back",
    "ring accept",
    "ring connect",
    "ring read",
    "ring write",
    "ring nop",
    "ring give",
    "ring submit",
    "ring enter",
    "end",
};

/* ---- what the calls share ---- */

void say(struct answer *answer, int64_t word)
{
    if (answer->count < WORDS_MAX)
        answer->words[answer->count++] = word;
}

int64_t hash_bytes(const void *data, size_t len)
{
    const unsigned char *bytes = data;
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return (int64_t)(hash >> 8);
}

/* Data differs from step to step. Where the arena ends it begins anew. */
char *arena_take(struct game *game, size_t len, bool with_data)
{
    if (game->used + len > ARENA)
        game->used = 0;
    char *at = game->arena + game->used;
    game->used += (len + 15) & ~(size_t)15;
    struct ci_random random = {game->seed << 20 | game->number};
    uint64_t word = 0;
    for (size_t i = 0; with_data && i < len; i++, word >>= 8) {
        if (i % 8 == 0)
            word = ci_random_next(&random);
        at[i] = (char)word;
    }
    return at;
}

void open_slot(struct game *game, uint8_t at, enum kind kind, coir_fd fd)
{
    game->slots[at] = (struct slot){.kind = fd < 0 ? NONE : kind, .fd = fd};
}

void close_slot(struct slot *slot)
{
    if (slot->kind != NONE && slot->kind != RESERVED)
        ci_sys_close(slot->fd);
    slot->kind = NONE;
}

/* Addresses differ from program to program, so that no connection meets what another has left. */
static uint32_t own_host(const struct game *game)
{
    return htonl(127u << 24 | (uint32_t)(1 + game->seed % 0xfffff0));
}

socklen_t make_address(const struct game *game, uint32_t form, in_port_t port,
                       struct sockaddr_storage *ret_address)
{
    static const uint8_t others_six[4] = {0x20, 0x01, 0x0d, 0xb8};
    bool is_others = form == FORM_OTHERS || form == FORM_OTHERS_MAPPED;
    uint32_t host = is_others ? htonl(192u << 24 | 2 << 8 | 1) : own_host(game);
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = host};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = port};
    *ret_address = (struct sockaddr_storage){0};
    switch ((enum form)(form & ~(uint32_t)SIX)) {
    case FORM_FOUR:
    case FORM_OTHERS: memcpy(ret_address, &four, sizeof four); return sizeof four;
    case FORM_MAPPED:
    case FORM_OTHERS_MAPPED:
        memset(&six.sin6_addr.s6_addr[10], 0xff, 2);
        memcpy(&six.sin6_addr.s6_addr[12], &host, sizeof host);
        break;
    case FORM_LOOPBACK: six.sin6_addr = in6addr_loopback; break;
    case FORM_OTHERS_SIX:
        memcpy(six.sin6_addr.s6_addr, others_six, sizeof others_six);
        six.sin6_addr.s6_addr[15] = 1;
        break;
    default: break;
    }
    memcpy(ret_address, &six, sizeof six);
    return sizeof six;
}

/* That a new socket is to be bound to. */
static socklen_t make_own(const struct game *game, const struct step *step,
                          struct sockaddr_storage *ret_address)
{
    in_port_t port = step->b < SLOTS ? game->slots[step->b].port : 0;
    return make_address(game, step->y, port, ret_address);
}

static int64_t open_bound(struct game *game, const struct step *step, enum kind kind, coir_fd fd)
{
    struct slot *slot = &game->slots[step->a];
    enum kind everywhere = step->b < SLOTS       ? game->slots[step->b].everywhere
                           : step->y == FORM_ANY ? kind
                                                 : NONE;
    struct sockaddr_storage own;
    socklen_t len;
    open_slot(game, step->a, kind, fd);
    if (fd < 0)
        return fd;
    slot->form = (enum form)step->y;
    slot->everywhere = everywhere;
    if (ci_sys_name(fd, false, &own, &len) == 0)
        slot->port =
            ((struct sockaddr_in *)(void *)&own)->sin_port; /* at the same offset in IPv6 */
    return own.ss_family;
}

/* Whether the kernel has chosen a port by which another slot is known, or one from which a
 * connection of this program's may come: the answers would hang on that. */
static bool must_choose_again(const struct game *game, const struct step *step)
{
    const struct slot *slot = &game->slots[step->a];
    if (step->b < SLOTS)
        return false;
    for (int i = 0; i < SLOTS; i++)
        if (&game->slots[i] != slot && game->slots[i].port == slot->port)
            return true;
    return !kernel_keeps_port(ntohs(slot->port));
}

static int64_t connect_to(const struct game *game, const struct step *step)
{
    struct sockaddr_storage to;
    socklen_t len = make_address(game, step->y, game->slots[step->b].port, &to);
    return ci_sys_connect(game->slots[step->a].fd, (const struct sockaddr *)(const void *)&to, len);
}

/* ---- connections ---- */

static int64_t listen_once(struct game *game, const struct step *step)
{
    struct sockaddr_storage own;
    socklen_t len = make_own(game, step, &own);
    return open_bound(game, step, LISTENER,
                      ci_sys_listen((const struct sockaddr *)(const void *)&own, len, (int)step->x,
                                    false, step->y == FORM_ANY_ALONE));
}

static int64_t act_listen(struct game *game, const struct step *step)
{
    int64_t family;
    while ((family = listen_once(game, step)) > 0 && must_choose_again(game, step))
        close_slot(&game->slots[step->a]);
    return family;
}

/* Buffers of a given size do not grow. */
void set_buffers(struct slot *slot, uint32_t which)
{
    static const int sizes[] = {0, 16384, 65536};
    int size = sizes[which % ci_countof(sizes)];
    ci_sys_no_delay(slot->fd);
    if (!size)
        return;
    slot->sized = true;
    ci_sys_tcp_option(slot->fd, COIR_TCP_SEND_BUFFER, size);
    ci_sys_tcp_option(slot->fd, COIR_TCP_RECEIVE_BUFFER, size);
}

static int64_t act_connect(struct game *game, const struct step *step)
{
    struct slot *slot = &game->slots[step->a];
    if (slot->kind == NONE) {
        open_slot(game, step->a, STREAM, ci_sys_socket(step->y & SIX ? AF_INET6 : AF_INET));
        if (slot->fd < 0)
            return slot->fd;
        set_buffers(slot, step->x);
    }
    return connect_to(game, step);
}

static int64_t hash_address(const struct sockaddr_storage *address) /* without its port */
{
    const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)address;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)address;
    return address->ss_family == AF_INET6 ? hash_bytes(&six->sin6_addr, sizeof six->sin6_addr)
                                          : hash_bytes(&four->sin_addr, sizeof four->sin_addr);
}

/* Of both ends; 0: it is gone already. */
static int64_t hash_ends(coir_fd fd)
{
    struct sockaddr_storage own, peer;
    socklen_t len;
    if (ci_sys_name(fd, false, &own, &len) < 0 || ci_sys_name(fd, true, &peer, &len) < 0)
        return 0;
    return own.ss_family == AF_UNIX ? AF_UNIX : hash_address(&own) * 31 + hash_address(&peer);
}

static int64_t act_accept(struct game *game, const struct step *step)
{
    const struct slot *listener = &game->slots[step->b];
    int fd = ci_sys_accept(listener->fd);
    open_slot(game, step->a, listener->kind == UNIX_LISTENER ? UNIX_STREAM : STREAM, fd);
    if (fd < 0)
        return fd;
    set_buffers(&game->slots[step->a], step->x);
    return hash_ends(fd);
}

/* ---- bytes ---- */

/* Through a pipe: what comes in by the first call goes out by the second. */
static ssize_t send_by_splice(coir_fd fd, const char *data, size_t len)
{
    coir_fd pipe[2];
    size_t size;
    ssize_t n = ci_sys_pipe(pipe, 65536, &size);
    if (n < 0)
        return n;
    n = ci_sys_write(pipe[1], data, len);
    if (n > 0)
        n = ci_sys_splice(pipe[0], fd, (size_t)n);
    ci_sys_close(pipe[0]);
    ci_sys_close(pipe[1]);
    return n;
}

static ssize_t receive_by_splice(coir_fd fd, char *data, size_t len)
{
    coir_fd pipe[2];
    size_t size;
    ssize_t n = ci_sys_pipe(pipe, 65536, &size);
    if (n < 0)
        return n;
    n = ci_sys_splice(fd, pipe[1], len);
    if (n > 0)
        n = ci_sys_read(pipe[0], data, len);
    ci_sys_close(pipe[0]);
    ci_sys_close(pipe[1]);
    return n;
}

static ssize_t send_by(unsigned which, coir_fd fd, char *data, size_t len)
{
    struct iovec iov[2] = {{data, len / 3}, {data + len / 3, len - len / 3}};
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = 2};
    switch (which % 5) {
    case 4: return send_by_splice(fd, data, len);
    case 0: return ci_sys_send(fd, data, len);
    case 1: return ci_sys_sendv(fd, iov, 2);
    case 2: return ci_sys_sendmsg(fd, &message);
    default: return ci_sys_write(fd, data, len);
    }
}

static ssize_t receive_by(unsigned which, coir_fd fd, char *data, size_t len)
{
    struct iovec iov[2] = {{data, len / 3}, {data + len / 3, len - len / 3}};
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = 2};
    switch (which % 5) {
    case 4: return receive_by_splice(fd, data, len);
    case 0: return ci_sys_recv(fd, data, len);
    case 1: return ci_sys_recvv(fd, iov, 2);
    case 2: return ci_sys_recvmsg(fd, &message);
    default: return ci_sys_read(fd, data, len);
    }
}

static void act_receive(struct game *game, const struct step *step, struct answer *answer)
{
    char *data = arena_take(game, step->x, false);
    ssize_t n = receive_by(step->y, game->slots[step->a].fd, data, step->x);
    say(answer, n);
    if (n > 0)
        say(answer, hash_bytes(data, (size_t)n));
}

/* Until nothing is taken even after everything has arrived that can. How much that is the real
 * kernel says; the model is told. */
static void act_fill(struct game *game, const struct step *step, struct answer *answer)
{
    static char data[65536];
    const struct slot *slot = &game->slots[step->a];
    uint32_t sent = 0;
    kernel_prepare_fill(slot->fd);
    for (int refused = 0; refused < 2;) {
        ssize_t n = ci_sys_send(slot->fd, data, kernel_fill_size(slot->fd, sent, sizeof data));
        if (n < 0 && n != -EAGAIN)
            break;
        sent += n > 0 ? (uint32_t)n : 0;
        refused = n < 0 ? refused + 1 : 0;
        kernel_settle(game);
    }
    say(answer, sent);
    game->slots[step->b].filled = sent;
}

static void act_drain(struct game *game, const struct step *step, struct answer *answer)
{
    static char data[65536];
    struct slot *slot = &game->slots[step->a];
    uint32_t got = 0, waits = 0;
    uint64_t hash = 0;
    ssize_t n;
    while ((n = ci_sys_recv(slot->fd, data, sizeof data)) > 0 ||
           (n == -EAGAIN && got < slot->filled && waits++ < 20)) {
        got += n > 0 ? (uint32_t)n : 0;
        for (ssize_t i = 0; i < n; i++)
            hash = hash * 31 + (uint64_t)data[i];
        kernel_settle(game);
        if (n < 0)
            kernel_await(game, slot->fd);
    }
    say(answer, (int64_t)hash);
    say(answer, got);
    say(answer, n);
    slot->filled = 0;
    if (step->b < SLOTS)
        kernel_end_fill(game->slots[step->b].fd);
}

/* ---- datagrams ---- */

static int64_t open_datagram(struct game *game, const struct step *step)
{
    struct sockaddr_storage own;
    struct ci_datagram_options options = {.ipv6_only = step->y == FORM_ANY_ALONE};
    socklen_t len = make_own(game, step, &own);
    return open_bound(game, step, DATAGRAM,
                      ci_sys_datagram((const struct sockaddr *)(const void *)&own, len, &options));
}

static int64_t act_datagram(struct game *game, const struct step *step)
{
    int64_t family;
    while ((family = open_datagram(game, step)) > 0 && must_choose_again(game, step))
        close_slot(&game->slots[step->a]);
    return family;
}

/* Answers with the address that the socket has got by that. */
static int64_t act_associate(struct game *game, const struct step *step)
{
    struct slot *slot = &game->slots[step->a];
    struct sockaddr_storage own;
    socklen_t len;
    int64_t rc = connect_to(game, step);
    if (rc < 0)
        return rc;
    slot->associated = true;
    return ci_sys_name(slot->fd, false, &own, &len) == 0 ? hash_address(&own) : 0;
}

int64_t send_datagram(struct game *game, const struct step *step, const void *to, socklen_t len)
{
    struct iovec iov = {arena_take(game, step->x, true), step->x};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    if (step->b < SLOTS) {
        message.msg_name = (void *)(uintptr_t)to;
        message.msg_namelen = len;
    }
    return ci_sys_sendmsg(game->slots[step->a].fd, &message);
}

bool receive_datagram(struct game *game, const struct step *step, struct answer *answer,
                      struct msghdr *from, int64_t *ret_hash)
{
    struct iovec iov = {arena_take(game, step->x, false), step->x};
    from->msg_iov = &iov;
    from->msg_iovlen = 1;
    ssize_t n = ci_sys_recvmsg(game->slots[step->a].fd, from);
    say(answer, n);
    if (n < 0)
        return false;
    say(answer, from->msg_flags);
    *ret_hash = hash_bytes(iov.iov_base, (size_t)n);
    return true;
}

static int64_t act_send_to(struct game *game, const struct step *step)
{
    struct sockaddr_storage to;
    socklen_t len = make_address(game, step->y, game->slots[step->b % SLOTS].port, &to);
    return send_datagram(game, step, &to, len);
}

static uint8_t slot_at(const struct game *game, const struct sockaddr_storage *address)
{
    uint8_t at = 0;
    while (at < SLOTS &&
           game->slots[at].port != ((const struct sockaddr_in *)(const void *)address)->sin_port)
        at++;
    return at;
}

static void act_receive_from(struct game *game, const struct step *step, struct answer *answer)
{
    struct sockaddr_storage from = {0};
    struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof from};
    int64_t hash;
    if (!receive_datagram(game, step, answer, &message, &hash))
        return;
    say(answer, slot_at(game, &from));
    say(answer, hash);
    say(answer, message.msg_namelen);
    say(answer, hash_address(&from));
}

/* ---- waiting ---- */

static void act_poll(struct game *game, const struct step *step, struct answer *answer)
{
    struct pollfd fds[SLOTS];
    for (int i = 0; i < SLOTS; i++) {
        const struct slot *slot = &game->slots[i];
        fds[i] = (struct pollfd){.fd = slot->kind == NONE || slot->kind == RESERVED ? -1 : slot->fd,
                                 .events = (short)step->x};
    }
    say(answer, ci_sys_poll(fds, SLOTS, 0));
    for (int i = 0; i < SLOTS; i++)
        say(answer, fds[i].revents);
}

static int64_t act_epoll(struct game *game, const struct step *step)
{
    struct ci_eventpoll eventpoll;
    int rc = ci_eventpoll_open(&eventpoll);
    open_slot(game, step->a, EPOLL, rc < 0 ? rc : eventpoll.fd);
    game->slots[step->a].eventpoll = eventpoll;
    return rc;
}

static int64_t act_control(struct game *game, const struct step *step)
{
    static const int whats[] = {EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL};
    struct epoll_event event = {.events = step->x,
                                .data.u64 = (uint64_t)game->number << 8 | step->b};
    return ci_eventpoll_control(&game->slots[step->a].eventpoll, whats[step->c],
                                game->slots[step->b].fd, &event);
}

static void act_wait(struct game *game, const struct step *step, struct answer *answer)
{
    struct epoll_event events[SLOTS];
    int n = ci_eventpoll_wait(&game->slots[step->a].eventpoll, events, (int)step->x, 0);
    say(answer, n);
    for (int i = 0; i < n; i++) {
        say(answer, (int64_t)events[i].data.u64);
        say(answer, events[i].events);
    }
}

/* ---- all of them ---- */

static int64_t act_copy(struct game *game, const struct step *step)
{
    const struct slot *from = &game->slots[step->b];
    struct slot *to = &game->slots[step->a];
    coir_fd fd = kernel_copy(from->fd);
    *to = *from;
    to->fd = fd;
    to->copied = game->slots[step->b].copied = true;
    return fd < 0;
}

static int64_t act_on_socket(struct game *game, const struct step *step)
{
    struct slot *slot = &game->slots[step->a];
    switch ((enum op)step->op) {
    case OP_LISTEN: return act_listen(game, step);
    case OP_CONNECT: return act_connect(game, step);
    case OP_ACCEPT: return act_accept(game, step);
    case OP_SEND: return send_by(step->y, slot->fd, arena_take(game, step->x, true), step->x);
    case OP_SHUTDOWN: return ci_sys_shutdown_write(slot->fd);
    case OP_LINGER: return ci_sys_reset_on_close(slot->fd);
    case OP_ERROR: return ci_sys_socket_error(slot->fd);
    case OP_CLOSE: close_slot(slot); return 0;
    case OP_COPY: return act_copy(game, step);
    case OP_DATAGRAM: return act_datagram(game, step);
    case OP_ASSOCIATE: return act_associate(game, step);
    case OP_SEND_TO: return act_send_to(game, step);
    case OP_EVENTFD: open_slot(game, step->a, EVENTFD, ci_sys_eventfd()); return 0;
    case OP_ADD: return kernel_add(slot->fd, step->x);
    case OP_CLEAR: ci_sys_eventfd_drain(slot->fd); return 0;
    case OP_EPOLL: return act_epoll(game, step);
    case OP_CONTROL: return act_control(game, step);
    default: return 0;
    }
}

void act(struct game *game, const struct step *step, struct answer *answer)
{
    game->number++;
    answer->count = 0;
    switch ((enum op)step->op) {
    case OP_RECEIVE: act_receive(game, step, answer); break;
    case OP_RECEIVE_FROM: act_receive_from(game, step, answer); break;
    case OP_FILL: act_fill(game, step, answer); break;
    case OP_DRAIN: act_drain(game, step, answer); break;
    case OP_POLL: act_poll(game, step, answer); break;
    case OP_WAIT: act_wait(game, step, answer); break;
    default:
        if (step->op >= OP_RING_RECEIVE && step->op <= OP_RING_ENTER)
            act_ring(game, step, answer);
        else if (step->op >= OP_UNIX_LISTEN && step->op <= OP_UNIX_RECEIVE_FROM)
            act_unix(game, step, answer);
        else
            say(answer, act_on_socket(game, step));
    }
    kernel_settle(game);
}

void game_open(struct game *game, uint64_t seed, enum mode mode, char *arena)
{
    *game = (struct game){.seed = seed, .arena = arena};
    if (mode != MODE_RING)
        return;
    game->has_ring = ci_ring_open(&game->ring, 8, 16, false) == 0 &&
                     ci_ring_buffers_make(&game->buffers, BUFFERS, BUFFER_SIZE) == 0;
    ci_check(game->has_ring && ci_ring_submit(&game->ring) == 0); /* which enables it */
    ci_check(ci_ring_buffers_register(&game->ring, &game->buffers, 0) == 0);
    for (uint16_t i = 0; i < BUFFERS; i++)
        ci_ring_buffer_give(&game->buffers, i);
}

/* The kernel ends a ring that is closed later, and its requests hold their files until then: a
 * listener would meet the next programs. */
static void take_back_all(struct game *game)
{
    ci_ring_enter(&game->ring, 0, 0); /* which submits what is left */
    for (int i = 0; i < REQUESTS_MAX; i++)
        if (game->requests[i].name)
            ci_ring_take_back(&game->ring, game->requests[i].name);
    ci_ring_enter(&game->ring, 0, 0); /* which runs what the cancels have left to this thread */
}

void game_close(struct game *game)
{
    if (game->has_ring)
        take_back_all(game);
    for (int i = 0; i < SLOTS; i++) {
        if (game->slots[i].kind == STREAM)
            ci_sys_reset_on_close(game->slots[i].fd);
        close_slot(&game->slots[i]);
    }
    if (!game->has_ring)
        return;
    ci_ring_close(&game->ring);
    ci_ring_buffers_free(&game->buffers);
}
