/* Watchers: changes of files, from a queue of the system.
 *
 * 1. data[at..len) has been read from the queue but not taken yet.
 * 2. While a task waits for the queue, or for its turn, the watcher is busy; where it waits for the
 * queue, nothing is left in `data`.
 *
 * A case of a select that another case has decided leaves its change in `data`.
 */
#include "coir/watcher.h"

#include <errno.h>

#include "base/check.h"
#include "base/options.h"
#include "coir/offload.h"
#include "io/file.h"
#include "sys/call.h"
#include "sys/file_watch.h"
#include "task/completed.h"

#define SAME(what) ((int)COIR_CHANGE_##what == (int)CI_CHANGE_##what)
_Static_assert(SAME(CREATED) && SAME(REMOVED) && SAME(MOVED_OUT) && SAME(MOVED_IN) &&
                   SAME(MODIFIED) && SAME(WRITTEN) && SAME(ATTRIBUTES) && SAME(MOVED) &&
                   SAME(GONE) && SAME(OVERFLOW),
               "sys/file_watch.h has the values of enum coir_changes");

enum { CHANGES_ALL = 2 * COIR_CHANGE_OVERFLOW - 1 };

struct coir_watcher {
    struct ci_worker *worker;
    coir_fd fd;
    bool busy;       /* a task waits for the queue, or for its turn */
    unsigned adding; /* tasks that are in coir_watcher_add */
    size_t at, len;
    _Alignas(8) char data[CI_FILE_WATCH_ROOM];
};

struct watcher_op {
    coir_future future;
    union {
        struct ci_io_op io;
        coir_future turn;
    };
    coir_watcher *watcher;
    coir_change *ret_change;
};
CI_FIBER_OP_FITS(struct watcher_op); /* as a case */
CI_LEAVES_SPARE_WORDS(struct watcher_op, coir_watcher_op);

int coir_watcher_open(coir_watcher **ret_watcher)
{
    struct ci_worker *worker = ci_worker_current;
    if (!worker)
        return ci_no_worker();
    if (!ret_watcher)
        return CI_MISUSE(-EINVAL, "ret_watcher is NULL");
    if (worker->runtime->simulated)
        return -ENOTSUP;
    coir_watcher *watcher = ci_alloc_zero(&worker->runtime->allocator, sizeof *watcher);
    if (!watcher)
        return -ENOMEM;
    watcher->worker = worker;
    watcher->fd = ci_sys_file_watch_open();
    if (watcher->fd < 0) {
        int rc = watcher->fd;
        ci_free(&worker->runtime->allocator, watcher, sizeof *watcher);
        return rc;
    }
    *ret_watcher = watcher;
    return 0;
}

void coir_watcher_close(coir_watcher *watcher)
{
    if (!watcher || ci_forked() || CI_ELSEWHERE(watcher->worker))
        return;
    if (watcher->busy || watcher->adding) {
        (void)CI_MISUSE(-EBUSY, "a task uses the watcher; cancel it first");
        return;
    }
    struct ci_worker *worker = watcher->worker;
    worker->loop.driver->kind->forget(worker->loop.driver, watcher->fd);
    ci_sys_close(watcher->fd);
    ci_free(&worker->runtime->allocator, watcher, sizeof *watcher);
}

struct add {
    coir_fd fd, dir;
    const char *path;
    int changes;
};

/* Runs on a thread of the pool: it looks the path up on the disk. */
static int add_path(void *arg)
{
    const struct add *add = arg;
    return ci_sys_file_watch_add(add->fd, add->dir, add->path, add->changes);
}

/* Of the call `caller`, made at `place`. */
static int add_at(coir_watcher *watcher, coir_file *dir, const char *path, int changes,
                  const char *caller, const void *place)
{
    if (!watcher || !path)
        return ci_misused(-EINVAL, "watcher or path is NULL", caller, place);
    if (changes & ~CHANGES_ALL)
        return ci_misused(-EINVAL, "changes has bits that enum coir_changes has not", caller,
                          place);
    int rc = ci_elsewhere(watcher->worker, caller, place);
    if (rc < 0)
        return rc;
    struct add add = {watcher->fd, ci_file_fd(dir), path, changes ? changes : CHANGES_ALL};
    watcher->adding++;
    ci_file_ref(dir);
    rc = coir_offload(add_path, &add);
    ci_file_unref(dir);
    watcher->adding--;
    return rc;
}

int coir_watcher_add(coir_watcher *watcher, const char *path, int changes)
{
    return add_at(watcher, NULL, path, changes, CI_CALL, CI_PLACE);
}

int coir_watcher_add_at(coir_watcher *watcher, coir_file *dir, const char *path, int changes)
{
    return add_at(watcher, dir, path, changes, CI_CALL, CI_PLACE);
}

