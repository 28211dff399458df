/* Parkers and their wakers.
 *
 * 1. A waker points at a reference-counted cell; the parker and each waker hold a reference. The
 *    lock of the runtime's wakers guards everything in a cell, so a wake is either before or after
 *    the end of the parker, or of the runtime.
 * 2. `notified` keeps a wake-up that came before the wait. A wake-up that comes during the wait
 * takes the runnable out of the cell and wakes it, by a message where the parker is another
 * worker's: so a wait is woken once. Where another member has won its coir_any the wake-up is kept,
 * and the wait will be withdrawn. No runnable waits in a parker that ends.
 *
 * Cells come from malloc: the last waker may be dropped by a foreign thread after the runtime was
 * freed.
 */
#include "task/waker.h"
#include "task/completed.h"

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "coir/waker.h"
#include "task/branch.h"
#include "task/run_state.h"
#include "task/runtime.h"
#include "task/waiter.h"

struct parker;

struct cell {
    struct ci_list link; /* in the list of open or of free cells */
    struct ci_wakers *wakers;
    struct parker *parker; /* NULL: closed */
    struct ci_worker *worker;
    struct ci_runnable *runnable; /* suspended in the parker, not woken yet */
    struct ci_message message;
    size_t refs;
    bool notified;
};

struct parker {
    coir_future future;
    struct cell *cell;
    struct ci_runnable *runnable;
};
CI_LEAVES_SPARE_WORDS(struct parker, coir_parker);

/* ---- cells ---- */

struct ci_wakers *ci_wakers_new(void)
{
    struct ci_wakers *wakers = malloc(sizeof *wakers);
    if (!wakers)
        return NULL;
    wakers->lock = (struct ci_lock){0};
    ci_list_init(&wakers->open);
    ci_list_init(&wakers->free);
    wakers->live = 1;
    return wakers;
}

/* Drops one reference to the wakers and unlocks them; frees them with the last reference. */
static void drop_one(struct ci_wakers *wakers)
{
    bool last = --wakers->live == 0;
    ci_lock_give(&wakers->lock);
    if (!last)
        return;
    struct ci_list *node;
    while ((node = ci_list_pop(&wakers->free)))
        free(ci_container_of(node, struct cell, link));
    free(wakers);
}

/* The calling thread has given up the last waker of an open parker: see deadlock.c. A worker of the
 * runtime looks for a deadlock by itself, before it sleeps. */
static void look_again(struct ci_worker *worker)
{
    const coir_runtime *runtime = worker->runtime;
    if (ci_run_is_outside(runtime) && runtime->config.deadlock != COIR_DEADLOCK_IGNORE)
        ci_loop_alert(&worker->loop);
}

/* Drops a reference to the cell. With the lock held, which it releases. `sent`: a message that it
 * was woken. */
static void release(struct cell *cell, bool sent)
{
    struct ci_wakers *wakers = cell->wakers;
    ci_check(cell->refs > 0, "waker.c 1");
    if (--cell->refs) {
        if (cell->refs == 1 && cell->parker && !sent)
            look_again(cell->worker);
        ci_lock_give(&wakers->lock);
        return;
    }
    ci_list_push(&wakers->free, &cell->link);
    drop_one(wakers);
}

static void close_cell(struct cell *cell)
{
    cell->parker = NULL;
    ci_list_remove(&cell->link);
}

size_t ci_wakers_live(const struct ci_wakers *wakers)
{
    return wakers->live - 1;
}

void ci_wakers_abandon(struct ci_wakers *wakers)
{
    if (!wakers)
        return;
    ci_lock_take(&wakers->lock);
    while (!ci_list_empty(&wakers->open))
        close_cell(ci_container_of(wakers->open.next, struct cell, link));
    drop_one(wakers);
}

bool ci_wakers_exported(struct ci_wakers *wakers)
{
    bool exported = false;
    ci_lock_take(&wakers->lock);
    ci_list_for_each (node, &wakers->open)
        exported |= ci_container_of(node, struct cell, link)->refs > 1;
    ci_lock_give(&wakers->lock);
    return exported;
}

