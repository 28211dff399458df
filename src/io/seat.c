/* The seats of a listener, its spares, and the end of its descriptor (listener.h). */
#include "io/listener.h"

#include "base/check.h"

uint32_t ci_listener_serial(void)
{
    static uint32_t last;
    return ci_fetch_add_relaxed(&last, 1) + 1;
}

/* ---- the record ---- */

coir_listener *ci_listener_new(coir_runtime *runtime, coir_fd fd)
{
    int count = runtime->worker_count;
    size_t size = sizeof(coir_listener) + (size_t)count * sizeof(struct ci_seat);
    coir_listener *listener = ci_alloc_zero(&runtime->allocator, size);
    if (!listener)
        return NULL;
    listener->fd = fd;
    listener->serial = ci_listener_serial();
    listener->allocator = &runtime->allocator;
    listener->size = size;
    listener->refs = 1;
    listener->seat_count = count;
    for (int i = 0; i < count; i++) {
        listener->seats[i].listener = listener;
        listener->seats[i].worker = &runtime->workers[i];
        listener->seats[i].probe = (uint32_t)i;
    }
    return listener;
}

static void ref(coir_listener *listener)
{
    ci_fetch_add_relaxed(&listener->refs, 1);
}

static bool is_in_use(coir_listener *listener)
{
    bool used = listener->fd >= 0;
    for (int i = 0; i < listener->seat_count; i++) {
        const struct ci_seat *seat = &listener->seats[i];
        used |= seat->uses || seat->live || seat->accepts || seat->told;
    }
    return used;
}

void ci_listener_unref(coir_listener *listener)
{
    int32_t refs = ci_fetch_sub(&listener->refs, 1);
    ci_check(refs > 0, "io/listener.h 4");
    if (refs > 1)
        return;
    ci_check(!is_in_use(listener), "io/listener.h 4");
    ci_check(!listener->open, "io/listener.h 5");
    ci_metered_remove(&listener->metered);
    ci_free(listener->allocator, listener->spare, listener->spare_room * sizeof(coir_fd));
    ci_free(listener->allocator, listener, listener->size);
}

void ci_seat_use(struct ci_seat *seat)
{
    if (seat->uses++ == 0)
        ref(seat->listener);
}

void ci_seat_unuse(struct ci_seat *seat)
{
    ci_check(seat->uses > 0, "io/listener.h 4");
    if (--seat->uses == 0)
        ci_listener_unref(seat->listener);
}

void ci_seat_take(struct ci_seat *seat, coir_stream *stream)
{
    ci_check(seat->worker == ci_worker_current, "io/listener.h 1");
    ci_seat_use(seat);
    ci_bump(&seat->live);
    ci_bump(&seat->taken);
    stream->seat = seat;
}

/* ---- spares ---- */

static size_t sum_reserved(const coir_listener *listener)
{
    size_t sum = 0;
    for (int i = 0; i < listener->seat_count; i++)
        sum += listener->seats[i].reserved;
    return sum;
}

static void unlock(coir_listener *listener)
{
    ci_check(listener->reserved <= listener->spare_count, "io/listener.h 2");
    ci_debug_check(sum_reserved(listener) == listener->reserved, "io/listener.h 2");
    ci_lock_give(&listener->lock);
}

/* For a check, on the worker of the seat after it has looked at its reserved spares. */
static bool is_served(struct ci_seat *seat)
{
    ci_lock_take(&seat->listener->lock);
    bool served = !seat->reserved || seat->accepts || seat->told;
    unlock(seat->listener);
    return served;
}

/* Called with the lock held. The seat with the reservation that `seat` uses up if it takes a spare;
 * NULL: none, or no spare is to be had. */
static struct ci_seat *find_reserved(struct ci_seat *seat, bool last)
{
    coir_listener *listener = seat->listener;
    if (seat->reserved || !last || listener->spare_count > listener->reserved)
        return seat->reserved ? seat : NULL;
    seat = listener->seats;
    while (!seat->reserved)
        seat++;
    return seat;
}

