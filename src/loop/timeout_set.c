/* Timeouts of one length: a list in the order in which they are due, and one timer for its head.
 *
 * 1. From `fresh` on, timeouts have no time yet: they get it together, when the loop reads the
 * clock before it waits. Before it, times ascend.
 * 2. Each timeout of the list belongs to the set: `set` is not NULL.
 */
#include <errno.h>

#include "base/options.h"
#include "base/time.h"
#include "loop/loop.h"
#include "sys/fork.h"
#include "sys/misuse.h"

struct timeout {
    struct ci_list link;
    coir_time when;
    coir_timeout_set *set; /* NULL: not started */
    void *arg;
};
CI_LEAVES_SPARE_WORDS(struct timeout, coir_timeout);

struct set {
    struct ci_list timeouts;
    struct ci_list *fresh;        /* the first one without a time; NULL: none */
    struct ci_timer timer, stamp; /* for the head; for the fresh ones */
    coir_loop *loop;
    coir_time delay;
    coir_timeout_fn *fn;
    bool *gone; /* while timeouts are called: set if the set is done */
};
CI_LEAVES_SPARE_WORDS(struct set, coir_timeout_set);

static struct set *set_of(coir_timeout_set *set)
{
    return (struct set *)(void *)set;
}

static struct timeout *timeout_of(coir_timeout *timeout)
{
    return (struct timeout *)(void *)timeout;
}

static struct timeout *first(const struct set *set)
{
    return ci_container_of(set->timeouts.next, struct timeout, link);
}

/* Starts the timer, if there is a timeout that has a time. */
static void arm(struct set *set)
{
    if (!ci_list_empty(&set->timeouts) && set->timeouts.next != set->fresh &&
        !ci_timer_started(&set->timer))
        ci_loop_start_timer(set->loop, &set->timer, first(set)->when);
}

/* Gives the fresh timeouts their time. */
static void stamp(struct ci_timer *fired)
{
    struct set *set = ci_container_of(fired, struct set, stamp);
    coir_time when = ci_time_after(set->loop->now, set->delay);
    ci_check(set->fresh && (set->fresh == set->timeouts.next ||
                            ci_container_of(set->fresh->prev, struct timeout, link)->when <= when),
             "timeout_set.c 1");
    for (struct ci_list *node = set->fresh; node != &set->timeouts; node = node->next)
        ci_container_of(node, struct timeout, link)->when = when;
    set->fresh = NULL;
    arm(set);
}

static void take_out(struct set *set, struct timeout *timeout)
{
    if (set->fresh == &timeout->link)
        set->fresh = timeout->link.next == &set->timeouts ? NULL : timeout->link.next;
    ci_list_unlink(&timeout->link);
    timeout->set = NULL;
    if (!set->fresh)
        ci_wheel_cancel(&set->loop->wheel, &set->stamp);
    if (ci_list_empty(&set->timeouts)) /* else it may be early for the next one: see `expire` */
        ci_wheel_cancel(&set->loop->wheel, &set->timer);
}

static void expire(struct ci_timer *fired)
{
    struct set *set = ci_container_of(fired, struct set, timer);
    coir_loop *loop = set->loop;
    bool gone = false;
    set->gone = &gone;
    while (!ci_list_empty(&set->timeouts) && set->timeouts.next != set->fresh &&
           first(set)->when <= loop->now) {
        struct timeout *timeout = first(set);
        take_out(set, timeout);
        ci_check(!timeout->set, "timeout_set.c 2");
        ci_loop_note_call(loop, set->fn);
        set->fn((coir_timeout_set *)(void *)set, (coir_timeout *)(void *)timeout, timeout->arg);
        if (gone)
            return;
    }
    set->gone = NULL;
    arm(set);
}

int coir_timeout_set_init(coir_timeout_set *opaque, coir_loop *loop, coir_time delay,
                          coir_timeout_fn *fn)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!opaque || !loop || !fn)
        return CI_MISUSE(-EINVAL, "set, loop or fn is NULL");
    struct set *set = set_of(opaque);
    *set = (struct set){.loop = loop, .delay = delay > 0 ? delay : 0, .fn = fn};
    ci_list_init(&set->timeouts);
    ci_timer_init(&set->timer, expire);
    ci_timer_init(&set->stamp, stamp);
    return 0;
}

void coir_timeout_set_done(coir_timeout_set *opaque)
{
    if (!opaque || ci_forked())
        return;
    struct set *set = set_of(opaque);
    if (ci_loop_is_foreign(set->loop) &&
        CI_MISUSE(-EXDEV, "another thread is in a turn of the loop; use coir_loop_post"))
        return;
    while (!ci_list_empty(&set->timeouts))
        take_out(set, first(set));
    if (set->gone)
        *set->gone = true;
    set->gone = NULL; /* it may be done again */
}

void coir_timeout_start(coir_timeout_set *opaque, coir_timeout *timeout_opaque, void *arg)
{
    if (ci_forked() || CI_REFUSED(!opaque || !timeout_opaque, "set or timeout is NULL"))
        return;
    struct set *set = set_of(opaque);
    struct timeout *timeout = timeout_of(timeout_opaque);
    if ((ci_loop_is_foreign(set->loop) &&
         CI_MISUSE(-EXDEV, "another thread is in a turn of the loop; use coir_loop_post")) ||
        (timeout->set && timeout->set != opaque &&
         CI_MISUSE(-EBUSY, "the timeout is started in another set; stop it first")))
        return;
    if (timeout->set)
        take_out(set, timeout);
    timeout->set = opaque;
    timeout->arg = arg;
    ci_list_push(&set->timeouts, &timeout->link);
    if (!set->fresh) {
        set->fresh = &timeout->link;
        ci_loop_start_timer_after(set->loop, &set->stamp, CI_LOOP_WHEN_READ);
    }
}

void coir_timeout_stop(coir_timeout_set *opaque, coir_timeout *timeout)
{
    if (ci_forked() || CI_REFUSED(!opaque || !timeout, "set or timeout is NULL"))
        return;
    if ((ci_loop_is_foreign(set_of(opaque)->loop) &&
         CI_MISUSE(-EXDEV, "another thread is in a turn of the loop; use coir_loop_post")) ||
        (timeout_of(timeout)->set && timeout_of(timeout)->set != opaque &&
         CI_MISUSE(-EINVAL, "the timeout is of another set")))
        return;
    if (timeout_of(timeout)->set)
        take_out(set_of(opaque), timeout_of(timeout));
}
