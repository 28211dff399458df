/* Publishers, subscribers with patterns, members that come and go, and those that watch them, on
 * one to four workers: slow ones, cancelled ones, with each policy that does not wait.
 *
 * What must hold:
 * 1. A subscriber gets items of names that its pattern matches, and no others; none comes twice.
 * 2. All subscribers get the items in one order, which keeps that of each publisher.
 * 3. What a subscription got, has in its queue and has lost is what was published to it. (On one
 *    worker, where nothing happens between a call and the account of it.)
 * 4. What those that watch are told is who is there: every join has its leave, in that order, and
 *    `present` is the count of those that have joined and not left.
 * 5. The last item of a name is the one that was published to it last, until it is forgotten.
 * 6. Every copy that was retained is received or released, once. At the end every task ends. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { PUBLISHERS = 3, SUBSCRIBERS = 4, MEMBERS = 4, WATCHERS = 2, TASKS = 15 };
enum { HALLS_MOST = 100 }; /* names beside those with items, so many that the tree's table grows */
enum { NAMES = 4, ITEMS_MOST = 30, ORDER_MOST = PUBLISHERS * ITEMS_MOST };

static const char *const names[NAMES] = {"rooms/1", "rooms/2", "rooms/1/typing", "news"};
static const struct {
    const char *text;
    bool matches[NAMES];
} patterns[] = {
    {"rooms/1", {true, false, false, false}}, {"rooms/*", {true, true, false, false}},
    {"rooms/#", {true, true, true, false}},   {"#", {true, true, true, true}},
    {"*/1/#", {true, false, true, false}},    {"*", {false, false, false, true}},
};
enum { PATTERNS = sizeof patterns / sizeof *patterns };

struct item {
    int publisher, number, name;
};

struct subscriber {
    int pattern;
    size_t capacity;
    enum coir_overflow policy;
    int got[ORDER_MOST], count;
    int kept; /* at most so many at the beginning are last items, in the tree's order */
    int sent_before;
};

static struct {
    coir_topic_tree *tree;
    struct subscriber subscribers[SUBSCRIBERS];
    int name_of[ORDER_MOST], published; /* where items were published, in their order */
    int retained, released, received, running;
    int last[NAMES]; /* 1 + the item; 0: none */
    size_t present[NAMES];
    bool keeps, exact;
} w;

static int rest(uint64_t most_us)
{
    return below(2) ? coir_yield() : coir_sleep_for((coir_time)below(most_us) * COIR_US);
}

static void retain(void *item, void *arg)
{
    (void)item, (void)arg;
    w.retained++;
}

static void release(void *item, void *arg)
{
    (void)item, (void)arg;
    w.released++;
}

static int id_of(const struct item *item)
{
    return item->publisher * ITEMS_MOST + item->number;
}

/* The last publisher or member to end closes the tree: those that read end then. */
static int ended(void)
{
    if (--w.running == 0)
        coir_topic_tree_close(w.tree);
    return 0;
}

static int publish(void *arg)
{
    struct item item = {(int)(intptr_t)arg, 0, 0};
    for (int count = 1 + (int)below(ITEMS_MOST); item.number < count; item.number++) {
        item.name = (int)below(NAMES);
        int rc = coir_topic_tree_publish(w.tree, names[item.name], &item);
        MUST(rc >= 0 || rc == -ENOMEM);
        if (rc >= 0) {
            w.name_of[w.published++] = item.name;
            w.last[item.name] = w.keeps ? 1 + id_of(&item) : 0;
        }
        if (rest(300) == -ECANCELED)
            break;
    }
    return ended();
}

/* ---- subscribers ---- */

static void take(struct subscriber *subscriber, const struct item *item)
{
    w.received++;
    MUST(patterns[subscriber->pattern].matches[item->name]);
    MUST(subscriber->count < ORDER_MOST);
    subscriber->got[subscriber->count++] = id_of(item);
}

/* What was published to a subscriber since it began. */
static int published_to(const struct subscriber *subscriber)
{
    int count = 0;
    for (int i = subscriber->sent_before; i < w.published; i++)
        count += patterns[subscriber->pattern].matches[w.name_of[i]];
    return count;
}

static void check_count(const struct subscriber *subscriber, const coir_channel *channel, int kept)
{
    int sent = kept + published_to(subscriber);
    int known =
        subscriber->count + (int)coir_channel_count(channel) + (int)coir_channel_lost(channel);
    if (w.exact)
        MUST(coir_channel_is_closed(channel) ? known <= sent : known == sent); /* 3 */
}

/* Behind the items that were kept, each publisher's are in order. */
static void check_publishers(const struct subscriber *subscriber)
{
    int last[PUBLISHERS] = {-1, -1, -1};
    for (int i = subscriber->kept; i < subscriber->count; i++) {
        int publisher = subscriber->got[i] / ITEMS_MOST, number = subscriber->got[i] % ITEMS_MOST;
        MUST(number > last[publisher]); /* 1, 2 */
        last[publisher] = number;
    }
}