int coir_watcher_remove(coir_watcher *watcher, int id)
{
    if (!watcher)
        return CI_MISUSE(-EINVAL, "watcher is NULL");
    int rc = CI_ELSEWHERE(watcher->worker);
    return rc < 0 ? rc : ci_sys_file_watch_remove(watcher->fd, id);
}

/* Reads from the queue: whether anything came, or the error. */
static int fill(coir_watcher *watcher)
{
    ci_check(!watcher->busy, "watcher.c 2");
    ssize_t n = ci_sys_read(watcher->fd, watcher->data, sizeof watcher->data);
    watcher->at = 0;
    watcher->len = n > 0 ? (size_t)n : 0;
    return n == -EAGAIN ? 0 : n < 0 ? (int)n : 1;
}

/* Its size was checked before. */
static void take(coir_change *ret_change, const struct ci_file_change *found)
{
    coir_change change = COIR_CHANGE;
    change.name = found->name;
    change.id = found->id;
    change.kind = found->kind;
    change.pair = found->pair;
    change.is_dir = found->is_dir;
    (void)ci_result_write(ret_change, &change, sizeof change);
}

/* Changes that are there at once count against the budget. True: the watcher is busy until the
 * turn comes. */
static bool must_let_others_run(coir_watcher *watcher)
{
    struct ci_worker *worker = ci_worker_current;
    bool spent = ci_budget_is_spent(worker);
    ci_budget_spend(worker);
    return watcher->busy = spent;
}

static coir_future *watcher_poll(coir_future *future)
{
    struct watcher_op *self = ci_container_of(future, struct watcher_op, future);
    coir_watcher *watcher = self->watcher;
    struct ci_file_change found;
    size_t at;
    int rc;
    COIR_BEGIN(future);
    if (watcher->worker != ci_worker_current)
        COIR_RETURN(future, -EXDEV);
    if (watcher->busy)
        COIR_RETURN(future, -EBUSY);
    if (must_let_others_run(watcher)) {
        COIR_AWAIT(future, coir_yield_op(&self->turn));
        watcher->busy = false;
        ci_budget_spend(ci_worker_current);
    }
    if ((rc = ci_worker_current->runnable->interrupt) < 0)
        COIR_RETURN(future, rc);
    ci_check(watcher->at <= watcher->len, "watcher.c 1");
    while (at = watcher->at, !ci_sys_file_watch_next(watcher->data, watcher->len, &at, &found)) {
        if ((rc = fill(watcher)) == 0) {
            watcher->busy = true;
            COIR_AWAIT(future, ci_io_init(&self->io, NULL,
                                          &(struct ci_op){.fd = watcher->fd,
                                                          .kind = CI_OP_FOREIGN,
                                                          .events = COIR_READ}));
            watcher->busy = false;
            rc = (int)self->io.future.result;
        }
        if (rc < 0)
            COIR_RETURN(future, rc);
    }
    if (!ci_claim(ci_worker_current->runnable, future)) /* another case has won the select */
        COIR_RETURN(future, -ECANCELED);
    watcher->at = at;
    take(self->ret_change, &found);
    COIR_RETURN(future, 0);
}

static const coir_future_kind watcher_kind = COIR_FUTURE_KIND("a change", watcher_poll, NULL);

coir_future *coir_watcher_next_op(coir_watcher_op *opaque, coir_watcher *watcher,
                                  coir_change *ret_change)
{
    struct watcher_op *op = (struct watcher_op *)(void *)opaque;
    if (!opaque || !watcher || !ret_change)
        return ci_completed_op(op, CI_MISUSE(-EINVAL, "op, watcher or ret_change is NULL"));
    int rc = ci_size_check(ret_change, sizeof *ret_change);
    if (rc < 0)
        return ci_completed_op(op, rc);
    op->watcher = watcher;
    op->ret_change = ret_change;
    return coir_future_init(&op->future, &watcher_kind);
}

int coir_watcher_next(coir_watcher *watcher, coir_change *ret_change)
{
    coir_watcher_op op;
    if (!watcher || !ret_change)
        return CI_MISUSE(-EINVAL, "watcher or ret_change is NULL");
    int rc = CI_ELSEWHERE(watcher->worker);
    if (rc < 0)
        return rc;
    return (int)ci_await_in_fiber(coir_watcher_next_op(&op, watcher, ret_change));
}

static coir_future *make_wait(const coir_case *self, void *op)
{
    return coir_watcher_next_op(op, self->object, self->data);
}

coir_case coir_case_change(coir_watcher *watcher, coir_change *ret_change)
{
    if (!watcher || !ret_change)
        return ci_completed_case(CI_MISUSE(-EINVAL, "watcher or ret_change is NULL"));
    return (coir_case){.make = make_wait, .object = watcher, .data = ret_change};
}
