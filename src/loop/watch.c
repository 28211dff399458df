/* Watches of descriptors, with callbacks. */
#include <errno.h>

#include "base/options.h"
#include "loop/loop.h"
#include "sys/fork.h"
#include "sys/misuse.h"

struct watch {
    struct ci_op op;
    coir_loop *loop; /* NULL: not started */
    coir_watch_fn *fn;
    void *arg;
    int flags; /* enum coir_watch_flags */
    struct ci_list link;
};
CI_LEAVES_SPARE_WORDS(struct watch, coir_watch);

static struct watch *watch_of(coir_watch *watch)
{
    return (struct watch *)(void *)watch;
}

/* Its operation has been withdrawn. */
static void mark_stopped(struct watch *watch)
{
    ci_list_remove(&watch->link);
    watch->loop->live--;
    watch->loop->weak -= watch->flags & COIR_WATCH_WEAK ? 1 : 0;
    watch->loop = NULL;
}

static void stop(struct watch *watch)
{
    if (ci_likely(watch->op.pending)) /* else between two runs */
        ci_driver_cancel(watch->loop->driver, &watch->op);
    mark_stopped(watch);
}

static void on_events(struct ci_op *op)
{
    struct watch *watch = ci_container_of(op, struct watch, op);
    coir_loop *loop = watch->loop;
    int events = op->result;
    if (ci_unlikely(events < 0)) { /* the driver has forgotten the descriptor */
        mark_stopped(watch);
        return;
    }
    if (watch->flags & COIR_WATCH_ONCE)
        stop(watch);
    ci_loop_note_call(loop, watch->fn);
    watch->fn(loop, (coir_watch *)(void *)watch, events, watch->arg);
}

/* Starts its operation. True: it has failed. */
static bool start_op(const coir_loop *loop, struct watch *watch, coir_fd fd, int events)
{
    watch->op = (struct ci_op){
        .done = on_events,
        .fd = fd,
        .kind = CI_OP_WATCH,
        .events = (uint8_t)(events & (COIR_READ | COIR_WRITE)),
    };
    return ci_driver_start(loop->driver, &watch->op);
}

/* Starts a watch that is not started. */
static int start(coir_loop *loop, struct watch *watch, coir_fd fd, int events)
{
    watch->flags = events & (COIR_WATCH_ONCE | COIR_WATCH_WEAK);
    if (start_op(loop, watch, fd, events))
        return watch->op.result;
    watch->loop = loop;
    ci_list_push(&loop->watches, &watch->link);
    loop->live++;
    loop->weak += watch->flags & COIR_WATCH_WEAK ? 1 : 0;
    return 0;
}

int coir_watch_start(coir_loop *loop, coir_watch *opaque, coir_fd fd, int events, coir_watch_fn *fn,
                     void *arg)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!loop || !opaque)
        return CI_MISUSE(-EINVAL, "loop or watch is NULL");
    struct watch *watch = watch_of(opaque);
    if (watch->loop)
        return CI_MISUSE(-EBUSY, "the watch was started before; stop it first");
    if (!fn || !(events & (COIR_READ | COIR_WRITE)))
        return CI_MISUSE(-EINVAL, "fn is NULL, or events has neither COIR_READ nor COIR_WRITE");
    if (ci_loop_is_foreign(loop))
        return CI_MISUSE(-EXDEV, "another thread is in a turn of the loop; use coir_loop_post");
    watch->fn = fn;
    watch->arg = arg;
    return start(loop, watch, fd, events);
}

int coir_watch_modify(coir_loop *loop, coir_watch *opaque, int events)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!loop || !opaque || !(events & (COIR_READ | COIR_WRITE)))
        return CI_MISUSE(-EINVAL,
                         "loop or watch is NULL, or events has neither COIR_READ nor COIR_WRITE");
    struct watch *watch = watch_of(opaque);
    if (watch->loop != loop)
        return CI_MISUSE(-ENOENT, "the watch is not started on this loop");
    if (ci_loop_is_foreign(loop))
        return CI_MISUSE(-EXDEV, "another thread is in a turn of the loop; use coir_loop_post");
    if (events == (watch->op.events | watch->flags))
        return 0;
    stop(watch);
    return start(loop, watch, watch->op.fd, events);
}

void coir_watch_stop(coir_loop *loop, coir_watch *opaque)
{
    if (ci_forked() || ((!loop || !opaque) && CI_MISUSE(-EINVAL, "loop or watch is NULL")))
        return;
    struct watch *watch = watch_of(opaque);
    if (!watch->loop ||
        (watch->loop != loop && CI_MISUSE(-EINVAL, "the watch is of another loop")) ||
        (ci_loop_is_foreign(loop) &&
         CI_MISUSE(-EXDEV, "another thread is in a turn of the loop; use coir_loop_post")))
        return;
    stop(watch);
}

/* ---- between two runs ---- */

static struct watch *watch_at(struct ci_list *link)
{
    return ci_container_of(link, struct watch, link);
}

void ci_loop_suspend_watches(struct coir_loop *loop)
{
    ci_list_for_each (link, &loop->watches)
        ci_driver_cancel(loop->driver, &watch_at(link)->op);
}

void ci_loop_resume_watches(struct coir_loop *loop)
{
    for (struct ci_list *link = loop->watches.next, *next; link != &loop->watches; link = next) {
        struct watch *watch = watch_at(link);
        next = link->next;
        /* its descriptor may have been closed, as the driver may forget it in a run */
        if (!watch->op.pending && start_op(loop, watch, watch->op.fd, watch->op.events))
            mark_stopped(watch);
    }
}
