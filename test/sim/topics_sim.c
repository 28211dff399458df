/* Publishers and subscribers on one to four workers: every overflow policy, subscribers that are
 * slow, leave in the middle, are cancelled while they wait, or never read; publishers that are
 * cancelled or run into deadlines.
 *
 * What must hold:
 * 1. Nothing that was refused or interrupted comes, and nothing comes twice.
 * 2. All subscribers see all items in one order, which keeps that of each publisher.
 * 3. A subscriber that the publisher waits for gets everything that was published while it was
 *    subscribed, without a gap, whatever the others do. Of one that loses items only what its
 *    policy lets go is missing: a subscriber that reads in time loses nothing. One that is closed
 *    gets everything up to some item, then -EPIPE.
 * 4. A queue never holds more than its capacity. Every copy that was retained is received or
 *    released, once.
 * 5. Once the topic is closed, whoever publishes or subscribes is told so, also who waits.
 * 6. No task waits for room that is there: at the end every task ends.
 * 7. Where the topic keeps the last item, a new subscriber has one at once. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <string.h>

#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { PUBLISHERS = 3, SUBSCRIBERS = 5, ITEMS_MOST = 40, ORDER_MOST = PUBLISHERS * ITEMS_MOST };

struct item {
    int publisher, number;
};

struct subscriber {
    enum coir_overflow policy;
    size_t capacity;
    coir_channel *channel;
    int got[ORDER_MOST], count;
    bool broken; /* it was told -EPIPE, behind all that came before */
};

static struct {
    coir_topic *topic;
    struct subscriber subscribers[SUBSCRIBERS];
    bool published[PUBLISHERS][ITEMS_MOST];
    int attempts[PUBLISHERS], retained, released, received;
    int publishing; /* publishers that have not ended */
    bool keeps_last, has_last;
    bool is_closing;    /* the topic is closed */
    bool closes_queues; /* a publisher closes those that are not freed yet */
} w;

static int rest(uint64_t most_us)
{
    return below(2) ? coir_yield() : coir_sleep_for((coir_time)below(most_us) * COIR_US);
}

static void retain(void *item, void *arg)
{
    (void)arg;
    (void)item;
    w.retained++;
}

static void release(void *item, void *arg)
{
    (void)arg;
    (void)item;
    w.released++;
}

static int id_of(const struct item *item)
{
    return item->publisher * ITEMS_MOST + item->number;
}

/* ---- publishers ---- */

static int publish_one(const struct item *item)
{
    if (below(4) == 0)
        return coir_try_publish(w.topic, item);
    coir_wait_op op;
    COIR_DEADLINE(below(3) ? COIR_NEVER : coir_in((coir_time)below(300) * COIR_US));
    return below(2) ? coir_publish(w.topic, item)
                    : (int)coir_await(coir_publish_op(&op, w.topic, item));
}

/* Nothing more comes. */
static void close_all(void)
{
    struct item item = {0, 0};
    coir_channel *channel;
    w.is_closing = true;
    coir_topic_close(w.topic);
    MUST_BE(coir_try_publish(w.topic, &item), -EPIPE); /* 5 */
    MUST_BE(coir_subscribe(w.topic, 1, COIR_OVERFLOW_WAIT, &channel), -EPIPE);
}

static void close_queues(void)
{
    w.closes_queues = true;
    for (int i = 0; i < SUBSCRIBERS; i++)
        if (w.subscribers[i].channel)
            coir_channel_close(w.subscribers[i].channel);
    w.closes_queues = false;
}

