/* The loop by itself, with callbacks, for programs without tasks. */
#include <errno.h>

#include "base/options.h"
#include "loop/loop.h"
#include "loop/watchdog.h"
#include "sys/fork.h"
#include "sys/misuse.h"

/* A loop that a program made; its first member is the public object. */
struct standalone {
    struct coir_loop loop;
    coir_allocator allocator;
};

/* Whether a call on a loop as a whole is refused: a worker's belongs to its runtime. */
#define REFUSED(loop) \
    CI_REFUSED(!(loop) || !(loop)->standalone, "loop is NULL, or a worker's: its runtime runs it")

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
    made->loop.standalone = true;
    ci_fork_forbid();
    *ret_loop = &made->loop;
    return 0;
}

void coir_loop_free(coir_loop *loop)
{
    if (!loop || ci_forked() || REFUSED(loop) ||
        (loop->turning && CI_MISUSE(-EBUSY, "a callback of the loop runs; return from it first")) ||
        CI_REFUSED_AS(-EXDEV, ci_loop_watchdog_is_elsewhere(loop),
                      "another thread has started its watchdog; stop it there"))
        return;
    struct standalone *made = ci_container_of(loop, struct standalone, loop);
    coir_allocator allocator = made->allocator;
    ci_loop_done(loop);
    ci_free(&allocator, made, sizeof *made);
    ci_fork_allow();
}

bool coir_loop_alive(const coir_loop *loop)
{
    if (!loop && CI_MISUSE(-EINVAL, "loop is NULL"))
        return false;
    /* holds before the inbox: who posts before it releases has posted then */
    return loop->live + loop->wheel.count > loop->weak || ci_load(&loop->holds) ||
           !ci_inbox_empty(&loop->inbox) || !ci_list_empty(&loop->hooks[COIR_HOOK_IN_TURN]);
}

/* Before a turn: whether another thread has requested one. What it announced is seen then. */
static bool take_alert(coir_loop *loop)
{
    /* pairs with the store in ci_loop_alert */
    return ci_load_relaxed(&loop->alert) && ci_exchange(&loop->alert, false);
}

static int run(coir_loop *loop, bool forever)
{
    for (;;) {
        take_alert(loop);
        if (loop->error || ci_load(&loop->stopped) || !(forever || coir_loop_alive(loop)))
            break;
        ci_loop_turn(loop, COIR_NEVER);
    }
    ci_store(&loop->stopped, false);
    return loop->error;
}

/* A run is refused in a callback of the loop, and for the loop of a worker. */
#define RUN_REFUSED(loop)                                                         \
    (!(loop) || !(loop)->standalone                                               \
         ? CI_MISUSE(-EINVAL, "loop is NULL, or a worker's: its runtime runs it") \
         : ((loop)->turning ? CI_MISUSE(-EBUSY, "one of the loop's callbacks runs") : 0))

int coir_loop_run(coir_loop *loop)
{
    if (ci_forked())
        return -COIR_EFORKED;
    int rc = RUN_REFUSED(loop);
    return rc < 0 ? rc : run(loop, false);
}

int coir_loop_run_forever(coir_loop *loop)
{
    if (ci_forked())
        return -COIR_EFORKED;
    int rc = RUN_REFUSED(loop);
    return rc < 0 ? rc : run(loop, true);
}

int coir_loop_run_once(coir_loop *loop, coir_time deadline)
{
    if (ci_forked())
        return -COIR_EFORKED;
    int rc = RUN_REFUSED(loop);
    if (rc < 0)
        return rc;
    ci_store_relaxed(&loop->asleep, false); /* see coir_loop_next */
    ci_store_relaxed(&loop->idle, false);
    ci_loop_turn(loop, take_alert(loop) ? 0 : deadline);
    return loop->error;
}

void coir_loop_stop(coir_loop *loop)
{
    if (ci_forked() || REFUSED(loop))
        return;
    ci_fetch_add(&loop->keepers, 1); /* the run may end at once, and the loop be freed */
    ci_store(&loop->stopped, true);
    ci_loop_alert(loop);
    ci_fetch_sub(&loop->keepers, 1);
}

void coir_loop_hold(coir_loop *loop)
{
    if (ci_forked() || REFUSED(loop))
        return;
    ci_fetch_add(&loop->holds, 1);
}

void coir_loop_release(coir_loop *loop)
{
    if (ci_forked() || REFUSED(loop))
        return;
    ci_fetch_add(&loop->keepers, 1); /* as in coir_loop_stop */
    if (ci_fetch_sub(&loop->holds, 1) == 0) {
        ci_fetch_add(&loop->holds, 1);
        (void)CI_MISUSE(-EINVAL, "it was released as often as it was held");
    } else {
        ci_loop_alert(loop);
    }
    ci_fetch_sub(&loop->keepers, 1);
}

coir_fd coir_loop_fd(coir_loop *loop)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!loop || !loop->standalone)
        return CI_MISUSE(-EINVAL, "loop is NULL, or a worker's; use coir_runtime_fd");
    struct ci_driver *driver = loop->driver;
    return driver->kind->descriptor ? driver->kind->descriptor(driver) : -ENOTSUP;
}

coir_time coir_loop_next(coir_loop *loop)
{
    if (ci_forked() || REFUSED(loop))
        return 0;
    if (!ci_list_empty(&loop->fresh))
        ci_loop_start_fresh(loop);
    return ci_loop_announce_sleep(loop) && !ci_loop_has_work(loop) ? ci_wheel_next(&loop->wheel)
                                                                   : 0;
}

coir_time coir_loop_now(const coir_loop *loop)
{
    if (!loop && CI_MISUSE(-EINVAL, "loop is NULL"))
        return 0;
    return loop->now;
}

coir_time coir_loop_update_now(coir_loop *loop)
{
    if (ci_forked() || CI_REFUSED(!loop, "loop is NULL"))
        return 0;
    return ci_loop_update_now(loop);
}

int coir_loop_counters_get(const coir_loop *loop, coir_loop_counters *ret_counters)
{
    if (!loop || !ret_counters)
        return CI_MISUSE(-EINVAL, "loop or ret_counters is NULL");
    coir_loop_counters counters = {
        .size = sizeof counters,
        .turns = ci_load_relaxed(&loop->turns),
        .sleeps = ci_load_relaxed(&loop->sleeps),
        .wakeups = ci_load_relaxed(&loop->wakeups),
    };
    return ci_result_write(ret_counters, &counters, sizeof counters);
}
