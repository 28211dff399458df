/* The loop by itself, with callbacks, for programs without tasks. */
#include <errno.h>

#include "base/options.h"
#include "loop/loop.h"
#include "sys/fork.h"
#include "sys/misuse.h"

/* A loop that a program made; its first member is the public object. */
struct standalone {
    struct coir_loop loop;
    coir_allocator allocator;
};

int coir_loop_new(coir_loop **ret_loop)
{
    return ret_loop ? coir_loop_new_with(NULL, ret_loop) : CI_MISUSE(-EINVAL, "ret_loop is NULL");
}

int coir_loop_new_with(const coir_loop_options *given, coir_loop **ret_loop)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!ret_loop)
        return CI_MISUSE(-EINVAL, "ret_loop is NULL");
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
    if (!loop || ci_forked() ||
        (loop->turning && CI_MISUSE(-EBUSY, "a callback of the loop runs; return from it first")))
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
    if (!loop || loop->turning)
        return CI_MISUSE(loop ? -EBUSY : -EINVAL, "loop is NULL, or one of its callbacks runs");
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
    if (!loop || loop->turning)
        return CI_MISUSE(loop ? -EBUSY : -EINVAL, "loop is NULL, or one of its callbacks runs");
    ci_loop_turn(loop, deadline);
    return loop->error;
}

void coir_loop_stop(coir_loop *loop)
{
    if (ci_forked() || (!loop && CI_MISUSE(-EINVAL, "loop is NULL")))
        return;
    ci_loop_alert(loop);
}

coir_time coir_loop_now(const coir_loop *loop)
{
    if (!loop && CI_MISUSE(-EINVAL, "loop is NULL"))
        return 0;
    return loop->now;
}

int coir_loop_post(coir_loop *loop, void (*fn)(void *arg), void *arg)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!loop || !fn)
        return CI_MISUSE(-EINVAL, "loop or fn is NULL");
    return ci_loop_post(loop, loop->allocator, fn, arg);
}
