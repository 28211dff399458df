/* Draws the next call of a program: check.h. What would make an answer hang on how the real kernel
 * cuts or times segments is left out; each such rule says so. */
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>

#include "draw.h"

enum { STEPS_MAX = 45, SEND_MAX = 1200 };

static const uint16_t poll_events[] = {
    POLLIN,
    POLLOUT,
    POLLIN | POLLOUT,
    POLLIN | POLLRDHUP,
    POLLRDHUP,
    POLLIN | POLLOUT | POLLRDHUP,
    POLLIN | POLLRDNORM,
    0,
    POLLPRI,
};

/* One of the slots that fit, each as likely as another; SLOTS: none does. */
static uint8_t pick_fitting(const struct game *game, struct ci_random *random,
                            bool (*fits)(const struct slot *slot, enum kind kind), enum kind kind)
{
    uint8_t found = SLOTS;
    uint32_t count = 0;
    for (uint8_t i = 0; i < SLOTS; i++)
        if (fits(&game->slots[i], kind) && below(random, ++count) == 0)
            found = i;
    return found;
}

static bool is_of_kind(const struct slot *slot, enum kind kind)
{
    return slot->kind == kind;
}

static bool is_open(const struct slot *slot, enum kind unused)
{
    (void)unused;
    return slot->kind != NONE && slot->kind != RESERVED;
}

/* Listeners and datagram sockets, also closed ones. */
static bool has_port(const struct slot *slot, enum kind unused)
{
    (void)unused;
    return slot->port != 0;
}

uint8_t pick(const struct game *game, struct ci_random *random, enum kind kind)
{
    return pick_fitting(game, random, is_of_kind, kind);
}

static bool was_free_everywhere(const struct slot *slot, enum kind kind)
{
    return slot->everywhere == kind;
}

uint8_t pick_free_everywhere(const struct game *game, struct ci_random *random, enum kind kind)
{
    return pick_fitting(game, random, was_free_everywhere, kind);
}

static uint8_t pick_open(const struct game *game, struct ci_random *random)
{
    return pick_fitting(game, random, is_open, NONE);
}

static in_port_t port_of(const struct game *game, uint8_t at, bool peer)
{
    struct sockaddr_storage storage;
    socklen_t len;
    if (ci_sys_name(game->slots[at].fd, peer, &storage, &len) < 0)
        return 0;
    return ((struct sockaddr_in *)(void *)&storage)->sin_port;
}

static uint8_t find_peer(const struct game *game, uint8_t at)
{
    in_port_t own = port_of(game, at, false), theirs = port_of(game, at, true);
    for (uint8_t i = 0; theirs && i < SLOTS; i++)
        if (game->slots[i].kind == STREAM && port_of(game, i, false) == theirs &&
            port_of(game, i, true) == own)
            return i;
    return SLOTS;
}

static int state_of(const struct slot *slot)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    return getsockopt(slot->fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 ? info.tcpi_state
                                                                         : TCP_CLOSE;
}

static bool sends(const struct slot *slot)
{
    int state = state_of(slot);
    return state == TCP_ESTABLISHED || state == TCP_CLOSE_WAIT;
}

/* Who else takes the socket's error has the ring connect it for a second time. */
static bool is_connected_by_ring(const struct game *game, uint8_t at)
{
    for (int i = 0; i < REQUESTS_MAX; i++)
        if (game->requests[i].name && game->requests[i].op == OP_RING_CONNECT &&
            game->requests[i].slot == at)
            return true;
    return false;
}

/* Which of several receives gets the bytes hangs on when each was woken last, for whatever reason.
 * A driver has one at a time. */
