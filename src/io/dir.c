/* Directories: changes of names, and listings. */
#include "coir/dir.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/check.h"
#include "io/file.h"
#include "task/completed.h"

/* Of the call `caller`, made at `place`. */
static coir_future *call_op(coir_file_op *op, coir_file *dir, coir_file *to_dir,
                            const struct ci_file_call *call, const char *caller, const void *place)
{
    bool two = call->kind == CI_FILE_RENAME || call->kind == CI_FILE_LINK;
    if (!op || !call->path || (two && !call->to_path))
        return ci_completed_op(op,
                               ci_misused(-EINVAL, "op, path or to_path is NULL", caller, place));
    return ci_file_op_init((struct ci_file_op *)(void *)op, dir, to_dir, call);
}

static int call_at(coir_file *dir, coir_file *to_dir, const struct ci_file_call *call,
                   const char *caller, const void *place)
{
    coir_file_op op;
    return (int)ci_await_in_fiber(call_op(&op, dir, to_dir, call, caller, place));
}

coir_future *coir_dir_stat_op(coir_stat_op *op, coir_file *dir, const char *path, int flags,
                              struct stat *ret_stat)
{
    if (!op || !path || !ret_stat)
        return ci_completed_op(op, CI_MISUSE(-EINVAL, "op, path or ret_stat is NULL"));
    if (flags & ~AT_SYMLINK_NOFOLLOW)
        return ci_completed_op(op, -EINVAL);
    return call_op(&op->op, dir, NULL,
                   &(struct ci_file_call){.kind = CI_FILE_STAT,
                                          .path = path,
                                          .flags = flags,
                                          .stat = ret_stat,
                                          .statx = ci_stat_op_of(op)->statx},
                   CI_CALL, CI_PLACE);
}

int coir_dir_stat(coir_file *dir, const char *path, int flags, struct stat *ret_stat)
{
    coir_stat_op op;
    if (!path || !ret_stat)
        return CI_MISUSE(-EINVAL, "path or ret_stat is NULL");
    return (int)ci_await_in_fiber(coir_dir_stat_op(&op, dir, path, flags, ret_stat));
}

static struct ci_file_call two_paths(enum ci_file_kind kind, const char *path, const char *to_path)
{
    return (struct ci_file_call){.kind = kind, .path = path, .to_path = to_path};
}

coir_future *coir_dir_rename_op(coir_file_op *op, coir_file *dir, const char *path,
                                coir_file *to_dir, const char *to_path)
{
    const struct ci_file_call call = two_paths(CI_FILE_RENAME, path, to_path);
    return call_op(op, dir, to_dir, &call, CI_CALL, CI_PLACE);
}

int coir_dir_rename(coir_file *dir, const char *path, coir_file *to_dir, const char *to_path)
{
    const struct ci_file_call call = two_paths(CI_FILE_RENAME, path, to_path);
    return call_at(dir, to_dir, &call, CI_CALL, CI_PLACE);
}

coir_future *coir_dir_link_op(coir_file_op *op, coir_file *dir, const char *path, coir_file *to_dir,
                              const char *to_path)
{
    const struct ci_file_call call = two_paths(CI_FILE_LINK, path, to_path);
    return call_op(op, dir, to_dir, &call, CI_CALL, CI_PLACE);
}

int coir_dir_link(coir_file *dir, const char *path, coir_file *to_dir, const char *to_path)
{
    const struct ci_file_call call = two_paths(CI_FILE_LINK, path, to_path);
    return call_at(dir, to_dir, &call, CI_CALL, CI_PLACE);
}

coir_future *coir_dir_unlink_op(coir_file_op *op, coir_file *dir, const char *path)
{
    return call_op(op, dir, NULL, &(struct ci_file_call){.kind = CI_FILE_UNLINK, .path = path},
                   CI_CALL, CI_PLACE);
}

int coir_dir_unlink(coir_file *dir, const char *path)
{
    return call_at(dir, NULL, &(struct ci_file_call){.kind = CI_FILE_UNLINK, .path = path}, CI_CALL,
                   CI_PLACE);
}

coir_future *coir_dir_rmdir_op(coir_file_op *op, coir_file *dir, const char *path)
{
    return call_op(
        op, dir, NULL,
        &(struct ci_file_call){.kind = CI_FILE_UNLINK, .path = path, .flags = AT_REMOVEDIR},
        CI_CALL, CI_PLACE);
}

int coir_dir_rmdir(coir_file *dir, const char *path)
{
    return call_at(
        dir, NULL,
        &(struct ci_file_call){.kind = CI_FILE_UNLINK, .path = path, .flags = AT_REMOVEDIR},
        CI_CALL, CI_PLACE);
}

