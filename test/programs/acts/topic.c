/* A topic: its subscribers get all items in one order; each loses what its policy says and nothing
 * else; and an item that was not published reaches no subscriber. Some subscribers stay, the others
 * come and go. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "ledger.h"

struct subscriber {
    size_t capacity;
    enum coir_overflow overflow;
    coir_channel *channel; /* of one that stays */
    unsigned count;
    int *at; /* of each item: which one it was for this subscriber; 0: it did not come */
};

struct subject {
    struct ledger items; /* to make and prove them; what becomes of each is counted here */
    coir_topic *topic;
    int publishers, staying; /* actors: the first, the next; the others are visitors */
    int publishing;
    bool counts;
    unsigned *queued, *retained, *released, *received; /* of each item */
    struct subscriber subscribers[ACTORS_MOST];
};

/* one act at a time has items that are retained: the callbacks know no more */
static struct act *counting;

static void add(unsigned *to, unsigned amount)
{
    __atomic_add_fetch(to, amount, __ATOMIC_RELAXED);
}

static unsigned index_of(const struct subject *subject, const struct item *item)
{
    struct item proper = ledger_item(&subject->items, item->sender, item->number);
    if (item->sender >= subject->items.senders || item->number >= subject->items.each ||
        item->proof != proper.proof)
        program_fail(subject->items.act, "an item that nobody published: %u of %u", item->number,
                     item->sender);
    return item->sender * subject->items.each + item->number;
}

static void retain_item(void *item, void *arg)
{
    (void)arg;
    const struct subject *subject = counting->own;
    add(&subject->retained[index_of(subject, item)], 1);
}

static void release_item(void *item, void *arg)
{
    (void)arg;
    const struct subject *subject = counting->own;
    add(&subject->released[index_of(subject, item)], 1);
}

/* ---- making ---- */

static int make_tables(struct subject *subject)
{
    size_t items = subject->items.senders * subject->items.each + 1;
    unsigned *counts = calloc(4 * items, sizeof *counts);
    subject->queued = counts;
    if (!counts)
        return -ENOMEM;
    subject->retained = counts + items;
    subject->released = counts + 2 * items;
    subject->received = counts + 3 * items;
    for (int i = 0; i < ACTORS_MOST; i++)
        if (!(subject->subscribers[i].at = calloc(items, sizeof(int))))
            return -ENOMEM;
    return 0;
}

static int draw_subject(struct act *act, struct ci_random *random)
{
    static const size_t capacities[] = {1, 1, 2, 3, 8, 64, COIR_UNLIMITED};
    struct subject *subject = act->own = calloc(1, sizeof *subject);
    subject->publishers = (int)draw_from(random, 1, (unsigned)act->actor_count - 1);
    subject->staying =
        (int)draw_from(random, 0, (unsigned)(act->actor_count - subject->publishers));
    subject->publishing = subject->publishers;
    bool all_wait = draw(random, 3) == 0;
    for (int i = subject->publishers; i < act->actor_count; i++) {
        struct subscriber *subscriber = &subject->subscribers[i];
        subscriber->capacity = capacities[draw(random, 7)];
        subscriber->overflow = all_wait ? COIR_OVERFLOW_WAIT : (enum coir_overflow)draw(random, 4);
        if (i >= subject->publishers + subject->staying)
            act->actors[i].thread = false; /* they subscribe in the runtime, with its memory */
    }
    coir_topic_options options = COIR_TOPIC_OPTIONS;
    options.item_size = sizeof(struct item);
    if (!counting && draw(random, 2)) {
        counting = act;
        subject->counts = true;
        options.ref = retain_item;
        options.unref = release_item;
    }
    int rc = ledger_init(&subject->items, act, (unsigned)subject->publishers,
                         1 + draw(random, 1u << draw_from(random, 1, 7)));
    if (rc == 0)
        rc = make_tables(subject);
    return rc < 0 ? rc : coir_topic_new_with(&options, &subject->topic);
}

static void print_subject(const struct act *act, FILE *file)
{
    const struct subject *subject = act->own;
    fprintf(file, ", %d publishers of %u items%s, %d stay:", subject->publishers,
            subject->items.each, subject->counts ? ", counted" : "", subject->staying);
    for (int i = subject->publishers; i < act->actor_count; i++)
        fprintf(file, " capacity %zd policy %d;", (ssize_t)subject->subscribers[i].capacity,
                subject->subscribers[i].overflow);
}

static int begin_subject(struct act *act)
{
    struct subject *subject = act->own;
    int rc = 0;
    for (int i = subject->publishers; i < subject->publishers + subject->staying && rc == 0; i++) {
        struct subscriber *subscriber = &subject->subscribers[i];
        rc = coir_subscribe(subject->topic, subscriber->capacity, subscriber->overflow,
                            &subscriber->channel);
    }
    return rc;
}

