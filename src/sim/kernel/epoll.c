/* epoll(7): fs/eventpoll.c of Linux 6.1, whose names are used here.
 *
 * - A change of a file calls the item's waiter, which only puts the item into the ready list, if
 *   the item asks for this change or the change is unspecified (key 0).
 * - epoll_wait takes items from that list, and reports all events that hold now for each file. An
 *   item without events is skipped; a level-triggered item goes back into the list.
 * - An item belongs to a descriptor number and an open file. It is removed with the last reference
 *   to the file.
 */
#include <errno.h>
#include <stdlib.h>

#include "sim/kernel/kernel.h"
#include "sys/eventpoll.h"

static const uint32_t private_bits = EPOLLWAKEUP | EPOLLONESHOT | EPOLLET | EPOLLEXCLUSIVE;
static const uint32_t exclusive_ok =
    EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLWAKEUP | EPOLLET | EPOLLEXCLUSIVE;

struct epoll {
    struct ci_kfile file;
    struct ci_list items, ready; /* ready: in the order of becoming ready */
    int sleepers;
};

struct item {
    struct ci_list in_epoll, ready;
    struct epoll *epoll;
    struct ci_kfile *file;
    coir_fd fd;
    struct epoll_event event;
    struct ci_kwaiter waiter;
};

static struct epoll *epoll_of(struct ci_kfile *file)
{
    return ci_container_of(file, struct epoll, file);
}

static unsigned held_by(const struct item *item)
{
    return ci_kfile_poll(item->file) & item->event.events & ~private_bits;
}

static void make_ready(struct item *item)
{
    if (ci_list_empty(&item->ready))
        ci_list_push(&item->epoll->ready, &item->ready);
    ci_kfile_wake(&item->epoll->file, POLLIN);
}

/* ep_poll_callback */
static bool on_change(struct ci_kwaiter *waiter, unsigned key)
{
    struct item *item = ci_container_of(waiter, struct item, waiter);
    uint32_t events = item->event.events;
    bool wakes = item->epoll->sleepers && ci_list_empty(&item->epoll->ready);
    if (!(events & ~private_bits) || (key && !(key & events)))
        return !waiter->exclusive;
    make_ready(item);
    if (!waiter->exclusive)
        return true;
    unsigned direction = key & (EPOLLIN | EPOLLOUT);
    return wakes && (!direction || direction == (EPOLLIN | EPOLLOUT) || events & direction);
}

/* ---- registrations ---- */

static struct item *find_item(const struct epoll *epoll, const struct ci_kfile *file, coir_fd fd)
{
    ci_list_for_each (node, &file->waiters) {
        struct ci_kwaiter *waiter = ci_container_of(node, struct ci_kwaiter, link);
        struct item *item = ci_container_of(waiter, struct item, waiter);
        if (waiter->wake == on_change && item->epoll == epoll && item->fd == fd)
            return item;
    }
    return NULL;
}

static void free_item(struct item *item)
{
    ci_kwaiter_remove(&item->waiter);
    ci_list_unlink(&item->in_epoll);
    ci_list_unlink(&item->ready);
    free(item);
}

static void on_gone(struct ci_kwaiter *waiter)
{
    free_item(ci_container_of(waiter, struct item, waiter));
}

static int insert(struct epoll *epoll, struct ci_kfile *file, coir_fd fd,
                  const struct epoll_event *event)
{
    struct ci_node *node = ci_k.process->node;
    if (ci_world_fault(ci_k.world, node, node->faults.no_memory, "no memory for a registration"))
        return ci_kone_in(2) ? -ENOMEM : -ENOSPC;
    struct item *item = ci_kalloc(sizeof *item);
    *item = (struct item){.epoll = epoll, .file = file, .fd = fd, .event = *event};
    item->event.events |= EPOLLERR | EPOLLHUP;
    item->waiter = (struct ci_kwaiter){
        .wake = on_change, .gone = on_gone, .exclusive = event->events & EPOLLEXCLUSIVE};
    ci_list_init(&item->ready);
    ci_list_push(&epoll->items, &item->in_epoll);
    ci_kwaiter_add(&item->waiter, file);
    if (held_by(item))
        make_ready(item);
    return 0;
}

static int modify(struct item *item, const struct epoll_event *event)
{
    if (item->event.events & EPOLLEXCLUSIVE)
        return -EINVAL;
    item->event = *event;
    item->event.events |= EPOLLERR | EPOLLHUP;
    if (held_by(item))
        make_ready(item);
    return 0;
}

static int control(struct epoll *epoll, int what, struct ci_kfile *file, coir_fd fd,
                   const struct epoll_event *event)
{
    struct item *item = find_item(epoll, file, fd);
    switch (what) {
    case EPOLL_CTL_ADD: return item ? -EEXIST : insert(epoll, file, fd, event);
    case EPOLL_CTL_MOD: return item ? modify(item, event) : -ENOENT;
    default: break;
    }
    if (item)
        free_item(item);
    return item ? 0 : -ENOENT;
}

