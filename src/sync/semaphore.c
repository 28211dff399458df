/* The semaphore: units, and a queue that is served from its front.
 *
 * 1. The first waiter in the queue needs more units than there are.
 */
#include "coir/semaphore.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "sync/lock_name.h"
#include "sync/wait.h"
#include "task/completed.h"

struct semaphore {
    uint8_t number; /* of its name, or 0 */
    uint64_t units;
    struct ci_own_lock lock;
    struct ci_list waiters;
};
CI_LEAVES_SPARE_WORDS(struct semaphore, coir_semaphore);
_Static_assert(offsetof(struct semaphore, units) == 8, "see COIR_SEMAPHORE_INIT");

static struct semaphore *semaphore_of(coir_semaphore *semaphore)
{
    return (struct semaphore *)(void *)semaphore;
}

static void lock(struct semaphore *semaphore)
{
    ci_own_lock_take(&semaphore->lock);
    ci_wait_open(&semaphore->waiters);
    const struct ci_wait *first = ci_wait_first(&semaphore->waiters);
    ci_check(!first || first->amount > semaphore->units, "semaphore.c 1");
}

static bool is_waited_for(const struct semaphore *semaphore)
{
    return semaphore->waiters.next && !ci_list_empty(&semaphore->waiters);
}

static bool has(const struct semaphore *semaphore, uint64_t amount)
{
    return !is_waited_for(semaphore) && semaphore->units >= amount;
}

static bool start(struct ci_worker *worker, struct ci_wait *wait)
{
    struct semaphore *semaphore = wait->object;
    bool complete = true;
    lock(semaphore);
    if (!has(semaphore, wait->amount)) {
        uint8_t number = ci_load_relaxed(&semaphore->number);
        ci_wait_queue(worker, wait, &semaphore->waiters);
        if (ci_unlikely(number))
            wait->since = ci_lock_wait_begins(number);
        complete = false;
    } else if (ci_claim(worker->runnable, &wait->future)) {
        semaphore->units -= wait->amount;
        wait->future.result = 0;
    } else {
        wait->future.result = -ECANCELED;
    }
    ci_own_lock_give(&semaphore->lock);
    return complete;
}

/* With the lock held: gives units to waiters, from the front. */
static void serve(struct semaphore *semaphore, struct ci_list *granted)
{
    for (struct ci_wait *wait;
         (wait = ci_wait_first(&semaphore->waiters)) && semaphore->units >= wait->amount;) {
        if (!ci_wait_decide(wait))
            continue;
        semaphore->units -= wait->amount;
        wait->future.result = 0;
        ci_list_push(granted, &wait->link);
    }
}

/* With the lock held, which it gives back. */
static void give_and_wake(struct semaphore *semaphore, struct ci_list *granted)
{
    uint8_t number = ci_load_relaxed(&semaphore->number);
    ci_own_lock_give(&semaphore->lock);
    ci_wait_count_granted(number, granted);
    ci_wait_wake_all(granted);
}

/* Small requests may have waited behind a large one that is cancelled. */
static int semaphore_cancel(coir_future *future, int reason)
{
    struct ci_wait *wait = ci_container_of(future, struct ci_wait, future);
    struct semaphore *semaphore = wait->object;
    struct ci_list granted;
    ci_list_init(&granted);
    lock(semaphore);
    bool withdrawn = ci_wait_withdraw(wait, reason);
    serve(semaphore, &granted);
    give_and_wake(semaphore, &granted);
    return withdrawn;
}

static CI_UNINSTRUMENTED void semaphore_describe(const coir_future *future,
                                                 struct ci_wait_note *note)
{
    const struct ci_wait *wait = ci_container_of(future, const struct ci_wait, future);
    const struct semaphore *semaphore = wait->object;
    note->name = ci_lock_name(ci_load_relaxed(&semaphore->number));
    snprintf(note->text, sizeof note->text, "wants %" PRIu64 ", it has %" PRIu64, wait->amount,
             ci_load_relaxed(&semaphore->units));
}

static const struct ci_wait_kind semaphore_kind =
    CI_WAIT_KIND("a semaphore", start, semaphore_cancel, semaphore_describe);

