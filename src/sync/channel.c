/* Channels.
 *
 * 1. While receivers are queued the ring is empty; while senders are queued it is full.
 * 2. An item goes straight to a queued receiver, and from a queued sender into the place that a
 * receive has made.
 * 3. Whoever is polled decides its own coir_any only when it is certain to get or give something,
 * and the other side's before it hands over. Without a ring both must be decided together
 * (ci_claim_pair).
 */
#include "sync/channel.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"

enum { FIRST_SLOTS = 16 };

/* How a send or receive that was tried under the lock ended. */
enum outcome { DONE, WOULD_WAIT, REFUSED };

CI_INLINE void copy(void *to, const void *from, size_t size)
{
    if (ci_likely(size == sizeof(uint64_t)))
        memcpy(to, from, sizeof(uint64_t));
    else
        memcpy(to, from, size);
}

const coir_allocator *ci_allocator_here(void)
{
    return ci_worker_current ? &ci_worker_current->runtime->allocator : &ci_system_allocator;
}

/* ---- the ring ---- */

static char *slot(const coir_channel *channel, size_t index)
{
    return channel->items +
           (index < channel->slots ? index : index - channel->slots) * channel->item_size;
}

static int grow(coir_channel *channel)
{
    size_t slots = channel->slots ? channel->slots * 2 : FIRST_SLOTS;
    if (slots > channel->capacity)
        slots = channel->capacity;
    size_t size;
    if (__builtin_mul_overflow(slots, channel->item_size, &size))
        return -ENOMEM;
    char *items = ci_alloc(&channel->allocator, size);
    if (!items)
        return -ENOMEM;
    for (size_t i = 0; i < channel->count; i++)
        memcpy(items + i * channel->item_size, slot(channel, channel->head + i),
               channel->item_size);
    ci_free(&channel->allocator, channel->items, channel->slots * channel->item_size);
    channel->items = items;
    channel->slots = slots;
    channel->head = 0;
    return 0;
}

CI_INLINE int put(coir_channel *channel, const void *item)
{
    if (ci_unlikely(channel->count == channel->slots) && grow(channel) < 0)
        return -ENOMEM;
    copy(slot(channel, channel->head + channel->count), item, channel->item_size);
    channel->count++;
    return 0;
}

CI_INLINE void advance(coir_channel *channel)
{
    if (++channel->head == channel->slots)
        channel->head = 0;
    channel->count--;
}

static void drop_oldest(coir_channel *channel)
{
    if (channel->unref)
        channel->unref(slot(channel, channel->head), channel->arg);
    advance(channel);
}

/* ---- sending ---- */

CI_INLINE void hand_over(const coir_channel *channel, struct ci_wait *receiver, const void *item)
{
    copy(receiver->item, item, channel->item_size);
    receiver->future.result = receiver->items_max ? 1 : 0;
}

int ci_channel_push(coir_channel *channel, const void *item, struct ci_list *granted)
{
    if (channel->closed)
        return -EPIPE;
    if (channel->count == 0) {
        struct ci_wait *receiver = ci_wait_grant(&channel->receivers);
        if (receiver) {
            hand_over(channel, receiver, item);
            ci_list_push(granted, &receiver->link);
            return 1;
        }
    }
    if (ci_unlikely(channel->count == channel->capacity)) {
        switch ((enum coir_overflow)channel->overflow) {
        case COIR_OVERFLOW_WAIT: return -EAGAIN;
        case COIR_OVERFLOW_DROP_NEWEST: return 0;
        case COIR_OVERFLOW_DROP_OLDEST: drop_oldest(channel); break;
        case COIR_OVERFLOW_CLOSE: ci_channel_close(channel, granted); return -EPIPE;
        }
    }
    int rc = put(channel, item);
    return rc < 0 ? rc : 1;
}

/* Without a ring: takes the first one off the queue that can be decided together with us (`wait` is
 * NULL in a try), and puts it on `granted`, as the last. */
