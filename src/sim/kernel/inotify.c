/* sys/file_watch.h: inotify(7), of man-pages 6.03, over the simulated disks.
 *
 * Unlike Linux, a change of a file's bytes is told to the directory of one of its names, not of the
 * name that it was opened by, and a file is gone with its last name, although it is open. Changes
 * of mode, owner and times are not modelled.
 *
 * 1. A queue that is full ends with an overflow, and takes nothing more until it was read.
 */
#include "sys/file_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "sim/kernel/inotify.h"
#include "sys/call.h"

enum {
    QUEUE_MAX = 16384, /* fs.inotify.max_queued_events */
    ALWAYS = CI_CHANGE_MOVED | CI_CHANGE_GONE | CI_CHANGE_OVERFLOW
};

struct change {
    struct ci_list link;
    struct ci_file_change told; /* the name lies behind */
    size_t len;                 /* of the name with its end, and up to a multiple of 8 */
    char name[];
};

struct watch {
    struct ci_list link;
    const struct ci_file *file; /* compared, not looked into */
    int id, changes;
};

struct ci_kwatch_queue {
    struct ci_kfile file;
    struct ci_kwatch_queue *next;
    const struct ci_node *node;
    struct ci_list watches, changes;
    size_t count, max;
    int last_id;
};

static struct ci_kwatch_queue *queue_of(struct ci_kfile *file)
{
    return ci_container_of(file, struct ci_kwatch_queue, file);
}

static struct change *change_at(struct ci_list *link)
{
    return ci_container_of(link, struct change, link);
}

static struct watch *watch_at(struct ci_list *link)
{
    return ci_container_of(link, struct watch, link);
}

/* ---- the queue ---- */

static bool is_last(const struct ci_kwatch_queue *queue, const struct ci_file_change *told)
{
    if (ci_list_empty(&queue->changes))
        return false;
    const struct ci_file_change *last = &change_at(queue->changes.prev)->told;
    return last->id == told->id && last->kind == told->kind && last->pair == told->pair &&
           strcmp(last->name, told->name) == 0;
}

static void put(struct ci_kwatch_queue *queue, const struct ci_file_change *told)
{
    static const struct ci_file_change overflow = {
        .name = "", .id = -1, .kind = CI_CHANGE_OVERFLOW};
    if (queue->count >= queue->max)
        told = &overflow;
    if (is_last(queue, told))
        return;
    ci_check(queue->count <= queue->max, "inotify.c 1");
    size_t len = (strlen(told->name) + 8) / 8 * 8;
    struct change *change = ci_kalloc(sizeof *change + len);
    change->told = *told;
    change->len = len;
    memcpy(change->name, told->name, strlen(told->name));
    change->told.name = change->name;
    ci_list_push(&queue->changes, &change->link);
    queue->count++;
    ci_kfile_wake(&queue->file, POLLIN | POLLRDNORM);
}

static struct change *pop(struct ci_kwatch_queue *queue)
{
    queue->count--;
    return change_at(ci_list_pop(&queue->changes));
}

static unsigned poll_queue(struct ci_kfile *file)
{
    return ci_list_empty(&queue_of(file)->changes) ? 0 : POLLIN | POLLRDNORM;
}

/* What ci_sys_file_watch_next reads: a struct ci_file_change, the length of the name, the name. */
enum { RECORD = sizeof(struct ci_file_change) + sizeof(size_t) };

static ssize_t read_queue(struct ci_kfile *file, const struct iovec *iov, int count)
{
    struct ci_kwatch_queue *queue = queue_of(file);
    char *to = iov->iov_base;
    size_t done = 0;
    if (ci_list_empty(&queue->changes))
        return -EAGAIN;
    while (count > 0 && !ci_list_empty(&queue->changes) &&
           done + RECORD + change_at(queue->changes.next)->len <= iov->iov_len) {
        struct change *change = pop(queue);
        memcpy(to + done, &change->told, sizeof change->told);
        memcpy(to + done + sizeof change->told, &change->len, sizeof change->len);
        memcpy(to + done + RECORD, change->name, change->len);
        done += RECORD + change->len;
        free(change);
    }
    return done ? (ssize_t)done : -EINVAL;
}

