/* A latest value, set by some and watched by others: no version goes backwards, each setter's
 * values come in order and whole, and every watcher sees the last one. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "ledger.h"

enum { COPIES_MOST = 12 };

/* The same item many times: one that is torn shows. */
struct value {
    struct item copies[COPIES_MOST];
};

struct news {
    struct ledger items; /* to make them; they need not be received */
    coir_latest *latest;
    int setters, setting;
    uint64_t sets;
};

static int draw_news(struct act *act, struct ci_random *random)
{
    struct news *news = act->own = calloc(1, sizeof *news);
    struct value value = {{{0}}};
    news->setters = news->setting = (int)draw_from(random, 1, (unsigned)act->actor_count - 1);
    for (int i = news->setters; i < act->actor_count; i++)
        act->actors[i].thread = false; /* there is no wait for those */
    int rc = ledger_init(&news->items, act, (unsigned)news->setters,
                         1 + draw(random, 1u << draw_from(random, 1, 8)));
    return rc < 0 ? rc : coir_latest_new(sizeof value, &value, &news->latest);
}

static void print_news(const struct act *act, FILE *file)
{
    const struct news *news = act->own;
    fprintf(file, ", %d set %u values each", news->setters, news->items.each);
}

static int set_all(struct actor *actor)
{
    struct news *news = actor->act->own;
    int rc = 0;
    for (unsigned i = 0; i < news->items.each && rc == 0; i++) {
        struct value value;
        for (int j = 0; j < COPIES_MOST; j++)
            value.copies[j] = ledger_item(&news->items, (unsigned)actor->number, i);
        coir_latest_set(news->latest, &value);
        __atomic_add_fetch(&news->sets, 1, __ATOMIC_RELAXED);
        act_count(actor->act);
        if (draw(&actor->random, 4) == 0)
            rc = actor->thread ? sched_yield() : actor_lull(actor);
    }
    if (__atomic_sub_fetch(&news->setting, 1, __ATOMIC_ACQ_REL) == 0)
        coir_latest_close(news->latest);
    return rc < 0 ? actor_interrupted(actor, rc) : 0;
}

static int call_wait(struct wait *wait)
{
    return coir_latest_wait(wait->object, *(uint64_t *)wait->data);
}

static coir_future *wait_op(struct wait *wait, void *place)
{
    return coir_latest_wait_op(place, wait->object, *(uint64_t *)wait->data);
}

static coir_case wait_case(struct wait *wait)
{
    return coir_case_latest(wait->object, *(uint64_t *)wait->data);
}

/* The version. */
static uint64_t look(const struct act *act, struct order *order, uint64_t seen)
{
    const struct news *news = act->own;
    struct value value;
    uint64_t version = coir_latest_get(news->latest, &value);
    if (version < seen)
        program_fail(act, "version %llu after %llu", (unsigned long long)version,
                     (unsigned long long)seen);
    for (int i = 1; i < COPIES_MOST && version > 1; i++)
        if (value.copies[i].sender != value.copies[0].sender ||
            value.copies[i].number != value.copies[0].number ||
            value.copies[i].proof != value.copies[0].proof)
            program_fail(act, "a value in two parts, version %llu", (unsigned long long)version);
    if (version > seen && version > 1)
        order_check(order, &news->items, &value.copies[0]);
    return version;
}

static int watch(struct actor *actor)
{
    struct news *news = actor->act->own;
    struct order order;
    uint64_t seen = 0;
    struct wait wait = {call_wait,    wait_op, wait_case, .keeps = true, .object = news->latest,
                        .data = &seen};
    int rc;
    order_init(&order);
    while ((rc = actor_wait(actor, &wait)) == 0 || rc == LOST) {
        uint64_t version = look(actor->act, &order, seen);
        ACT_CHECK(actor->act, rc == LOST || version > seen);
        seen = version;
    }
    if (rc != -EPIPE)
        return actor_interrupted(actor, rc);
    ACT_CHECK_EQ(actor->act, look(actor->act, &order, seen), seen);
    ACT_CHECK(actor->act,
              actor->act->hurry || actor->act->run->program->stops || seen == 1 + news->sets);
    return 0;
}

static int play_news(struct actor *actor)
{
    const struct news *news = actor->act->own;
    return actor->number < news->setters ? set_all(actor) : watch(actor);
}

static void end_news(struct act *act)
{
    const struct news *news = act->own;
    coir_latest_close(news->latest);
}

static void check_news(struct act *act)
{
    const struct news *news = act->own;
    struct order order;
    order_init(&order);
    uint64_t version = look(act, &order, 0);
    ACT_CHECK(act, version <= 1 + news->sets);
    ACT_CHECK(act, !act_complete(act) || version == 1 + news->sets);
    ACT_CHECK(act, !act_complete(act) || news->sets == (uint64_t)news->setters * news->items.each);
}

static void free_news(struct act *act)
{
    struct news *news = act->own;
    coir_latest_free(news->latest);
    ledger_free(&news->items);
    free(news);
}

const struct act_kind act_latest = {
    .name = "latest",
    .weight = 2,
    .threads = true,
    .actors_least = 2,
    .actors_most = 6,
    .draw = draw_news,
    .print = print_news,
    .play = play_news,
    .end = end_news,
    .check = check_news,
    .free = free_news,
};
