/* Listening and accepting: the seats of listener.h. */
#include "io/listener.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <string.h>

#include "base/check.h"
#include "coir/fiber.h"
#include "coir/name.h"
#include "task/log.h"
#include "task/sleep.h"

enum {
    BACKLOG = 4096,
    PROBES = 8,  /* how many other seats are looked at for each connection */
    STREAK = 16, /* connections in a row for which there was no wait: a burst, after so many */
    IN_VAIN_MOST = 4,
};

/* How long a worker that is far ahead in a burst lets others, who are awake but have not come to
 * it, catch up. */
static const coir_time catch_up_time = 5 * COIR_MS;

static const coir_time in_use_time = 1 * COIR_S, in_use_pause = 20 * COIR_MS;

static uint32_t last_serial;

/* ---- the record ---- */

static coir_listener *new_listener(coir_runtime *runtime, coir_fd fd)
{
    int count = runtime->worker_count;
    size_t size = sizeof(coir_listener) + (size_t)count * sizeof(struct ci_seat);
    coir_listener *listener = ci_alloc_zero(&runtime->allocator, size);
    if (!listener)
        return NULL;
    listener->fd = fd;
    listener->serial = ci_fetch_add_relaxed(&last_serial, 1) + 1;
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

static void unref(coir_listener *listener)
{
    if (ci_fetch_sub(&listener->refs, 1) > 1)
        return;
    ci_free(listener->allocator, listener->spare, listener->spare_room * sizeof(coir_fd));
    ci_free(listener->allocator, listener, listener->size);
}

/* A stream of the seat's worker counts while it is open. */
static void take_seat(struct ci_seat *seat, coir_stream *stream)
{
    if (seat->live == 0)
        ref(seat->listener);
    ci_bump(&seat->live);
    ci_bump(&seat->taken);
    stream->seat = seat;
}

void ci_seat_leave(coir_stream *stream)
{
    struct ci_seat *seat = stream->seat;
    if (!seat)
        return;
    stream->seat = NULL;
    ci_drop(&seat->live);
    if (seat->live == 0)
        unref(seat->listener);
}

/* Says what to do about it, too. */
static CI_COLD int cannot_listen(const coir_runtime *runtime, const char *address, int error)
{
    const char *remedy = "";
    switch (error) {
    case -EADDRINUSE: remedy = "; stop that one, or choose another port"; break;
    case -EACCES: remedy = "; ports below 1024 need privileges, choose another one"; break;
    case -EADDRNOTAVAIL: remedy = "; 0.0.0.0 and [::] mean every address that it has"; break;
    case -COIR_EADDRESS:
    case -COIR_EHOST:
    case -COIR_EPORT: remedy = "; write it like 127.0.0.1:8080, [::1]:8080 or :8080"; break;
    case -COIR_EPATH: remedy = "; write it like unix:/run/program.sock or unix:@program"; break;
    case -COIR_EPASSED:
        remedy = "; fd:3 and systemd:NAME take a socket that listens already";
        break;
    default: break;
    }
    ci_log(runtime, COIR_LOG_ERROR, "cannot listen on \"%s\": %s%s", address, coir_strerror(error),
           remedy);
    return error;
}

/* A process on io_uring that was killed keeps its addresses for a moment longer, until the kernel
 * has torn its rings down. */
static int listen_patiently(struct ci_worker *worker, const struct ci_listen *listen,
                            const char *address)
{
    struct ci_driver *driver = worker->loop.driver;
    int rc = driver->kind->listen(driver, listen), waited;
    if (rc != -EADDRINUSE)
        return rc;
    ci_log(worker->runtime, COIR_LOG_WARNING,
           "%s is in use: trying again for a second, as a server that was killed may just be going",
           address);
    coir_time end = coir_in(in_use_time);
    while (rc == -EADDRINUSE && coir_now() < end) {
        if ((waited = coir_sleep_for(in_use_pause)) < 0)
            return waited;
        rc = driver->kind->listen(driver, listen);
    }
    return rc;
}

/* A name that is not known at once has to be asked for: then the first of its addresses. */
static int find_where(struct ci_worker *worker, const char *text, struct ci_where *where)
{
    coir_address first;
    int rc = ci_where_find(worker->loop.driver, text, where);
    if (rc != -COIR_ENAME || (rc = coir_resolve(text, &first, 1)) < 0)
        return rc;
    ci_where_parse(text, where);
    where->kind = CI_AT_ADDRESS;
    memcpy(&where->address, &first, sizeof where->address);
    where->len = where->address.ss_family == AF_INET ? sizeof(struct sockaddr_in)
                                                     : sizeof(struct sockaddr_in6);
    return 0;
}

/* A listening descriptor. */
static int open_listener(struct ci_worker *worker, struct ci_where *where, struct ci_listen *listen,
                         const char *address)
{
    struct ci_driver *driver = worker->loop.driver;
    int rc;
    if (where->kind == CI_AT_SOCKET)
        return (rc = driver->kind->take(driver, where->fd, CI_PASSED_LISTENER)) < 0 ? rc
                                                                                    : where->fd;
    listen->address = (struct sockaddr *)&where->address;
    listen->address_len = where->len;
    rc = listen_patiently(worker, listen, address);
    if (!where->any || listen->ipv6_only || (rc != -EAFNOSUPPORT && rc != -EADDRNOTAVAIL))
        return rc;
    ci_address_become_ipv4(where); /* there is no IPv6 here */
    listen->address_len = where->len;
    return listen_patiently(worker, listen, address);
}

int coir_tcp_listen(const char *address, coir_listener **ret_listener)
{
    return coir_tcp_listen_with(address, NULL, ret_listener);
}

int coir_tcp_listen_with(const char *address, const coir_listen_options *given,
                         coir_listener **ret_listener)
{
    int rc = 0;
    if (!ci_fiber_enter(&rc))
        return rc;
    struct ci_worker *worker = ci_worker_current;
    coir_listen_options options = COIR_LISTEN_OPTIONS;
    if ((rc = ci_options_read(&options, sizeof options, given)) < 0)
        return rc;
    struct ci_where where;
    struct ci_listen listen = {
        .backlog = options.backlog > INT_MAX ? INT_MAX
                   : options.backlog         ? (int)options.backlog
                                             : BACKLOG,
        .reuse_port = options.reuse_port,
        .ipv6_only = options.ipv6_only,
        .mode = options.unix_mode,
        .owner = options.unix_owner,
        .group = options.unix_group,
    };
    if ((rc = find_where(worker, address, &where)) < 0)
        return rc == coir_task_interrupted() ? rc : cannot_listen(worker->runtime, address, rc);
    coir_listener *listener = new_listener(worker->runtime, -1);
    if (!listener)
        return -ENOMEM;
    if ((rc = open_listener(worker, &where, &listen, address)) < 0) {
        unref(listener);
        return rc == coir_task_interrupted() ? rc : cannot_listen(worker->runtime, address, rc);
    }
    listener->fd = rc;
    listener->was_passed = where.kind == CI_AT_SOCKET;
    listener->is_unix = ci_socket_is_unix(worker->loop.driver, listener->fd);
    *ret_listener = listener;
    return 0;
}

/* ---- spares ---- */

struct accept_op {
    coir_future future;
    union {
        struct ci_io_op io;
        struct ci_sleep_op pause;
    };
    coir_listener *listener;
    coir_stream **ret_stream;
    struct accept_op *next; /* of the seat's */
    coir_fd fd;
};
CI_LEAVES_SPARE_WORDS(struct accept_op, coir_open_op);
_Static_assert(sizeof(struct accept_op) <= CI_FIBER_OP_WORDS * sizeof(uint64_t),
               "an accept is a case");

/* accept_op.fd while it waits: it was asked to look at the spares. */
static const coir_fd looks_again = -EINTR;

/* Under the lock: whose reservation the seat uses up by taking a spare, or NULL. */
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

/* The next spare that the seat may have, or -EAGAIN. `last`: nobody else accepts any more, so those
 * reserved for others are its too. */
static coir_fd take_spare(struct ci_seat *seat, bool last)
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
    ci_lock_give(&listener->lock);
    return fd;
}