bool ci_sys_file_watch_next(const char *data, size_t len, size_t *at,
                            struct ci_file_change *ret_change)
{
    size_t name_len;
    if (*at >= len)
        return false;
    memcpy(ret_change, data + *at, sizeof *ret_change);
    memcpy(&name_len, data + *at + sizeof *ret_change, sizeof name_len);
    ret_change->name = data + *at + RECORD;
    *at += RECORD + name_len;
    return true;
}

static void release(struct ci_kfile *file)
{
    struct ci_kwatch_queue *queue = queue_of(file), **at = &ci_k.watch_queues;
    struct ci_list *node;
    while (*at != queue)
        at = &(*at)->next;
    *at = queue->next;
    while ((node = ci_list_pop(&queue->watches)))
        free(watch_at(node));
    while (!ci_list_empty(&queue->changes))
        free(pop(queue));
    free(queue);
}

static const struct ci_kfile_type queue_type = {
    .name = "inotify", .poll = poll_queue, .read = read_queue, .release = release};

coir_fd ci_sys_file_watch_open(void)
{
    ci_kcall();
    int rc = ci_kfd_refused();
    if (rc < 0)
        return rc;
    struct ci_kwatch_queue *queue = ci_kalloc(sizeof *queue);
    queue->node = ci_k.process->node;
    queue->max = ci_kone_in(2) ? 1 + ci_kbelow(16) : QUEUE_MAX;
    ci_list_init(&queue->watches);
    ci_list_init(&queue->changes);
    queue->next = ci_k.watch_queues;
    ci_k.watch_queues = queue;
    ci_kfile_init(&queue->file, &queue_type);
    return ci_kfd_install(&queue->file);
}

/* ---- watches ---- */

static struct ci_kwatch_queue *queue_at(coir_fd fd, int *ret_error)
{
    struct ci_kfile *file = ci_kfd_find(fd);
    *ret_error = !file ? -EBADF : file->type == &queue_type ? 0 : -EINVAL;
    return *ret_error ? NULL : queue_of(file);
}

int ci_kwatch_is_queue(coir_fd fd)
{
    int rc;
    queue_at(fd, &rc);
    return rc;
}

int ci_kwatch_add(coir_fd fd, const struct ci_file *file, int changes)
{
    int rc;
    struct ci_kwatch_queue *queue = queue_at(fd, &rc);
    if (!queue)
        return rc;
    ci_list_for_each (node, &queue->watches)
        if (watch_at(node)->file == file)
            return -EEXIST;
    struct watch *watch = ci_kalloc(sizeof *watch);
    *watch = (struct watch){.file = file, .id = ++queue->last_id, .changes = changes | ALWAYS};
    ci_list_push(&queue->watches, &watch->link);
    return watch->id;
}

static void end_watch(struct ci_kwatch_queue *queue, struct watch *watch)
{
    put(queue, &(struct ci_file_change){.name = "", .id = watch->id, .kind = CI_CHANGE_GONE});
    ci_list_remove(&watch->link);
    free(watch);
}

int ci_sys_file_watch_remove(coir_fd fd, int id)
{
    int rc;
    ci_kcall();
    struct ci_kwatch_queue *queue = queue_at(fd, &rc);
    if (!queue)
        return rc;
    ci_list_for_each (node, &queue->watches)
        if (watch_at(node)->id == id) {
            end_watch(queue, watch_at(node));
            return 0;
        }
    return -ENOENT;
}

/* ---- what happens on the disks ---- */

