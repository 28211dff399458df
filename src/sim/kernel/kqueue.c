/* kqueue(2): the manual page and sys/kern/kern_event.c, uipc_socket.c (filt_soread, filt_sowrite)
 * and sys_pipe.c of FreeBSD 14.1, whose names are used here.
 *
 * A knote is one filter on one descriptor. A change of the file runs the filter; where it holds,
 * the knote becomes active, which queues it. kevent takes knotes from the queue, runs the filter of
 * each again and reports those that still hold; a one-shot knote is reported as it was when it
 * became active, and is gone. After its report an EV_CLEAR knote waits for the next change, another
 * one stays queued.
 *
 * Not like epoll: closing the descriptor removes its knotes, whatever copies of the file are left;
 * and EV_ADD of a knote that exists changes its user data, never its flags.
 *
 * What sockets do is Linux's (stream.c). BSD tells of room to write at every acknowledgement and
 * with less room; the seed's spurious wake-ups stand for those edges.
 */
#include <sys/event.h>

#include <errno.h>
#include <stdlib.h>

#include "sim/kernel/socket.h"

struct kqueue_file {
    struct ci_kfile file;
    struct ci_kprocess *process;
    struct ci_list knotes, active; /* active: the first to become so is first */
};

struct knote {
    struct ci_list in_kqueue, active;
    struct kqueue_file *kqueue;
    struct ci_kfile *file; /* NULL: EVFILT_USER */
    struct kevent event;   /* kn_kevent: what is reported */
    bool triggered;        /* of EVFILT_USER */
    struct ci_kwaiter waiter;
};

static const struct ci_kfile_type kqueue_type;

/* ---- filters ---- */

/* filt_soread */
static bool filter_readable(struct knote *knote, const struct ci_ksocket *socket, unsigned held)
{
    if (socket->state != CI_KLISTENING && socket->in_ended) {
        knote->event.flags |= EV_EOF;
        knote->event.fflags = (unsigned)socket->error;
        return true;
    }
    return socket->error || held & POLLIN;
}

/* filt_sowrite. The end of the writing direction is the process's own shutdown, too. */
static bool filter_writable(struct knote *knote, const struct ci_ksocket *socket, unsigned held)
{
    if (socket->state == CI_KLISTENING)
        return false;
    if (socket->out_ended) {
        knote->event.flags |= EV_EOF;
        knote->event.fflags = (unsigned)socket->error;
        return true;
    }
    bool connected = socket->state == CI_KCONNECTED || socket->state == CI_KDATAGRAM;
    return socket->error || (connected && held & POLLOUT);
}

/* f_event: whether the knote's filter holds now, and what there is to report of it. */
static bool filter_holds(struct knote *knote)
{
    if (!knote->file)
        return knote->triggered;
    unsigned held = ci_kfile_poll(knote->file); /* asks to be told of room */
    bool reads = knote->event.filter == EVFILT_READ;
    if (ci_ksocket_is(knote->file)) {
        const struct ci_ksocket *socket = ci_ksocket_of(knote->file);
        return reads ? filter_readable(knote, socket, held) : filter_writable(knote, socket, held);
    }
    /* of a pipe or a Unix socket whose other end is closed */
    if (held & (POLLHUP | POLLERR) || (reads && held & POLLRDHUP))
        knote->event.flags |= EV_EOF;
    return knote->event.flags & EV_EOF || held & (reads ? POLLIN : POLLOUT);
}

static void activate_if_it_holds(struct knote *knote)
{
    if (!filter_holds(knote) || !ci_list_empty(&knote->active))
        return;
    ci_list_push(&knote->kqueue->active, &knote->active);
    ci_kfile_wake(&knote->kqueue->file, POLLIN);
}

/* knote(9) */
static bool on_change(struct ci_kwaiter *waiter, unsigned key)
{
    struct knote *knote = ci_container_of(waiter, struct knote, waiter);
    bool reads = knote->event.filter == EVFILT_READ;
    if (!key || key & POLLERR || key & POLLHUP || key & (reads ? POLLIN : POLLOUT))
        activate_if_it_holds(knote);
    return true;
}