static int place_in(const struct subscriber *subscriber, int id)
{
    for (int i = subscriber->kept; i < subscriber->count; i++)
        if (subscriber->got[i] == id)
            return i;
    return -1;
}

/* What both have comes in the same order. */
static void check_order(const struct subscriber *a, const struct subscriber *b)
{
    int last = -1;
    for (int i = a->kept; i < a->count; i++) {
        int place = place_in(b, a->got[i]);
        MUST(place < 0 || place > last); /* 2 */
        last = place < 0 ? last : place;
    }
}

static void check_all(void)
{
    for (int i = 0; i < SUBSCRIBERS; i++) {
        check_publishers(&w.subscribers[i]);
        for (int j = 0; j < SUBSCRIBERS; j++)
            check_order(&w.subscribers[i], &w.subscribers[j]);
    }
}

static int read_all(struct subscriber *subscriber, coir_channel *channel, int kept)
{
    uint64_t slow = below(3) ? 200 : 4000, leaves = below(3) ? UINT64_MAX : below(30);
    struct item items[4];
    int rc = 0;
    while (leaves-- && rc >= 0) {
        check_count(subscriber, channel, kept);
        if (below(2))
            rc = (int)coir_channel_recv_many(channel, items, 4);
        else if ((rc = coir_channel_recv(channel, items)) == 0)
            rc = 1;
        for (int i = 0; i < rc; i++)
            take(subscriber, &items[i]);
        if (rc >= 0)
            rc = rest(slow);
    }
    return rc;
}

static int subscribe(void *arg)
{
    struct subscriber *subscriber = arg;
    coir_channel *channel;
    rest(1000);
    subscriber->sent_before = w.published;
    int rc = coir_topic_tree_subscribe(w.tree, patterns[subscriber->pattern].text,
                                       subscriber->capacity, subscriber->policy, &channel);
    MUST(rc == 0 || rc == -EPIPE || rc == -ENOMEM);
    if (rc < 0)
        return 0;
    int kept = (int)coir_channel_count(channel) + (int)coir_channel_lost(channel);
    MUST(!w.exact || kept <= (w.keeps ? NAMES : 0));
    subscriber->kept = w.keeps ? NAMES : 0;
    rc = read_all(subscriber, channel, kept);
    MUST(rc >= 0 || rc == -EPIPE || rc == -ECANCELED || rc == -ETIME);
    coir_channel_free(channel);
    return 0;
}

/* ---- presence ---- */

static int come_and_go(void *arg)
{
    uint64_t member = (uint64_t)(intptr_t)arg;
    for (int visits = 1 + (int)below(6); visits; visits--) {
        coir_channel *channel;
        uint64_t name = below(2);
        int rc = coir_topic_tree_join(w.tree, names[name], member, 1 + below(4),
                                      COIR_OVERFLOW_KEEP_LATEST, &channel);
        MUST(rc == 0 || rc == -ENOMEM);
        w.present[name] += rc == 0;
        int interrupted = rest(2000);
        if (rc == 0) {
            w.present[name]--;
            struct item item;
            w.received += coir_channel_try_recv(channel, &item) == 0;
            coir_channel_free(channel);
        }
        if (interrupted == -ECANCELED)
            break;
    }
    return ended();
}

/* ---- looking, and the names beside ---- */

static void look_at(int name)
{
    struct item item;
    int rc = coir_topic_tree_last(w.tree, names[name], &item);
    MUST(rc == 0 || rc == -ENODATA);
    if (rc == 0) { /* a copy of its own */
        w.received++;
        MUST_BE(item.name, name);
    }
    MUST(!w.exact || w.last[name] == (rc == 0 ? 1 + id_of(&item) : 0)); /* 5 */
    MUST(!w.exact || coir_topic_tree_present(w.tree, names[name]) == w.present[name]);
}

static int look(void *arg)
{
    (void)arg;
    for (uint64_t looks = below(40); looks; looks--) {
        int name = (int)below(NAMES);
        look_at(name);
        if (below(4) == 0) {
            int rc = coir_topic_tree_forget(w.tree, names[name]);
            MUST(!w.exact || rc == (w.last[name] ? 0 : -ENODATA));
            w.last[name] = 0;
        }
        if (rest(300) == -ECANCELED)
            break;
    }
    return 0;
}