static int publish(void *arg)
{
    struct item item = {(int)(intptr_t)arg, 0};
    for (int count = 1 + (int)below(ITEMS_MOST); item.number < count; item.number++) {
        w.attempts[item.publisher] = item.number + 1;
        int rc = publish_one(&item);
        w.published[item.publisher][item.number] = rc >= 0;
        w.has_last |= w.keeps_last && rc >= 0;
        MUST(rc >= 0 || rc == -EAGAIN || rc == -ETIME || rc == -ECANCELED ||
             (rc == -EPIPE && w.is_closing));
        if (below(100) == 0)
            close_all();
        if (rc == -EPIPE || rc == -ECANCELED || rest(300) == -ECANCELED)
            break;
    }
    bool is_last = --w.publishing == 0;
    if (is_last && below(2))
        close_all();
    else if (is_last)
        close_queues();
    return 0;
}

/* ---- subscribers ---- */

static void take(struct subscriber *subscriber, const struct item *item)
{
    MUST(subscriber->count < ORDER_MOST);
    subscriber->got[subscriber->count++] = id_of(item);
    w.received++;
}

static int receive(struct subscriber *subscriber, struct item *items, int most)
{
    if (below(3) == 0) {
        int rc = coir_channel_try_recv(subscriber->channel, items);
        return rc == 0 ? 1 : rc;
    }
    COIR_DEADLINE(below(3) ? COIR_NEVER : coir_in((coir_time)below(300) * COIR_US));
    if (below(2))
        return (int)coir_channel_recv_many(subscriber->channel, items, (size_t)most);
    int rc = coir_channel_recv(subscriber->channel, items);
    return rc == 0 ? 1 : rc;
}

static int subscribe(void *arg)
{
    struct subscriber *subscriber = arg;
    uint64_t slow = below(3) ? 200 : 5000, leaves = below(3) ? UINT64_MAX : below(30);
    rest(1000);
    bool has_last = w.has_last;
    if (!w.publishing ||
        coir_subscribe(w.topic, subscriber->capacity, subscriber->policy, &subscriber->channel) < 0)
        return 0;
    MUST(!has_last || coir_channel_count(subscriber->channel) > 0); /* 7 */
    while (leaves--) {
        struct item items[4];
        MUST(coir_channel_count(subscriber->channel) <= subscriber->capacity);
        int rc = receive(subscriber, items, 4);
        for (int i = 0; i < rc; i++)
            take(subscriber, &items[i]);
        subscriber->broken = rc == -EPIPE;
        if (rc == -EPIPE || rc == -ECANCELED || rest(slow) == -ECANCELED)
            break;
    }
    coir_channel *channel = subscriber->channel;
    if (subscriber->policy == COIR_OVERFLOW_KEEP_LATEST) /* a full queue loses all that it has */
        MUST_BE(coir_channel_lost(channel) % subscriber->capacity, 0);
    subscriber->channel = NULL;
    COIR_SHIELD;
    while (w.closes_queues) /* a call on another worker has the channel */
        MUST_BE(coir_sleep_for(COIR_US), 0);
    coir_channel_free(channel); /* in the middle of what others do */
    return 0;
}

/* ---- the end ---- */

static bool has(const struct subscriber *subscriber, int id)
{
    for (int i = 0; i < subscriber->count; i++)
        if (subscriber->got[i] == id)
            return true;
    return false;
}

/* Every item was published, none comes twice, and each publisher's are in order, without a gap
 * where none may be lost, up to the last where the publisher waits for room. */
static void check_items(const struct subscriber *subscriber)
{
    int last[PUBLISHERS] = {-1, -1, -1};
    bool whole =
        subscriber->policy == COIR_OVERFLOW_WAIT || subscriber->policy == COIR_OVERFLOW_CLOSE;
    for (int i = 0; i < subscriber->count; i++) {
        int publisher = subscriber->got[i] / ITEMS_MOST, number = subscriber->got[i] % ITEMS_MOST;
        MUST(w.published[publisher][number] && number > last[publisher]);
        for (int lost = last[publisher] + 1; whole && last[publisher] >= 0 && lost < number; lost++)
            MUST(!w.published[publisher][lost]);
        last[publisher] = number;
    }
    bool to_the_end = subscriber->policy == COIR_OVERFLOW_WAIT && subscriber->broken;
    for (int i = 0; to_the_end && i < PUBLISHERS; i++)
        for (int number = last[i] + 1; last[i] >= 0 && number < ITEMS_MOST; number++)
            MUST(!w.published[i][number]);
}

