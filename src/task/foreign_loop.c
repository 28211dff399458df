/* A runtime whose first worker is driven by a foreign event loop, which waits for the runtime's
 * descriptor and calls coir_runtime_step when that is readable or the next timer is due. */
#include <errno.h>

#include "sys/fork.h"
#include "sys/misuse.h"
#include "sys/signal.h"
#include "task/run.h"
#include "task/run_state.h"

/* A foreign loop needs a descriptor to wait for, which only drivers over a selector have. */
static int give_selector(coir_runtime *runtime)
{
    struct ci_driver **driver = &runtime->workers[0].loop.driver, *other;
    if ((*driver)->kind->descriptor || runtime->config.driver || runtime->started)
        return 0;
    int rc = ci_driver_open(ci_driver_selector, &runtime->allocator, &other);
    if (rc < 0)
        return rc;
    (*driver)->kind->free(*driver);
    *driver = other;
    return 0;
}

coir_fd coir_runtime_fd(coir_runtime *runtime)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!runtime)
        return CI_MISUSE(-EINVAL, "runtime is NULL");
    int rc = give_selector(runtime);
    struct ci_driver *driver = runtime->workers[0].loop.driver;
    return rc < 0 ? rc : driver->kind->descriptor ? driver->kind->descriptor(driver) : -ENOTSUP;
}

int coir_runtime_begin(coir_runtime *runtime, coir_task_fn *fn, void *arg)
{
    if (!runtime || !fn)
        return ci_forked() ? -COIR_EFORKED : CI_MISUSE(-EINVAL, "runtime or fn is NULL");
    coir_fd fd = coir_runtime_fd(runtime);
    if (fd < 0)
        return fd;
    int rc = ci_run_start(runtime, fn, arg);
    if (rc == 0)
        ci_run_enter_thread(&runtime->workers[0]);
    return rc;
}

coir_time coir_runtime_next(coir_runtime *runtime)
{
    if (ci_forked() || CI_REFUSED(!runtime, "runtime is NULL"))
        return 0;
    struct ci_worker *worker = &runtime->workers[0];
    bool idle = ci_loop_announce_sleep(&worker->loop) && !worker->ready &&
                !ci_loop_has_work(&worker->loop) && !ci_load_relaxed(&runtime->shared_count);
    return idle && !ci_run_ended(runtime) ? ci_wheel_next(&worker->loop.wheel) : 0;
}

int coir_runtime_step(coir_runtime *runtime)
{
    if (ci_forked() || CI_REFUSED(!runtime, "runtime is NULL"))
        return 0;
    struct ci_worker *worker = &runtime->workers[0];
    if (ci_run_phase(ci_load(&runtime->run)) != CI_RUN_RUNNING)
        return 0;
    if (CI_REFUSED_AS(-EBUSY, worker->loop.turning, "a task or a callback of the runtime calls"))
        return 1;
    struct ci_signal_mask before;
    ci_signal_block_pipe(&before);
    ci_store_relaxed(&worker->loop.asleep, false);
    ci_store_relaxed(&worker->loop.idle, false);
    ci_worker_turn(worker, 0);
    ci_loop_announce_sleep(&worker->loop);
    ci_signal_restore(&before);
    return !ci_run_ended(runtime);
}

int coir_runtime_end(coir_runtime *runtime)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!runtime)
        return CI_MISUSE(-EINVAL, "runtime is NULL");
    uint32_t phase = ci_run_phase(ci_load(&runtime->run));
    if (phase != CI_RUN_ENDED)
        return phase == CI_RUN_RUNNING ? -EBUSY : -EINVAL;
    ci_run_leave_thread(&runtime->workers[0]);
    ci_run_finish(runtime);
    return ci_runtime_result(runtime);
}

void coir_runtime_hold(coir_runtime *runtime)
{
    if (ci_forked() || CI_REFUSED(!runtime, "runtime is NULL"))
        return;
    ci_fetch_add(&runtime->holds, 1);
}

void coir_runtime_release(coir_runtime *runtime)
{
    if (ci_forked() || CI_REFUSED(!runtime, "runtime is NULL"))
        return;
    ci_fetch_add(&runtime->keepers, 1);
    int32_t before = ci_fetch_sub(&runtime->holds, 1);
    if (before == 0) {
        ci_fetch_add(&runtime->holds, 1);
        (void)CI_MISUSE(-EINVAL, "it was released as often as it was held");
    } else if (before == 1) {
        ci_run_look_again(runtime);
    }
    ci_fetch_sub(&runtime->keepers, 1);
}