static struct ci_wait_for to_acquire(coir_semaphore *opaque, uint64_t amount)
{
    struct semaphore *semaphore = semaphore_of(opaque);
    return (struct ci_wait_for){.kind = &semaphore_kind,
                                .own_lock = &semaphore->lock,
                                .object = semaphore,
                                .amount = amount};
}

coir_future *coir_semaphore_acquire_op(coir_wait_op *op, coir_semaphore *semaphore, uint64_t amount)
{
    return op && semaphore ? ci_wait_op(op, to_acquire(semaphore, amount))
                           : ci_completed_op(op, CI_MISUSE(-EINVAL, "op or semaphore is NULL"));
}

/* Where the units are not there, or no attempt at the lock was made. */
static CI_NOINLINE int acquire_otherwise(struct ci_worker *worker, struct ci_fiber *fiber,
                                         coir_semaphore *semaphore, uint64_t amount)
{
    return (int)ci_wait_here(worker, fiber, to_acquire(semaphore, amount));
}

/* Makes no call but as its last step, so that it saves no registers. */
int coir_semaphore_acquire(coir_semaphore *opaque, uint64_t amount)
{
    if (ci_unlikely(!opaque))
        return CI_MISUSE(-EINVAL, "semaphore is NULL");
    struct ci_worker *worker = ci_worker_current;
    struct ci_fiber *fiber = ci_fiber_of_call(worker);
    if (ci_unlikely(!fiber))
        return ci_fiber_refuse(worker, CI_CALL, CI_PLACE);
    struct semaphore *semaphore = semaphore_of(opaque);
    if (ci_likely(ci_own_lock_try(&semaphore->lock, worker))) {
        bool taken = has(semaphore, amount);
        if (taken)
            semaphore->units -= amount;
        ci_own_lock_give_tried(&semaphore->lock, worker);
        if (taken)
            return ci_spend_and_return(worker);
    }
    return acquire_otherwise(worker, fiber, opaque, amount);
}

int coir_semaphore_try_acquire(coir_semaphore *opaque, uint64_t amount)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!opaque)
        return CI_MISUSE(-EINVAL, "semaphore is NULL");
    struct semaphore *semaphore = semaphore_of(opaque);
    lock(semaphore);
    bool taken = has(semaphore, amount);
    if (taken)
        semaphore->units -= amount;
    ci_own_lock_give(&semaphore->lock);
    return taken ? 0 : -EAGAIN;
}

static CI_NOINLINE int release_otherwise(struct semaphore *semaphore, uint64_t amount,
                                         const char *call, const void *place)
{
    struct ci_list granted;
    ci_list_init(&granted);
    lock(semaphore);
    bool fits = amount <= UINT64_MAX - semaphore->units;
    if (fits) {
        semaphore->units += amount;
        serve(semaphore, &granted);
    }
    give_and_wake(semaphore, &granted);
    return fits ? 0 : ci_misused(-EOVERFLOW, "more units than can be counted", call, place);
}

int coir_semaphore_release(coir_semaphore *opaque, uint64_t amount)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!opaque)
        return CI_MISUSE(-EINVAL, "semaphore is NULL");
    struct semaphore *semaphore = semaphore_of(opaque);
    const struct ci_worker *worker = ci_worker_current;
    if (ci_likely(worker && ci_own_lock_try(&semaphore->lock, worker))) {
        bool done = !is_waited_for(semaphore) && amount <= UINT64_MAX - semaphore->units;
        if (done)
            semaphore->units += amount;
        ci_own_lock_give_tried(&semaphore->lock, worker);
        if (done)
            return 0;
    }
    return release_otherwise(semaphore, amount, CI_CALL, CI_PLACE);
}

int coir_semaphore_set_name(coir_semaphore *semaphore, const char *name)
{
    return semaphore ? ci_lock_set_name(&semaphore_of(semaphore)->number, name, CI_CALL, CI_PLACE)
                     : CI_MISUSE(-EINVAL, "semaphore is NULL");
}

uint64_t coir_semaphore_units(const coir_semaphore *opaque)
{
    if (!opaque && CI_MISUSE(-EINVAL, "semaphore is NULL"))
        return 0;
    struct semaphore *semaphore = semaphore_of((coir_semaphore *)(uintptr_t)opaque);
    lock(semaphore);
    uint64_t units = semaphore->units;
    ci_own_lock_give(&semaphore->lock);
    return units;
}
