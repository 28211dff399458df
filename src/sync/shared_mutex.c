/* The shared mutex: a count of readers, or one writer, and a queue that is served from its front.
 *
 * 1. The first waiter in the queue conflicts with the current holders of the mutex.
 * 2. It is given back only while it is held.
 */
#include <errno.h>
#include <stdio.h>

#include "base/check.h"
#include "coir/mutex.h"
#include "sync/holder.h"
#include "sync/lock_name.h"
#include "sync/wait.h"
#include "task/completed.h"

enum { WRITER = -1 };

struct shared_mutex {
    struct ci_lock lock;
    int32_t holders; /* readers, or WRITER */
    struct ci_list waiters;
    struct ci_holder writer;
    uint8_t number; /* of its name, or 0 */
};
CI_LEAVES_SPARE_WORDS(struct shared_mutex, coir_shared_mutex);

static struct shared_mutex *shared_of(coir_shared_mutex *mutex)
{
    return (struct shared_mutex *)(void *)mutex;
}

static bool would_fit(const struct shared_mutex *mutex, bool writer)
{
    return writer ? mutex->holders == 0 : mutex->holders >= 0;
}

static void lock(struct shared_mutex *mutex)
{
    ci_lock_take(&mutex->lock);
    ci_wait_open(&mutex->waiters);
    const struct ci_wait *first = ci_wait_first(&mutex->waiters);
    ci_check(!first || !would_fit(mutex, first->amount), "shared_mutex.c 1");
}

/* `task`: NULL for a plain thread. */
static void hold(struct shared_mutex *mutex, bool writer, const struct ci_task *task)
{
    mutex->holders = writer ? WRITER : mutex->holders + 1;
    if (writer && task)
        ci_holder_set(&mutex->writer, task);
}

static bool start(struct ci_worker *worker, struct ci_wait *wait)
{
    struct shared_mutex *mutex = wait->object;
    bool writer = wait->amount, complete = true;
    lock(mutex);
    if (!ci_list_empty(&mutex->waiters) || !would_fit(mutex, writer)) {
        uint8_t number = ci_load_relaxed(&mutex->number);
        ci_wait_queue(worker, wait, &mutex->waiters);
        if (ci_unlikely(number))
            wait->since = ci_lock_wait_begins(number);
        complete = false;
    } else if (ci_claim(worker->runnable, &wait->future)) {
        hold(mutex, writer, worker->runnable->task);
        wait->future.result = 0;
    } else {
        wait->future.result = -ECANCELED;
    }
    ci_lock_give(&mutex->lock);
    return complete;
}

/* With the lock held: grants the mutex to the first waiters, as far as they are compatible. */
static void serve(struct shared_mutex *mutex, struct ci_list *granted)
{
    for (struct ci_wait *wait;
         (wait = ci_wait_first(&mutex->waiters)) && would_fit(mutex, wait->amount);) {
        if (!ci_wait_decide(wait))
            continue;
        hold(mutex, wait->amount, wait->runnable->task);
        wait->future.result = 0;
        ci_list_push(granted, &wait->link);
    }
}

/* With the lock held, which it gives back. */
static void give_and_wake(struct shared_mutex *mutex, struct ci_list *granted)
{
    uint8_t number = ci_load_relaxed(&mutex->number);
    ci_lock_give(&mutex->lock);
    ci_wait_count_granted(number, granted);
    ci_wait_wake_all(granted);
}

/* Later readers may have waited behind a writer that is cancelled. */
static int shared_cancel(coir_future *future, int reason)
{
    struct ci_wait *wait = ci_container_of(future, struct ci_wait, future);
    struct shared_mutex *mutex = wait->object;
    struct ci_list granted;
    ci_list_init(&granted);
    lock(mutex);
    bool withdrawn = ci_wait_withdraw(wait, reason);
    serve(mutex, &granted);
    give_and_wake(mutex, &granted);
    return withdrawn;
}

