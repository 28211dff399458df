/* poll(2): fs/select.c of Linux 6.1. The files that it waits for are referenced until it returns,
 * but after each wake-up it polls whatever files have the descriptor numbers by then. */
#include <errno.h>
#include <stdlib.h>

#include "sim/kernel/kernel.h"
#include "sys/call.h"

struct entry {
    struct ci_kwaiter waiter;
    struct ci_kfile *file;
    unsigned key;
    bool *triggered;
};

static bool on_change(struct ci_kwaiter *waiter, unsigned key)
{
    struct entry *entry = ci_container_of(waiter, struct entry, waiter);
    if (key && !(key & entry->key))
        return false;
    *entry->triggered = true;
    return true;
}

static unsigned wanted(const struct pollfd *fd)
{
    return (unsigned short)fd->events | POLLERR | POLLHUP;
}

static int look(struct pollfd *fds, size_t count)
{
    int found = 0;
    for (size_t i = 0; i < count; i++) {
        struct ci_kfile *file = ci_kfd_find(fds[i].fd);
        fds[i].revents =
            fds[i].fd < 0 ? 0 : (short)(file ? ci_kfile_poll(file) & wanted(&fds[i]) : POLLNVAL);
        found += fds[i].revents != 0;
    }
    return found;
}

static bool was_triggered(void *arg)
{
    return *(bool *)arg;
}

static int sleep_for(struct pollfd *fds, size_t count, struct entry *entries, coir_time deadline)
{
    bool triggered = false;
    for (size_t i = 0; i < count; i++) {
        struct ci_kfile *file = ci_kfd_find(fds[i].fd);
        if (!file)
            continue;
        entries[i] = (struct entry){
            .file = ci_kfile_ref(file), .key = wanted(&fds[i]), .triggered = &triggered};
        entries[i].waiter.wake = on_change;
        ci_kwaiter_add(&entries[i].waiter, file);
    }
    int found = 0, rc = 0;
    while (!found && rc == 0 && deadline > ci_know()) {
        if (ci_kthread_wait("poll", -1, was_triggered, &triggered, deadline))
            ci_kthread_be_late();
        triggered = false;
        if (!(found = look(fds, count)) && ci_kone_in(ci_k.settings.interrupt_one_in))
            rc = -EINTR;
    }
    for (size_t i = 0; i < count; i++)
        if (entries[i].file) {
            ci_kwaiter_remove(&entries[i].waiter);
            ci_kfile_unref(entries[i].file);
        }
    return rc < 0 ? rc : found;
}

int ci_sys_poll(struct pollfd *fds, size_t count, coir_time timeout)
{
    ci_kcall();
    struct ci_node *node = ci_k.process->node;
    if (timeout && ci_world_fault(ci_k.world, node, node->faults.no_memory, "no memory to poll"))
        return -ENOMEM;
    int found = look(fds, count);
    if (!found && timeout) {
        struct entry *entries = calloc(count ? count : 1, sizeof *entries);
        ci_check(entries, "kernel/kernel.h 5");
        found = sleep_for(fds, count, entries, ci_kdeadline(timeout));
        free(entries);
    }
    for (size_t i = 0; found > 0 && i < count; i++)
        if (fds[i].revents)
            ci_ktrace("polled", fds[i].fd, fds[i].revents);
    return found;
}
