/* The scheduler: a worker's turn, in which it runs what the run queue holds. A turn is a step
 * function: called by the worker's thread, or by the simulator in seeded order.
 *
 * Between two polls of the driver a worker runs about 61 switches, then looks at the processor's
 * clock, and polls once some 20 us have passed: I/O is served at bounded intervals even when the
 * run queue never empties. */
#include "task/worker.h"

#include <errno.h>

#include "base/time.h"
#include "sys/call.h"
#include "sys/probe.h"
#include "task/anywhere.h"
#include "task/background.h"
#include "task/deadlock.h"
#include "task/extension.h"
#include "task/log.h"
#include "task/park.h"
#include "task/run_state.h"
#include "task/trace.h"

enum { SWITCHES_PER_LOOK = 61, SIMULATED_CHOICES = 8 };
static const coir_time trim_time = 1 * COIR_S;

/* In the simulator: the seed chooses which of the first few runnables is next. */
static void choose_next(struct ci_worker *worker)
{
    struct ci_driver *driver = worker->loop.driver;
    struct ci_runnable *choices[SIMULATED_CHOICES], *runnable = worker->ready;
    unsigned count = 0;
    for (; runnable && count < SIMULATED_CHOICES; runnable = runnable->next)
        choices[count++] = runnable;
    unsigned chosen = count > 1 ? (unsigned)(driver->kind->random(driver) % count) : 0;
    if (chosen == 0)
        return;
    choices[chosen - 1]->next = choices[chosen]->next;
    if (!choices[chosen]->next)
        worker->ready_tail = &choices[chosen - 1]->next;
    choices[chosen]->next = worker->ready;
    worker->ready = choices[chosen];
}

static void run_one(struct ci_worker *worker, struct ci_runnable *runnable)
{
    worker->runnable = runnable;
    worker->budget = worker->budget_max;
    coir_future *next = runnable->inner;
    do
        next = next->kind->poll(next);
    while (next);
}

/* In the simulator, or traced. */
static CI_NOINLINE void run_one_watched(struct ci_worker *worker)
{
    if (worker->runtime->simulated)
        choose_next(worker);
    struct ci_runnable *runnable = ci_pop_ready(worker);
    if (!worker->trace) {
        run_one(worker, runnable);
        return;
    }
    struct ci_trace *trace = worker->trace; /* it may end in the turn, but is kept */
    ci_trace_begin_turn(trace, worker, runnable);
    run_one(worker, runnable);
    if (ci_trace_is_in_turn(trace)) /* in this one, or one that followed it (fiber.c) */
        ci_trace_end_turn(trace);
}

/* Clears the alert, so everything that an alert may announce is looked at here. True: the run has
 * ended, and this turn must not sleep, since no further alert will come. */
static bool look_up(struct ci_worker *worker)
{
    ci_store_relaxed(&worker->loop.alert, false);
    /* orders the alert before the loads of what it announces, which was stored before it */
    ci_fence();
    if (ci_load_relaxed(&worker->runtime->deadlocked) && !worker->told_deadlock) {
        worker->told_deadlock = true;
        ci_deadlock_tell(worker);
    }
    uint32_t run = ci_load_relaxed(&worker->runtime->run);
    if ((run & CI_RUN_STOP) && !worker->was_stopped) {
        ci_store_relaxed(&worker->runtime->asked_to_stop, true);
        worker->was_stopped = true;
        ci_background_stop(worker, false);
    }
    if (run & CI_RUN_STOP_AT_ONCE)
        ci_background_stop(worker, true);
    return ci_run_ended(worker->runtime);
}

void ci_worker_trim_later(struct ci_worker *worker)
{
    if (ci_unlikely(worker->grown) && !ci_timer_started(&worker->trim))
        ci_loop_start_timer(&worker->loop, &worker->trim,
                            ci_time_after(worker->loop.now, trim_time));
}

/* After a burst: gives back stacks and slabs that were not used since the last look. While
 * everything is in use the timer is not set again until a task has run (run_ready) or rests
 * (rest.h), because only that can give something back. So it neither wakes an idle worker nor hides
 * a deadlock (deadlock.c 1), and a worker in steady use looks at most once a second. */