static const struct ci_kfile_type epoll_type;

int ci_eventpoll_control(const struct ci_eventpoll *eventpoll, int what, coir_fd fd,
                         struct epoll_event *event)
{
    ci_kcall();
    struct ci_kfile *self = ci_kfd_find(eventpoll->fd), *file = ci_kfd_find(fd);
    if (!self || !file)
        return -EBADF;
    if (!file->type->poll)
        return -EPERM;
    if (self->type != &epoll_type || self == file)
        return -EINVAL;
    if (file->type == &epoll_type)
        ci_kunknown("an epoll in an epoll");
    uint32_t events = what == EPOLL_CTL_DEL ? 0 : event->events;
    if (events & EPOLLEXCLUSIVE && (what == EPOLL_CTL_MOD || events & ~exclusive_ok))
        return -EINVAL;
    int rc = control(epoll_of(self), what, file, fd, event);
    ci_ktrace("epoll_ctl", fd, (int64_t)what << 32 | rc);
    return rc;
}

/* ---- waiting ---- */

/* ep_send_events */
static int report(struct epoll *epoll, struct epoll_event *events, int max)
{
    struct ci_list taken, *node;
    int count = 0;
    ci_list_take(&taken, &epoll->ready);
    while (count < max && (node = ci_list_pop(&taken))) {
        struct item *item = ci_container_of(node, struct item, ready);
        unsigned held = held_by(item);
        if (!held)
            continue;
        events[count].events = held;
        events[count++].data = item->event.data;
        ci_ktrace("event", item->fd, held);
        if (item->event.events & EPOLLONESHOT)
            item->event.events &= private_bits;
        else if (!(item->event.events & EPOLLET))
            ci_list_push(&epoll->ready, &item->ready);
    }
    /* no room in `events`: put them back before the level-triggered ones */
    while (!ci_list_empty(&taken)) {
        node = taken.prev;
        ci_list_remove(node);
        ci_list_insert_before(epoll->ready.next, node);
    }
    return count;
}

static bool has_ready(void *arg)
{
    return !ci_list_empty(&((struct epoll *)arg)->ready);
}

int ci_eventpoll_wait(struct ci_eventpoll *eventpoll, struct epoll_event *events, int max,
                      coir_time timeout)
{
    ci_kcall();
    struct ci_kfile *file = ci_kfd_find(eventpoll->fd);
    if (!file)
        return -EBADF;
    if (max <= 0 || file->type != &epoll_type)
        return -EINVAL;
    struct epoll *epoll = epoll_of(file);
    coir_time deadline = ci_kdeadline(timeout);
    for (;;) {
        int count = report(epoll, events, max);
        if (count || timeout == 0 || deadline <= ci_know())
            return count;
        ci_ktrace("epoll_wait", eventpoll->fd, timeout);
        ci_kfile_ref(file);
        epoll->sleepers++;
        if (ci_kthread_wait("epoll", eventpoll->fd, has_ready, epoll, deadline))
            ci_kthread_be_late();
        epoll->sleepers--;
        ci_kfile_unref(file);
        if (ci_kone_in(ci_k.settings.interrupt_one_in))
            return -EINTR;
    }
}

/* ---- the file ---- */

/* Drops items that are queued but not ready any more, up to the first that is ready
 * (__ep_eventpoll_poll). */
static unsigned poll_epoll(struct ci_kfile *file)
{
    struct ci_list *ready = &epoll_of(file)->ready;
    for (; !ci_list_empty(ready); ci_list_remove(ready->next))
        if (held_by(ci_container_of(ready->next, struct item, ready)))
            return POLLIN | POLLRDNORM;
    return 0;
}

static void release(struct ci_kfile *file)
{
    struct epoll *epoll = epoll_of(file);
    while (!ci_list_empty(&epoll->items))
        free_item(ci_container_of(epoll->items.next, struct item, in_epoll));
    free(epoll);
}

static const struct ci_kfile_type epoll_type = {
    .name = "epoll", .poll = poll_epoll, .release = release};

int ci_eventpoll_open(struct ci_eventpoll *eventpoll)
{
    ci_kcall();
    int rc = ci_kfd_refused();
    if (rc < 0)
        return rc;
    struct epoll *epoll = ci_kalloc(sizeof *epoll);
    ci_kfile_init(&epoll->file, &epoll_type);
    ci_list_init(&epoll->items);
    ci_list_init(&epoll->ready);
    if ((rc = ci_kfd_install(&epoll->file)) < 0) {
        free(epoll);
        return rc;
    }
    *eventpoll = (struct ci_eventpoll){rc, false};
    return 0;
}