/* To those who watch `file`: told->id is filled in. */
static void tell(const struct ci_node *of, const struct ci_file *file, struct ci_file_change told)
{
    for (struct ci_kwatch_queue *queue = ci_k.watch_queues; queue; queue = queue->next) {
        struct ci_list *node = queue->watches.next, *next;
        for (; node != &queue->watches; node = next) {
            struct watch *watch = watch_at(node);
            next = node->next;
            told.id = watch->id;
            if (queue->node != of || watch->file != file || !(watch->changes & told.kind))
                continue;
            if (told.kind == CI_CHANGE_GONE)
                end_watch(queue, watch);
            else
                put(queue, &told);
        }
    }
}

static void tell_name(const struct ci_node *of, const struct ci_disk_place *place,
                      struct ci_file_change told)
{
    char name[256] = "";
    ci_check(place->len < sizeof name, "kernel/kernel.h 5");
    memcpy(name, place->name, place->len);
    told.name = name;
    tell(of, place->directory, told);
}

static void tell_itself(const struct ci_node *of, const struct ci_file *file, int kind)
{
    tell(of, file, (struct ci_file_change){.name = "", .kind = kind});
}

void ci_kwatch_bytes(const struct ci_disk_open *open, int kind)
{
    struct ci_disk_place place;
    if (!ci_k.watch_queues || !ci_k.thread || open->node->dead || !open->node->disk)
        return;
    if (ci_disk_find_name(open->node->disk, open->file, &place))
        tell_name(open->node, &place, (struct ci_file_change){.kind = kind});
    tell_itself(open->node, open->file, kind);
}

/* The last part of a path; false: there is none, or it names a directory by dots. */
static bool look(const struct ci_disk_open *at, const char *path, struct ci_kwatched_name *name)
{
    if (!path || at->node->dead || !at->file ||
        ci_disk_locate(at->node->disk, at->file, path, &name->place) < 0 || !name->place.len)
        return false;
    name->file = ci_disk_lookup(at->node->disk, &name->place);
    return true;
}

bool ci_kwatch_look(struct ci_kwatched *ret_before, const struct ci_disk_open *at,
                    const struct ci_disk_open *to, const struct ci_file_call *call)
{
    return ci_k.watch_queues && look(at, call->path, &ret_before->from) &&
           (!call->to_path || look(to, call->to_path, &ret_before->to));
}

static void tell_rename(const struct ci_node *of, const struct ci_kwatched *before)
{
    const struct ci_kwatched_name *from = &before->from, *to = &before->to;
    struct ci_file_change told = {.is_dir = from->file->is_directory};
    if (from->file == to->file)
        return;
    told.pair = ++ci_k.watch_pairs;
    told.kind = CI_CHANGE_MOVED_OUT;
    tell_name(of, &from->place, told);
    told.kind = CI_CHANGE_MOVED_IN;
    tell_name(of, &to->place, told);
    tell_itself(of, from->file, CI_CHANGE_MOVED);
    if (to->file && !to->file->links)
        tell_itself(of, to->file, CI_CHANGE_GONE);
}

void ci_kwatch_names(const struct ci_node *of, const struct ci_kwatched *before,
                     const struct ci_file_call *call)
{
    const struct ci_kwatched_name *from = &before->from;
    struct ci_file_change told = {.kind = CI_CHANGE_CREATED};
    switch (call->kind) {
    case CI_FILE_OPEN:
        if (!from->file && (call->flags & O_TMPFILE) != O_TMPFILE)
            tell_name(of, &from->place, told);
        break;
    case CI_FILE_MKDIR:
        told.is_dir = true;
        tell_name(of, &from->place, told);
        break;
    case CI_FILE_LINK: tell_name(of, &before->to.place, told); break;
    case CI_FILE_UNLINK:
        told =
            (struct ci_file_change){.kind = CI_CHANGE_REMOVED, .is_dir = from->file->is_directory};
        tell_name(of, &from->place, told);
        if (from->file->is_directory || !from->file->links)
            tell_itself(of, from->file, CI_CHANGE_GONE);
        break;
    case CI_FILE_RENAME: tell_rename(of, before); break;
    default: break;
    }
}