static void on_told(struct ci_message *message);

/* Under the lock. True: the message is to be sent. */
static bool may_tell(struct ci_seat *seat)
{
    if (seat->told)
        return false;
    seat->told = true;
    seat->message.deliver = on_told;
    ref(seat->listener);
    return true;
}

/* Puts a connection aside, for a seat or (NULL) for anybody. */
static int put_spare(coir_listener *listener, coir_fd fd, struct ci_seat *seat)
{
    bool tell = false;
    ci_lock_take(&listener->lock);
    int rc = ci_grow(listener->allocator, (void **)&listener->spare, &listener->spare_room,
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
    ci_lock_give(&listener->lock);
    if (tell)
        ci_loop_send(&seat->worker->loop, &seat->message);
    return rc;
}

/* There are spares for anybody: whoever waits is to look. */
static void tell_everybody(coir_listener *listener)
{
    for (int i = 0; i < listener->seat_count; i++) {
        struct ci_seat *seat = &listener->seats[i];
        ci_lock_take(&listener->lock);
        bool tell = listener->spare_count > listener->reserved && may_tell(seat);
        ci_lock_give(&listener->lock);
        if (tell)
            ci_loop_send(&seat->worker->loop, &seat->message);
    }
}

/* Nobody of the worker waits any more: what was reserved for it is for anybody. */
static void give_up_reserved(struct ci_seat *seat)
{
    coir_listener *listener = seat->listener;
    if (ci_likely(ci_load_relaxed(&seat->reserved) == 0))
        return;
    ci_lock_take(&listener->lock);
    listener->reserved -= seat->reserved;
    ci_store_relaxed(&seat->reserved, 0);
    ci_lock_give(&listener->lock);
    tell_everybody(listener);
}

/* Has one of the seat's accepts end its wait, to look at the spares. */
static void look_again(struct ci_seat *seat)
{
    struct accept_op *op = seat->accepts;
    while (op && (!op->io.io.pending || op->fd == looks_again)) /* has been woken, or will be */
        op = op->next;
    if (!op)
        return;
    op->fd = looks_again;
    if (!ci_driver_cancel(seat->worker->loop.driver, &op->io.io))
        return; /* it completes by itself */
    op->io.future.result = -ECANCELED;
    ci_wake(seat->worker, op->io.runnable, &op->io.future);
}

static void on_told(struct ci_message *message)
{
    struct ci_seat *seat = ci_container_of(message, struct ci_seat, message);
    coir_listener *listener = seat->listener;
    ci_lock_take(&listener->lock);
    seat->told = false;
    bool some = seat->reserved || listener->spare_count > listener->reserved;
    ci_lock_give(&listener->lock);
    if (!seat->accepts)
        give_up_reserved(seat);
    else if (some)
        look_again(seat);
    unref(listener);
}

/* ---- who gets a connection ---- */

static bool has_fewer(const struct ci_seat *other, const struct ci_seat *seat)
{
    uint32_t reserved = ci_load_relaxed(&other->reserved);
    uint32_t theirs = ci_load_relaxed(&other->live) + reserved, ours = seat->live;
    return theirs < ours ||
           (theirs == ours && ci_load_relaxed(&other->taken) + reserved < seat->taken);
}

/* A seat whose worker waits for connections, does nothing else, and has fewer; NULL: there is none
 * among those that were looked at. */
static struct ci_seat *find_idle(struct ci_seat *seat)
{
    coir_listener *listener = seat->listener;
    int others = listener->seat_count - 1;
    for (int i = 0; i < PROBES && i < others; i++) {
        struct ci_seat *other = &listener->seats[seat->probe++ % (uint32_t)listener->seat_count];
        if (other == seat)
            other = &listener->seats[seat->probe++ % (uint32_t)listener->seat_count];
        if (ci_load_relaxed(&other->waiting) && ci_load_relaxed(&other->worker->loop.idle) &&
            has_fewer(other, seat))
            return other;
    }
    return NULL;
}

/* In a burst the backlog could go to the one worker that was first, while others are on their way:
 * whether to wait for them. Not when that has been in vain a few times: whoever has taken nothing
 * since is busy. */
static bool runs_ahead(struct ci_seat *seat)
{
    const coir_listener *listener = seat->listener;
    uint64_t sum = 0, taken = 0;
    if (ci_likely(seat->streak < STREAK))
        return false;
    seat->streak = 0;
    for (int i = 0; i < listener->seat_count; i++) {
        sum += ci_load_relaxed(&listener->seats[i].live);
        taken += ci_load_relaxed(&listener->seats[i].taken);
    }
    uint64_t share = sum / (uint64_t)listener->seat_count;
    taken -= seat->taken;
    if (seat->live <= share + share / 16)
        return false;
    seat->in_vain = taken == seat->waited_for ? seat->in_vain + 1 : 0;
    seat->waited_for = taken;
    return seat->in_vain < IN_VAIN_MOST;
}

/* Gives a connection that the kernel gave this worker to one that has fewer and nothing to do. */
static bool hand_over(struct ci_seat *seat, coir_fd fd)
{
    struct ci_seat *other = find_idle(seat);
    return other && put_spare(seat->listener, fd, other) == 0;
}

/* ---- accepting ---- */

static void begin_wait(struct ci_seat *seat, struct accept_op *op)
{
    op->next = seat->accepts;
    seat->accepts = op;
    ci_bump(&seat->waiting);
}

static void end_wait(struct ci_seat *seat, const struct accept_op *op)
{
    struct accept_op **at = &seat->accepts;
    while (*at != op)
        at = &(*at)->next;
    *at = op->next;
    ci_drop(&seat->waiting);
}

static int make_stream(struct ci_seat *seat, coir_fd fd, coir_stream **ret_stream)
{
    int rc = ci_socket_stream_new(seat->worker, fd, seat->listener->is_unix, ret_stream);
    if (rc < 0)
        ci_driver_close(seat->worker->loop.driver, fd);
    else
        take_seat(seat, *ret_stream);
    return rc;
}

/* The wait has brought a connection, or an error. */
static int finish(struct ci_seat *seat, struct accept_op *op)
{
    coir_listener *listener = seat->listener;
    if (ci_unlikely(ci_load_relaxed(&listener->spare_count))) {
        if (seat->accepts)
            look_again(seat);
        else
            give_up_reserved(seat); /* who knows when it accepts again */
    }
    if (op->fd < 0)
        return op->fd;
    if (ci_claim(seat->worker->runnable, &op->future))
        return make_stream(seat, op->fd, op->ret_stream);
    if (put_spare(listener, op->fd, NULL) < 0)
        ci_driver_close(seat->worker->loop.driver, op->fd);
    tell_everybody(listener);
    return -ECANCELED;
}

static coir_future *accept_poll(coir_future *future)
{
    struct accept_op *self = ci_container_of(future, struct accept_op, future);
    coir_listener *listener = self->listener;
    struct ci_worker *worker = ci_worker_current;
    struct ci_seat *seat = &listener->seats[worker->index];
    bool again;
    COIR_BEGIN(future);
    if (seat->worker != worker) /* of another runtime */
        COIR_RETURN(future, -EXDEV);
    if (runs_ahead(seat)) {
        COIR_AWAIT(future, coir_sleep_for_op((coir_sleep_op *)(void *)&self->pause, catch_up_time));
        if (self->pause.future.result < 0)
            COIR_RETURN(future, self->pause.future.result);
    }
    while ((self->fd = take_spare(seat, false)) < 0) {
        struct ci_op io = {.fd = listener->fd, .kind = CI_OP_ACCEPT, .len = listener->serial};
        begin_wait(seat, self);
        self->io.runnable = NULL;
        COIR_AWAIT(future, ci_io_init(&self->io, NULL, &io));
        end_wait(seat, self);
        seat->streak = self->io.runnable ? 0 : seat->streak + 1;
        again = self->fd == looks_again && self->io.future.result == -ECANCELED;
        self->fd = (coir_fd)self->io.future.result;
        if (self->fd >= 0 ? !hand_over(seat, self->fd) : !again)
            break;
    }
    COIR_RETURN(future, finish(seat, self));
}

static const coir_future_kind accept_kind = COIR_FUTURE_KIND("a connection", accept_poll, NULL);

coir_future *coir_accept_op(coir_open_op *words, coir_listener *listener, coir_stream **ret_stream)
{
    struct accept_op *op = (struct accept_op *)(void *)words;
    op->listener = listener;
    op->ret_stream = ret_stream;
    return coir_future_init(&op->future, &accept_kind);
}

int coir_accept(coir_listener *listener, coir_stream **ret_stream)
{
    coir_open_op op;
    return (int)ci_await_in_fiber(coir_accept_op(&op, listener, ret_stream));
}

static coir_future *make_accept(const coir_case *self, void *place)
{
    return coir_accept_op(place, self->object, self->data);
}

coir_case coir_case_accept(coir_listener *listener, coir_stream **ret_stream)
{
    return (coir_case){.make = make_accept, .object = listener, .data = ret_stream};
}

int coir_listener_local(const coir_listener *listener, char *text, size_t size)
{
    if (ci_forked())
        return -COIR_EFORKED;
    struct ci_worker *worker = ci_worker_current;
    if (!worker)
        return ci_no_worker();
    struct sockaddr_storage address;
    socklen_t len;
    int rc = worker->loop.driver->kind->address(worker->loop.driver, listener->fd, false, &address,
                                                &len);
    return rc < 0 ? rc : ci_address_format(&address, text, size);
}

/* ---- the end ---- */

void ci_listener_forget(coir_listener *listener)
{
    struct ci_driver *driver = ci_worker_current->loop.driver;
    if (listener->fd >= 0)
        driver->kind->forget(driver, listener->fd);
}

int ci_accept_now(coir_listener *listener, coir_stream **ret_stream)
{
    struct ci_seat *seat = &listener->seats[ci_worker_current->index];
    coir_fd fd = take_spare(seat, true);
    if (fd == -EAGAIN) {
        struct ci_op io = {
            .fd = listener->fd, .kind = CI_OP_ACCEPT, .len = listener->serial, .no_wait = true};
        ci_driver_start(seat->worker->loop.driver, &io);
        fd = io.result;
    }
    return fd < 0 ? fd : make_stream(seat, fd, ret_stream);
}

void ci_listener_refuse(coir_listener *listener)
{
    struct ci_driver *driver = ci_worker_current->loop.driver;
    if (listener->fd >= 0 && !listener->was_passed)
        driver->kind->refuse(driver, listener->fd);
}

void ci_listener_stop(coir_listener *listener)
{
    struct ci_driver *driver = ci_worker_current->loop.driver;
    if (listener->fd >= 0 && listener->was_passed)
        ci_driver_close(driver, listener->fd);
    else if (listener->fd >= 0)
        driver->kind->close_named(driver, listener->fd);
    listener->fd = -1;
}

void coir_listener_close(coir_listener *listener)
{
    if (!listener || ci_forked())
        return;
    ci_check(ci_worker_current);
    for (coir_fd fd; (fd = take_spare(&listener->seats[0], true)) >= 0;) /* whosever they were */
        ci_driver_close(ci_worker_current->loop.driver, fd);
    ci_listener_stop(listener);
    unref(listener);
}
