/* What is drawn on Unix sockets: check.h. Of four programs one is of them. */
#include <stddef.h>
#include <string.h>

#include "draw.h"

enum { CHARGE_MIN = 800 };

bool is_about_unix(const struct game *game)
{
    return game->seed % 4 == 1;
}

/* ---- which sockets are connected ---- */

struct name {
    struct sockaddr_storage address;
    socklen_t len;
};

static struct name name_at(const struct game *game, uint8_t at, bool peer)
{
    struct name name = {.len = 0};
    if (ci_sys_name(game->slots[at].fd, peer, &name.address, &name.len) < 0)
        name.len = 0;
    return name;
}

static bool is_same(const struct name *a, const struct name *b)
{
    return a->len && a->len == b->len && memcmp(&a->address, &b->address, a->len) == 0;
}

static uint8_t find_peer(const struct game *game, uint8_t at)
{
    struct name own = name_at(game, at, false), theirs = name_at(game, at, true);
    for (uint8_t i = 0; i < SLOTS; i++) {
        if (i == at || game->slots[i].kind != UNIX_STREAM)
            continue;
        struct name name = name_at(game, i, false), peer = name_at(game, i, true);
        if (is_same(&name, &theirs) && is_same(&peer, &own))
            return i;
    }
    return SLOTS;
}

/* ---- streams ---- */

/* So few that the sender stays writable, whatever the kernel charges for each. */
static bool may_send(struct game *game, struct step *step)
{
    struct slot *slot = &game->slots[step->a];
    uint8_t peer = find_peer(game, step->a);
    uint32_t charge = step->x > CHARGE_MIN ? step->x : CHARGE_MIN;
    if (slot->sent + charge > SENT_MAX || (peer < SLOTS && game->slots[peer].filled))
        return false;
    slot->sent += charge;
    return true;
}

static bool draw_on_stream(struct game *game, struct ci_random *random, struct step *step)
{
    static const uint16_t lengths[] = {0, 1, 2, 10, 100, 256, 257, 600, 1200};
    step->a = pick(game, random, UNIX_STREAM);
    step->x = lengths[below(random, ci_countof(lengths))];
    step->y = below(random, 5);
    step->c = below(random, 6) ? pick(game, random, UNIX_DATAGRAM) : SLOTS;
    if (step->a == SLOTS)
        return false;
    struct slot *slot = &game->slots[step->a];
    switch ((enum op)step->op) {
    case OP_RING_SEND: step->y = draw_send_flags(random); __attribute__((fallthrough));
    case OP_SEND:
    case OP_RING_SEND_MESSAGE:
    case OP_UNIX_PASS: return may_send(game, step);
    case OP_RING_RECEIVE:
    case OP_RING_RECEIVE_MESSAGE:
    case OP_RING_RECEIVE_ALL:
    case OP_RING_RECEIVE_CHOSEN: return draw_ring_receive(game, random, step);
    case OP_RECEIVE:
    case OP_UNIX_RECEIVE_PASSED: return !slot->filled && step->x;
    case OP_SHUTDOWN: slot->shut = true; return true;
    case OP_FILL: return !slot->shut && may_fill(game, step, find_peer(game, step->a));
    case OP_DRAIN: return may_drain(game, step, find_peer(game, step->a));
    default: return true;
    }
}

/* ---- the others ---- */

static uint8_t pick_named(const struct game *game, struct ci_random *random)
{
    uint8_t found = SLOTS;
    uint32_t count = 0;
    for (uint8_t i = 0; i < SLOTS; i++)
        if (game->slots[i].name_len && below(random, ++count) == 0)
            found = i;
    return found;
}

/* Also one that is connected, or has failed to. */
static bool draw_connect(struct game *game, struct ci_random *random, struct step *step)
{
    step->a = pick(game, random, below(random, 5) ? NONE : UNIX_STREAM);
    step->b = pick_named(game, random);
    step->x = below(random, 2) * 2; /* not the small buffers */
    return step->a < SLOTS && step->b < SLOTS && step->a != step->b;
}

/* An accept of a ring would be told at once that the listener is ready, again and again, until a
 * kernel thread answers -EAGAIN. */
static bool draw_refuse(struct game *game, struct ci_random *random, struct step *step)
{
    step->a = pick(game, random, UNIX_LISTENER);
    if (step->a == SLOTS || game->slots[step->a].pending)
        return false;
    game->slots[step->a].shut = true;
    return true;
}

static bool draw_on_datagram(struct game *game, struct ci_random *random, struct step *step)
{
    step->a = pick(game, random, UNIX_DATAGRAM);
    step->b =
        step->op == OP_UNIX_SEND_TO && below(random, 3) == 0 ? SLOTS : pick_named(game, random);
    step->x = below(random, 300);
    return step->a < SLOTS && (step->op != OP_UNIX_ASSOCIATE || step->b < SLOTS);
}

bool draw_on_unix(struct game *game, struct ci_random *random, struct step *step)
{
    switch ((enum op)step->op) {
    case OP_UNIX_LISTEN:
        step->a = pick(game, random, NONE);
        step->x = below(random, 3);
        return step->a < SLOTS;
    case OP_UNIX_CONNECT: return draw_connect(game, random, step);
    case OP_ACCEPT:
    case OP_RING_ACCEPT:
        step->a = pick(game, random, NONE);
        step->b = pick(game, random, UNIX_LISTENER);
        step->x = below(random, 2) * 2;
        return step->a < SLOTS && step->b < SLOTS &&
               !(step->op == OP_RING_ACCEPT && game->slots[step->b].shut);
    case OP_UNIX_REFUSE: return draw_refuse(game, random, step);
    case OP_UNIX_DATAGRAM:
        step->a = pick(game, random, NONE);
        step->x = below(random, 4);
        return step->a < SLOTS;
    case OP_UNIX_ASSOCIATE:
    case OP_UNIX_SEND_TO:
    case OP_UNIX_RECEIVE_FROM: return draw_on_datagram(game, random, step);
    default: return draw_on_stream(game, random, step);
    }
}

/* Most programs begin with a connection. */
bool draw_unix_beginning(const struct game *game, enum mode mode, struct step *ret_step)
{
    static const struct step beginning[] = {
        {.op = OP_UNIX_LISTEN, .a = 0, .x = 1},
        {.op = OP_UNIX_CONNECT, .a = 1, .b = 0, .x = 2},
        {.op = OP_ACCEPT, .a = 2, .b = 0, .x = 2},
        {.op = OP_UNIX_DATAGRAM, .a = 3, .x = 1},
        {.op = OP_EPOLL, .a = 4},
    };
    uint32_t count = mode == MODE_EPOLL ? 5 : 4;
    if (game->seed % 16 == 1 || game->number >= count)
        return false;
    *ret_step = beginning[game->number];
    return true;
}
