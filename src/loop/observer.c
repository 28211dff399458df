#include "loop/observer.h"

#include <errno.h>

#include "base/time.h"
#include "loop/loop.h"
#include "sys/fork.h"
#include "sys/misuse.h"

/* How long a change of the load takes to show in its average. */
static const double load_time = 1.0 * COIR_S;

/* The next spell, unless the one in progress is of this kind. */
static void set_busy(struct ci_observer *observer, bool busy)
{
    if (ci_observer_is_busy(observer->spell) != busy)
        ci_store_relaxed(&observer->spell, observer->spell + 1);
}

void ci_observer_begin(coir_loop *loop)
{
    struct ci_observer *observer = &loop->observer;
    observer->active = true;
    observer->waiting = false;
    observer->running = NULL;
    observer->turn = (coir_turn)COIR_TURN;
    observer->since = ci_driver_now(loop->driver);
    set_busy(observer, true);
}

void ci_observer_note(coir_loop *loop, void (*called)(void))
{
    struct ci_observer *observer = &loop->observer;
    coir_turn *turn = &observer->turn;
    coir_time now = ci_driver_now(loop->driver), time = ci_time_left(now, observer->since);
    ci_check(!observer->waiting || !observer->running, "observer.h 1");
    *(observer->waiting ? &turn->waited : &turn->busy) += time;
    if (observer->running && time >= turn->slowest_time) {
        turn->slowest = (const void *)(uintptr_t)observer->running;
        turn->slowest_time = time;
    }
    observer->waiting = false;
    set_busy(observer, true);
    observer->running = called;
    observer->since = now;
    turn->calls += called != NULL;
}

void ci_observer_wait(coir_loop *loop)
{
    ci_observer_note(loop, NULL);
    loop->observer.waiting = true;
    set_busy(&loop->observer, false);
}

void ci_observer_woken(coir_loop *loop)
{
    ci_observer_note(loop, NULL);
}

void ci_observer_end(coir_loop *loop)
{
    struct ci_observer *observer = &loop->observer;
    coir_turn *turn = &observer->turn;
    ci_observer_note(loop, NULL);
    set_busy(observer, false);
    observer->active = false;
    double busy = (double)turn->busy, whole = busy + (double)turn->waited;
    if (whole > 0)
        observer->load += whole / (whole + load_time) * (busy / whole - observer->load);
    turn->load = (unsigned)(observer->load * 1000 + 0.5);
    if (observer->fn && turn->busy >= observer->busy_min)
        observer->fn(loop, turn, observer->arg);
}

void ci_observer_set_watched(coir_loop *loop, bool watched)
{
    loop->observer.watched = watched;
    loop->observer.wanted = watched || loop->observer.fn;
}

void coir_loop_observe(coir_loop *loop, coir_time busy_min, coir_observer_fn *fn, void *arg)
{
    if (ci_forked() || CI_REFUSED(!loop, "loop is NULL") ||
        (ci_loop_is_foreign(loop) &&
         CI_MISUSE(-EXDEV, "another thread is in a turn of the loop; use coir_loop_post")))
        return;
    if (!loop->observer.fn)
        loop->observer.load = 0;
    loop->observer.fn = fn;
    loop->observer.wanted = fn || loop->observer.watched;
    loop->observer.arg = arg;
    loop->observer.busy_min = busy_min;
}
