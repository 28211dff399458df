/* A channel, or two with relays in between: what is sent comes once, in its sender's order, or is
 * dropped as the policy says. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "ledger.h"

enum { SLACK = 200, MANY = 7 };

struct pipeline {
    struct ledger ledger;
    coir_channel *channels[2];
    size_t item_size;
    size_t capacities[2];
    enum coir_overflow overflow;
    bool releases, drains, late_close;
    int senders, relays; /* actors: the first, the next; the others receive */
    int sending, relaying;
};

/* one act at a time has items that are released: the callback knows no more */
static struct act *releasing;

/* Items whose size is odd lie anywhere. */
static struct item item_in(const void *bytes)
{
    struct item item;
    memcpy(&item, bytes, sizeof item);
    return item;
}

static void release_item(void *bytes, void *arg)
{
    (void)arg;
    struct pipeline *pipeline = releasing->own;
    struct item item = item_in(bytes);
    ledger_dropped(&pipeline->ledger, &item);
}

static int make_channel(struct pipeline *pipeline, int which)
{
    coir_channel_options options = COIR_CHANNEL_OPTIONS;
    options.item_size = pipeline->item_size;
    options.capacity = pipeline->capacities[which];
    options.overflow = which == 0 ? pipeline->overflow : COIR_OVERFLOW_WAIT;
    options.unref = pipeline->releases ? release_item : NULL;
    return coir_channel_new_with(&options, &pipeline->channels[which]);
}

static int draw_pipeline(struct act *act, struct ci_random *random)
{
    static const size_t capacities[] = {0, 0, 1, 2, 3, 8, 64, COIR_UNLIMITED};
    struct pipeline *pipeline = act->own = calloc(1, sizeof *pipeline);
    pipeline->item_size = sizeof(struct item) + draw(random, 3) * draw(random, SLACK);
    for (int i = 0; i < 2; i++)
        pipeline->capacities[i] = capacities[draw(random, 8)];
    bool may_drop =
        pipeline->capacities[0] && pipeline->capacities[0] != COIR_UNLIMITED && !releasing;
    pipeline->overflow =
        may_drop && draw(random, 2) ? (enum coir_overflow)draw(random, 4) : COIR_OVERFLOW_WAIT;
    pipeline->releases =
        !releasing && (pipeline->overflow != COIR_OVERFLOW_WAIT || draw(random, 4) == 0);
    if (pipeline->releases)
        releasing = act;
    pipeline->drains = draw(random, 2) || !pipeline->releases;
    pipeline->late_close = draw(random, 4) == 0;
    pipeline->relays =
        act->actor_count > 3 && draw(random, 3) == 0 ? (int)draw_from(random, 1, 2) : 0;
    pipeline->senders =
        (int)draw_from(random, 1, (unsigned)(act->actor_count - pipeline->relays - 1));
    pipeline->sending = pipeline->senders;
    pipeline->relaying = pipeline->relays;
    for (int i = pipeline->senders; i < act->actor_count; i++)
        if (!pipeline->capacities[i >= pipeline->senders + pipeline->relays && pipeline->relays])
            act->actors[i].thread = false; /* two who only try never meet */
    for (int i = 0; i < 1 + (pipeline->relays > 0); i++)
        if (make_channel(pipeline, i) < 0)
            return -ENOMEM;
    return ledger_init(&pipeline->ledger, act, (unsigned)pipeline->senders,
                       draw(random, 1u << draw_from(random, 1, 9)));
}

static void print_pipeline(const struct act *act, FILE *file)
{
    const struct pipeline *pipeline = act->own;
    fprintf(file, ", %d senders of %u items of %zu bytes, capacity %zd, policy %d%s%s",
            pipeline->senders, pipeline->ledger.each, pipeline->item_size,
            (ssize_t)pipeline->capacities[0], pipeline->overflow,
            pipeline->releases ? ", releases" : "", pipeline->drains ? "" : ", left full");
    if (pipeline->relays)
        fprintf(file, ", %d relays into capacity %zd", pipeline->relays,
                (ssize_t)pipeline->capacities[1]);
}