static enum outcome meet(struct ci_list *queue, struct ci_runnable *runnable,
                         const struct ci_wait *wait, struct ci_list *granted)
{
    for (struct ci_list *node = queue->next, *next; node != queue; node = next) {
        next = node->next;
        struct ci_wait *peer = ci_container_of(node, struct ci_wait, link);
        enum ci_pair pair;
        if (wait)
            pair = ci_claim_pair(runnable, &wait->future, peer->runnable, &peer->future);
        else
            pair = ci_claim(peer->runnable, &peer->future) ? CI_PAIR_CLAIMED : CI_PAIR_PEER_LOST;
        if (pair == CI_PAIR_SELF_LOST)
            return REFUSED;
        if (pair == CI_PAIR_SAME)
            continue;
        ci_wait_take_off(peer, pair == CI_PAIR_CLAIMED ? CI_WAIT_GRANTED : CI_WAIT_LOST);
        if (pair == CI_PAIR_CLAIMED) {
            ci_list_push(granted, &peer->link);
            return DONE;
        }
    }
    return WOULD_WAIT;
}

static struct ci_wait *met(struct ci_list *granted)
{
    return ci_container_of(granted->prev, struct ci_wait, link);
}

static enum outcome try_send(coir_channel *channel, struct ci_runnable *runnable,
                             struct ci_wait *wait, const void *item, int64_t *ret_result,
                             struct ci_list *granted)
{
    *ret_result = -EPIPE;
    if (channel->closed)
        return DONE;
    if (channel->capacity == 0) {
        enum outcome outcome = meet(&channel->receivers, runnable, wait, granted);
        if (outcome == DONE) {
            hand_over(channel, met(granted), item);
            *ret_result = 0;
        }
        return outcome;
    }
    if (!ci_channel_has_room(channel))
        return WOULD_WAIT;
    if (wait && !ci_claim(runnable, &wait->future))
        return REFUSED;
    int rc = ci_channel_push(channel, item, granted);
    if (rc == 0 && channel->unref)
        channel->unref((void *)(uintptr_t)item, channel->arg);
    *ret_result = rc < 0 ? rc : 0;
    return DONE;
}

/* ---- receiving ---- */

/* A place has come free: a sender that waits gets it. */
static void refill(coir_channel *channel, struct ci_list *granted)
{
    struct ci_wait *sender = ci_wait_grant(&channel->senders);
    if (sender) {
        sender->future.result = put(channel, sender->item); /* there is a place: it cannot fail */
        ci_list_push(granted, &sender->link);
    }
    if (ci_unlikely(channel->topic != NULL))
        ci_topic_room(channel->topic, granted);
}

static enum outcome try_receive(coir_channel *channel, struct ci_runnable *runnable,
                                struct ci_wait *wait, void *item, size_t items_max,
                                int64_t *ret_result, struct ci_list *granted)
{
    size_t got = 0, wanted = items_max ? items_max : 1;
    if (channel->count) {
        if (wait && !ci_claim(runnable, &wait->future))
            return REFUSED;
        for (; got < wanted && channel->count; got++) {
            copy((char *)item + got * channel->item_size, slot(channel, channel->head),
                 channel->item_size);
            advance(channel);
            if (!ci_list_empty(&channel->senders) || channel->topic)
                refill(channel, granted);
        }
    } else if (channel->capacity == 0 && !ci_list_empty(&channel->senders)) {
        enum outcome outcome = meet(&channel->senders, runnable, wait, granted);
        if (outcome != DONE)
            return outcome;
        copy(item, met(granted)->item, channel->item_size);
        met(granted)->future.result = 0;
        got = 1;
    } else if (!channel->closed) {
        return WOULD_WAIT;
    }
    *ret_result = !got ? -EPIPE : items_max ? (int64_t)got : 0;
    return DONE;
}

/* ---- waiting ---- */

