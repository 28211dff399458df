/* Datagrams: each comes whole, at most once, to its destination and with its sender's address; it
 * may be lost. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ledger.h"

enum { ADDRESS_SIZE = 64, DATAGRAM_MOST = 3000 };

struct datagram {
    struct item item;
    int to;
    uint32_t len;
    char filling[DATAGRAM_MOST];
};

struct post {
    struct ledger ledger;
    int receivers, sending; /* actors: the first; those of the others that are not done */
    int open;
    coir_event all_open;
    uint32_t most;
    uint64_t came;
    char addresses[ACTORS_MOST][ADDRESS_SIZE]; /* of all: receivers and senders */
    bool known[ACTORS_MOST];
};

static int draw_post(struct act *act, struct ci_random *random)
{
    struct post *post = act->own = calloc(1, sizeof *post);
    post->receivers = (int)draw_from(random, 1, (unsigned)act->actor_count - 1);
    post->sending = act->actor_count - post->receivers;
    post->most = draw(random, 2u << draw_from(random, 0, 10));
    return ledger_init(&post->ledger, act, (unsigned)act->actor_count,
                       1 + draw(random, 1u << draw_from(random, 1, 8)));
}

static void print_post(const struct act *act, FILE *file)
{
    const struct post *post = act->own;
    fprintf(file, ", %d receivers, %u datagrams of up to %u bytes by each of the others",
            post->receivers, post->ledger.each, post->most);
}

static void fill(struct datagram *datagram)
{
    for (uint32_t i = 0; i < datagram->len; i++)
        datagram->filling[i] = (char)(datagram->item.proof + i * 7);
}

/* Opens one's socket, and makes its address known. */
static int open_one(struct actor *actor, const char *peer, coir_udp **ret_udp)
{
    struct post *post = actor->act->own;
    int rc = coir_udp_open("127.0.0.1:0", peer, ret_udp);
    if (rc < 0)
        program_fail(actor->act, "coir_udp_open: %s", coir_strerror(rc));
    rc = coir_udp_local(*ret_udp, post->addresses[actor->number], ADDRESS_SIZE);
    ACT_CHECK(actor->act, rc > 0);
    /* datagrams are no order that TSan knows of */
    __atomic_store_n(&post->known[actor->number], true, __ATOMIC_RELEASE);
    return 0;
}

/* ---- sending ---- */

static int call_send(struct wait *wait)
{
    const struct datagram *datagram = wait->data;
    size_t len = (size_t)wait->number;
    return (int)(wait->more ? coir_udp_send_to(wait->object, datagram, len, wait->more)
                            : coir_udp_send(wait->object, datagram, len));
}

static coir_future *send_op(struct wait *wait, void *place)
{
    const struct datagram *datagram = wait->data;
    size_t len = (size_t)wait->number;
    return wait->more ? coir_udp_send_to_op(place, wait->object, datagram, len, wait->more)
                      : coir_udp_send_op(place, wait->object, datagram, len);
}

static int send_one(struct actor *actor, coir_udp *udp, struct datagram *datagram,
                    const char *address)
{
    size_t len = offsetof(struct datagram, filling) + datagram->len;
    coir_address to;
    int rc = address ? coir_address_parse(address, &to) : 0;
    ACT_CHECK(actor->act, rc >= 0);
    struct wait wait = {call_send,
                        send_op,
                        .keeps = true,
                        .object = udp,
                        .data = datagram,
                        .number = (int64_t)len,
                        .more = address ? &to : NULL};
    do
        rc = actor_wait(actor, &wait);
    while (rc == LOST);
    ACT_CHECK(actor->act, rc < 0 || rc == (int)len);
    return rc;
}

static int send_with(struct actor *actor, coir_udp *udp, int peer)
{
    struct post *post = actor->act->own;
    struct datagram datagram;
    int rc = 0;
    for (unsigned i = 0; i < post->ledger.each && rc >= 0; i++) {
        bool to_peer = peer >= 0;
        datagram.to = to_peer ? peer : (int)draw(&actor->random, (unsigned)post->receivers);
        datagram.item = ledger_item(&post->ledger, (unsigned)actor->number, i);
        datagram.len = draw(&actor->random, post->most + 1);
        fill(&datagram);
        rc = send_one(actor, udp, &datagram, to_peer ? NULL : post->addresses[datagram.to]);
        if (rc >= 0)
            ledger_sent(&post->ledger, &datagram.item);
    }
    return rc < 0 ? rc : 0;
}