/* ---- sending ---- */

static int call_send(struct wait *wait)
{
    return coir_channel_send(wait->object, wait->data);
}

static coir_future *send_op(struct wait *wait, void *place)
{
    return coir_channel_send_op(place, wait->object, wait->data);
}

static coir_case send_case(struct wait *wait)
{
    return coir_case_send(wait->object, wait->data);
}

static int send_from_thread(struct actor *actor, coir_channel *channel, const void *item)
{
    int rc;
    act_count(actor->act);
    while ((rc = coir_channel_try_send(channel, item)) == -EAGAIN)
        sched_yield();
    return rc;
}

/* 0 sent, -EPIPE closed, or interrupted. */
static int send_one(struct actor *actor, coir_channel *channel, void *item)
{
    if (actor->thread)
        return send_from_thread(actor, channel, item);
    struct wait wait = {call_send, send_op, send_case, .object = channel, .data = item};
    int rc;
    while ((rc = draw(&actor->random, 5) ? actor_wait(actor, &wait)
                                         : coir_channel_try_send(channel, item)) == LOST ||
           rc == -EAGAIN)
        if ((rc = actor_lull(actor)) < 0)
            break;
    return rc;
}

static int send_all(struct actor *actor)
{
    struct pipeline *pipeline = actor->act->own;
    char bytes[sizeof(struct item) + 3 * SLACK];
    int rc = 0;
    for (unsigned i = 0; i < pipeline->ledger.each && rc == 0; i++) {
        struct item item = ledger_item(&pipeline->ledger, (unsigned)actor->number, i);
        memset(bytes, (int)i, sizeof bytes);
        memcpy(bytes, &item, sizeof item);
        rc = send_one(actor, pipeline->channels[0], bytes);
        if (rc == 0)
            ledger_sent(&pipeline->ledger, &item);
    }
    if (__atomic_sub_fetch(&pipeline->sending, 1, __ATOMIC_ACQ_REL) == 0)
        coir_channel_close(pipeline->channels[0]);
    if (rc == -EPIPE && (actor->act->hurry || pipeline->overflow == COIR_OVERFLOW_CLOSE ||
                         actor->act->run->program->stops))
        return 0;
    return rc < 0 ? actor_interrupted(actor, rc) : 0;
}

/* ---- receiving ---- */

static int call_recv_many(struct wait *wait)
{
    return (int)coir_channel_recv_many(wait->object, wait->data, (size_t)wait->number);
}

static coir_future *recv_many_op(struct wait *wait, void *place)
{
    return coir_channel_recv_many_op(place, wait->object, wait->data, (size_t)wait->number);
}

static int recv_in_thread(struct actor *actor, coir_channel *channel, void *item)
{
    int rc;
    act_count(actor->act);
    while ((rc = coir_channel_try_recv(channel, item)) == -EAGAIN)
        sched_yield();
    return rc;
}

/* How many came; or -EPIPE, or interrupted. */
static int recv_some(struct actor *actor, coir_channel *channel, void *items)
{
    int rc;
    if (actor->thread)
        return (rc = recv_in_thread(actor, channel, items)) < 0 ? rc : 1;
    struct wait one = wait_for_item(channel, items);
    struct wait many = {call_recv_many, recv_many_op, .object = channel, .data = items,
                        .number = MANY};
    for (;;) {
        unsigned how = draw(&actor->random, 6);
        rc = how == 0 ? coir_channel_try_recv(channel, items)
                      : actor_wait(actor, how < 3 ? &many : &one);
        if (rc != LOST && rc != -EAGAIN)
            return rc < 0 ? rc : how == 1 || how == 2 ? rc : 1;
        if ((rc = actor_lull(actor)) < 0)
            return rc;
    }
}

