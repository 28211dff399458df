/* The loop by itself, with callbacks: what a program that wants no tasks uses. */
#include <errno.h>
#include <string.h>

#include "base/options.h"
#include "base/time.h"
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

struct timer {
    struct ci_timer timer;
    coir_loop *loop; /* the loop it was last started on; NULL: never */
    coir_timer_fn *fn;
    void *arg;
};
CI_LEAVES_SPARE_WORDS(struct timer, coir_timer);

static struct watch *watch_of(coir_watch *watch)
{
    return (struct watch *)(void *)watch;
}

static struct timer *timer_of(coir_timer *timer)
{
    return (struct timer *)(void *)timer;
}

/* A loop that a program made. The first member is what it is given. */
struct standalone {
    struct coir_loop loop;
    coir_allocator allocator;
};

int coir_loop_new(coir_loop **ret_loop)
{
    return coir_loop_new_with(NULL, ret_loop);
}

int coir_loop_new_with(const coir_loop_options *given, coir_loop **ret_loop)
{
    if (ci_forked())
        return -COIR_EFORKED;
    coir_loop_options options = COIR_LOOP_OPTIONS;
    coir_allocator allocator;
    int rc = ci_options_read(&options, sizeof options, given);
    if (rc == 0)
        rc = ci_allocator_read(&allocator, options.allocator);
    if (rc < 0)
        return rc;
    struct standalone *made = ci_alloc_zero(&allocator, sizeof *made);
    if (!made)
        return -ENOMEM;
    made->allocator = allocator;
    struct ci_driver *driver;
    rc = ci_driver_open(options.driver ? options.driver : ci_driver_selector, &made->allocator,
                        &driver);
    if (rc < 0) {
        ci_free(&allocator, made, sizeof *made);
        return rc;
    }
    ci_loop_init(&made->loop, driver, &made->allocator);
    ci_fork_forbid();
    *ret_loop = &made->loop;
    return 0;
}

void coir_loop_free(coir_loop *loop)
{
    if (!loop || ci_forked())
        return;
    struct standalone *made = ci_container_of(loop, struct standalone, loop);
    coir_allocator allocator = made->allocator;
    ci_loop_done(loop);
    ci_free(&allocator, made, sizeof *made);
    ci_fork_allow();
}

int coir_loop_run(coir_loop *loop)
{
    if (ci_forked())
        return -COIR_EFORKED;
    while (!loop->error && !ci_load_relaxed(&loop->alert) &&
           (loop->live_watches || loop->wheel.count || !ci_inbox_empty(&loop->inbox)))
        ci_loop_turn(loop, COIR_NEVER);
    ci_store_relaxed(&loop->alert, false);
    return loop->error;
}

int coir_loop_run_once(coir_loop *loop, coir_time deadline)
{
    if (ci_forked())
        return -COIR_EFORKED;
    ci_loop_turn(loop, deadline);
    return loop->error;
}

void coir_loop_stop(coir_loop *loop)
{
    if (ci_forked())
        return;
    ci_loop_alert(loop);
}

coir_time coir_loop_now(const coir_loop *loop)
{
    return loop->now;
}

int coir_loop_post(coir_loop *loop, void (*fn)(void *arg), void *arg)
{
    if (ci_forked())
        return -COIR_EFORKED;
    return ci_loop_post(loop, loop->allocator, fn, arg);
}

static void on_events(struct ci_op *op)
{
    struct watch *watch = ci_container_of(op, struct watch, op);
    watch->fn(watch->loop, (coir_watch *)(void *)watch, op->result, watch->arg);
}

int coir_watch_start(coir_loop *loop, coir_watch *watch_words, coir_fd fd, int events,
                     coir_watch_fn *fn, void *arg)
{
    if (ci_forked())
        return -COIR_EFORKED;
    struct watch *watch = watch_of(watch_words);
    if (watch->loop)
        return CI_MISUSE(-EBUSY);
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

void coir_watch_stop(coir_loop *loop, coir_watch *watch_words)
{
    if (ci_forked())
        return;
    struct watch *watch = watch_of(watch_words);
    if (!watch->loop)
        return;
    watch->loop = NULL;
    ci_driver_cancel(loop->driver, &watch->op);
    loop->live_watches--;
}

static void on_timeout(struct ci_timer *fired)
{
    struct timer *timer = ci_container_of(fired, struct timer, timer);
    timer->fn(timer->loop, (coir_timer *)(void *)timer, timer->arg);
}

void coir_timer_start(coir_loop *loop, coir_timer *timer_words, coir_time delay, coir_timer_fn *fn,
                      void *arg)
{
    if (ci_forked())
        return;
    struct timer *timer = timer_of(timer_words);
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
    if (ci_forked())
        return;
    if (timer_of(timer)->loop == loop)
        ci_wheel_cancel(&loop->wheel, &timer_of(timer)->timer);
}
