/* sys/thread.h: mutexes and conditions of simulated threads.
 *
 * 1. A mutex is unlocked while it is held. A mutex is not destroyed while it is held, nor a
 *    condition while a thread waits for it.
 */
#include <errno.h>

#include "sim/kernel/kernel.h"
#include "sys/thread.h"

void ci_mutex_init(struct ci_mutex *mutex)
{
    mutex->held = false;
}

void ci_mutex_done(struct ci_mutex *mutex)
{
    ci_check(!mutex->held, "thread_lock.c 1");
}

static bool is_free(void *arg)
{
    return !((const struct ci_mutex *)arg)->held;
}

void ci_mutex_lock(struct ci_mutex *mutex)
{
    ci_kthread_may_yield();
    if (mutex->held)
        ci_kthread_wait("a mutex", -1, is_free, mutex, COIR_NEVER);
    mutex->held = true;
}

void ci_mutex_unlock(struct ci_mutex *mutex)
{
    ci_check(mutex->held, "thread_lock.c 1");
    mutex->held = false;
}

struct condition_waiter {
    struct ci_list link;
    bool signalled;
};

static bool was_signalled(void *arg)
{
    return ((const struct condition_waiter *)arg)->signalled;
}

void ci_condition_init(struct ci_condition *condition)
{
    ci_list_init(&condition->waiters);
}

void ci_condition_done(struct ci_condition *condition)
{
    ci_check(ci_list_empty(&condition->waiters), "thread_lock.c 1");
}

void ci_condition_broadcast(struct ci_condition *condition)
{
    struct ci_list *node;
    while ((node = ci_list_pop(&condition->waiters)))
        ci_container_of(node, struct condition_waiter, link)->signalled = true;
}

/* Wakes one thread, or more, as POSIX allows. */
void ci_condition_signal(struct ci_condition *condition)
{
    if (ci_kone_in(64)) {
        ci_condition_broadcast(condition);
        return;
    }
    struct ci_list *node = ci_list_pop(&condition->waiters);
    if (node)
        ci_container_of(node, struct condition_waiter, link)->signalled = true;
}

int ci_condition_wait(struct ci_condition *condition, struct ci_mutex *mutex, coir_time deadline)
{
    struct condition_waiter waiter = {.signalled = false};
    ci_list_init(&waiter.link);
    ci_list_push(&condition->waiters, &waiter.link);
    ci_mutex_unlock(mutex);
    bool signalled = ci_kthread_wait("a condition", -1, was_signalled, &waiter, deadline);
    ci_list_remove(&waiter.link);
    ci_mutex_lock(mutex);
    return signalled ? 0 : -ETIMEDOUT;
}
