/* Timers with callbacks, on the loop's wheel. */
#include <errno.h>

#include "base/options.h"
#include "base/time.h"
#include "loop/loop.h"
#include "sys/fork.h"
#include "sys/misuse.h"

struct timer {
    struct ci_timer timer;
    coir_loop *loop; /* the loop it was last started on; NULL: never */
    coir_timer_fn *fn;
    void *arg;
};
CI_LEAVES_SPARE_WORDS(struct timer, coir_timer);

static struct timer *timer_of(coir_timer *timer)
{
    return (struct timer *)(void *)timer;
}

static void on_timeout(struct ci_timer *fired)
{
    struct timer *timer = ci_container_of(fired, struct timer, timer);
    timer->fn(timer->loop, (coir_timer *)(void *)timer, timer->arg);
}

void coir_timer_start(coir_loop *loop, coir_timer *opaque, coir_time delay, coir_timer_fn *fn,
                      void *arg)
{
    if (ci_forked() ||
        ((!loop || !opaque || !fn) && CI_MISUSE(-EINVAL, "loop, timer or fn is NULL")) ||
        (ci_loop_is_foreign(loop) &&
         CI_MISUSE(-EXDEV, "another thread is in a turn of the loop; use coir_loop_post")))
        return;
    struct timer *timer = timer_of(opaque);
    if (timer->loop == loop)
        ci_wheel_cancel(&loop->wheel, &timer->timer);
    ci_timer_init(&timer->timer, on_timeout);
    timer->loop = loop;
    timer->fn = fn;
    timer->arg = arg;
    coir_time now = ci_loop_update_now(loop);
    ci_loop_start_timer(loop, &timer->timer, ci_time_after(now, delay > 0 ? delay : 0));
}

void coir_timer_stop(coir_loop *loop, coir_timer *timer)
{
    if (ci_forked() || ((!loop || !timer) && CI_MISUSE(-EINVAL, "loop or timer is NULL")) ||
        (ci_loop_is_foreign(loop) &&
         CI_MISUSE(-EXDEV, "another thread is in a turn of the loop; use coir_loop_post")))
        return;
    if (timer_of(timer)->loop == loop)
        ci_wheel_cancel(&loop->wheel, &timer_of(timer)->timer);
}