static CI_UNINSTRUMENTED void shared_describe(const coir_future *future, struct ci_wait_note *note)
{
    const struct ci_wait *wait = ci_container_of(future, const struct ci_wait, future);
    const struct shared_mutex *mutex = wait->object;
    int32_t readers = ci_load_relaxed(&mutex->holders);
    note->holder = ci_holder_read(&mutex->writer);
    note->name = ci_lock_name(ci_load_relaxed(&mutex->number));
    snprintf(note->text, sizeof note->text, "to %s", wait->amount ? "write" : "read");
    if (readers > 0)
        snprintf(note->text, sizeof note->text, "to %s; %d read%s", wait->amount ? "write" : "read",
                 readers, readers == 1 ? "s" : "");
}

static const struct ci_wait_kind shared_kind =
    CI_LOCK_KIND("a shared mutex", start, shared_cancel, shared_describe);

static struct ci_wait_for to_hold(coir_shared_mutex *opaque, bool writer)
{
    struct shared_mutex *mutex = shared_of(opaque);
    return (struct ci_wait_for){
        .kind = &shared_kind, .lock = &mutex->lock, .object = mutex, .amount = writer};
}

coir_future *coir_shared_mutex_lock_op(coir_wait_op *op, coir_shared_mutex *mutex)
{
    return op && mutex ? ci_wait_op(op, to_hold(mutex, true))
                       : ci_completed_op(op, CI_MISUSE(-EINVAL, "op or mutex is NULL"));
}

coir_future *coir_shared_mutex_share_op(coir_wait_op *op, coir_shared_mutex *mutex)
{
    return op && mutex ? ci_wait_op(op, to_hold(mutex, false))
                       : ci_completed_op(op, CI_MISUSE(-EINVAL, "op or mutex is NULL"));
}

int coir_shared_mutex_lock(coir_shared_mutex *mutex)
{
    return mutex ? (int)ci_wait_in_fiber(to_hold(mutex, true))
                 : CI_MISUSE(-EINVAL, "mutex is NULL");
}

int coir_shared_mutex_share(coir_shared_mutex *mutex)
{
    return mutex ? (int)ci_wait_in_fiber(to_hold(mutex, false))
                 : CI_MISUSE(-EINVAL, "mutex is NULL");
}

static int try_take(coir_shared_mutex *opaque, bool writer)
{
    struct shared_mutex *mutex = shared_of(opaque);
    lock(mutex);
    bool fits = ci_list_empty(&mutex->waiters) && would_fit(mutex, writer);
    struct ci_worker *worker = ci_worker_current;
    if (fits)
        hold(mutex, writer, worker && worker->runnable ? worker->runnable->task : NULL);
    ci_lock_give(&mutex->lock);
    return fits ? 0 : -EAGAIN;
}

int coir_shared_mutex_try_lock(coir_shared_mutex *mutex)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!mutex)
        return CI_MISUSE(-EINVAL, "mutex is NULL");
    return try_take(mutex, true);
}

int coir_shared_mutex_try_share(coir_shared_mutex *mutex)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!mutex)
        return CI_MISUSE(-EINVAL, "mutex is NULL");
    return try_take(mutex, false);
}

int coir_shared_mutex_set_name(coir_shared_mutex *mutex, const char *name)
{
    return mutex ? ci_lock_set_name(&shared_of(mutex)->number, name, CI_CALL, CI_PLACE)
                 : CI_MISUSE(-EINVAL, "mutex is NULL");
}

void coir_shared_mutex_unlock(coir_shared_mutex *opaque)
{
    if (ci_forked() || (!opaque && CI_MISUSE(-EINVAL, "mutex is NULL")))
        return;
    struct shared_mutex *mutex = shared_of(opaque);
    struct ci_list granted;
    ci_list_init(&granted);
    lock(mutex);
    if (mutex->holders == 0)
        (void)CI_MISUSE(-EALREADY, "no task has the mutex");
    ci_check(mutex->holders != 0, "shared_mutex.c 2");
    mutex->holders = mutex->holders == WRITER ? 0 : mutex->holders - 1;
    ci_holder_clear(&mutex->writer);
    serve(mutex, &granted);
    give_and_wake(mutex, &granted);
}
