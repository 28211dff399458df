/* Calls on the files of a simulated disk (disk.h), which take effect at once. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "sim/disk.h"
#include "sim/fault.h"
#include "sim/node.h"

enum { SECTOR = 512, FILE_MAX = 1 << 30 };
static const coir_time operation_most = 200 * COIR_US, sync_most = 5 * COIR_MS;

static void resize(struct ci_disk_contents *contents, size_t len)
{
    int rc = ci_grow(&ci_system_allocator, (void **)&contents->bytes, &contents->capacity, 1, len);
    ci_check(rc == 0, "world.h 2");
    if (len < contents->len)
        memset(contents->bytes + len, 0, contents->len - len);
    contents->len = len;
}

static void copy(struct ci_disk_contents *to, const struct ci_disk_contents *from, size_t at,
                 size_t len)
{
    if (at + len > to->len)
        resize(to, at + len);
    if (len)
        memcpy(to->bytes + at, from->bytes + at, len);
}

/* Notes that bytes [from, to) of what a read returns change. */
static void note_change(struct ci_file *file, size_t from, size_t to)
{
    bool first = file->changed_from == file->changed_to;
    if (first || from < file->changed_from)
        file->changed_from = from;
    if (first || to > file->changed_to)
        file->changed_to = to;
}

static void set_seen_length(struct ci_file *file, size_t len)
{
    size_t before = file->seen.len;
    note_change(file, len < before ? len : before, len < before ? before : len);
    resize(&file->seen, len);
}

/* Makes `kept` what is seen. A log is synced after each record: only what has changed is copied. */
static void keep(struct ci_file *file)
{
    size_t end = file->changed_to < file->seen.len ? file->changed_to : file->seen.len;
    resize(&file->kept, file->seen.len);
    if (file->changed_from < end)
        copy(&file->kept, &file->seen, file->changed_from, end - file->changed_from);
    file->changed_from = file->changed_to = 0;
}

static bool same(const struct ci_disk_contents *a, const struct ci_disk_contents *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->bytes, b->bytes, a->len) == 0);
}

/* ---- faults ---- */

static size_t shortened(struct ci_world *world, const struct ci_node *node, size_t len)
{
    return ci_world_shorten(world, node, node->faults.disk_short, len,
                            "the disk moves less than it could");
}

/* The error with which a call fails now, or 0. */
static int refused(struct ci_node *node)
{
    if (node->dead)
        return -EIO;
    return ci_world_fault(node->world, node, node->faults.disk_error, "the disk fails") ? -EIO : 0;
}

/* As refused, for a call that needs room: of the disk, or of the user's share of it. Which, the
 * number of the fault says, so that a replay without other faults has the same. */
static int refused_room(struct ci_node *node)
{
    int rc = refused(node);
    if (rc == 0 && ci_world_fault(node->world, node, node->faults.disk_full, "the disk is full"))
        rc = node->world->faults.asked % 2 ? -ENOSPC : -EDQUOT;
    return rc;
}

/* ---- bytes ---- */

int64_t ci_disk_length(const struct ci_file *file)
{
    return (int64_t)file->seen.len;
}

int ci_disk_read(struct ci_node *node, const struct ci_file *file, void *buf, size_t len,
                 int64_t offset)
{
    const struct ci_disk_contents *seen = &file->seen;
    size_t at = (size_t)offset;
    int rc = refused(node);
    if (rc < 0 || at >= seen->len)
        return rc;
    len = shortened(node->world, node, len < seen->len - at ? len : seen->len - at);
    memcpy(buf, seen->bytes + at, len);
    return (int)len;
}

int ci_disk_write(struct ci_node *node, struct ci_file *file, const void *data, size_t len,
                  int64_t offset)
{
    struct ci_disk_contents *seen = &file->seen;
    size_t at = (size_t)offset;
    int rc = refused_room(node);
    if (rc < 0)
        return rc;
    if (offset > FILE_MAX - (int64_t)len)
        return -EFBIG;
    len = shortened(node->world, node, len);
    if (at + len > seen->len)
        set_seen_length(file, at + len);
    note_change(file, at, at + len);
    memcpy(seen->bytes + at, data, len);
    return (int)len;
}

int ci_disk_sync(struct ci_node *node, struct ci_file *file)
{
    int rc = refused(node);
    if (rc < 0)
        return rc;
    if (file->is_directory) {
        ci_disk_keep_names(node->disk, file);
        return 0;
    }
    keep(file);
    ci_debug_check(same(&file->seen, &file->kept), "disk.h 1");
    return 0;
}