CI_INLINE bool finish(struct ci_worker *worker, struct ci_wait *wait, enum outcome outcome,
                      struct ci_list *queue, struct ci_list *granted, coir_channel *channel)
{
    if (outcome == WOULD_WAIT)
        ci_wait_queue(worker, wait, queue);
    else if (ci_unlikely(outcome == REFUSED))
        wait->future.result = -ECANCELED;
    ci_lock_give(channel->lock);
    ci_wait_wake_all(granted);
    return outcome != WOULD_WAIT;
}

static bool start_send(struct ci_worker *worker, struct ci_wait *wait)
{
    coir_channel *channel = wait->object;
    struct ci_list granted;
    ci_list_init(&granted);
    ci_lock_take(channel->lock);
    enum outcome outcome =
        try_send(channel, worker->runnable, wait, wait->item, &wait->future.result, &granted);
    return finish(worker, wait, outcome, &channel->senders, &granted, channel);
}

static bool start_receive(struct ci_worker *worker, struct ci_wait *wait)
{
    coir_channel *channel = wait->object;
    struct ci_list granted;
    ci_list_init(&granted);
    ci_lock_take(channel->lock);
    enum outcome outcome = try_receive(channel, worker->runnable, wait, wait->item, wait->items_max,
                                       &wait->future.result, &granted);
    return finish(worker, wait, outcome, &channel->receivers, &granted, channel);
}

static coir_future *send_poll(coir_future *future)
{
    return ci_wait_poll(future, start_send);
}

static coir_future *receive_poll(coir_future *future)
{
    return ci_wait_poll(future, start_receive);
}

static const coir_future_kind send_kind =
    COIR_FUTURE_KIND("room in a channel", send_poll, ci_wait_cancel);
static const coir_future_kind receive_kind =
    COIR_FUTURE_KIND("an item of a channel", receive_poll, ci_wait_cancel);

CI_INLINE struct ci_wait *init(struct ci_wait *wait, const coir_future_kind *kind,
                               coir_channel *channel, void *item, size_t items_max)
{
    wait->item = item;
    wait->items_max = items_max;
    return ci_wait_init(wait, kind, channel->lock, channel);
}

coir_future *coir_channel_send_op(coir_wait_op *op, coir_channel *channel, const void *item)
{
    return &init(ci_wait_of(op), &send_kind, channel, (void *)(uintptr_t)item, 0)->future;
}

coir_future *coir_channel_recv_op(coir_wait_op *op, coir_channel *channel, void *item)
{
    return &init(ci_wait_of(op), &receive_kind, channel, item, 0)->future;
}

/* Receiving no items is complete at once. */
static coir_future *nothing_poll(coir_future *future)
{
    if (ci_leaf_refused(ci_worker_current, future))
        return future->caller;
    return ci_leaf_complete(ci_worker_current, future);
}

static const coir_future_kind nothing_kind = COIR_FUTURE_KIND("nothing", nothing_poll, NULL);

coir_future *coir_channel_recv_many_op(coir_wait_op *op, coir_channel *channel, void *items,
                                       size_t items_max)
{
    return &init(ci_wait_of(op), items_max ? &receive_kind : &nothing_kind, channel, items,
                 items_max)
                ->future;
}

/* ---- the straight-line calls: what is common under the lock once, everything else as the futures
 * do it ---- */

/* With the lock held: room in the ring and nobody who waits for it, or a plain fiber that waits for
 * an item. */
CI_INLINE bool send_at_once(coir_channel *channel, const void *item, struct ci_wait **ret_receiver)
{
    struct ci_wait *receiver = ci_wait_first(&channel->receivers);
    if (channel->closed)
        return false;
    if (!receiver) {
        if (channel->count == channel->slots)
            return false;
        put(channel, item);
    } else if (ci_runnable_is_branch(receiver->runnable)) {
        return false;
    } else {
        ci_wait_take_off(receiver, CI_WAIT_GRANTED);
        hand_over(channel, receiver, item);
    }
    *ret_receiver = receiver;
    return true;
}