bool may_receive(const struct game *game, uint8_t at)
{
    if (game->slots[at].copied || game->slots[at].filled)
        return false;
    for (int i = 0; i < REQUESTS_MAX; i++) {
        uint8_t op = game->requests[i].op;
        bool receives =
            op == OP_RING_RECEIVE || (op >= OP_RING_RECEIVE_MESSAGE &&
                                      op <= OP_RING_RECEIVE_CHOSEN && op != OP_RING_SEND_MESSAGE);
        if (game->requests[i].name && game->requests[i].slot == at && receives)
            return false;
    }
    return true;
}

/* ---- what may be called now ---- */

/* Few bytes, so that they find room whatever the buffers are. And none from an end that has not
 * taken what fills the way to it: they would carry an acknowledgement, which frees a part of the
 * peer's buffer. */
static bool may_send(struct game *game, struct step *step)
{
    struct slot *slot = &game->slots[step->a];
    if (slot->filled || slot->sent + step->x > SENT_MAX)
        return false;
    slot->sent += step->x;
    return true;
}

bool may_fill(const struct game *game, struct step *step, uint8_t to)
{
    const struct slot *slot = &game->slots[step->a];
    step->b = to;
    if (to == SLOTS)
        return false;
    const struct slot *peer = &game->slots[to];
    return slot->sized && !slot->filled && !slot->copied && !peer->copied && !peer->filled &&
           !peer->pending && !slot->pending;
}

bool may_drain(struct game *game, struct step *step, uint8_t of)
{
    const struct slot *slot = &game->slots[step->a];
    step->b = of;
    if (of < SLOTS)
        game->slots[of].sent = 0;
    return !slot->pending || !slot->filled;
}

/* How much of what fills the way to the peer has arrived is not to be known: neither a reset nor
 * the end may follow. */
static bool may_close(struct game *game, const struct step *step)
{
    const struct slot *slot = &game->slots[step->a];
    if (slot->filled && slot->pending)
        return false; /* a request keeps it open */
    if (slot->kind != STREAM)
        return slot->kind != LISTENER || !slot->copied;
    uint8_t peer = find_peer(game, step->a);
    return peer == SLOTS || !game->slots[peer].filled;
}

/* A ring's send that finds no room after the peer's end is told at once that the socket is ready,
 * again and again, until a kernel thread answers -EAGAIN at a time of its own. */
static bool may_never_wait(const struct game *game, const struct step *step)
{
    uint8_t peer = find_peer(game, step->a);
    return peer < SLOTS && game->slots[peer].filled &&
           state_of(&game->slots[step->a]) != TCP_ESTABLISHED;
}

uint32_t draw_send_flags(struct ci_random *random)
{
    return below(random, 2) ? 0 : MSG_WAITALL | (below(random, 2) ? MSG_DONTWAIT : 0);
}

bool draw_ring_receive(const struct game *game, struct ci_random *random, struct step *step)
{
    if (step->op == OP_RING_RECEIVE) {
        step->y = below(random, 3) ? 0 : MSG_WAITALL;
        step->c = (uint8_t)below(random, 2);
    }
    return may_receive(game, step->a) && (step->x || step->op == OP_RING_RECEIVE_ALL);
}

static bool draw_on_stream(struct game *game, struct ci_random *random, struct step *step)
{
    static const uint16_t lengths[] = {0, 1, 2, 10, 100, 256, 257, 600, SEND_MAX};
    step->a = pick(game, random, STREAM);
    step->x = lengths[below(random, ci_countof(lengths))];
    step->y = below(random, 5);
    if (step->a == SLOTS || is_connected_by_ring(game, step->a))
        return false;
    struct slot *slot = &game->slots[step->a];
    switch ((enum op)step->op) {
    case OP_RING_SEND: step->y = draw_send_flags(random); __attribute__((fallthrough));
    case OP_RING_SEND_MESSAGE:
        if (may_never_wait(game, step))
            return false;
        __attribute__((fallthrough));
    case OP_SEND: return may_send(game, step);
    case OP_RING_RECEIVE:
    case OP_RING_RECEIVE_MESSAGE:
    case OP_RING_RECEIVE_ALL:
    case OP_RING_RECEIVE_CHOSEN: return draw_ring_receive(game, random, step);
    case OP_RECEIVE: return !slot->filled && step->x;
    /* then it disconnects */
    case OP_SHUTDOWN:
        return !slot->filled && may_close(game, step) && state_of(slot) != TCP_SYN_SENT;
    case OP_FILL: return sends(slot) && may_fill(game, step, find_peer(game, step->a));
    case OP_DRAIN: return may_drain(game, step, find_peer(game, step->a));
    case OP_LINGER: slot->linger = true; return true;
    default: return true;
    }
}