coir_future *coir_dir_mkdir_op(coir_file_op *op, coir_file *dir, const char *path, unsigned mode)
{
    return call_op(op, dir, NULL,
                   &(struct ci_file_call){.kind = CI_FILE_MKDIR, .path = path, .mode = mode},
                   CI_CALL, CI_PLACE);
}

int coir_dir_mkdir(coir_file *dir, const char *path, unsigned mode)
{
    return call_at(dir, NULL,
                   &(struct ci_file_call){.kind = CI_FILE_MKDIR, .path = path, .mode = mode},
                   CI_CALL, CI_PLACE);
}

/* ---- listing ---- */

struct coir_listing {
    coir_file *dir;
    const coir_allocator *allocator;
    int next, count; /* of list.entries */
    bool busy;       /* a task fills list.entries */
    struct ci_file_list list;
};

struct listing_op {
    coir_future future;
    struct ci_file_op file;
    coir_listing *listing;
    coir_dir_entry *ret_entry;
};
CI_LEAVES_SPARE_WORDS(struct listing_op, coir_listing_op);

int coir_listing_open(coir_file *dir, const char *path, coir_listing **ret_listing)
{
    struct ci_worker *worker = ci_worker_current;
    coir_file *opened;
    if (!worker)
        return ci_no_worker();
    if (!path || !ret_listing)
        return CI_MISUSE(-EINVAL, "path or ret_listing is NULL");
    int rc = coir_file_open_at(dir, path, O_RDONLY | O_DIRECTORY, 0, &opened);
    if (rc < 0)
        return rc;
    const coir_allocator *allocator = &worker->runtime->allocator;
    coir_listing *listing = ci_alloc_zero(allocator, sizeof *listing);
    if (!listing) {
        coir_file_close(opened);
        return -ENOMEM;
    }
    listing->dir = opened;
    listing->allocator = allocator;
    *ret_listing = listing;
    return 0;
}

void coir_listing_close(coir_listing *listing)
{
    if (!listing || ci_forked())
        return;
    if (listing->busy) {
        (void)CI_MISUSE(-EBUSY, "a task reads the listing; cancel it first");
        return;
    }
    ci_sys_list_end(&listing->list);
    coir_file_close(listing->dir);
    ci_free(listing->allocator, listing, sizeof *listing);
}

/* Its size was checked before. */
static void take(coir_listing *listing, coir_dir_entry *ret_entry)
{
    const struct ci_file_entry *entry = &listing->list.entries[listing->next++];
    coir_dir_entry found = COIR_DIR_ENTRY;
    found.name = entry->name;
    found.inode = entry->inode;
    found.type = entry->type;
    (void)ci_result_write(ret_entry, &found, sizeof found);
}

static coir_future *fill(struct listing_op *op)
{
    coir_listing *listing = op->listing;
    listing->busy = true;
    return ci_file_op_init(&op->file, listing->dir, NULL,
                           &(struct ci_file_call){.kind = CI_FILE_LIST, .list = &listing->list});
}

static coir_future *listing_poll(coir_future *future)
{
    struct listing_op *self = ci_container_of(future, struct listing_op, future);
    coir_listing *listing = self->listing;
    COIR_BEGIN(future);
    if (listing->busy)
        COIR_RETURN(future, -EBUSY);
    if (ci_worker_current->runnable->interrupt < 0)
        COIR_RETURN(future, ci_worker_current->runnable->interrupt);
    if (listing->next == listing->count) {
        COIR_AWAIT(future, fill(self));
        listing->busy = false;
        if (self->file.future.result <= 0)
            COIR_RETURN(future, self->file.future.result);
        listing->next = 0;
        listing->count = (int)self->file.future.result;
    }
    take(listing, self->ret_entry);
    COIR_RETURN(future, 1);
}

static const coir_future_kind listing_kind = COIR_FUTURE_KIND("a listing", listing_poll, NULL);

coir_future *coir_listing_next_op(coir_listing_op *opaque, coir_listing *listing,
                                  coir_dir_entry *ret_entry)
{
    struct listing_op *op = (struct listing_op *)(void *)opaque;
    if (!opaque || !listing || !ret_entry)
        return ci_completed_op(op, CI_MISUSE(-EINVAL, "op, listing or ret_entry is NULL"));
    int rc = ci_size_check(ret_entry, sizeof *ret_entry);
    if (rc < 0)
        return ci_completed_op(op, rc);
    op->listing = listing;
    op->ret_entry = ret_entry;
    return coir_future_init(&op->future, &listing_kind);
}

int coir_listing_next(coir_listing *listing, coir_dir_entry *ret_entry)
{
    coir_listing_op op;
    if (!listing || !ret_entry)
        return CI_MISUSE(-EINVAL, "listing or ret_entry is NULL");
    return (int)ci_await_in_fiber(coir_listing_next_op(&op, listing, ret_entry));
}