int coir_channel_send(coir_channel *channel, const void *item)
{
    int rc = 0;
    struct ci_fiber *fiber = ci_fiber_enter(&rc);
    if (ci_unlikely(!fiber))
        return rc;
    struct ci_worker *worker = ci_worker_current;
    struct ci_wait *receiver;
    ci_lock_take(channel->lock);
    bool done = send_at_once(channel, item, &receiver);
    ci_lock_give(channel->lock);
    if (ci_likely(done)) {
        if (receiver)
            ci_wait_wake(receiver);
        ci_spend(worker);
        return 0;
    }
    struct ci_wait *wait =
        init(CI_FIBER_OP(fiber, struct ci_wait), &send_kind, channel, (void *)(uintptr_t)item, 0);
    return (int)ci_wait_here(worker, wait, start_send);
}

CI_INLINE ssize_t receive(coir_channel *channel, void *items, size_t items_max)
{
    int rc = 0;
    struct ci_fiber *fiber = ci_fiber_enter(&rc);
    if (ci_unlikely(!fiber))
        return rc;
    struct ci_worker *worker = ci_worker_current;
    struct ci_wait *wait = CI_FIBER_OP(fiber, struct ci_wait);
    ci_lock_take(channel->lock);
    if (ci_unlikely(!ci_list_empty(&channel->senders) || channel->topic || channel->closed ||
                    items_max)) {
        ci_lock_give(channel->lock);
        return ci_wait_here(worker, init(wait, &receive_kind, channel, items, items_max),
                            start_receive);
    }
    if (channel->count) {
        copy(items, slot(channel, channel->head), channel->item_size);
        advance(channel);
        ci_lock_give(channel->lock);
        ci_spend(worker);
        return 0;
    }
    init(wait, &receive_kind, channel, items, 0)->future.caller = &fiber->back;
    ci_wait_queue(worker, wait, &channel->receivers);
    ci_lock_give(channel->lock);
    ci_park_here(worker);
    return wait->future.result;
}

int coir_channel_recv(coir_channel *channel, void *item)
{
    return (int)receive(channel, item, 0);
}

ssize_t coir_channel_recv_many(coir_channel *channel, void *items, size_t items_max)
{
    if (ci_unlikely(items_max == 0)) {
        coir_wait_op op;
        return ci_await_in_fiber(coir_channel_recv_many_op(&op, channel, items, items_max));
    }
    return receive(channel, items, items_max);
}

static coir_future *make_send(const coir_case *self, void *place)
{
    return coir_channel_send_op(place, self->object, self->data);
}

static coir_future *make_receive(const coir_case *self, void *place)
{
    return coir_channel_recv_op(place, self->object, self->data);
}

coir_case coir_case_send(coir_channel *channel, const void *item)
{
    return (coir_case){.make = make_send, .object = channel, .data = (void *)(uintptr_t)item};
}

coir_case coir_case_recv(coir_channel *channel, void *item)
{
    return (coir_case){.make = make_receive, .object = channel, .data = item};
}

/* ---- without waiting ---- */

int coir_channel_try_send(coir_channel *channel, const void *item)
{
    if (ci_forked())
        return -COIR_EFORKED;
    struct ci_list granted;
    int64_t result;
    ci_list_init(&granted);
    ci_lock_take(channel->lock);
    enum outcome outcome = try_send(channel, NULL, NULL, item, &result, &granted);
    ci_lock_give(channel->lock);
    ci_wait_wake_all(&granted);
    return outcome == DONE ? (int)result : -EAGAIN;
}