static void close_staying(struct subject *subject)
{
    for (int i = 0; i < ACTORS_MOST; i++)
        if (subject->subscribers[i].channel)
            coir_channel_close(subject->subscribers[i].channel);
}

/* ---- publishing ---- */

static int call_publish(struct wait *wait)
{
    return coir_publish(wait->object, wait->data);
}

static coir_future *publish_op(struct wait *wait, void *place)
{
    return coir_publish_op(place, wait->object, wait->data);
}

/* How many got it; or interrupted. */
static int publish_one(struct actor *actor, coir_topic *topic, struct item *item)
{
    struct wait wait = {call_publish, publish_op, .object = topic, .data = item};
    for (;;) {
        bool tries = actor->thread || draw(&actor->random, 5) == 0;
        int rc = tries ? coir_try_publish(topic, item) : actor_wait(actor, &wait);
        if (rc != -EAGAIN && rc != LOST)
            return rc;
        if (actor->thread)
            sched_yield();
        else if ((rc = actor_lull(actor)) < 0)
            return rc;
    }
}

static int publish_all(struct actor *actor)
{
    struct subject *subject = actor->act->own;
    int rc = 0;
    for (unsigned i = 0; i < subject->items.each && rc >= 0; i++) {
        struct item item = ledger_item(&subject->items, (unsigned)actor->number, i);
        rc = publish_one(actor, subject->topic, &item);
        ACT_CHECK(actor->act, rc <= actor->act->actor_count - subject->publishers);
        if (rc > 0)
            add(&subject->queued[index_of(subject, &item)], (unsigned)rc);
        act_count(actor->act);
    }
    if (__atomic_sub_fetch(&subject->publishing, 1, __ATOMIC_ACQ_REL) == 0)
        close_staying(subject);
    return rc < 0 ? actor_interrupted(actor, rc) : 0;
}

/* ---- receiving ---- */

static void got(struct subject *subject, int number, const struct item *item)
{
    struct subscriber *subscriber = &subject->subscribers[number];
    unsigned index = index_of(subject, item);
    add(&subject->received[index], 1);
    if (subscriber->at[index])
        program_fail(subject->items.act, "item %u of %u came twice to %d", item->number,
                     item->sender, number);
    subscriber->at[index] = (int)++subscriber->count;
}

/* 0, LOST, -EPIPE, or interrupted. */
static int receive_one(struct actor *actor, coir_channel *channel)
{
    struct item item;
    struct wait wait = wait_for_item(channel, &item);
    int rc = actor->thread ? coir_channel_try_recv(channel, &item) : actor_wait(actor, &wait);
    if (rc == 0)
        got(actor->act->own, actor->number, &item);
    else if (rc == -EAGAIN)
        sched_yield();
    return rc == -EAGAIN ? LOST : rc;
}

static int stay(struct actor *actor, const struct subscriber *subscriber)
{
    int rc;
    while ((rc = receive_one(actor, subscriber->channel)) == 0 || rc == LOST) {
    }
    return rc == -EPIPE ? 0 : actor_interrupted(actor, rc);
}

/* One visit: some items, or none for a while. */
static int visit(struct actor *actor, const struct subscriber *subscriber)
{
    const struct subject *subject = actor->act->own;
    coir_channel *channel;
    int rc = coir_subscribe(subject->topic, subscriber->capacity, subscriber->overflow, &channel);
    ACT_CHECK_EQ(actor->act, rc, 0);
    {
        COIR_DEADLINE(
            coir_in((coir_time)draw(&actor->random, 1u << draw(&actor->random, 11)) * COIR_US));
        for (unsigned i = draw(&actor->random, 20); i && (rc == 0 || rc == LOST); i--)
            rc = receive_one(actor, channel);
    }
    coir_channel_free(channel);
    return rc == -ETIME || rc == -EPIPE ? coir_task_interrupted() : rc;
}

static int play_subject(struct actor *actor)
{
    struct subject *subject = actor->act->own;
    const struct subscriber *subscriber = &subject->subscribers[actor->number];
    if (actor->number < subject->publishers)
        return publish_all(actor);
    if (subscriber->channel)
        return stay(actor, subscriber);
    int rc = 0;
    while (__atomic_load_n(&subject->publishing, __ATOMIC_ACQUIRE) > 0 && (rc == 0 || rc == LOST))
        if ((rc = visit(actor, subscriber)) == 0)
            rc = actor_lull(actor);
    return rc < 0 && rc != LOST ? actor_interrupted(actor, rc) : 0;
}

static void end_subject(struct act *act)
{
    close_staying(act->own);
}

/* ---- the reckoning ---- */

/* What came to both came in the same order: the items, in one's order, come later and later for the
 * other. */
