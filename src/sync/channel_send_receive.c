/* Sending to and receiving from channels.
 *
 * An item goes straight to a queued receiver; that of a queued sender goes into the slot that a
 * receive has freed. A leaf that is polled decides its own coir_any only when it is certain to
 * transfer an item, and decides its peer's before it hands the item over. Without a ring both must
 * be decided together (ci_claim_pair).
 */
#include <errno.h>

#include "sync/channel.h"
#include "task/completed.h"

/* How a send or receive that was tried under the lock ended. */
enum outcome { DONE, WOULD_WAIT, REFUSED };

/* ---- sending ---- */

/* Without a ring: takes off the queue the first waiter whose coir_any can be decided together with
 * that of `wait` (NULL in a try), and puts it on `granted`, as the last. */
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
    if (channel->ring.capacity == 0) {
        enum outcome outcome = meet(&channel->receivers, runnable, wait, granted);
        if (outcome == DONE) {
            ci_channel_hand_over(channel, met(granted), item);
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

/* A slot is free: the item of the first waiting sender goes into it. */
static void refill(coir_channel *channel, struct ci_list *granted)
{
    struct ci_wait *sender = ci_wait_grant(&channel->senders);
    if (sender) {
        ci_check(channel->ring.count < channel->ring.slots, "channel.h 1");
        sender->future.result =
            ci_item_ring_put(&channel->ring, sender->item); /* there is a slot: it cannot fail */
        ci_list_push(granted, &sender->link);
    }
    if (ci_unlikely(channel->observer != NULL))
        channel->observer->on_room(channel->observer, granted);
}

static enum outcome try_receive(coir_channel *channel, struct ci_runnable *runnable,
                                struct ci_wait *wait, void *item, size_t items_max,
                                int64_t *ret_result, struct ci_list *granted)
{
    size_t got = 0, wanted = items_max ? items_max : 1;
    if (channel->ring.count) {
        if (wait && !ci_claim(runnable, &wait->future))
            return REFUSED;
        for (; got < wanted && channel->ring.count; got++) {
            ci_item_ring_take(&channel->ring, (char *)item + got * channel->ring.item_size);
            if (!ci_list_empty(&channel->senders) || channel->observer)
                refill(channel, granted);
        }
    } else if (channel->ring.capacity == 0 && !ci_list_empty(&channel->senders)) {
        enum outcome outcome = meet(&channel->senders, runnable, wait, granted);
        if (outcome != DONE)
            return outcome;
        ci_item_copy(item, met(granted)->item, channel->ring.item_size);
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
    if (outcome == WOULD_WAIT) {
        ci_check(!channel->closed, "channel.h 2");
        ci_wait_queue(worker, wait, queue);
    } else if (ci_unlikely(outcome == REFUSED))
        wait->future.result = -ECANCELED;
    ci_own_lock_give(channel->lock);
    ci_wait_wake_all(granted);
    return outcome != WOULD_WAIT;
}

static bool start_send(struct ci_worker *worker, struct ci_wait *wait)
{
    coir_channel *channel = wait->object;
    struct ci_list granted;
    ci_list_init(&granted);
    ci_channel_lock(channel);
    enum outcome outcome =
        try_send(channel, worker->runnable, wait, wait->item, &wait->future.result, &granted);
    ci_check(outcome != WOULD_WAIT || channel->ring.count == channel->ring.capacity, "channel.h 1");
    return finish(worker, wait, outcome, &channel->senders, &granted, channel);
}

static bool start_receive(struct ci_worker *worker, struct ci_wait *wait)
{
    coir_channel *channel = wait->object;
    struct ci_list granted;
    ci_list_init(&granted);
    ci_channel_lock(channel);
    enum outcome outcome = try_receive(channel, worker->runnable, wait, wait->item, wait->items_max,
                                       &wait->future.result, &granted);
    ci_check(outcome != WOULD_WAIT || channel->ring.count == 0, "channel.h 1");
    return finish(worker, wait, outcome, &channel->receivers, &granted, channel);
}

static const struct ci_wait_kind send_kind =
    CI_WAIT_KIND("room in a channel", start_send, ci_wait_cancel_own, NULL);
static const struct ci_wait_kind receive_kind =
    CI_WAIT_KIND("an item of a channel", start_receive, ci_wait_cancel_own, NULL);

CI_INLINE struct ci_wait_for to_send(coir_channel *channel, const void *item)
{
    return (struct ci_wait_for){.kind = &send_kind,
                                .own_lock = channel->lock,
                                .object = channel,
                                .item = (void *)(uintptr_t)item};
}

CI_INLINE struct ci_wait_for to_receive(coir_channel *channel, void *items, size_t items_max)
{
    return (struct ci_wait_for){.kind = &receive_kind,
                                .own_lock = channel->lock,
                                .object = channel,
                                .item = items,
                                .items_max = items_max};
}

coir_future *coir_channel_send_op(coir_wait_op *op, coir_channel *channel, const void *item)
{
    return op && channel && item
               ? ci_wait_op(op, to_send(channel, item))
               : ci_completed_op(op, CI_MISUSE(-EINVAL, "op, channel or item is NULL"));
}

coir_future *coir_channel_recv_op(coir_wait_op *op, coir_channel *channel, void *item)
{
    return op && channel && item
               ? ci_wait_op(op, to_receive(channel, item, 0))
               : ci_completed_op(op, CI_MISUSE(-EINVAL, "op, channel or item is NULL"));
}

coir_future *coir_channel_recv_many_op(coir_wait_op *op, coir_channel *channel, void *items,
                                       size_t items_max)
{
    if (!op || !channel || (!items && items_max))
        return ci_completed_op(op, CI_MISUSE(-EINVAL, "op, channel or items is NULL"));
    return items_max ? ci_wait_op(op, to_receive(channel, items, items_max))
                     : ci_completed_op(op, 0);
}

/* ---- straight-line calls: the common cases with one hold of the lock ----
 *
 * The common cases end in tail calls or in none, so that they save no registers. What parks is a
 * function of its own, since a switch clobbers every register. A send that is not common goes on in
 * send_locked; a receive gives the lock back, since a lease's lock is taken before it, and begins
 * again in receive_otherwise. */

/* With the lock held: queues the call, which cannot be done now, and gives the lock back. */
CI_INLINE int64_t queue_and_park(struct ci_worker *worker, struct ci_fiber *fiber,
                                 struct ci_list *queue, struct ci_wait_for what)
{
    struct ci_wait *wait =
        ci_wait_init_at(CI_FIBER_OP(fiber, struct ci_wait), what, worker->loop.now);
    wait->future.caller = &fiber->back;
    ci_wait_queue_as(worker, wait, queue, true);
    ci_own_lock_give_tried(what.own_lock, worker);
    ci_park_here(worker, fiber);
    return wait->future.result;
}

static CI_NOINLINE int queue_sender(struct ci_worker *worker, coir_channel *channel,
                                    struct ci_fiber *fiber, const void *item)
{
    return (int)queue_and_park(worker, fiber, &channel->senders, to_send(channel, item));
}

static CI_NOINLINE int queue_receiver(struct ci_worker *worker, coir_channel *channel,
                                      struct ci_fiber *fiber, void *item)
{
    return (int)queue_and_park(worker, fiber, &channel->receivers, to_receive(channel, item, 0));
}

static CI_NOINLINE int wake_elsewhere(struct ci_worker *worker, struct ci_wait *wait)
{
    ci_wait_wake(wait);
    return ci_spend_and_return(worker);
}

/* The end of a call that has transferred an item to or from a queued task; takes that off. */
CI_INLINE int grant_and_return(struct ci_worker *worker, const coir_channel *channel,
                               struct ci_wait *peer, int64_t result)
{
    ci_wait_take_off(peer, CI_WAIT_GRANTED);
    peer->future.result = result;
    ci_own_lock_give_tried(channel->lock, worker);
    return ci_wait_wake_own(worker, peer) ? ci_spend_and_return(worker)
                                          : wake_elsewhere(worker, peer);
}

/* With the lock held, which it gives back: a receiver that is a member of a coir_any, items of
 * unusual sizes, and sends that wait. */
static CI_NOINLINE int send_locked(struct ci_worker *worker, struct ci_fiber *fiber,
                                   coir_channel *channel, const void *item)
{
    struct ci_wait *receiver = ci_wait_grant(&channel->receivers);
    if (receiver)
        ci_channel_hand_over(channel, receiver, item);
    else if (channel->ring.count != channel->ring.slots && !channel->closed)
        ci_item_ring_put(&channel->ring, item);
    else {
        ci_own_lock_give(channel->lock); /* with a lease there may be room: to_send settles it */
        return (int)ci_wait_here(worker, fiber, to_send(channel, item));
    }
    ci_own_lock_give(channel->lock);
    if (receiver)
        ci_wait_wake(receiver);
    return ci_spend_and_return(worker);
}

static CI_NOINLINE int send_contended(struct ci_worker *worker, struct ci_fiber *fiber,
                                      coir_channel *channel, const void *item)
{
    ci_own_lock_take(channel->lock);
    return send_locked(worker, fiber, channel, item);
}

int coir_channel_send(coir_channel *channel, const void *item)
{
    if (CI_DEBUG && (!channel || !item)) /* dear: see docs/benchmarks */
        return CI_MISUSE(-EINVAL, "channel or item is NULL");
    struct ci_worker *worker = ci_worker_current;
    struct ci_fiber *fiber = ci_fiber_of_call(worker);
    if (ci_unlikely(!fiber))
        return ci_fiber_refuse(worker, CI_CALL, CI_PLACE);
    if (ci_unlikely(!ci_own_lock_try(channel->lock, worker)))
        return send_contended(worker, fiber, channel, item);
    struct ci_item_ring *ring = &channel->ring;
    struct ci_wait *receiver = ci_wait_first(&channel->receivers);
    if (receiver) {
        ci_debug_check(ring->count == 0 && !channel->closed, "channel.h 1, channel.h 2");
        if (!ci_runnable_is_branch(receiver->runnable) &&
            ci_item_copy_usual(receiver->item, item, ring->item_size))
            return grant_and_return(worker, channel, receiver, receiver->items_max ? 1 : 0);
    } else if (ci_likely(!channel->closed)) {
        size_t count = ring->count;
        if (count == ring->slots) {
            if (count == ring->capacity && channel->overflow == COIR_OVERFLOW_WAIT &&
                !channel->lease.begun)
                return queue_sender(worker, channel, fiber, item);
        } else if (ci_item_copy_usual(ci_item_ring_slot(ring, count), item, ring->item_size)) {
            ci_show(&ring->count, count + 1);
            ci_own_lock_give_tried(channel->lock, worker);
            return ci_spend_and_return(worker);
        }
    }
    return send_locked(worker, fiber, channel, item);
}

/* ---- leases ---- */

enum { LEASES_FROM = 8, LEASE_MOST = 64 };

/* With the lock held, which another thread had when it was tried, or for items of a size that the
 * common case leaves out. */
static bool leases_pay(const coir_channel *channel)
{
    return channel->ring.count >= LEASES_FROM && channel->ring.slots == channel->ring.capacity &&
           channel->overflow == COIR_OVERFLOW_WAIT && !channel->observer &&
           channel->lock == &channel->own_lock && channel->own_lock.owner == CI_OWN_LOCK_SHARED;
}

/* With the lease's lock held, and an item left. */
CI_INLINE void take_leased(struct ci_channel_lease *lease, void *item)
{
    ci_item_copy(item, lease->items + lease->slot * lease->item_size, lease->item_size);
    if (++lease->slot == lease->slots)
        lease->slot = 0;
    lease->left--;
    lease->taken++;
}

/* With both locks held, and nothing leased. False: there are too few items. */
static bool lease_items(coir_channel *channel)
{
    const struct ci_item_ring *ring = &channel->ring;
    if (ring->count < 2 || !ci_list_empty(&channel->senders))
        return false;
    channel->lease.left = ring->count < LEASE_MOST ? ring->count : LEASE_MOST;
    channel->lease.slot = ring->head;
    return true;
}

/* Several items at once, items of unusual sizes, and channels with senders or an observer. */
static CI_NOINLINE ssize_t receive_otherwise(struct ci_worker *worker, struct ci_fiber *fiber,
                                             coir_channel *channel, void *items, size_t items_max)
{
    ci_channel_lock(channel);
    if (!channel->lease.begun && !items_max && leases_pay(channel))
        ci_channel_begin_leases(channel);
    if (items_max || !channel->ring.count || channel->observer ||
        !ci_list_empty(&channel->senders)) {
        ci_own_lock_give(channel->lock);
        return ci_wait_here(worker, fiber, to_receive(channel, items, items_max));
    }
    ci_item_ring_take(&channel->ring, items);
    ci_own_lock_give(channel->lock);
    return ci_spend_and_return(worker);
}

static CI_NOINLINE int receive_one_otherwise(struct ci_worker *worker, struct ci_fiber *fiber,
                                             coir_channel *channel, void *item)
{
    return (int)receive_otherwise(worker, fiber, channel, item, 0);
}

/* Of a channel that has leases, or had them a moment ago. */
static CI_NOINLINE int receive_leased(struct ci_worker *worker, struct ci_fiber *fiber,
                                      coir_channel *channel, void *item)
{
    struct ci_channel_lease *lease = &channel->lease;
    ci_lock_take(&lease->lock);
    bool leased = lease->left;
    if (!leased) {
        bool was_free = ci_own_lock_try(channel->lock, worker);
        if (!was_free)
            ci_own_lock_take(channel->lock);
        ci_channel_settle_to_receive(channel, was_free);
        leased = lease->begun && lease_items(channel);
        ci_own_lock_give(channel->lock);
    }
    if (leased)
        take_leased(lease, item);
    ci_lock_give(&lease->lock);
    return leased ? ci_spend_and_return(worker)
                  : receive_one_otherwise(worker, fiber, channel, item);
}

int coir_channel_recv(coir_channel *channel, void *item)
{
    if (CI_DEBUG && (!channel || !item)) /* dear: see docs/benchmarks */
        return CI_MISUSE(-EINVAL, "channel or item is NULL");
    struct ci_worker *worker = ci_worker_current;
    struct ci_fiber *fiber = ci_fiber_of_call(worker);
    if (ci_unlikely(!fiber))
        return ci_fiber_refuse(worker, CI_CALL, CI_PLACE);
    if (ci_unlikely(ci_glance(&channel->lease.begun)))
        return receive_leased(worker, fiber, channel, item);
    if (ci_unlikely(!ci_own_lock_try(channel->lock, worker)))
        return receive_one_otherwise(worker, fiber, channel, item);
    struct ci_item_ring *ring = &channel->ring;
    struct ci_wait *sender = ci_wait_first(&channel->senders);
    if (sender) {
        if (!ci_runnable_is_branch(sender->runnable) && !channel->observer &&
            (ring->capacity == 0 ? ci_item_copy_usual(item, sender->item, ring->item_size)
                                 : ci_item_ring_exchange(ring, item, sender->item)))
            return grant_and_return(worker, channel, sender, 0);
    } else if (ci_likely(!channel->observer && !channel->closed && !channel->lease.begun)) {
        if (!ring->count)
            return queue_receiver(worker, channel, fiber, item);
        if (ci_item_copy_usual(item, ci_item_ring_slot(ring, 0), ring->item_size)) {
            ci_item_ring_drop(ring);
            ci_own_lock_give_tried(channel->lock, worker);
            return ci_spend_and_return(worker);
        }
    }
    ci_own_lock_give_tried(channel->lock, worker);
    return receive_one_otherwise(worker, fiber, channel, item);
}

ssize_t coir_channel_recv_many(coir_channel *channel, void *items, size_t items_max)
{
    if (!channel || (!items && items_max))
        return CI_MISUSE(-EINVAL, "channel or items is NULL");
    if (ci_unlikely(items_max == 0)) {
        coir_wait_op op;
        return ci_await_in_fiber(coir_channel_recv_many_op(&op, channel, items, items_max));
    }
    int rc = 0;
    struct ci_fiber *fiber = ci_fiber_enter(&rc);
    return ci_likely(fiber) ? receive_otherwise(ci_worker_current, fiber, channel, items, items_max)
                            : rc;
}

/* ---- without waiting ---- */

CI_INLINE bool can_send(const coir_channel *channel)
{
    return !ci_list_empty(&channel->receivers) || ci_channel_has_room(channel) ||
           channel->lease.begun;
}

CI_INLINE bool can_receive(const coir_channel *channel)
{
    return channel->ring.count || !ci_list_empty(&channel->senders) || channel->closed;
}

static CI_NOINLINE bool try_locked(coir_channel *channel, bool sends, void *item,
                                   int64_t *ret_result)
{
    struct ci_list granted;
    ci_list_init(&granted);
    ci_channel_lock(channel);
    enum outcome outcome = sends ? try_send(channel, NULL, NULL, item, ret_result, &granted)
                                 : try_receive(channel, NULL, NULL, item, 0, ret_result, &granted);
    ci_own_lock_give(channel->lock);
    ci_wait_wake_all(&granted);
    return outcome == DONE;
}

/* True: done, with the result of the call. Most that are tried are not possible. */
CI_INLINE bool try_once(coir_channel *channel, bool sends, void *item, int64_t *ret_result)
{
    const struct ci_worker *worker = ci_worker_current;
    if (worker && ci_own_lock_try(channel->lock, worker)) {
        bool possible = sends ? can_send(channel) : can_receive(channel);
        ci_own_lock_give_tried(channel->lock, worker);
        if (!possible)
            return false;
    }
    return try_locked(channel, sends, item, ret_result);
}

static int try_now(coir_channel *channel, bool sends, void *item, const char *call,
                   const void *place)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!channel || !item)
        return ci_misused(-EINVAL, "channel or item is NULL", call, place);
    int64_t result;
    return try_once(channel, sends, item, &result) ? (int)result : -EAGAIN;
}

int coir_channel_try_send(coir_channel *channel, const void *item)
{
    return try_now(channel, true, (void *)(uintptr_t)item, CI_CALL, CI_PLACE);
}

int coir_channel_try_recv(coir_channel *channel, void *item)
{
    return try_now(channel, false, item, CI_CALL, CI_PLACE);
}

/* ---- cases of select ---- */

static CI_COLD coir_future *awaited_null(void *op, const char *call)
{
    return ci_completed_op(op, ci_misused(-EINVAL, "channel or item is NULL", call, CI_PLACE));
}

static coir_future *make_send(const coir_case *self, void *op)
{
    return ci_likely(self->object && self->data) ? ci_wait_op(op, to_send(self->object, self->data))
                                                 : awaited_null(op, "coir_case_send");
}

static coir_future *make_receive(const coir_case *self, void *op)
{
    return ci_likely(self->object && self->data)
               ? ci_wait_op(op, to_receive(self->object, self->data, 0))
               : awaited_null(op, "coir_case_recv");
}

static bool try_send_case(coir_case *self)
{
    return self->object && ci_channel_might_send(self->object) && self->data &&
           try_once(self->object, true, self->data, &self->result);
}

static bool try_receive_case(coir_case *self)
{
    return self->object && ci_channel_might_receive(self->object) && self->data &&
           try_once(self->object, false, self->data, &self->result);
}

coir_case coir_case_send(coir_channel *channel, const void *item)
{
    if (CI_DEBUG && (!channel || !item)) /* else when it is awaited */
        return ci_completed_case(CI_MISUSE(-EINVAL, "channel or item is NULL"));
    return (coir_case){.make = make_send,
                       .object = channel,
                       .data = (void *)(uintptr_t)item,
                       .try_now = try_send_case};
}

coir_case coir_case_recv(coir_channel *channel, void *item)
{
    if (CI_DEBUG && (!channel || !item)) /* else when it is awaited */
        return ci_completed_case(CI_MISUSE(-EINVAL, "channel or item is NULL"));
    return (coir_case){
        .make = make_receive, .object = channel, .data = item, .try_now = try_receive_case};
}