coir_fd ci_spare_take(struct ci_seat *seat, bool last)
{
    coir_listener *listener = seat->listener;
    coir_fd fd = -EAGAIN;
    if (ci_likely(ci_load_relaxed(&listener->spare_count) == 0))
        return fd;
    ci_lock_take(&listener->lock);
    struct ci_seat *reserved = listener->spare_count ? find_reserved(seat, last) : NULL;
    if (reserved || listener->spare_count > listener->reserved) {
        fd = listener->spare[listener->spare_count - 1];
        ci_store_relaxed(&listener->spare_count, listener->spare_count - 1);
        if (reserved) {
            ci_store_relaxed(&reserved->reserved, reserved->reserved - 1);
            listener->reserved--;
        }
    }
    unlock(listener);
    return fd;
}

static void on_told(struct ci_message *message);

/* Called with the lock held. True: the caller sends the message, after it has released the lock. */
static bool may_tell(struct ci_seat *seat)
{
    if (seat->told)
        return false;
    seat->told = true;
    seat->message.deliver = on_told;
    ref(seat->listener);
    return true;
}

int ci_spare_put(coir_listener *listener, coir_fd fd, struct ci_seat *seat)
{
    bool tell = false;
    ci_lock_take(&listener->lock);
    int rc = listener->closed ? -ECANCELED : 0;
    if (rc == 0)
        rc = ci_grow(listener->allocator, (void **)&listener->spare, &listener->spare_room,
                     sizeof(coir_fd), listener->spare_count + 1);
    if (rc == 0) {
        listener->spare[listener->spare_count] = fd;
        ci_store_relaxed(&listener->spare_count, listener->spare_count + 1);
        if (seat) {
            ci_bump(&seat->reserved);
            listener->reserved++;
            tell = may_tell(seat);
        }
    }
    unlock(listener);
    if (tell)
        ci_loop_send(&seat->worker->loop, &seat->message);
    return rc;
}

static void tell_all(coir_listener *listener, bool of_spares)
{
    for (int i = 0; i < listener->seat_count; i++) {
        struct ci_seat *seat = &listener->seats[i];
        ci_lock_take(&listener->lock);
        bool some = !of_spares || listener->spare_count > listener->reserved;
        bool tell = some && may_tell(seat);
        unlock(listener);
        if (tell)
            ci_loop_send(&seat->worker->loop, &seat->message);
    }
}

void ci_spare_tell_all(coir_listener *listener)
{
    tell_all(listener, true);
}

void ci_seat_tell_all(coir_listener *listener)
{
    tell_all(listener, false);
}

/* ---- the end of a connection ---- */

void ci_seat_free_place(struct ci_seat *seat)
{
    if (ci_admission_leave(seat->listener))
        ci_seat_tell_all(seat->listener);
}

void ci_seat_leave(coir_stream *stream)
{
    struct ci_seat *seat = stream->seat;
    if (!seat)
        return;
    ci_check(seat->live > 0 && seat->worker == ci_worker_current, "io/listener.h 1");
    stream->seat = NULL;
    ci_drop(&seat->live);
    ci_seat_free_place(seat);
    ci_seat_unuse(seat);
}

/* ---- the descriptor ---- */

void ci_listener_forget(coir_listener *listener)
{
    struct ci_driver *driver = ci_worker_current->loop.driver;
    coir_fd fd = ci_load_relaxed(&listener->fd);
    if (fd >= 0)
        driver->kind->forget(driver, fd);
}

static bool has_other_users(const coir_listener *listener)
{
    return listener->was_passed || listener->is_shared;
}

void ci_listener_refuse(coir_listener *listener)
{
    struct ci_driver *driver = ci_worker_current->loop.driver;
    if (listener->fd >= 0 && !has_other_users(listener))
        driver->kind->refuse(driver, listener->fd);
}

void ci_listener_stop(coir_listener *listener, struct ci_driver *driver)
{
    for (coir_fd fd; (fd = ci_spare_take(&listener->seats[0], true)) >= 0;) /* of every seat */
        ci_driver_close(driver, fd);
    if (listener->fd >= 0 && has_other_users(listener))
        ci_driver_close(driver, listener->fd);
    else if (listener->fd >= 0)
        driver->kind->close_named(driver, listener->fd);
    ci_store_relaxed(&listener->fd, -1);
}

/* ---- what a seat is told ---- */