static int build_halls(void *arg)
{
    coir_channel *halls[HALLS_MOST];
    char name[20];
    int count = 0;
    (void)arg;
    for (int most = (int)below(HALLS_MOST); count < most; count++) {
        snprintf(name, sizeof name, "halls/%d/%d", count % 3, count);
        int rc =
            coir_topic_tree_subscribe(w.tree, name, 1, COIR_OVERFLOW_DROP_OLDEST, &halls[count]);
        MUST(rc == 0 || rc == -EPIPE || rc == -ENOMEM);
        if (rc < 0)
            break;
        if (below(3) == 0 && coir_yield() == -ECANCELED)
            most = count + 1;
    }
    while (count)
        coir_channel_free(halls[--count]);
    return 0;
}

struct room {
    bool there[MEMBERS + 1];
    size_t count;
};

static void note(struct room *rooms, const coir_presence *presence)
{
    struct room *room = &rooms[strcmp(presence->name, names[1]) == 0];
    MUST(strcmp(presence->name, names[room - rooms]) == 0);
    MUST(presence->member <= MEMBERS && room->there[presence->member] != presence->joined); /* 4 */
    room->there[presence->member] = presence->joined;
    room->count = presence->joined ? room->count + 1 : room->count - 1;
    MUST_BE(room->count, presence->present);
}

static int watch(void *arg)
{
    struct room rooms[2];
    coir_channel *channel;
    coir_presence presence;
    (void)arg;
    memset(rooms, 0, sizeof rooms);
    rest(1000);
    int rc = coir_topic_tree_watch(w.tree, below(2) ? "rooms/*" : "#", COIR_UNLIMITED,
                                   COIR_OVERFLOW_DROP_OLDEST, &channel);
    if (rc < 0)
        return 0;
    while ((rc = coir_channel_recv(channel, &presence)) == 0 && coir_channel_lost(channel) == 0) {
        note(rooms, &presence);
        if (rest(500) == -ECANCELED)
            break;
    }
    MUST(rc != -EPIPE || coir_channel_lost(channel) || rooms[0].count + rooms[1].count == 0);
    coir_channel_free(channel);
    return 0;
}

/* ---- the world ---- */

static int spawn(coir_scope *scope, coir_handle *handle, coir_task_fn *fn, void *arg)
{
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    options.place = COIR_ON_WORKER((int)below((uint64_t)coir_worker_count(coir_runtime_current())));
    return coir_go_with(scope, &options, fn, arg);
}

static void spawn_all(coir_scope *scope, coir_handle *handles)
{
    w.running = PUBLISHERS + MEMBERS;
    for (int i = 0; i < PUBLISHERS; i++)
        MUST_BE(spawn(scope, handles++, publish, (void *)(intptr_t)i), 0);
    for (int i = 1; i <= MEMBERS; i++)
        MUST_BE(spawn(scope, handles++, come_and_go, (void *)(intptr_t)i), 0);
    for (int i = 0; i < WATCHERS; i++)
        MUST_BE(spawn(scope, handles++, watch, NULL), 0);
    MUST_BE(spawn(scope, handles++, look, NULL), 0);
    MUST_BE(spawn(scope, handles++, build_halls, NULL), 0);
    for (int i = 0; i < SUBSCRIBERS; i++) {
        struct subscriber *subscriber = &w.subscribers[i];
        subscriber->pattern = (int)below(PATTERNS);
        subscriber->policy = (enum coir_overflow)(1 + below(COIR_OVERFLOW_KEEP_LATEST));
        subscriber->capacity = 1 + below(below(2) ? 3 : 40);
        MUST_BE(spawn(scope, handles++, subscribe, subscriber), 0);
    }
}

static int begin(void *arg)
{
    (void)arg;
    coir_handle handles[TASKS];
    coir_topic_tree_options options = COIR_TOPIC_TREE_OPTIONS;
    options.item_size = sizeof(struct item);
    options.ref = retain;
    options.unref = release;
    options.keep_last = w.keeps = below(2);
    w.exact = coir_worker_count(coir_runtime_current()) == 1;
    memset(handles, 0, sizeof handles);
    MUST_BE(coir_topic_tree_new_with(&options, &w.tree), 0);
    {
        COIR_SERVING_SCOPE(scope);
        spawn_all(scope, handles);
        for (uint64_t cancels = below(TASKS); cancels; cancels--) {
            coir_sleep_for((coir_time)below(3000) * COIR_US);
            coir_cancel(&handles[below(TASKS)]);
        }
        COIR_DEADLINE(coir_in(60 * COIR_S));
        MUST_BE(coir_scope_wait(scope), 0);
    }
    for (int i = 0; i < TASKS; i++)
        coir_handle_done(&handles[i]);
    check_all();
    coir_topic_tree_free(w.tree);
    MUST_BE(w.received + w.released, w.retained); /* 6 */
    return 0;
}

int scenario(coir_sim *sim)
{
    memset(&w, 0, sizeof w);
    MUST_BE(chaos_configure(sim), 0);
    return coir_sim_host_main(sim, "host", begin, NULL);
}
