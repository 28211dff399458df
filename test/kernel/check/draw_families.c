/* Programs with sockets of both families: check.h. Of four programs one is of them. */
#include <string.h>

#include "draw.h"

/* Loopback of IPv6 may be switched off. */
static bool machine_has_six(void)
{
    static int known; /* 1: it has not, 2: it has */
    struct sockaddr_in6 loopback = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    if (!known) {
        coir_fd fd = ci_sys_listen((const struct sockaddr *)(const void *)&loopback,
                                   sizeof loopback, 1, false, true);
        known = fd < 0 ? 1 : 2;
        if (fd >= 0)
            ci_sys_close(fd);
    }
    return known == 2;
}

bool has_families(const struct game *game)
{
    return game->seed % 4 == 2 && machine_has_six();
}

/* A port that another program of the machine has at another address cannot be had at all of them.
 */
void draw_bound(const struct game *game, struct ci_random *random, struct step *step)
{
    step->y = below(random, 8) ? below(random, FORM_OTHERS)
                               : FORM_OTHERS + below(random, FORM_COUNT - FORM_OTHERS);
    step->b = below(random, 3) == 0
                  ? SLOTS
                  : pick_free_everywhere(game, random, step->op == OP_LISTEN ? LISTENER : DATAGRAM);
}

/* Of a stream. One in six does not fit the socket. */
void draw_peer_form(struct ci_random *random, struct step *step)
{
    step->y = below(random, FORM_ANY_ALONE);
    if ((step->y == FORM_FOUR) == (below(random, 6) == 0))
        step->y |= SIX;
}

/* What the model does not say: where an IPv4 datagram comes from that a socket bound to ::1 or ::
 * has sent (127.0.0.6 and 127.0.0.1), hence which connected socket takes it; and what a socket
 * of one family does with the other's address once it is bound or connected to an IPv4-mapped one.
 */
bool draw_datagram_form(const struct game *game, struct ci_random *random, struct step *step)
{
    const struct slot *slot = &game->slots[step->a];
    step->y = below(random, FORM_ANY_ALONE);
    bool four = step->y == FORM_FOUR || step->y == FORM_MAPPED;
    if (step->op == OP_RECEIVE_FROM || step->b == SLOTS)
        return true;
    bool associates = step->op == OP_ASSOCIATE;
    switch (slot->form) {
    case FORM_MAPPED: return four && !(associates && game->slots[step->b].form == FORM_ANY);
    case FORM_LOOPBACK: return !four;
    case FORM_ANY: return !four || !(associates || slot->associated);
    case FORM_FOUR: return !associates || game->slots[step->b].form != FORM_ANY;
    default: return true;
    }
}