/* Makes the spares reserved for the seat available to all; it has no accept waiting. */
static void unreserve(struct ci_seat *seat)
{
    coir_listener *listener = seat->listener;
    if (ci_likely(ci_load_relaxed(&seat->reserved) == 0))
        return;
    ci_lock_take(&listener->lock);
    listener->reserved -= seat->reserved;
    ci_store_relaxed(&seat->reserved, 0);
    unlock(listener);
    ci_spare_tell_all(listener);
}

/* Ends the wait of one of the seat's accepts, which then looks at the spares. */
static void look_again(struct ci_seat *seat)
{
    struct ci_accept_op *op = seat->accepts;
    /* that accept is being woken already */
    while (op && (!op->io.io.pending || op->fd == CI_LOOKS_AGAIN))
        op = op->next;
    if (!op)
        return;
    op->fd = CI_LOOKS_AGAIN;
    if (!ci_driver_cancel(seat->worker->loop.driver, &op->io.io))
        return; /* its completion is in flight */
    op->io.future.result = -ECANCELED;
    ci_wake(seat->worker, op->io.runnable, &op->io.future);
}

void ci_seat_withdraw(struct ci_seat *seat)
{
    for (struct ci_accept_op *op = seat->accepts; op; op = op->next)
        op->fd = CI_LOOKS_AGAIN;
    ci_listener_forget(seat->listener);
}

/* Ends what the seat does for a listener that is closed. */
static void end_seat(struct ci_seat *seat, bool ends)
{
    coir_listener *listener = seat->listener;
    ci_opening_end_all(seat, -ECANCELED);
    if (seat->accepts)
        ci_listener_forget(listener);
    if (seat->listed) {
        seat->listed = false;
        ci_list_remove(&seat->link);
        ci_seat_unuse(seat);
    }
    if (ends && ci_fetch_sub(&listener->ending, 1) == 1)
        ci_listener_stop(listener, seat->worker->loop.driver);
}

void ci_seat_end_all(coir_listener *listener)
{
    struct ci_seat *own = &listener->seats[ci_worker_current->index];
    ci_lock_take(&listener->lock);
    ci_store_relaxed(&listener->closed, true);
    ci_store_relaxed(&listener->ending, 1);
    unlock(listener);
    ci_fence(); /* pairs with the fence in begin_wait: a seat that waits is seen, or sees the end */
    for (int i = 0; i < listener->seat_count; i++) {
        struct ci_seat *seat = &listener->seats[i];
        if (seat == own)
            continue;
        ci_lock_take(&listener->lock);
        if ((seat->ends = ci_load_relaxed(&seat->waiting) > 0))
            ci_fetch_add(&listener->ending, 1);
        bool tell = may_tell(seat);
        unlock(listener);
        if (tell)
            ci_loop_send(&seat->worker->loop, &seat->message);
    }
    end_seat(own, true);
}

static void on_told(struct ci_message *message)
{
    struct ci_seat *seat = ci_container_of(message, struct ci_seat, message);
    coir_listener *listener = seat->listener;
    ci_lock_take(&listener->lock);
    seat->told = false;
    bool closed = listener->closed, ends = seat->ends;
    seat->ends = false;
    bool some = seat->reserved || listener->spare_count > listener->reserved;
    bool paused = listener->shut & CI_LISTENER_PAUSED;
    bool begins_to_share = ci_load_relaxed(&listener->is_shared) && !seat->shares;
    unlock(listener);
    if (closed) {
        end_seat(seat, ends);
        ci_listener_unref(listener);
        return;
    }
    ci_opening_end_all(seat, 0);
    seat->shares |= begins_to_share;
    if (begins_to_share || (paused && seat->accepts))
        ci_seat_withdraw(seat); /* they look again, and wait anew or for the listener to open */
    if (!seat->accepts)
        unreserve(seat);
    else if (some)
        look_again(seat); /* not one that was withdrawn */
    ci_debug_check(is_served(seat), "io/listener.h 3");
    ci_listener_unref(listener);
}

void ci_seat_pass_on(struct ci_seat *seat)
{
    if (ci_unlikely(ci_load_relaxed(&seat->listener->spare_count))) {
        if (seat->accepts)
            look_again(seat);
        else
            unreserve(seat); /* the worker may not accept again for a long time */
    }
    ci_debug_check(is_served(seat), "io/listener.h 3");
}
