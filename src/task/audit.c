/* The audit of a runtime whose run has ended: which objects of its pools are still in use. Objects
 * move between the pools of workers, so only the sum over the workers counts. */
#include "task/audit.h"

#include "task/extension.h"
#include "task/runtime.h"

struct audit {
    const coir_runtime *runtime;
    ci_leave_fn *leave;
    void *arg;
};

static void look(const struct audit *audit, const char *what, size_t live)
{
    if (live)
        audit->leave(audit->arg, what, live);
}

static size_t stacks_of(const struct ci_worker *worker)
{
    return worker->stacks.live;
}
static size_t tasks_of(const struct ci_worker *worker)
{
    return worker->tasks.live + worker->remote_tasks.live;
}
static size_t locals_of(const struct ci_worker *worker)
{
    return worker->locals.live;
}
static size_t copies_of(const struct ci_worker *worker)
{
    return worker->copies.live;
}
static size_t deferred_of(const struct ci_worker *worker)
{
    return worker->deferred.live;
}
/* Timers of the worker itself may outlive a run. */
static size_t timers_of(const struct ci_worker *worker)
{
    return worker->loop.wheel.count - (size_t)ci_timer_started(&worker->drain) -
           (size_t)ci_timer_started(&worker->trim) -
           (size_t)ci_timer_started(&worker->warnings.timer);
}

static void look_at_workers(const struct audit *audit)
{
    static const struct {
        const char *what;
        size_t (*of)(const struct ci_worker *worker);
    } kinds[] = {
        {"stacks", stacks_of},           {"tasks", tasks_of},
        {"task-locals", locals_of},      {"copied arguments", copies_of},
        {"deferred calls", deferred_of}, {"timers", timers_of},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t live = 0;
        for (int w = 0; w < audit->runtime->worker_count; w++)
            live += kinds[i].of(&audit->runtime->workers[w]);
        look(audit, kinds[i].what, live);
    }
}

/* Sums the extension's objects over all workers; called for the first worker that has it. */
static void look_at_extension(const struct audit *audit, int first,
                              const struct ci_worker_extension *extension)
{
    size_t live = 0;
    for (int w = 0; w < audit->runtime->worker_count; w++) {
        const struct ci_worker_extension *other =
            ci_worker_find_extension(&audit->runtime->workers[w], extension->key);
        if (other && w < first)
            return;
        live += other ? other->live(other) : 0;
    }
    look(audit, extension->what, live);
}

void ci_runtime_audit(const coir_runtime *runtime, ci_leave_fn *leave, void *arg)
{
    const struct audit audit = {runtime, leave, arg};
    look_at_workers(&audit);
    for (int w = 0; w < runtime->worker_count; w++)
        for (const struct ci_worker_extension *extension = runtime->workers[w].extensions;
             extension; extension = extension->next)
            look_at_extension(&audit, w, extension);
    look(&audit, "wakers", ci_wakers_live(runtime->wakers));
}