static int send_all(struct actor *actor)
{
    struct post *post = actor->act->own;
    bool interruptible = actor->act->hurry != HURRY_NOT || actor->act->run->program->stops;
    int rc = coir_event_wait(&post->all_open), peer = -1;
    if (rc == 0) {
        coir_udp *udp;
        if (draw(&actor->random, 2))
            peer = (int)draw(&actor->random, (unsigned)post->receivers);
        open_one(actor, peer < 0 ? NULL : post->addresses[peer], &udp);
        rc = send_with(actor, udp, peer);
        coir_udp_close(udp);
    }
    __atomic_sub_fetch(&post->sending, 1, __ATOMIC_ACQ_REL);
    if (rc == -ECONNREFUSED && interruptible)
        return 0; /* its receiver has gone */
    return rc < 0 ? actor_interrupted(actor, rc) : 0;
}

/* ---- receiving ---- */

static int call_recv(struct wait *wait)
{
    return (int)coir_udp_recv(wait->object, wait->data, (size_t)wait->number, wait->more);
}

static coir_future *recv_op(struct wait *wait, void *place)
{
    return coir_udp_recv_op(place, wait->object, wait->data, (size_t)wait->number, wait->more);
}

static void got(struct actor *actor, const struct datagram *datagram, size_t count, size_t room,
                const coir_address *from)
{
    struct post *post = actor->act->own;
    char address[ADDRESS_SIZE];
    size_t whole = offsetof(struct datagram, filling) + datagram->len;
    ACT_CHECK(actor->act, count >= offsetof(struct datagram, filling));
    ledger_received(&post->ledger, &datagram->item);
    ACT_CHECK_EQ(actor->act, datagram->to, actor->number);
    ACT_CHECK_EQ(actor->act, count, whole < room ? whole : room);
    for (uint32_t i = 0; i < count - offsetof(struct datagram, filling); i++)
        if (datagram->filling[i] != (char)(datagram->item.proof + i * 7))
            program_fail(actor->act, "byte %u of datagram %u of %u is wrong", i,
                         datagram->item.number, datagram->item.sender);
    ACT_CHECK(actor->act, __atomic_load_n(&post->known[datagram->item.sender], __ATOMIC_ACQUIRE));
    ACT_CHECK(actor->act, coir_address_format(from, address, sizeof address) > 0);
    if (strcmp(address, post->addresses[datagram->item.sender]) != 0)
        program_fail(actor->act, "a datagram of %s comes from %s",
                     post->addresses[datagram->item.sender], address);
    __atomic_add_fetch(&post->came, 1, __ATOMIC_RELAXED);
}

/* How many bytes; -ETIME: none for a while; or interrupted. */
static int recv_for_a_while(struct actor *actor, struct wait *wait)
{
    int rc;
    {
        COIR_DEADLINE_AS(pause, coir_in(3 * COIR_MS));
        while ((rc = actor_wait(actor, wait)) == LOST) {
        }
        if (rc >= 0 || !coir_deadline_passed(pause))
            return rc;
    }
    return coir_task_interrupted() ? coir_task_interrupted() : -ETIME;
}

static int recv_all(struct actor *actor)
{
    struct post *post = actor->act->own;
    struct datagram datagram;
    coir_udp *udp;
    int rc = open_one(actor, NULL, &udp);
    if (__atomic_add_fetch(&post->open, 1, __ATOMIC_ACQ_REL) == post->receivers)
        coir_event_set(&post->all_open);
    for (bool last = false; !last && rc >= 0;) {
        coir_address from;
        size_t room = draw(&actor->random, 4)
                          ? sizeof datagram
                          : offsetof(struct datagram, filling) + draw(&actor->random, 100);
        struct wait wait = {call_recv,     recv_op,           .keeps = true,
                            .object = udp, .data = &datagram, .number = (int64_t)room,
                            .more = &from};
        bool done = __atomic_load_n(&post->sending, __ATOMIC_ACQUIRE) == 0;
        rc = recv_for_a_while(actor, &wait);
        last = done && rc == -ETIME;
        if (rc >= 0)
            got(actor, &datagram, (size_t)rc, room, &from);
        else if (rc == -ETIME && !coir_task_interrupted())
            rc = 0;
    }
    coir_udp_close(udp);
    return rc < 0 ? actor_interrupted(actor, rc) : 0;
}

static int play_post(struct actor *actor)
{
    const struct post *post = actor->act->own;
    return actor->number < post->receivers ? recv_all(actor) : send_all(actor);
}

static void check_post(struct act *act)
{
    struct post *post = act->own;
    uint64_t lost = ledger_lost(&post->ledger);
    ACT_CHECK(act, !act_complete(act) ||
                       post->came + lost ==
                           (uint64_t)(act->actor_count - post->receivers) * post->ledger.each);
}

static void free_post(struct act *act)
{
    struct post *post = act->own;
    ledger_free(&post->ledger);
    free(post);
}

const struct act_kind act_datagram = {
    .name = "datagram",
    .weight = 2,
    .actors_least = 2,
    .actors_most = 6,
    .draw = draw_post,
    .print = print_post,
    .play = play_post,
    .check = check_post,
    .free = free_post,
};
