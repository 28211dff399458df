/* Open files, tables of descriptors, and waiters for files. */
#include <errno.h>

#include "base/memory.h"
#include "sim/kernel/kernel.h"

static unsigned always(void)
{
    return POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM;
}

void ci_kfile_init(struct ci_kfile *file, const struct ci_kfile_type *type)
{
    *file = (struct ci_kfile){.type = type, .refs = 1, .serial = ++ci_k.serial};
    ci_list_init(&file->waiters);
}

struct ci_kfile *ci_kfile_ref(struct ci_kfile *file)
{
    ci_check(file->refs, "kernel/kernel.h 4");
    file->refs++;
    return file;
}

void ci_kfile_unref(struct ci_kfile *file)
{
    ci_check(file->refs, "kernel/kernel.h 4");
    if (--file->refs)
        return;
    while (!ci_list_empty(&file->waiters)) {
        struct ci_kwaiter *waiter = ci_container_of(file->waiters.next, struct ci_kwaiter, link);
        ci_check(waiter->gone, "kernel/kernel.h 4");
        waiter->gone(waiter);
    }
    file->type->release(file);
}

unsigned ci_kfile_poll(struct ci_kfile *file)
{
    return file->type->poll ? file->type->poll(file) : always();
}

/* ---- descriptors ---- */

int ci_kfd_refused(void)
{
    struct ci_node *node = ci_k.process->node;
    if (!ci_world_fault(ci_k.world, node, node->faults.no_descriptor, "no descriptor"))
        return 0;
    return ci_kone_in(2) ? -EMFILE : -ENFILE;
}

static void make_room(struct ci_kprocess *process, size_t fd)
{
    ci_check(ci_grow(&ci_system_allocator, (void **)&process->files, &process->file_room,
                     sizeof *process->files, fd + 1) == 0,
             "kernel/kernel.h 5");
}

int ci_kfd_install(struct ci_kfile *file)
{
    struct ci_kprocess *process = ci_k.process;
    size_t fd = 0;
    while (fd < process->file_room && process->files[fd])
        fd++;
    make_room(process, fd);
    process->files[fd] = file;
    ci_ktrace("open", (int64_t)fd, (int64_t)file->serial);
    return (int)fd;
}

struct ci_kfile *ci_kfd_find(coir_fd fd)
{
    const struct ci_kprocess *process = ci_k.process;
    return fd >= 0 && (size_t)fd < process->file_room ? process->files[fd] : NULL;
}

/* A waiter may remove itself. */
static void tell_of_close(const struct ci_kfile *file, coir_fd fd)
{
    const struct ci_list *node = file->waiters.next, *next;
    for (; node != &file->waiters; node = next) {
        next = node->next;
        struct ci_kwaiter *waiter = ci_container_of(node, struct ci_kwaiter, link);
        if (waiter->closed)
            waiter->closed(waiter, fd);
    }
}

int ci_kfd_close(coir_fd fd)
{
    struct ci_kfile *file = ci_kfd_find(fd);
    if (!file)
        return -EBADF;
    ci_ktrace("close", fd, (int64_t)file->serial);
    ci_k.process->files[fd] = NULL;
    tell_of_close(file, fd);
    ci_kfile_unref(file);
    return 0;
}

int ci_kfd_copy(coir_fd from, coir_fd to)
{
    ci_kcall();
    struct ci_kfile *file = ci_kfd_find(from);
    if (!file || to < 0)
        return -EBADF;
    if (from == to)
        return to;
    ci_kfd_close(to);
    make_room(ci_k.process, (size_t)to);
    ci_k.process->files[to] = ci_kfile_ref(file);
    return to;
}

/* ---- waiting ---- */

void ci_kwaiter_add(struct ci_kwaiter *waiter, struct ci_kfile *file)
{
    waiter->file = file;
    if (waiter->exclusive)
        ci_list_insert_before(&file->waiters, &waiter->link);
    else
        ci_list_insert_before(file->waiters.next, &waiter->link);
}

void ci_kwaiter_remove(struct ci_kwaiter *waiter)
{
    if (waiter->file)
        ci_list_remove(&waiter->link);
    waiter->file = NULL;
}

/* A waiter that is woken may remove itself. */
static void wake_up(struct ci_kfile *file, unsigned key)
{
    struct ci_list *node = file->waiters.next, *next;
    for (; node != &file->waiters; node = next) {
        next = node->next;
        struct ci_kwaiter *waiter = ci_container_of(node, struct ci_kwaiter, link);
        if (waiter->wake(waiter, key) && waiter->exclusive && key)
            return;
    }
}

void ci_kfile_wake(struct ci_kfile *file, unsigned key)
{
    wake_up(file, key);
    if (ci_kone_in(ci_k.settings.spurious_one_in))
        wake_up(file, ci_kone_in(2) ? POLLIN | POLLRDNORM : POLLOUT | POLLWRNORM);
}