static void check_same_order(const struct subject *subject, const struct subscriber *one,
                             const struct subscriber *other)
{
    unsigned items = subject->items.senders * subject->items.each;
    unsigned *by_place = calloc(items + 1, sizeof *by_place);
    for (unsigned i = 0; i < items; i++)
        by_place[one->at[i]] = i;
    for (unsigned place = 1, last = 0; place <= one->count; place++) {
        unsigned item = by_place[place], at = (unsigned)other->at[item];
        if (at && at < last)
            program_fail(subject->items.act, "item %u came in another order to another subscriber",
                         item);
        last = at ? at : last;
    }
    free(by_place);
}

/* In its publisher's order; and of a subscription that closes when it is full, without a gap. */
static void check_order(const struct subject *subject, int number)
{
    const struct subscriber *subscriber = &subject->subscribers[number];
    bool gapless =
        number < subject->publishers + subject->staying &&
        (subscriber->overflow == COIR_OVERFLOW_WAIT || subscriber->overflow == COIR_OVERFLOW_CLOSE);
    for (unsigned sender = 0; sender < subject->items.senders; sender++) {
        const int *at = subscriber->at + (size_t)sender * subject->items.each;
        int last = 0;
        bool gap = false;
        for (unsigned i = 0; i < subject->items.each; i++) {
            if (at[i] && (at[i] < last || (gap && gapless)))
                program_fail(subject->items.act,
                             "item %u of %u came to %d out of order, or after a gap", i, sender,
                             number);
            last = at[i] ? at[i] : last;
            gap |= !at[i];
        }
    }
}

static void check_item(const struct act *act, const struct subject *subject, unsigned item,
                       bool lossless)
{
    if (subject->received[item] > subject->queued[item])
        program_fail(act, "item %u: queued for %u, received by %u", item, subject->queued[item],
                     subject->received[item]);
    if (lossless && subject->received[item] != subject->queued[item])
        program_fail(act, "item %u: queued for %u, received by %u only", item,
                     subject->queued[item], subject->received[item]);
    if (subject->counts &&
        subject->retained[item] != subject->received[item] + subject->released[item])
        program_fail(act, "item %u: retained %u times, received by %u, released %u times", item,
                     subject->retained[item], subject->received[item], subject->released[item]);
    if (subject->counts && subject->retained[item] < subject->queued[item])
        program_fail(act, "item %u: queued for %u, retained %u times", item, subject->queued[item],
                     subject->retained[item]);
}

static void drain(struct act *act, int number)
{
    struct subject *subject = act->own;
    struct subscriber *subscriber = &subject->subscribers[number];
    struct item item;
    int rc;
    while ((rc = coir_channel_try_recv(subscriber->channel, &item)) == 0)
        got(subject, number, &item);
    ACT_CHECK(act, !act_complete(act) || rc == -EPIPE);
    coir_channel_free(subscriber->channel);
    subscriber->channel = NULL;
}

static void check_subject(struct act *act)
{
    struct subject *subject = act->own;
    bool lossless = subject->publishers + subject->staying == act->actor_count, all_wait = lossless;
    for (int i = subject->publishers; i < act->actor_count; i++) {
        lossless &= subject->subscribers[i].overflow != COIR_OVERFLOW_DROP_OLDEST;
        all_wait &= subject->subscribers[i].overflow == COIR_OVERFLOW_WAIT;
        if (subject->subscribers[i].channel)
            drain(act, i);
    }
    ACT_CHECK_EQ(act, coir_topic_subscribers(subject->topic), 0);
    for (int i = subject->publishers; i < act->actor_count; i++) {
        check_order(subject, i);
        for (int j = subject->publishers; j < i; j++)
            check_same_order(subject, &subject->subscribers[i], &subject->subscribers[j]);
    }
    for (unsigned i = 0; i < subject->items.senders * subject->items.each; i++) {
        check_item(act, subject, i, lossless);
        if (all_wait && act_complete(act))
            ACT_CHECK_EQ(act, subject->received[i], subject->staying);
    }
}

static void free_subject(struct act *act)
{
    struct subject *subject = act->own;
    coir_topic_free(subject->topic);
    for (int i = 0; i < ACTORS_MOST; i++)
        free(subject->subscribers[i].at);
    if (counting == act)
        counting = NULL;
    free(subject->queued);
    ledger_free(&subject->items);
    free(subject);
}

const struct act_kind act_topic = {
    .name = "topic",
    .weight = 3,
    .threads = true,
    .actors_least = 2,
    .actors_most = 7,
    .draw = draw_subject,
    .print = print_subject,
    .begin = begin_subject,
    .play = play_subject,
    .end = end_subject,
    .check = check_subject,
    .free = free_subject,
};