static int transfer(const struct ci_disk_open *at, const struct ci_file_call *call)
{
    bool reads = call->kind == CI_FILE_READ;
    int64_t offset = !reads && at->flags & O_APPEND ? ci_disk_length(at->file) : call->offset;
    int done = 0;
    for (int i = 0; i < call->count; i++) {
        const struct iovec *part = &call->iov[i];
        int n =
            reads ? ci_disk_read(at->node, at->file, part->iov_base, part->iov_len, offset + done)
                  : ci_disk_write(at->node, at->file, part->iov_base, part->iov_len, offset + done);
        if (n < 0)
            return done ? done : n;
        done += n;
        if ((size_t)n < part->iov_len)
            break;
    }
    return done;
}

static int set_length(const struct ci_disk_open *at, int64_t len)
{
    int rc = refused_room(at->node);
    if (rc < 0)
        return rc;
    if (len > FILE_MAX)
        return -EFBIG;
    set_seen_length(at->file, (size_t)len);
    return 0;
}

static int on_open_file(const struct ci_disk_open *at, const struct ci_file_call *call)
{
    bool writes = call->kind != CI_FILE_READ && call->kind != CI_FILE_SYNC;
    int access = at->flags & O_ACCMODE;
    int64_t len = ci_disk_length(at->file);
    if (call->kind == CI_FILE_SYNC)
        return ci_disk_sync(at->node, at->file);
    if (at->flags & O_PATH || access == (writes ? O_RDONLY : O_WRONLY))
        return call->kind == CI_FILE_TRUNCATE ? -EINVAL : -EBADF;
    if (at->file->is_directory)
        return -EISDIR;
    if (call->kind == CI_FILE_TRUNCATE)
        return set_length(at, call->len);
    if (call->kind == CI_FILE_ALLOCATE)
        return set_length(at, call->len > INT64_MAX - call->offset ? INT64_MAX
                              : call->offset + call->len > len     ? call->offset + call->len
                                                                   : len);
    return transfer(at, call);
}

/* ---- names ---- */

static int tell(const struct ci_file *file, struct stat *ret_stat)
{
    *ret_stat = (struct stat){.st_ino = file->number,
                              .st_mode = file->mode,
                              .st_nlink = file->links,
                              .st_size = ci_disk_length(file),
                              .st_blksize = SECTOR};
    return 0;
}

static int check_found(const struct ci_file *file, int flags)
{
    bool writes = (flags & O_ACCMODE) != O_RDONLY;
    if (flags & O_CREAT && flags & O_EXCL)
        return -EEXIST;
    if (file->is_directory && (writes || flags & O_CREAT))
        return -EISDIR;
    return flags & O_DIRECTORY && !file->is_directory ? -ENOTDIR : 0;
}

static int open_place(struct ci_node *node, const struct ci_disk_place *place, int flags,
                      unsigned mode, struct ci_file **ret_file)
{
    struct ci_file *file = ci_disk_lookup(node->disk, place);
    int rc = file ? check_found(file, flags) : flags & O_CREAT ? refused_room(node) : -ENOENT;
    if (rc < 0)
        return rc;
    if (!file) {
        file = ci_disk_add_file(node->disk, false, mode);
        rc = ci_disk_name_file(node->disk, place, file);
    } else if (flags & O_TRUNC) {
        set_seen_length(file, 0);
    }
    *ret_file = file;
    return rc;
}

/* A file without a name (O_TMPFILE). */
static int open_unnamed(struct ci_node *node, const struct ci_disk_place *place, int flags,
                        unsigned mode, struct ci_file **ret_file)
{
    const struct ci_file *directory = ci_disk_lookup(node->disk, place);
    if (!directory || !directory->is_directory)
        return directory ? -ENOTDIR : -ENOENT;
    if ((flags & O_ACCMODE) == O_RDONLY)
        return -EINVAL;
    int rc = refused_room(node);
    if (rc == 0)
        *ret_file = ci_disk_add_file(node->disk, false, mode);
    return rc;
}