/* ---- knotes ---- */

static void drop_knote(struct knote *knote)
{
    ci_kwaiter_remove(&knote->waiter);
    ci_list_unlink(&knote->in_kqueue);
    ci_list_unlink(&knote->active);
    free(knote);
}

static void on_gone(struct ci_kwaiter *waiter)
{
    drop_knote(ci_container_of(waiter, struct knote, waiter));
}

/* knote_fdclose */
static void on_closed(struct ci_kwaiter *waiter, coir_fd fd)
{
    struct knote *knote = ci_container_of(waiter, struct knote, waiter);
    if (knote->event.ident == (uintptr_t)fd && knote->kqueue->process == ci_k.process)
        drop_knote(knote);
}

static struct knote *find_knote(const struct kqueue_file *kqueue, const struct kevent *change)
{
    ci_list_for_each (node, &kqueue->knotes) {
        struct knote *knote = ci_container_of(node, struct knote, in_kqueue);
        if (knote->event.ident == change->ident && knote->event.filter == change->filter)
            return knote;
    }
    return NULL;
}

static int add_knote(struct kqueue_file *kqueue, struct ci_kfile *file, const struct kevent *change)
{
    struct ci_node *node = ci_k.process->node;
    if (ci_world_fault(ci_k.world, node, node->faults.no_memory, "no memory for a knote"))
        return -ENOMEM;
    struct knote *knote = ci_kalloc(sizeof *knote);
    *knote = (struct knote){.kqueue = kqueue, .file = file, .event = *change};
    knote->event.flags &= (unsigned short)~(EV_ADD | EV_RECEIPT);
    knote->event.fflags = 0;
    ci_list_init(&knote->active);
    ci_list_push(&kqueue->knotes, &knote->in_kqueue);
    if (file) {
        knote->waiter =
            (struct ci_kwaiter){.wake = on_change, .gone = on_gone, .closed = on_closed};
        ci_kwaiter_add(&knote->waiter, file);
    }
    activate_if_it_holds(knote);
    return 0;
}

/* kqueue_register */
static int apply(struct kqueue_file *kqueue, const struct kevent *change)
{
    bool user = change->filter == EVFILT_USER;
    struct ci_kfile *file = user ? NULL : ci_kfd_find((coir_fd)change->ident);
    if (change->flags & ~(EV_ADD | EV_DELETE | EV_ONESHOT | EV_CLEAR | EV_RECEIPT) ||
        (change->fflags && !user) || change->fflags & ~(unsigned)NOTE_TRIGGER)
        ci_kunknown("these flags of kevent");
    if (!user && change->filter != EVFILT_READ && change->filter != EVFILT_WRITE)
        ci_kunknown("this filter of kevent");
    if (!user && !file)
        return -EBADF;
    if (file && file->type == &kqueue_type)
        ci_kunknown("a kqueue in a kqueue");
    struct knote *knote = find_knote(kqueue, change);
    if (!knote)
        return change->flags & EV_ADD ? add_knote(kqueue, file, change) : -ENOENT;
    if (change->flags & EV_DELETE) {
        drop_knote(knote);
        return 0;
    }
    knote->event.udata = change->udata;
    knote->triggered |= (change->fflags & NOTE_TRIGGER) != 0;
    activate_if_it_holds(knote);
    return 0;
}

/* ---- kevent ---- */

/* kqueue_scan: of the knotes that are active now. */
static int scan(struct kqueue_file *kqueue, struct kevent *events, int max)
{
    struct ci_list *last = kqueue->active.prev, *node = NULL;
    int count = 0;
    while (count < max && node != last && (node = ci_list_pop(&kqueue->active))) {
        struct knote *knote = ci_container_of(node, struct knote, active);
        bool one_shot = knote->event.flags & EV_ONESHOT;
        if (!one_shot && !filter_holds(knote))
            continue;
        ci_ktrace("kevent", (int64_t)knote->event.ident,
                  (int64_t)knote->event.filter * (INT64_C(1) << 32) | knote->event.flags);
        events[count++] = knote->event;
        if (one_shot) {
            drop_knote(knote);
        } else if (knote->event.flags & EV_CLEAR) {
            knote->event.fflags = 0;
            knote->triggered = false;
        } else {
            ci_list_push(&kqueue->active, &knote->active);
        }
    }
    return count;
}