/* Only a socket that has just begun to connect is asked a second time. */
static bool draw_connect(struct game *game, struct ci_random *random, struct step *step)
{
    step->a = pick(game, random, NONE);
    step->b = pick_fitting(game, random, has_port, NONE);
    step->x = below(random, 3);
    if (has_families(game))
        draw_peer_form(random, step);
    return step->a < SLOTS && step->b < SLOTS && game->slots[step->a].port == 0;
}

static bool draw_opening(struct game *game, struct ci_random *random, struct step *step)
{
    step->a = pick(game, random, NONE);
    step->b = pick(game, random, LISTENER);
    step->x = below(random, 4);
    switch ((enum op)step->op) {
    case OP_LISTEN:
    case OP_DATAGRAM:
        step->b = SLOTS;
        if (has_families(game))
            draw_bound(game, random, step);
        return step->a < SLOTS;
    case OP_CONNECT:
    case OP_RING_CONNECT: return draw_connect(game, random, step);
    case OP_ACCEPT:
    case OP_RING_ACCEPT: return step->a < SLOTS && step->b < SLOTS;
    case OP_COPY:
        step->b = pick_open(game, random);
        return step->a < SLOTS && step->b < SLOTS && game->slots[step->b].kind != EPOLL &&
               !game->slots[step->b].pending && !game->slots[step->b].filled &&
               game->slots[step->b].kind != LISTENER && game->slots[step->b].kind != UNIX_LISTENER;
    default: return step->a < SLOTS;
    }
}

static bool draw_on_datagram(struct game *game, struct ci_random *random, struct step *step)
{
    step->a = pick(game, random, DATAGRAM);
    step->x = below(random, 300);
    step->b =
        step->op == OP_SEND_TO && below(random, 4) == 0 ? SLOTS : pick(game, random, DATAGRAM);
    if (step->a == SLOTS || (step->op == OP_ASSOCIATE && step->b == SLOTS))
        return false;
    if (has_families(game) && !draw_datagram_form(game, random, step))
        return false;
    return step->op != OP_SEND_TO || game->slots[step->a].sent++ < 10;
}

static uint32_t epoll_events(struct ci_random *random, bool adds)
{
    uint32_t events = poll_events[below(random, ci_countof(poll_events))];
    switch (below(random, adds ? 8 : 6)) {
    case 0:
    case 1: return events | EPOLLET;
    case 2: return events | EPOLLONESHOT;
    case 3: return events | EPOLLET | EPOLLONESHOT;
    case 6: return (events & (EPOLLIN | EPOLLOUT)) | EPOLLEXCLUSIVE;
    case 7: return (events & (EPOLLIN | EPOLLOUT)) | EPOLLEXCLUSIVE | EPOLLET;
    default: return events;
    }
}

static bool draw_waiting(struct game *game, struct ci_random *random, struct step *step)
{
    switch ((enum op)step->op) {
    case OP_POLL: step->x = poll_events[below(random, ci_countof(poll_events))]; return true;
    case OP_EPOLL: step->a = pick(game, random, NONE); return step->a < SLOTS;
    case OP_CONTROL:
        step->a = pick(game, random, EPOLL);
        step->b = pick_open(game, random);
        step->c = (uint8_t)(below(random, 10) < 5 ? 0 : 1 + below(random, 4) / 3);
        step->x = epoll_events(random, step->c == 0);
        return step->a < SLOTS && game->slots[step->b].kind != EPOLL;
    default:
        step->a = pick(game, random, EPOLL);
        step->x = 1 + below(random, below(random, 3) ? SLOTS : 3);
        return step->a < SLOTS;
    }
}

