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
};
CI_LEAVES_SPARE_WORDS(struct watch, coir_watch);

static struct watch *watch_of(coir_watch *watch)
{
    return (struct watch *)(void *)watch;
}

static void on_events(struct ci_op *op)
{
    struct watch *watch = ci_container_of(op, struct watch, op);
    watch->fn(watch->loop, (coir_watch *)(void *)watch, op->result, watch->arg);
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
    if (!fn)
        return CI_MISUSE(-EINVAL, "fn is NULL");
    if (ci_loop_is_foreign(loop))
        return CI_MISUSE(-EXDEV, "another thread is in a turn of the loop; use coir_loop_post");
    *watch = (struct watch){
        .op = {.done = on_events,
               .fd = fd,
               .kind = CI_OP_WATCH,
               .events = (uint8_t)(events & (COIR_READ | COIR_WRITE))},
        .fn = fn,
        .arg = arg,
    };
    if (ci_driver_start(loop->driver, &watch->op))
        return watch->op.result;
    watch->loop = loop;
    loop->live_watches++;
    return 0;
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
    watch->loop = NULL;
    ci_driver_cancel(loop->driver, &watch->op);
    loop->live_watches--;
}