static struct cell *take_cell(struct ci_wakers *wakers)
{
    ci_lock_take(&wakers->lock);
    struct ci_list *node = ci_list_pop(&wakers->free);
    struct cell *cell = node ? ci_container_of(node, struct cell, link) : malloc(sizeof *cell);
    if (cell) {
        *cell = (struct cell){.wakers = wakers, .refs = 1};
        ci_list_push(&wakers->open, &cell->link);
        wakers->live++;
    }
    ci_lock_give(&wakers->lock);
    return cell;
}

/* ---- wakers ---- */

static void wake_parked(struct parker *parker)
{
    parker->future.result = 0;
    ci_wake(ci_worker_current, parker->runnable, &parker->future);
}

static void wake_came(struct ci_message *message)
{
    /* its runnable is suspended in it, so the parker is open */
    wake_parked(ci_container_of(message, struct cell, message)->parker);
}

/* With the lock held: the runtime lives as long as the parker is open. True: a message was sent. */
static bool notify(struct cell *cell)
{
    if (!cell->parker || cell->notified)
        return false;
    if (!cell->runnable || !ci_claim(cell->runnable, &cell->parker->future)) {
        cell->notified = true;
        return false;
    }
    cell->runnable = NULL;
    if (cell->worker == ci_worker_current) {
        wake_parked(cell->parker);
        return false;
    }
    cell->message.deliver = wake_came;
    ci_loop_send(&cell->worker->loop, &cell->message);
    return true;
}

static coir_waker clone_waker(void *data);

static void wake_by_ref(void *data)
{
    struct cell *cell = data;
    struct ci_wakers *wakers = cell->wakers;
    ci_lock_take(&wakers->lock);
    (void)notify(cell);
    ci_lock_give(&wakers->lock);
}

static void wake(void *data)
{
    struct cell *cell = data;
    ci_lock_take(&cell->wakers->lock);
    bool sent = notify(cell);
    release(cell, sent);
}

static void drop(void *data)
{
    struct cell *cell = data;
    ci_lock_take(&cell->wakers->lock);
    release(cell, false);
}

static const coir_waker_vtable vtable = COIR_WAKER_VTABLE(clone_waker, wake, wake_by_ref, drop);

static coir_waker clone_waker(void *data)
{
    struct cell *cell = data;
    ci_lock_take(&cell->wakers->lock);
    cell->refs++;
    ci_lock_give(&cell->wakers->lock);
    return (coir_waker){&vtable, cell};
}

static coir_waker clone_nothing(void *data);
static void do_nothing(void *data)
{
    (void)data;
}

/* Of no parker. */
static const coir_waker_vtable nothing_vtable =
    COIR_WAKER_VTABLE(clone_nothing, do_nothing, do_nothing, do_nothing);

static coir_waker clone_nothing(void *data)
{
    return (coir_waker){&nothing_vtable, data};
}

/* ---- parkers ---- */

static struct parker *parker_of(coir_parker *parker)
{
    return (struct parker *)(void *)parker;
}

int coir_parker_init(coir_parker *opaque)
{
    struct parker *parker = parker_of(opaque);
    struct ci_worker *worker = ci_worker_current;
    if (!worker || !worker->runnable)
        return ci_no_fiber();
    if (!parker)
        return CI_MISUSE(-EINVAL, "parker is NULL");
    struct cell *cell = take_cell(worker->runtime->wakers);
    if (!cell)
        return -ENOMEM;
    cell->parker = parker;
    cell->worker = worker;
    parker->future.caller = NULL;
    parker->cell = cell;
    return 0;
}

static bool is_waited_for(const struct parker *parker)
{
    struct cell *cell = parker->cell;
    if (!parker->future.caller) /* it is kept after a wait in a frame */
        return false;
    ci_lock_take(&cell->wakers->lock);
    bool waits = cell->runnable;
    ci_lock_give(&cell->wakers->lock);
    return waits;
}

/* Whether a wait has not returned, although it may have been woken. */
static bool is_in_use(const struct parker *parker)
{
    return ci_leaf_is_in_use(&parker->future) || is_waited_for(parker);
}

