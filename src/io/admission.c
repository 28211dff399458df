/* Whether a listener accepts: whether it is paused, or its connections are at the limit, and what
 * waits for it to open (listener.h). */
#include <errno.h>

#include "base/check.h"
#include "base/time.h"
#include "io/listener.h"

static const coir_time report_interval = 60 * COIR_S;

static bool is_shut(const coir_listener *listener)
{
    return ci_load_relaxed(&listener->shut) != 0;
}

/* ---- the wait for a listener to open ---- */

static int opening_cancel(coir_future *future, int reason)
{
    struct ci_opening *opening = ci_container_of(future, struct ci_opening, future);
    struct ci_opening **at = &opening->seat->openings;
    while (*at != opening)
        at = &(*at)->next;
    *at = opening->next;
    future->result = reason;
    return true;
}

static coir_future *opening_poll(coir_future *future)
{
    struct ci_opening *opening = ci_container_of(future, struct ci_opening, future);
    struct ci_worker *worker = ci_worker_current;
    struct ci_seat *seat = opening->seat;
    if (ci_leaf_refused(worker, future))
        return future->caller;
    if (ci_load_relaxed(&seat->listener->closed)) {
        future->result = -ECANCELED;
        return ci_leaf_complete(worker, future);
    }
    if (!is_shut(seat->listener))
        return ci_leaf_complete(worker, future);
    opening->next = seat->openings;
    seat->openings = opening;
    opening->runnable = ci_leaf_suspend(worker, future);
    return NULL;
}

static const coir_future_kind opening_kind =
    COIR_FUTURE_KIND("a listener that is paused or full", opening_poll, opening_cancel);

coir_future *ci_opening_init(struct ci_opening *opening, struct ci_seat *seat)
{
    opening->seat = seat;
    return coir_future_init(&opening->future, &opening_kind);
}

/* An opening that the worker sees as shut still is followed by a message, which comes here. */
void ci_opening_end_all(struct ci_seat *seat, int error)
{
    if (error == 0 && is_shut(seat->listener))
        return;
    for (struct ci_opening *opening; (opening = seat->openings);) {
        seat->openings = opening->next;
        opening->future.result = error;
        ci_wake(seat->worker, opening->runnable, &opening->future);
    }
}

/* ---- the limit ---- */

/* For a check, with the lock held: a connection is live after it has been admitted, and until
 * before it leaves. */
static bool counts_live(const coir_listener *listener)
{
    size_t live = 0;
    for (int i = 0; i < listener->seat_count; i++)
        live += ci_load_relaxed(&listener->seats[i].live);
    return live <= listener->open;
}

enum ci_admission ci_admission_ask(coir_listener *listener, bool last)
{
    if (ci_likely(!listener->connections_max && (last || !is_shut(listener))))
        return CI_ADMITTED;
    enum ci_admission answer = CI_ADMITTED;
    ci_lock_take(&listener->lock);
    bool full = listener->connections_max && listener->open >= listener->connections_max;
    if (listener->shut & CI_LISTENER_PAUSED && !last)
        answer = CI_ADMITTED_LATER;
    else if (full)
        answer = listener->closes_at_limit ? CI_ADMITTED_NEVER : CI_ADMITTED_LATER;
    else if (listener->connections_max)
        listener->open++;
    if (full && !listener->closes_at_limit)
        ci_store_relaxed(&listener->shut, listener->shut | CI_LISTENER_FULL);
    ci_lock_give(&listener->lock);
    return answer;
}

bool ci_admission_leave(coir_listener *listener)
{
    if (ci_likely(!listener->connections_max))
        return false;
    ci_lock_take(&listener->lock);
    ci_check(listener->open > 0, "io/listener.h 5");
    ci_debug_check(counts_live(listener), "io/listener.h 5");
    bool opens = --listener->open < listener->connections_max && listener->shut & CI_LISTENER_FULL;
    if (opens)
        ci_store_relaxed(&listener->shut, listener->shut & ~(uint32_t)CI_LISTENER_FULL);
    ci_lock_give(&listener->lock);
    return opens;
}

bool ci_listener_may_report(coir_listener *listener)
{
    coir_time now = coir_now();
    ci_lock_take(&listener->lock);
    bool may = now >= listener->next_report;
    if (may)
        listener->next_report = ci_time_after(now, report_interval);
    ci_lock_give(&listener->lock);
    return may;
}

void ci_admission_pause(coir_listener *listener, bool paused)
{
    ci_lock_take(&listener->lock);
    uint32_t others = listener->shut & ~(uint32_t)CI_LISTENER_PAUSED;
    ci_store_relaxed(&listener->shut, others | (paused ? CI_LISTENER_PAUSED : 0));
    ci_lock_give(&listener->lock);
}
