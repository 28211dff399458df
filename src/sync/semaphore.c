/* The semaphore: units, and a queue that is served from its front. */
#include "coir/semaphore.h"

#include <errno.h>

#include "sync/wait.h"

struct semaphore {
    struct ci_lock lock;
    uint64_t units;
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
    ci_lock_take(&semaphore->lock);
    ci_wait_open(&semaphore->waiters);
}

static bool has(const struct semaphore *semaphore, uint64_t amount)
{
    return ci_list_empty(&semaphore->waiters) && semaphore->units >= amount;
}

static bool start(struct ci_worker *worker, struct ci_wait *wait)
{
    struct semaphore *semaphore = wait->object;
    bool complete = true;
    lock(semaphore);
    if (!has(semaphore, wait->amount)) {
        ci_wait_queue(worker, wait, &semaphore->waiters);
        complete = false;
    } else if (ci_claim(worker->runnable, &wait->future)) {
        semaphore->units -= wait->amount;
        wait->future.result = 0;
    } else {
        wait->future.result = -ECANCELED;
    }
    ci_lock_give(&semaphore->lock);
    return complete;
}

/* With the lock held. */
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

/* False, and nothing is added: they would be more than can be counted. */
static bool add_and_serve(struct semaphore *semaphore, uint64_t amount)
{
    struct ci_list granted;
    ci_list_init(&granted);
    lock(semaphore);
    bool fits = amount <= UINT64_MAX - semaphore->units;
    if (fits) {
        semaphore->units += amount;
        serve(semaphore, &granted);
    }
    ci_lock_give(&semaphore->lock);
    ci_wait_wake_all(&granted);
    return fits;
}

static coir_future *semaphore_poll(coir_future *future)
{
    return ci_wait_poll(future, start);
}

/* A large request that gives up may have been what small ones waited behind. */
static int semaphore_cancel(coir_future *future, int reason)
{
    struct semaphore *semaphore = ci_container_of(future, struct ci_wait, future)->object;
    if (!ci_wait_cancel(future, reason))
        return false;
    add_and_serve(semaphore, 0);
    return true;
}

static const coir_future_kind semaphore_kind =
    COIR_FUTURE_KIND("a semaphore", semaphore_poll, semaphore_cancel);

static struct ci_wait *init(struct ci_wait *wait, coir_semaphore *semaphore, uint64_t amount)
{
    wait->amount = amount;
    return ci_wait_init(wait, &semaphore_kind, &semaphore_of(semaphore)->lock, semaphore);
}

coir_future *coir_semaphore_acquire_op(coir_wait_op *op, coir_semaphore *semaphore, uint64_t amount)
{
    return &init(ci_wait_of(op), semaphore, amount)->future;
}

int coir_semaphore_acquire(coir_semaphore *semaphore, uint64_t amount)
{
    int rc = 0;
    struct ci_fiber *fiber = ci_fiber_enter(&rc);
    if (!fiber)
        return rc;
    return (int)ci_wait_here(ci_worker_current,
                             init(CI_FIBER_OP(fiber, struct ci_wait), semaphore, amount), start);
}

int coir_semaphore_try_acquire(coir_semaphore *words, uint64_t amount)
{
    if (ci_forked())
        return -COIR_EFORKED;
    struct semaphore *semaphore = semaphore_of(words);
    lock(semaphore);
    bool taken = has(semaphore, amount);
    if (taken)
        semaphore->units -= amount;
    ci_lock_give(&semaphore->lock);
    return taken ? 0 : -EAGAIN;
}

int coir_semaphore_release(coir_semaphore *semaphore, uint64_t amount)
{
    if (ci_forked())
        return -COIR_EFORKED;
    return add_and_serve(semaphore_of(semaphore), amount) ? 0 : CI_MISUSE(-EOVERFLOW);
}

uint64_t coir_semaphore_units(const coir_semaphore *words)
{
    struct semaphore *semaphore = semaphore_of((coir_semaphore *)(uintptr_t)words);
    lock(semaphore);
    uint64_t units = semaphore->units;
    ci_lock_give(&semaphore->lock);
    return units;
}