/* What both have comes in the same order. */
static void check_order(const struct subscriber *a, const struct subscriber *b)
{
    int at = 0;
    for (int i = 0; i < a->count; i++) {
        if (!has(b, a->got[i]))
            continue;
        while (at < b->count && b->got[at] != a->got[i])
            at++;
        MUST(at < b->count);
    }
}

/* Between two items that a subscriber that may lose nothing has, it has all that another one
 * has. */
static void check_gaps(const struct subscriber *a, const struct subscriber *b)
{
    int first = -1, last = -1;
    for (int i = 0; i < b->count; i++)
        if (has(a, b->got[i])) {
            first = first < 0 ? i : first;
            last = i;
        }
    for (int i = first; first >= 0 && i <= last; i++)
        MUST(has(a, b->got[i]));
}

static void check_all(void)
{
    for (int i = 0; i < SUBSCRIBERS; i++) {
        const struct subscriber *a = &w.subscribers[i];
        check_items(a);
        for (int j = 0; j < SUBSCRIBERS; j++) {
            check_order(a, &w.subscribers[j]);
            if (a->policy == COIR_OVERFLOW_WAIT || a->policy == COIR_OVERFLOW_CLOSE)
                check_gaps(a, &w.subscribers[j]);
        }
    }
    MUST_BE(coir_topic_subscribers(w.topic), 0);
}

/* ---- the world ---- */

static int spawn(coir_scope *scope, coir_handle *handle, coir_task_fn *fn, void *arg)
{
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    options.place = COIR_ON_WORKER((int)below((uint64_t)coir_worker_count(coir_runtime_current())));
    return coir_go_with(scope, &options, fn, arg);
}

static int begin(void *arg)
{
    (void)arg;
    coir_handle handles[PUBLISHERS + SUBSCRIBERS];
    coir_topic_options options = COIR_TOPIC_OPTIONS;
    options.item_size = sizeof(struct item);
    options.ref = retain;
    options.unref = release;
    options.keep_last = w.keeps_last = below(2);
    memset(handles, 0, sizeof handles);
    MUST_BE(coir_topic_new_with(&options, &w.topic), 0);
    {
        COIR_SERVING_SCOPE(scope);
        w.publishing = PUBLISHERS;
        for (int i = 0; i < PUBLISHERS; i++)
            MUST_BE(spawn(scope, &handles[i], publish, (void *)(intptr_t)i), 0);
        for (int i = 0; i < SUBSCRIBERS; i++) {
            w.subscribers[i].policy = (enum coir_overflow)below(COIR_OVERFLOW_KEEP_LATEST + 1);
            w.subscribers[i].capacity = 1 + below(below(2) ? 3 : 20);
            MUST_BE(spawn(scope, &handles[PUBLISHERS + i], subscribe, &w.subscribers[i]), 0);
        }
        for (uint64_t cancels = below(PUBLISHERS + SUBSCRIBERS); cancels; cancels--) {
            coir_sleep_for((coir_time)below(3000) * COIR_US);
            coir_cancel(&handles[below(PUBLISHERS + SUBSCRIBERS)]);
        }
        COIR_DEADLINE(coir_in(60 * COIR_S));
        MUST_BE(coir_scope_wait(scope), 0);
    }
    for (int i = 0; i < PUBLISHERS + SUBSCRIBERS; i++)
        coir_handle_done(&handles[i]);
    check_all();
    coir_topic_free(w.topic);
    MUST_BE(w.received + w.released, w.retained); /* 4 */
    return 0;
}

int scenario(coir_sim *sim)
{
    memset(&w, 0, sizeof w);
    MUST_BE(chaos_configure(sim), 0);
    return coir_sim_host_main(sim, "host", begin, NULL);
}