static bool draw_on_eventfd(struct game *game, struct ci_random *random, struct step *step)
{
    step->a = pick(game, random, EVENTFD);
    step->x = below(random, 3);
    return step->a < SLOTS;
}

static bool draw_named(struct game *game, struct ci_random *random, struct step *step)
{
    const struct request *request = &game->requests[below(random, 8)];
    step->x = request->name && below(random, 8) ? (uint32_t)request->name
                                                : 1 + below(random, game->number + 1);
    return true;
}

static bool draw_on_ring(struct game *game, struct ci_random *random, struct step *step)
{
    switch ((enum op)step->op) {
    case OP_RING_POLL:
        step->a = pick_open(game, random);
        step->x = poll_events[below(random, ci_countof(poll_events))];
        step->y = below(random, 2);
        return step->a < SLOTS;
    case OP_RING_POLL_REMOVE:
    case OP_RING_CANCEL:
    case OP_RING_TAKE_BACK: return draw_named(game, random, step);
    case OP_RING_READ:
    case OP_RING_WRITE: return draw_on_eventfd(game, random, step);
    case OP_RING_GIVE: step->x = 1 + below(random, BUFFERS); return game->held_count > 0;
    default: step->x = below(random, 3); return true;
    }
}

/* ---- which ---- */

struct weight {
    uint8_t op;
    uint8_t in[MODE_COUNT];
};

static const struct weight unix_weights[] = {
    {OP_UNIX_LISTEN, {1, 1, 1}},
    {OP_UNIX_CONNECT, {3, 3, 2}},
    {OP_ACCEPT, {4, 4, 2}},
    {OP_UNIX_REFUSE, {1, 1, 1}},
    {OP_SEND, {7, 7, 6}},
    {OP_RECEIVE, {4, 5, 1}},
    {OP_UNIX_PASS, {4, 4, 3}},
    {OP_UNIX_RECEIVE_PASSED, {5, 6, 2}},
    {OP_UNIX_CREDENTIALS, {1, 1, 1}},
    {OP_FILL, {1, 1, 1}},
    {OP_DRAIN, {3, 3, 2}},
    {OP_SHUTDOWN, {2, 2, 2}},
    {OP_ERROR, {1, 2, 1}},
    {OP_CLOSE, {3, 4, 3}},
    {OP_COPY, {1, 1, 1}},
    {OP_UNIX_DATAGRAM, {2, 2, 1}},
    {OP_UNIX_ASSOCIATE, {2, 2, 1}},
    {OP_UNIX_SEND_TO, {7, 8, 4}},
    {OP_UNIX_RECEIVE_FROM, {3, 4, 2}},
    {OP_POLL, {2, 14, 1}},
    {OP_EPOLL, {2, 0, 0}},
    {OP_CONTROL, {14, 0, 0}},
    {OP_WAIT, {18, 0, 0}},
    {OP_RING_RECEIVE, {0, 0, 4}},
    {OP_RING_SEND, {0, 0, 4}},
    {OP_RING_RECEIVE_MESSAGE, {0, 0, 5}},
    {OP_RING_SEND_MESSAGE, {0, 0, 4}},
    {OP_RING_RECEIVE_ALL, {0, 0, 4}},
    {OP_RING_RECEIVE_CHOSEN, {0, 0, 2}},
    {OP_RING_POLL, {0, 0, 5}},
    {OP_RING_POLL_REMOVE, {0, 0, 2}},
    {OP_RING_CANCEL, {0, 0, 3}},
    {OP_RING_TAKE_BACK, {0, 0, 1}},
    {OP_RING_ACCEPT, {0, 0, 3}},
    {OP_RING_GIVE, {0, 0, 3}},
    {OP_RING_SUBMIT, {0, 0, 4}},
    {OP_RING_ENTER, {0, 0, 16}},
};