int coir_channel_try_recv(coir_channel *channel, void *item)
{
    if (ci_forked())
        return -COIR_EFORKED;
    struct ci_list granted;
    int64_t result;
    ci_list_init(&granted);
    ci_lock_take(channel->lock);
    enum outcome outcome = try_receive(channel, NULL, NULL, item, 0, &result, &granted);
    ci_lock_give(channel->lock);
    ci_wait_wake_all(&granted);
    return outcome == DONE ? (int)result : -EAGAIN;
}

void ci_channel_close(coir_channel *channel, struct ci_list *granted)
{
    channel->closed = true;
    ci_wait_grant_all(&channel->receivers, -EPIPE, granted);
    ci_wait_grant_all(&channel->senders, -EPIPE, granted);
    if (channel->topic)
        ci_topic_room(channel->topic, granted);
}

void coir_channel_close(coir_channel *channel)
{
    if (ci_forked())
        return;
    struct ci_list granted;
    ci_list_init(&granted);
    ci_lock_take(channel->lock);
    if (!channel->closed)
        ci_channel_close(channel, &granted);
    ci_lock_give(channel->lock);
    ci_wait_wake_all(&granted);
}

size_t coir_channel_count(const coir_channel *channel)
{
    ci_lock_take(channel->lock);
    size_t count = channel->count;
    ci_lock_give(channel->lock);
    return count;
}

bool coir_channel_is_closed(const coir_channel *channel)
{
    ci_lock_take(channel->lock);
    bool closed = channel->closed;
    ci_lock_give(channel->lock);
    return closed;
}

/* ---- making and freeing ---- */

int coir_channel_new_with(const coir_channel_options *given, coir_channel **ret_channel)
{
    if (ci_forked())
        return -COIR_EFORKED;
    coir_channel_options options = COIR_CHANNEL_OPTIONS;
    int rc = ci_options_read(&options, sizeof options, given);
    if (rc < 0)
        return rc;
    if (!options.item_size || (unsigned)options.overflow > COIR_OVERFLOW_CLOSE ||
        (!options.capacity && options.overflow != COIR_OVERFLOW_WAIT))
        return -EINVAL;
    const coir_allocator *allocator = ci_allocator_here();
    coir_channel *channel = ci_alloc_zero(allocator, sizeof *channel);
    if (!channel)
        return -ENOMEM;
    channel->allocator = *allocator;
    channel->lock = &channel->own_lock;
    channel->item_size = options.item_size;
    channel->capacity = options.capacity;
    channel->overflow = (uint8_t)options.overflow;
    channel->unref = options.unref;
    channel->arg = options.arg;
    ci_list_init(&channel->receivers);
    ci_list_init(&channel->senders);
    ci_list_init(&channel->member);
    if (options.capacity != COIR_UNLIMITED && options.capacity) {
        size_t size;
        if (__builtin_mul_overflow(options.capacity, options.item_size, &size) ||
            !(channel->items = ci_alloc(allocator, size))) {
            ci_free(allocator, channel, sizeof *channel);
            return -ENOMEM;
        }
        channel->slots = options.capacity;
    }
    *ret_channel = channel;
    return 0;
}

int coir_channel_new(size_t item_size, size_t capacity, coir_channel **ret_channel)
{
    coir_channel_options options = COIR_CHANNEL_OPTIONS;
    options.item_size = item_size;
    options.capacity = capacity;
    return coir_channel_new_with(&options, ret_channel);
}

void coir_channel_free(coir_channel *channel)
{
    if (!channel || ci_forked())
        return;
    if (channel->topic) {
        struct ci_list granted;
        ci_list_init(&granted);
        ci_lock_take(channel->lock);
        ci_topic_leave(channel, &granted);
        ci_lock_give(channel->lock);
        ci_wait_wake_all(&granted);
    }
    ci_check(ci_list_empty(&channel->receivers) && ci_list_empty(&channel->senders));
    while (channel->count)
        drop_oldest(channel);
    coir_allocator allocator = channel->allocator;
    ci_free(&allocator, channel->items, channel->slots * channel->item_size);
    ci_free(&allocator, channel, sizeof *channel);
}