static int on_place(const struct ci_disk_open *at, const struct ci_disk_place *place,
                    const struct ci_file_call *call, struct ci_disk_open *ret_opened)
{
    struct ci_node *node = at->node;
    const struct ci_file *file;
    int rc;
    switch (call->kind) {
    case CI_FILE_OPEN:
        *ret_opened = (struct ci_disk_open){node, NULL, call->flags};
        return (call->flags & O_TMPFILE) == O_TMPFILE
                   ? open_unnamed(node, place, call->flags, call->mode, &ret_opened->file)
                   : open_place(node, place, call->flags, call->mode, &ret_opened->file);
    case CI_FILE_STAT:
        file = ci_disk_lookup(node->disk, place);
        return file ? tell(file, call->stat) : -ENOENT;
    case CI_FILE_UNLINK:
        rc = refused(node);
        return rc < 0 ? rc : ci_disk_unname(node->disk, place, call->flags & AT_REMOVEDIR);
    default: /* CI_FILE_MKDIR */
        if (ci_disk_lookup(node->disk, place))
            return -EEXIST;
        rc = refused_room(node);
        return rc < 0 ? rc
                      : ci_disk_name_file(node->disk, place,
                                          ci_disk_add_file(node->disk, true, call->mode));
    }
}

static int on_two_places(struct ci_node *node, const struct ci_disk_place *from,
                         const struct ci_disk_place *to, const struct ci_file_call *call)
{
    int rc = refused_room(node);
    if (rc < 0)
        return rc;
    if (call->kind == CI_FILE_RENAME)
        return ci_disk_rename(node->disk, from, to);
    struct ci_file *file = ci_disk_lookup(node->disk, from);
    if (!file || file->is_directory)
        return file ? -EPERM : -ENOENT;
    return ci_disk_name_file(node->disk, to, file);
}

int ci_disk_call(const struct ci_disk_open *at, const struct ci_disk_open *to,
                 const struct ci_file_call *call, struct ci_disk_open *ret_opened)
{
    struct ci_disk_place place, to_place;
    if (at->node->dead || !at->file)
        return -EIO;
    struct ci_disk *disk = at->node->disk;
    int rc = call->path ? ci_disk_locate(disk, at->file, call->path, &place) : 0;
    if (rc == 0 && call->to_path)
        rc = to && to->file ? ci_disk_locate(disk, to->file, call->to_path, &to_place) : -EBADF;
    if (rc < 0)
        return rc;
    if (call->kind == CI_FILE_LIST)
        return (rc = refused(at->node)) < 0 ? rc : ci_disk_list(disk, at->file, call->list);
    if (call->kind == CI_FILE_COPY)
        return -EOPNOTSUPP;
    if (!call->path)
        return call->kind == CI_FILE_STAT ? tell(at->file, call->stat) : on_open_file(at, call);
    if (call->to_path)
        return on_two_places(at->node, &place, &to_place, call);
    return on_place(at, &place, call, ret_opened);
}

coir_time ci_disk_time_most(const struct ci_file_call *call)
{
    return call->kind == CI_FILE_SYNC ? sync_most : operation_most;
}

struct ci_disk_open ci_disk_root(struct ci_node *node)
{
    return (struct ci_disk_open){node, node->disk ? node->disk->root : NULL, O_RDONLY};
}

int ci_disk_find(struct ci_node *node, const char *path, int flags, struct ci_file **ret_file)
{
    const struct ci_disk_open root = ci_disk_root(node);
    struct ci_disk_open opened;
    struct ci_file_call call = {
        .kind = CI_FILE_OPEN, .fd = AT_FDCWD, .path = path, .flags = flags, .mode = 0600};
    int rc = ci_disk_call(&root, NULL, &call, &opened);
    if (rc == 0)
        *ret_file = opened.file;
    return rc;
}

/* ---- losing power ---- */

static void lose(struct ci_world *world, struct ci_file *file)
{
    struct ci_disk_contents *seen = &file->seen, *kept = &file->kept;
    size_t end = ci_random_next(&world->random) & 1 ? seen->len : kept->len;
    for (size_t at = 0; at < seen->len; at += SECTOR)
        if (ci_random_next(&world->random) & 1)
            copy(kept, seen, at, SECTOR < seen->len - at ? SECTOR : seen->len - at);
    resize(kept, end);
    resize(seen, 0);
    copy(seen, kept, 0, kept->len);
    file->changed_from = file->changed_to = 0;
    ci_debug_check(same(seen, kept), "disk.h 1");
}

void ci_disk_lose_contents(struct ci_world *world, struct ci_disk *disk)
{
    ci_disk_lose_names(disk, &world->random);
    for (struct ci_file *file = disk->files; file; file = file->next)
        lose(world, file);
}