static const struct weight internet_weights[] = {
    {OP_LISTEN, {1, 1, 1}},
    {OP_CONNECT, {3, 3, 2}},
    {OP_ACCEPT, {4, 4, 1}},
    {OP_SEND, {9, 9, 8}},
    {OP_RECEIVE, {6, 8, 2}},
    {OP_FILL, {1, 1, 1}},
    {OP_DRAIN, {3, 3, 2}},
    {OP_SHUTDOWN, {2, 2, 2}},
    {OP_LINGER, {1, 1, 1}},
    {OP_ERROR, {1, 2, 1}},
    {OP_CLOSE, {3, 4, 3}},
    {OP_COPY, {1, 1, 1}},
    {OP_DATAGRAM, {1, 1, 1}},
    {OP_ASSOCIATE, {1, 1, 1}},
    {OP_SEND_TO, {2, 3, 2}},
    {OP_RECEIVE_FROM, {1, 3, 1}},
    {OP_EVENTFD, {1, 1, 1}},
    {OP_ADD, {2, 2, 2}},
    {OP_CLEAR, {1, 2, 1}},
    {OP_POLL, {2, 14, 1}},
    {OP_EPOLL, {2, 0, 0}},
    {OP_CONTROL, {14, 0, 0}},
    {OP_WAIT, {18, 0, 0}},
    {OP_RING_RECEIVE, {0, 0, 5}},
    {OP_RING_SEND, {0, 0, 4}},
    {OP_RING_RECEIVE_MESSAGE, {0, 0, 2}},
    {OP_RING_SEND_MESSAGE, {0, 0, 2}},
    {OP_RING_RECEIVE_ALL, {0, 0, 4}},
    {OP_RING_RECEIVE_CHOSEN, {0, 0, 2}},
    {OP_RING_POLL, {0, 0, 5}},
    {OP_RING_POLL_REMOVE, {0, 0, 2}},
    {OP_RING_CANCEL, {0, 0, 3}},
    {OP_RING_TAKE_BACK, {0, 0, 1}},
    {OP_RING_ACCEPT, {0, 0, 3}},
    {OP_RING_CONNECT, {0, 0, 2}},
    {OP_RING_READ, {0, 0, 1}},
    {OP_RING_WRITE, {0, 0, 1}},
    {OP_RING_NOP, {0, 0, 1}},
    {OP_RING_GIVE, {0, 0, 3}},
    {OP_RING_SUBMIT, {0, 0, 4}},
    {OP_RING_ENTER, {0, 0, 16}},
};

/* Who reaches whom, more than what comes after. */
static const struct weight family_weights[] = {
    {OP_LISTEN, {4, 4, 4}},      {OP_CONNECT, {5, 5, 3}},      {OP_ACCEPT, {3, 3, 2}},
    {OP_SEND, {2, 2, 2}},        {OP_RECEIVE, {2, 2, 2}},      {OP_ERROR, {2, 2, 2}},
    {OP_CLOSE, {6, 6, 6}},       {OP_DATAGRAM, {4, 4, 4}},     {OP_ASSOCIATE, {3, 3, 3}},
    {OP_SEND_TO, {8, 8, 8}},     {OP_RECEIVE_FROM, {6, 6, 6}}, {OP_POLL, {2, 6, 2}},
    {OP_EPOLL, {1, 0, 0}},       {OP_CONTROL, {4, 0, 0}},      {OP_WAIT, {4, 0, 0}},
    {OP_RING_POLL, {0, 0, 3}},   {OP_RING_ACCEPT, {0, 0, 3}},  {OP_RING_CONNECT, {0, 0, 4}},
    {OP_RING_SUBMIT, {0, 0, 3}}, {OP_RING_ENTER, {0, 0, 8}},
};

