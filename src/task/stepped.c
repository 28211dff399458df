#include "task/stepped.h"

#include "task/runtime.h"
#include "task/worker.h"

int ci_stepped_new(const coir_config *config, const coir_allocator *allocator,
                   ci_open_driver_fn *open, void *arg, coir_runtime **ret_runtime)
{
    int rc = ci_runtime_new_on(config, allocator, open, arg, ret_runtime);
    for (int i = 0; rc == 0 && i < (*ret_runtime)->worker_count; i++) {
        ci_worker_adopt_thread(&(*ret_runtime)->workers[i]);
        ci_halt_enter_thread(&(*ret_runtime)->workers[i], false);
    }
    return rc;
}

struct ci_driver *ci_stepped_driver(const coir_runtime *runtime, size_t worker)
{
    return runtime->workers[worker].loop.driver;
}

bool ci_stepped_has_work(const coir_runtime *runtime, size_t index, coir_time now)
{
    struct ci_worker *worker = &runtime->workers[index];
    return worker->ready || worker->loop.alert || !ci_inbox_empty(&worker->loop.inbox) ||
           ci_loop_has_work(&worker->loop) || runtime->shared_count ||
           ci_wheel_next(&worker->loop.wheel) <= now;
}

coir_time ci_stepped_next_timer(const coir_runtime *runtime)
{
    coir_time next = COIR_NEVER;
    for (int i = 0; i < runtime->worker_count; i++) {
        coir_time timer = ci_wheel_next(&runtime->workers[i].loop.wheel);
        if (timer < next)
            next = timer;
    }
    return next;
}

void ci_stepped_turn(coir_runtime *runtime, size_t worker)
{
    ci_worker_turn(&runtime->workers[worker], 0);
}
