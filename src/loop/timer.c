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
    coir_time due, interval, slack;
    bool weak;
};
CI_LEAVES_SPARE_WORDS(struct timer, coir_timer);

static struct timer *timer_of(coir_timer *timer)
{
    return (struct timer *)(void *)timer;
}

/* The time from `due` to `due + slack` that ends in the most zero bits: timers that may be called
 * at the same time mostly get the same one. */
static coir_time with_slack(coir_time due, coir_time slack)
{
    coir_time latest = ci_time_after(due, slack);
    uint64_t differ = (uint64_t)due ^ (uint64_t)latest;
    if (!differ || latest == COIR_NEVER)
        return due;
    unsigned bit = 63 - (unsigned)__builtin_clzll(differ);
    return latest & ~(coir_time)(((uint64_t)1 << bit) - 1);
}

static void start(struct timer *timer)
{
    ci_loop_start_timer(timer->loop, &timer->timer, with_slack(timer->due, timer->slack));
    timer->loop->weak += timer->weak;
}

static void stop(struct timer *timer)
{
    if (!ci_timer_started(&timer->timer))
        return;
    ci_wheel_cancel(&timer->loop->wheel, &timer->timer);
    timer->loop->weak -= timer->weak;
}

static void on_timeout(struct ci_timer *fired)
{
    struct timer *timer = ci_container_of(fired, struct timer, timer);
    coir_loop *loop = timer->loop;
    loop->weak -= timer->weak;
    if (timer->interval) {
        timer->due = ci_time_after(timer->due, timer->interval);
        if (timer->due <= loop->now) { /* late by several intervals: one call for all of them */
            coir_time late = ci_time_left(loop->now, timer->due);
            timer->due += (late / timer->interval + 1) * timer->interval;
        }
        start(timer);
    }
    ci_loop_note_call(loop, timer->fn);
    timer->fn(loop, (coir_timer *)(void *)timer, timer->arg);
}

static bool is_elsewhere(const coir_loop *loop, const struct timer *timer)
{
    return timer->loop && timer->loop != loop && ci_timer_started(&timer->timer);
}
#define ELSEWHERE "the timer is started on another loop; stop it there first"

static void start_with(coir_loop *loop, struct timer *timer, const coir_timer_options *options,
                       coir_timer_fn *fn, void *arg)
{
    if (timer->loop == loop)
        stop(timer);
    coir_time delay = options->delay > 0 ? options->delay : 0;
    *timer = (struct timer){
        .loop = loop,
        .fn = fn,
        .arg = arg,
        .due = ci_time_after(ci_loop_update_now(loop), delay),
        .interval = options->interval,
        .slack = options->slack,
        .weak = options->weak,
    };
    ci_timer_init(&timer->timer, on_timeout);
    start(timer);
}

int coir_timer_start_with(coir_loop *loop, coir_timer *timer, const coir_timer_options *given,
                          coir_timer_fn *fn, void *arg)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!loop || !timer || !fn)
        return CI_MISUSE(-EINVAL, "loop, timer or fn is NULL");
    if (ci_loop_is_foreign(loop))
        return CI_MISUSE(-EXDEV, "another thread is in a turn of the loop; use coir_loop_post");
    coir_timer_options options = COIR_TIMER_OPTIONS;
    int rc = ci_options_read(&options, sizeof options, given);
    if (rc < 0)
        return rc;
    if (options.interval < 0 || options.slack < 0)
        return CI_MISUSE(-EINVAL, "interval or slack is negative");
    if (is_elsewhere(loop, timer_of(timer)))
        return CI_MISUSE(-EBUSY, ELSEWHERE);
    start_with(loop, timer_of(timer), &options, fn, arg);
    return 0;
}

void coir_timer_start(coir_loop *loop, coir_timer *timer, coir_time delay, coir_timer_fn *fn,
                      void *arg)
{
    if (ci_forked() ||
        ((!loop || !timer || !fn) && CI_MISUSE(-EINVAL, "loop, timer or fn is NULL")) ||
        (ci_loop_is_foreign(loop) &&
         CI_MISUSE(-EXDEV, "another thread is in a turn of the loop; use coir_loop_post")) ||
        (is_elsewhere(loop, timer_of(timer)) && CI_MISUSE(-EBUSY, ELSEWHERE)))
        return;
    coir_timer_options options = {.delay = delay};
    start_with(loop, timer_of(timer), &options, fn, arg);
}

void coir_timer_stop(coir_loop *loop, coir_timer *timer)
{
    if (ci_forked() || ((!loop || !timer) && CI_MISUSE(-EINVAL, "loop or timer is NULL")) ||
        (ci_loop_is_foreign(loop) &&
         CI_MISUSE(-EXDEV, "another thread is in a turn of the loop; use coir_loop_post")))
        return;
    if (timer_of(timer)->loop == loop)
        stop(timer_of(timer));
}
