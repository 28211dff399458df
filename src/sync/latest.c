/* The latest value of something, its version, and the queue of tasks that wait for another.
 *
 * 1. A queued waiter waits for the current version to change, and the object is not closed.
 * 2. No waiter is queued when it is freed.
 */
#include "coir/latest.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "sync/allocator.h"
#include "sync/wait.h"
#include "task/completed.h"

struct coir_latest {
    struct ci_lock lock;
    bool closed;
    uint64_t version;
    size_t size;
    struct ci_list waiters;
    coir_allocator allocator;
    char value[];
};

static void lock(coir_latest *latest)
{
    ci_lock_take(&latest->lock);
    const struct ci_wait *first = ci_wait_first(&latest->waiters);
    ci_check(!first || (first->amount == latest->version && !latest->closed), "latest.c 1");
}

static bool start(struct ci_worker *worker, struct ci_wait *wait)
{
    coir_latest *latest = wait->object;
    lock(latest);
    bool complete = latest->version != wait->amount || latest->closed;
    wait->future.result = latest->version != wait->amount ? 0 : -EPIPE;
    if (!complete)
        ci_wait_queue(worker, wait, &latest->waiters);
    ci_lock_give(&latest->lock);
    return complete;
}

static const struct ci_wait_kind latest_kind =
    CI_WAIT_KIND("another value", start, ci_wait_cancel, NULL);

static struct ci_wait_for wait_for(coir_latest *latest, uint64_t version)
{
    return (struct ci_wait_for){
        .kind = &latest_kind, .lock = &latest->lock, .object = latest, .amount = version};
}

coir_future *coir_latest_wait_op(coir_wait_op *op, coir_latest *latest, uint64_t version)
{
    return op && latest ? ci_wait_op(op, wait_for(latest, version))
                        : ci_completed_op(op, CI_MISUSE(-EINVAL, "op or latest is NULL"));
}

int coir_latest_wait(coir_latest *latest, uint64_t version)
{
    return latest ? (int)ci_wait_in_fiber(wait_for(latest, version))
                  : CI_MISUSE(-EINVAL, "latest is NULL");
}

static coir_future *make_wait(const coir_case *self, void *op)
{
    return coir_latest_wait_op(op, self->object, (uint64_t)self->number);
}

static bool try_wait(coir_case *self)
{
    coir_latest *latest = self->object;
    lock(latest);
    bool changed = latest->version != (uint64_t)self->number, closed = latest->closed;
    ci_lock_give(&latest->lock);
    self->result = changed ? 0 : -EPIPE;
    return changed || closed;
}

coir_case coir_case_latest(coir_latest *latest, uint64_t version)
{
    if (!latest)
        return ci_completed_case(CI_MISUSE(-EINVAL, "latest is NULL"));
    return (coir_case){
        .make = make_wait, .object = latest, .number = (int64_t)version, .try_now = try_wait};
}

/* ---- values ---- */

/* Wakes all waiters: each waits for the previous version to change. */
void coir_latest_set(coir_latest *latest, const void *value)
{
    if (ci_forked() || ((!latest || !value) && CI_MISUSE(-EINVAL, "latest or value is NULL")))
        return;
    struct ci_list granted;
    ci_list_init(&granted);
    lock(latest);
    if (!latest->closed) {
        memcpy(latest->value, value, latest->size);
        latest->version++;
        ci_wait_grant_all(&latest->waiters, 0, &granted);
    }
    ci_lock_give(&latest->lock);
    ci_wait_wake_all(&granted);
}

uint64_t coir_latest_get(const coir_latest *unchanged, void *value)
{
    if ((!unchanged || !value) && CI_MISUSE(-EINVAL, "latest or value is NULL"))
        return 0;
    coir_latest *latest = (coir_latest *)(uintptr_t)unchanged; /* only its lock is changed */
    lock(latest);
    memcpy(value, latest->value, latest->size);
    uint64_t version = latest->version;
    ci_lock_give(&latest->lock);
    return version;
}

void coir_latest_close(coir_latest *latest)
{
    if (ci_forked() || (!latest && CI_MISUSE(-EINVAL, "latest is NULL")))
        return;
    struct ci_list granted;
    ci_list_init(&granted);
    lock(latest);
    latest->closed = true;
    ci_wait_grant_all(&latest->waiters, -EPIPE, &granted);
    ci_lock_give(&latest->lock);
    ci_wait_wake_all(&granted);
}

int coir_latest_new(size_t size, const void *value, coir_latest **ret_latest)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!ret_latest || (!value && size))
        return CI_MISUSE(-EINVAL, "ret_latest or value is NULL");
    const coir_allocator *allocator = ci_allocator_here();
    coir_latest *latest = ci_alloc_zero(allocator, sizeof *latest + size);
    if (!latest)
        return -ENOMEM;
    latest->allocator = *allocator;
    latest->size = size;
    latest->version = 1;
    ci_list_init(&latest->waiters);
    memcpy(latest->value, value, size);
    *ret_latest = latest;
    return 0;
}

void coir_latest_free(coir_latest *latest)
{
    if (!latest || ci_forked())
        return;
    ci_check(ci_list_empty(&latest->waiters), "latest.c 2");
    coir_allocator allocator = latest->allocator;
    ci_free(&allocator, latest, sizeof *latest + latest->size);
}