static void got(struct pipeline *pipeline, struct order *order, const char *bytes)
{
    struct item item = item_in(bytes);
    for (size_t i = sizeof item; i < pipeline->item_size; i++)
        if (bytes[i] != (char)item.number)
            program_fail(pipeline->ledger.act, "byte %zu of an item is %d", i, bytes[i]);
    ledger_received(&pipeline->ledger, &item);
    if (pipeline->relays < 2)
        order_check(order, &pipeline->ledger, &item);
}

static int receive_all(struct actor *actor)
{
    struct pipeline *pipeline = actor->act->own;
    coir_channel *channel = pipeline->channels[pipeline->relays > 0];
    struct order order;
    char items[MANY * (sizeof(struct item) + 3 * SLACK)];
    int rc;
    order_init(&order);
    while ((rc = recv_some(actor, channel, items)) >= 0)
        for (int i = 0; i < rc; i++)
            got(pipeline, &order, items + (size_t)i * pipeline->item_size);
    return rc == -EPIPE ? 0 : actor_interrupted(actor, rc);
}

/* ---- relays: what they took and cannot pass on is accounted for ---- */

static int relay_all(struct actor *actor)
{
    struct pipeline *pipeline = actor->act->own;
    char bytes[sizeof(struct item) + 3 * SLACK];
    struct wait recv = wait_for_item(pipeline->channels[0], bytes);
    int rc = 0;
    for (;;) {
        while ((rc = actor->thread ? recv_in_thread(actor, recv.object, bytes)
                                   : actor_wait(actor, &recv)) == LOST) {
        }
        if (rc < 0)
            break;
        if ((rc = send_one(actor, pipeline->channels[1], bytes)) < 0) {
            struct item item = item_in(bytes);
            ledger_dropped(&pipeline->ledger, &item);
            break;
        }
    }
    if (__atomic_sub_fetch(&pipeline->relaying, 1, __ATOMIC_ACQ_REL) == 0)
        coir_channel_close(pipeline->channels[1]);
    return rc == -EPIPE ? 0 : actor_interrupted(actor, rc);
}

static int play_pipeline(struct actor *actor)
{
    const struct pipeline *pipeline = actor->act->own;
    if (actor->number < pipeline->senders)
        return send_all(actor);
    return actor->number < pipeline->senders + pipeline->relays ? relay_all(actor)
                                                                : receive_all(actor);
}

static void end_pipeline(struct act *act)
{
    struct pipeline *pipeline = act->own;
    for (int i = 0; i < 2; i++)
        if (pipeline->channels[i])
            coir_channel_close(pipeline->channels[i]);
}

static void check_pipeline(struct act *act)
{
    struct pipeline *pipeline = act->own;
    bool complete = act_complete(act);
    char bytes[sizeof(struct item) + 3 * SLACK];
    for (int i = 0; i < 2 && pipeline->channels[i]; i++) {
        ACT_CHECK(act, !complete || coir_channel_count(pipeline->channels[i]) == 0);
        while ((pipeline->drains || !pipeline->releases) &&
               coir_channel_try_recv(pipeline->channels[i], bytes) == 0) {
            struct item item = item_in(bytes);
            ledger_received(&pipeline->ledger, &item);
        }
        coir_channel_free(pipeline->channels[i]);
        pipeline->channels[i] = NULL;
    }
    ledger_check(&pipeline->ledger);
}

static void free_pipeline(struct act *act)
{
    struct pipeline *pipeline = act->own;
    for (int i = 0; i < 2; i++)
        coir_channel_free(pipeline->channels[i]);
    if (releasing == act)
        releasing = NULL;
    ledger_free(&pipeline->ledger);
    free(pipeline);
}

const struct act_kind act_channel = {
    .name = "channel",
    .weight = 6,
    .threads = true,
    .actors_least = 2,
    .actors_most = 8,
    .draw = draw_pipeline,
    .print = print_pipeline,
    .play = play_pipeline,
    .end = end_pipeline,
    .check = check_pipeline,
    .free = free_pipeline,
};