static bool has_active(void *arg)
{
    return !ci_list_empty(&((const struct kqueue_file *)arg)->active);
}

static int wait_for_some(struct kqueue_file *kqueue, struct kevent *events, int max,
                         coir_time timeout)
{
    coir_time deadline = ci_kdeadline(timeout);
    for (;;) {
        int count = scan(kqueue, events, max);
        if (count || timeout == 0 || deadline <= ci_know())
            return count;
        ci_ktrace("kevent waits", 0, timeout);
        ci_kfile_ref(&kqueue->file);
        if (ci_kthread_wait("kqueue", -1, has_active, kqueue, deadline))
            ci_kthread_be_late();
        ci_kfile_unref(&kqueue->file);
        if (ci_kone_in(ci_k.settings.interrupt_one_in))
            return -EINTR;
    }
}

/* An error of a change is an event where there is room for one, else the result of the call. */
static int apply_all(struct kqueue_file *kqueue, const struct kevent *changes, int change_count,
                     struct kevent *events, int event_count)
{
    int reported = 0;
    for (int i = 0; i < change_count; i++) {
        int rc = apply(kqueue, &changes[i]);
        ci_ktrace("kevent change", (int64_t)changes[i].ident,
                  (int64_t)changes[i].filter * (INT64_C(1) << 32) | changes[i].flags);
        if (rc == 0 && !(changes[i].flags & EV_RECEIPT))
            continue;
        if (reported == event_count)
            return rc;
        events[reported] = changes[i];
        events[reported].flags = EV_ERROR;
        events[reported++].data = -rc;
    }
    return reported;
}

static int do_kevent(coir_fd fd, const struct kevent *changes, int change_count,
                     struct kevent *events, int event_count, coir_time timeout)
{
    ci_kcall();
    struct ci_kfile *file = ci_kfd_find(fd);
    if (!file || file->type != &kqueue_type)
        return -EBADF;
    struct kqueue_file *kqueue = ci_container_of(file, struct kqueue_file, file);
    int rc = apply_all(kqueue, changes, change_count, events, event_count);
    return rc || !event_count ? rc : wait_for_some(kqueue, events, event_count, timeout);
}

static int with_errno(int rc)
{
    if (rc >= 0)
        return rc;
    errno = -rc;
    return -1;
}

int kevent(int kq, const struct kevent *changes, int change_count, struct kevent *events,
           int event_count, const struct timespec *timeout)
{
    return with_errno(do_kevent(kq, changes, change_count, events, event_count,
                                timeout ? timeout->tv_sec * COIR_S + timeout->tv_nsec : -1));
}

/* ---- the file ---- */

static unsigned poll_kqueue(struct ci_kfile *file)
{
    return has_active(ci_container_of(file, struct kqueue_file, file)) ? POLLIN | POLLRDNORM : 0;
}

static void release(struct ci_kfile *file)
{
    struct kqueue_file *kqueue = ci_container_of(file, struct kqueue_file, file);
    while (!ci_list_empty(&kqueue->knotes))
        drop_knote(ci_container_of(kqueue->knotes.next, struct knote, in_kqueue));
    free(kqueue);
}

static const struct ci_kfile_type kqueue_type = {
    .name = "kqueue", .poll = poll_kqueue, .release = release};

int kqueue(void)
{
    ci_kcall();
    int rc = ci_kfd_refused();
    if (rc < 0)
        return with_errno(rc);
    struct kqueue_file *kqueue = ci_kalloc(sizeof *kqueue);
    ci_kfile_init(&kqueue->file, &kqueue_type);
    kqueue->process = ci_k.process;
    ci_list_init(&kqueue->knotes);
    ci_list_init(&kqueue->active);
    return ci_kfd_install(&kqueue->file);
}