void coir_parker_done(coir_parker *opaque)
{
    if (ci_forked() || CI_REFUSED(!opaque, "parker is NULL"))
        return;
    struct cell *cell = parker_of(opaque)->cell;
    if (!cell) /* it was ended before, or never made */
        return;
    if (CI_REFUSED_AS(-EBUSY, is_in_use(parker_of(opaque)),
                      "a wait in it has not returned; wake or cancel its task first"))
        return;
    parker_of(opaque)->cell = NULL;
    ci_lock_take(&cell->wakers->lock);
    ci_check(!cell->runnable, "waker.c 2"); /* no task waits in a parker that ends */
    close_cell(cell);
    release(cell, false);
}

static bool is_made(coir_parker *opaque)
{
    return opaque && parker_of(opaque)->cell;
}
#define NOT_MADE "parker is NULL, or was not made by coir_parker_init"

coir_waker coir_parker_waker(coir_parker *opaque)
{
    if (CI_REFUSED(!is_made(opaque), NOT_MADE))
        return clone_nothing(NULL);
    return clone_waker(parker_of(opaque)->cell);
}

#define WAITS "another task waits in it"

static coir_future *park_poll(coir_future *future)
{
    struct parker *parker = ci_container_of(future, struct parker, future);
    struct cell *cell = parker->cell;
    struct ci_worker *worker = ci_worker_current;
    future->state = ci_leaf_is_cleared(worker->runnable, future);
    if (ci_leaf_refused(worker, future))
        return future->caller;
    if (ci_unlikely(cell->worker != worker)) { /* its wakers wake there */
        future->result = ci_misused_elsewhere(cell->worker, "coir_parker_wait", NULL);
        return ci_leaf_complete(worker, future);
    }
    ci_lock_take(&cell->wakers->lock);
    bool notified = cell->notified, taken = notified && ci_claim(worker->runnable, future);
    cell->notified = notified && !taken;
    ci_check(!cell->runnable, "waker.c 2");
    if (!notified)
        cell->runnable = parker->runnable = ci_leaf_suspend(worker, future);
    ci_lock_give(&cell->wakers->lock);
    if (notified)
        future->result = taken ? 0 : -ECANCELED; /* or another case has won the select */
    return notified ? ci_leaf_complete(worker, future) : NULL;
}

static int park_cancel(coir_future *future, int reason)
{
    struct cell *cell = ci_container_of(future, struct parker, future)->cell;
    ci_lock_take(&cell->wakers->lock);
    bool withdrawn = cell->runnable != NULL;
    cell->runnable = NULL;
    ci_lock_give(&cell->wakers->lock);
    if (withdrawn)
        future->result = reason;
    return withdrawn;
}

static const coir_future_kind park_kind = COIR_FUTURE_KIND("its waker", park_poll, park_cancel);

coir_future *coir_parker_wait_op(coir_parker *parker)
{
    if (!is_made(parker))
        return ci_completed_op(parker, CI_MISUSE(-EINVAL, NOT_MADE));
    if (CI_REFUSED_AS(-EBUSY, is_in_use(parker_of(parker)), WAITS))
        return &parker->future; /* in flight: to await it is refused as well */
    return coir_future_init(&parker->future, &park_kind);
}

int coir_parker_wait(coir_parker *parker)
{
    if (!is_made(parker))
        return CI_MISUSE(-EINVAL, NOT_MADE);
    if (is_in_use(parker_of(parker)))
        return CI_MISUSE(-EBUSY, WAITS);
    int rc = (int)ci_await_in_fiber(coir_future_init(&parker->future, &park_kind));
    parker->future.caller = NULL;
    return rc;
}

static coir_future *make_park(const coir_case *self, void *place)
{
    (void)place;
    return coir_parker_wait_op(self->object);
}

coir_case coir_case_parker(coir_parker *parker)
{
    if (!is_made(parker))
        return ci_completed_case(CI_MISUSE(-EINVAL, NOT_MADE));
    return (coir_case){.make = make_park, .object = parker};
}