static void on_trim(struct ci_timer *timer)
{
    struct ci_worker *worker = ci_container_of(timer, struct ci_worker, trim);
    enum ci_trim most = ci_trim_most(ci_stacks_trim(&worker->stacks), ci_pool_trim(&worker->tasks));
    for (struct ci_worker_extension *extension = worker->extensions; extension;
         extension = extension->next)
        if (extension->trim)
            most = ci_trim_most(most, extension->trim(extension));
    /* nothing was freed, so the pages of the heap are in use and stay */
    bool idle_look = most == CI_TRIM_LATER && !worker->trimmed;
    if (!idle_look && worker->runtime->allocator.alloc == ci_system_allocator.alloc)
        ci_sys_trim_heap();
    worker->trimmed = most == CI_TRIM_SOON;
    worker->grown = most != CI_TRIM_DONE;
    if (worker->trimmed)
        ci_worker_trim_later(worker);
}

static bool run_ready(struct coir_loop *loop)
{
    struct ci_worker *worker = ci_container_of(loop, struct ci_worker, loop);
    if (ci_probes_wanted() && !worker->trace)
        ci_trace_begin_for_probes(worker);
    bool simulated = worker->runtime->simulated, watched = simulated || worker->trace;
    if (ci_unlikely(worker->stuck))
        ci_deadlock_awake(worker);
    if (ci_unlikely(ci_load_relaxed(&loop->alert)) && look_up(worker))
        return true;
    if (!worker->ready && !ci_take_shared_task(worker))
        return false;
    ci_check(!*worker->ready_tail, "task/worker.h 2");
    if (ci_unlikely(watched) && worker->trace)
        ci_trace_goes_on(worker);
    worker->switches_left = worker->switches_max;
    while (worker->ready) {
        if (ci_unlikely(watched))
            run_one_watched(worker);
        else
            run_one(worker, ci_pop_ready(worker));
        if (--worker->switches_left >= 0)
            continue;
        uint64_t ticks = watched && worker->trace ? worker->trace->now : ci_clock_ticks();
        if (simulated || ticks - worker->polled_at > worker->poll_interval) {
            worker->polled_at = ticks;
            break;
        }
        worker->switches_left = worker->switches_max;
    }
    worker->runnable = NULL;
    worker->fiber = NULL;
    if (ci_unlikely(worker->trace)) /* it may have begun in a turn just now */
        ci_trace_waits(worker);
    ci_worker_trim_later(worker);
    return worker->ready || ci_load_relaxed(&worker->runtime->shared_count);
}

/* In a signal handler, on the worker's thread: the task may just have ended. A free record has no
 * name (task.h 2), and is memory that ASan lets nobody read. */
static CI_UNINSTRUMENTED const char *task_name(const struct coir_loop *loop)
{
    const struct ci_worker *worker = ci_container_of(loop, const struct ci_worker, loop);
    return worker->fiber && worker->runnable ? worker->runnable->task->name : NULL;
}

/* The driver's wait fails for good, so no event will be seen again. Ends the run at once, with that
 * error. */
static CI_COLD void end_blind_run(struct ci_worker *worker)
{
    worker->blind = worker->loop.error;
    ci_log(worker->runtime, COIR_LOG_ERROR,
           "worker %d: the kernel refuses to wait for events: %s; the run is stopped",
           worker->index, coir_strerror(worker->loop.error));
    ci_run_cancel(worker->runtime);
}

void ci_worker_turn(struct ci_worker *worker, coir_time deadline)
{
    struct ci_worker *before = ci_worker_current;
    ci_worker_current = worker;
    ci_loop_turn(&worker->loop, deadline);
    if (ci_unlikely(worker->loop.error) && !worker->blind)
        end_blind_run(worker);
    ci_worker_current = before;
}

void ci_scheduler_init(struct ci_worker *worker)
{
    worker->loop.run_ready = run_ready;
    worker->loop.task_name = task_name;
    worker->poll_interval = ci_clock_ticks_in(20 * COIR_US);
    worker->ready = NULL;
    worker->ready_tail = &worker->ready;
    worker->budget_max = (int32_t)worker->runtime->config.budget - 1;
    worker->switches_max = worker->runtime->simulated || ci_sanitizer ? 0 : SWITCHES_PER_LOOK - 1;
    ci_timer_init(&worker->trim, on_trim);
}