static const struct weights {
    const struct weight *weights;
    size_t count;
} internet = {internet_weights, ci_countof(internet_weights)},
  families = {family_weights, ci_countof(family_weights)},
  unix_sockets = {unix_weights, ci_countof(unix_weights)};

static uint8_t draw_op(const struct weights *of, struct ci_random *random, enum mode mode)
{
    const struct weight *weights = of->weights;
    uint32_t all = 0, chosen;
    for (size_t i = 0; i < of->count; i++)
        all += weights[i].in[mode];
    chosen = below(random, all);
    size_t i = 0;
    for (; chosen >= weights[i].in[mode]; i++)
        chosen -= weights[i].in[mode];
    return weights[i].op;
}

static bool draw_operands(struct game *game, struct ci_random *random, struct step *step)
{
    bool unix_alone = is_about_unix(game);
    switch ((enum op)step->op) {
    case OP_ACCEPT:
    case OP_RING_ACCEPT:
        return unix_alone ? draw_on_unix(game, random, step) : draw_opening(game, random, step);
    case OP_LISTEN:
    case OP_CONNECT:
    case OP_COPY:
    case OP_DATAGRAM:
    case OP_EVENTFD:
    case OP_RING_CONNECT: return draw_opening(game, random, step);
    case OP_CLOSE:
        step->a = pick_open(game, random);
        return step->a < SLOTS && !game->unsubmitted && may_close(game, step);
    case OP_ASSOCIATE:
    case OP_SEND_TO:
    case OP_RECEIVE_FROM: return draw_on_datagram(game, random, step);
    case OP_ADD:
    case OP_CLEAR: return draw_on_eventfd(game, random, step);
    case OP_POLL:
    case OP_EPOLL:
    case OP_CONTROL:
    case OP_WAIT: return draw_waiting(game, random, step);
    case OP_RING_POLL:
    case OP_RING_POLL_REMOVE:
    case OP_RING_CANCEL:
    case OP_RING_TAKE_BACK:
    case OP_RING_READ:
    case OP_RING_WRITE:
    case OP_RING_NOP:
    case OP_RING_GIVE:
    case OP_RING_SUBMIT:
    case OP_RING_ENTER: return draw_on_ring(game, random, step);
    default:
        return unix_alone ? draw_on_unix(game, random, step) : draw_on_stream(game, random, step);
    }
}

/* Most programs begin with a connection. */
static bool draw_beginning(const struct game *game, enum mode mode, struct step *ret_step)
{
    static const struct step beginning[] = {
        {.op = OP_LISTEN, .a = 0, .b = SLOTS, .x = 2},
        {.op = OP_CONNECT, .a = 1, .b = 0, .x = 1},
        {.op = OP_ACCEPT, .a = 2, .b = 0, .x = 2},
        {.op = OP_EPOLL, .a = 3},
    };
    uint32_t count = mode == MODE_EPOLL ? 4 : 3;
    if (game->seed % 8 == 0 || game->number >= count)
        return false;
    *ret_step = beginning[game->number];
    if (has_families(game) && ret_step->op == OP_LISTEN)
        ret_step->y = FORM_ANY;
    if (has_families(game) && ret_step->op == OP_CONNECT)
        ret_step->y = SIX | FORM_LOOPBACK;
    return true;
}

bool draw_step(struct game *game, struct ci_random *random, enum mode mode, struct step *ret_step)
{
    bool is_unix = is_about_unix(game);
    const struct weights *weights = is_unix              ? &unix_sockets
                                    : has_families(game) ? &families
                                                         : &internet;
    if (is_unix ? draw_unix_beginning(game, mode, ret_step) : draw_beginning(game, mode, ret_step))
        return true;
    if (game->number >= 15 + game->seed % (STEPS_MAX - 15))
        return false;
    do
        *ret_step = (struct step){.op = draw_op(weights, random, mode)};
    while (!draw_operands(game, random, ret_step));
    return true;
}
