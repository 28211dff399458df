/* One run of a runtime: its begin, its stop and its end, decided once for all workers.
 *
 *   CREATED -- begin --> RUNNING -- stop --> STOPPING
 *      |                  ^   `--.              |
 *      |            begin |      |  last root   | last root
 *      |                  |      v              |
 *      |               SETTLED  ENDED <---------'
 *      |                  ^      |  ^
 *      |                  `------'  |
 *      `---------- free ------------'
 *
 *   CREATED, SETTLED -> RUNNING: run_open. It holds one root until every thread has started
 *                                and the first task is spawned.
 *   RUNNING -> STOPPING:         coir_runtime_stop (the bit CI_RUN_STOP: the first task is
 *                                cancelled, the background later, see background.c), ci_run_cancel
 *                                (CI_RUN_STOP_AT_ONCE: everything). Tasks run until they return.
 *   RUNNING, STOPPING -> ENDED:  ci_run_remove_root, of the last one. Workers leave.
 *   ENDED -> SETTLED:            settle, when all threads are joined and no sender is left.
 *   CREATED -> ENDED:            ci_run_close, of a runtime that never ran.
 *
 * 1. Phase, stop and the number of root scopes that have tasks are one word. The run ends with
 *    the change that makes that number 0, and nothing makes it more than 0 again but the next
 *    begin: a spawn that would is refused (-COIR_EENDED). Every other task lives in a scope of a
 *    task of a root scope, so no task runs, or waits for a worker, once a worker may leave.
 * 2. Either every worker's thread starts or the first task does not: threads wait at a gate
 *    until that is known.
 * 3. A plain thread counts itself among the visitors, then checks the phase, then sends. The run
 *    is settled after it has ended and the visitors have left, so every message is either
 *    delivered or refused.
 * 4. A stop request outside of a run applies to the next one. The end of a run clears the
 *    request that applied to it.
 */
#include <errno.h>

#include "base/check.h"
#include "sys/cpu.h"
#include "sys/gate.h"
#include "sys/signal.h"
#include "sys/thread.h"
#include "task/task.h"

/* ---- the word ---- */

static uint32_t phase_of(uint32_t run)
{
    return run & CI_RUN_PHASE;
}

/* Opens a run, with one root held. */
static int run_open(coir_runtime *runtime)
{
    uint32_t seen = ci_load(&runtime->run), open;
    do {
        if (phase_of(seen) == CI_RUN_RUNNING || phase_of(seen) == CI_RUN_ENDED)
            return -EBUSY;
        open = CI_RUN_RUNNING + (seen & (CI_RUN_STOP | CI_RUN_STOP_AT_ONCE)) + CI_RUN_ROOT;
    } while (!ci_compare_exchange(&runtime->run, &seen, open));
    return 0;
}

bool ci_run_add_root(coir_runtime *runtime)
{
    uint32_t seen = ci_load(&runtime->run);
    do
        if (phase_of(seen) != CI_RUN_RUNNING)
            return false;
    while (!ci_compare_exchange(&runtime->run, &seen, seen + CI_RUN_ROOT));
    return true;
}

void ci_run_remove_root(coir_runtime *runtime)
{
    uint32_t seen = ci_load(&runtime->run), next;
    do {
        ci_check(phase_of(seen) == CI_RUN_RUNNING && seen >= CI_RUN_ROOT); /* run.c 1 */
        next = seen - CI_RUN_ROOT;
        if (next < CI_RUN_ROOT)
            next = CI_RUN_ENDED;
    } while (!ci_compare_exchange(&runtime->run, &seen, next));
    if (next == CI_RUN_ENDED)
        ci_runtime_alert_all(runtime);
}

void ci_runtime_alert_all(coir_runtime *runtime)
{
    for (int i = 0; i < runtime->worker_count; i++)
        ci_loop_alert(&runtime->workers[i].loop);
}

void coir_runtime_stop(coir_runtime *runtime)
{
    if (ci_forked())
        return;
    ci_fetch_add(&runtime->visitors, 1); /* the run may end at once, and the runtime be freed */
    if (ci_fetch_or(&runtime->run, CI_RUN_STOP) & CI_RUN_STOP)
        ci_fetch_or(&runtime->run, CI_RUN_STOP_AT_ONCE);
    ci_runtime_alert_all(runtime);
    ci_fetch_sub(&runtime->visitors, 1);
}

void ci_run_cancel(coir_runtime *runtime)
{
    uint32_t seen = ci_load(&runtime->run);
    while (phase_of(seen) == CI_RUN_RUNNING)
        if (ci_compare_exchange(&runtime->run, &seen, seen | CI_RUN_STOP_AT_ONCE)) {
            ci_runtime_alert_all(runtime);
            return;
        }
}

/* ---- senders that are not of the runtime ---- */

static bool visits(const struct ci_worker *worker)
{
    return !ci_worker_current || ci_worker_current->runtime != worker->runtime;
}

static void visit(coir_runtime *runtime)
{
    /* before the look at the phase: pairs with the look at the visitors in settle */
    ci_fetch_add(&runtime->visitors, 1);
    ci_store_relaxed(&runtime->was_visited, true);
}

void ci_runtime_send(struct ci_worker *worker, struct ci_message *message)
{
    coir_runtime *runtime = worker->runtime;
    bool visitor = visits(worker);
    if (visitor)
        visit(runtime);
    ci_loop_send(&worker->loop, message);
    if (visitor)
        ci_fetch_sub(&runtime->visitors, 1);
}

int ci_run_send(struct ci_worker *worker, struct ci_message *message)
{
    coir_runtime *runtime = worker->runtime;
    bool visitor = visits(worker);
    if (visitor)
        visit(runtime);
    bool ended = ci_run_ended(runtime);
    if (!ended)
        ci_loop_send(&worker->loop, message);
    if (visitor)
        ci_fetch_sub(&runtime->visitors, 1);
    return ended ? -COIR_EENDED : 0;
}

/* Delivers what still lies in the inboxes, outside of any worker. No thread of the runtime runs
 * any more. */
static void settle(coir_runtime *runtime)
{
    for (unsigned round = 0; ci_load(&runtime->visitors); round++)
        ci_pause(round);
    bool delivered = true;
    while (delivered) { /* what is delivered may send, but posts nothing new: that is refused */
        delivered = false;
        for (int i = 0; i < runtime->worker_count; i++) {
            delivered |= !ci_inbox_empty(&runtime->workers[i].loop.inbox);
            ci_loop_receive(&runtime->workers[i].loop);
        }
    }
    ci_fetch_or(&runtime->run, CI_RUN_SETTLED);
}

void ci_run_settle(coir_runtime *runtime)
{
    ci_check(phase_of(ci_load(&runtime->run)) == CI_RUN_ENDED);
    settle(runtime);
}

/* ---- begin ---- */

static void reset(coir_runtime *runtime)
{
    runtime->deadlocked = runtime->asked_to_stop = false;
    runtime->told = 0;
    for (int i = 0; i < runtime->worker_count; i++) {
        struct ci_worker *worker = &runtime->workers[i];
        ci_background_begin(worker);
        worker->was_stopped = worker->told_deadlock = worker->stuck = false;
        worker->blind = 0;
    }
}

/* Spawns the first task and gives back the root that was held since run_open. */
static int start_first_task(coir_runtime *runtime, coir_task_fn *fn, void *arg)
{
    struct ci_worker *before = ci_worker_current;
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = "main";
    options.handle = (coir_handle *)(void *)&runtime->first;
    ci_worker_current = &runtime->workers[0];
    int rc = coir_go_with(NULL, &options, fn, arg);
    ci_worker_current = before;
    if (ci_load(&runtime->run) & (CI_RUN_STOP | CI_RUN_STOP_AT_ONCE))
        /* a stop from before: the alert may have been taken by the end of the last run */
        ci_runtime_alert_all(runtime);
    ci_run_remove_root(runtime);
    return rc;
}

int ci_runtime_begin(coir_runtime *runtime, coir_task_fn *fn, void *arg)
{
    int rc = run_open(runtime);
    if (rc < 0)
        return rc;
    reset(runtime);
    return start_first_task(runtime, fn, arg);
}

static int begin_drivers(coir_runtime *runtime)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < runtime->worker_count; i++) {
        struct ci_driver *driver = runtime->workers[i].loop.driver;
        if (driver->kind->begin)
            rc = driver->kind->begin(driver);
    }
    return rc;
}

static void enter_thread(struct ci_worker *worker)
{
    if (worker->runtime->config.pin_workers)
        ci_cpu_pin((unsigned)worker->index);
    if (worker->runtime->config.report_overflow)
        ci_overflow_watch(worker);
}

static void leave_thread(struct ci_worker *worker)
{
    struct ci_driver *driver = worker->loop.driver;
    if (driver->kind->end)
        driver->kind->end(driver);
    if (worker->runtime->config.report_overflow)
        ci_overflow_unwatch(worker);
}

void ci_worker_run(struct ci_worker *worker)
{
    enter_thread(worker);
    while (!ci_run_ended(worker->runtime))
        ci_worker_turn(worker, COIR_NEVER);
    leave_thread(worker);
}

static void *worker_thread(void *arg)
{
    struct ci_worker *worker = arg;
    ci_gate_wait(&worker->runtime->start);
    ci_worker_adopt_thread(worker);
    ci_worker_run(worker);
    return NULL;
}

static int start_threads(coir_runtime *runtime)
{
    int rc = 0;
    ci_gate_init(&runtime->start);
    for (runtime->started = 1; rc == 0 && runtime->started < runtime->worker_count;
         runtime->started += rc == 0) {
        struct ci_worker *worker = &runtime->workers[runtime->started];
        rc = ci_thread_start(&worker->thread, worker_thread, worker);
    }
    return rc;
}

static void on_stop_signal(void *arg)
{
    coir_runtime_stop(arg);
}

/* The run has ended: waits for the threads, and for what is under way to it. */
static void finish(coir_runtime *runtime)
{
    for (int i = 1; i < runtime->started; i++)
        ci_thread_join(&runtime->workers[i].thread);
    if (runtime->started)
        ci_gate_done(&runtime->start);
    runtime->started = 0;
    if (runtime->stop.fn)
        ci_signal_unwatch(&runtime->stop);
    runtime->stop.fn = NULL;
    ci_run_settle(runtime);
}

void ci_run_close(coir_runtime *runtime)
{
    for (unsigned round = 0; ci_load(&runtime->holds); round++)
        ci_pause(round);
    /* coir_runtime_free: not while it runs */
    ci_check(phase_of(ci_fetch_or(&runtime->run, CI_RUN_ENDED)) != CI_RUN_RUNNING);
    if (runtime->started) { /* a run that was driven to its end, without coir_runtime_end */
        leave_thread(&runtime->workers[0]);
        finish(runtime);
    } else {
        settle(runtime);
    }
}

static int begin(coir_runtime *runtime, coir_task_fn *fn, void *arg)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!fn)
        return -EINVAL;
    int rc = ci_worker_current ? -EBUSY : run_open(runtime);
    if (rc < 0)
        return rc;
    reset(runtime);
    ci_worker_adopt_thread(&runtime->workers[0]);
    if ((rc = begin_drivers(runtime)) == 0)
        rc = start_threads(runtime);
    if (rc == 0)
        rc = start_first_task(runtime, fn, arg);
    else
        ci_run_remove_root(runtime); /* the end, before anything has run */
    if (runtime->started)
        ci_gate_open(&runtime->start);
    if (rc < 0) {
        finish(runtime);
    } else if (runtime->config.stop_signals) {
        runtime->stop = (struct ci_signal_stop){NULL, on_stop_signal, runtime};
        ci_signal_watch(&runtime->stop);
    }
    return rc;
}

/* ---- run ---- */

int ci_runtime_result(coir_runtime *runtime)
{
    bool dead = runtime->deadlocked && runtime->config.deadlock == COIR_DEADLOCK_END;
    for (int i = 0; i < runtime->worker_count; i++)
        if (runtime->workers[i].blind)
            return runtime->workers[i].blind;
    return dead ? -EDEADLK : runtime->first.result;
}

int coir_runtime_run(coir_runtime *runtime, coir_task_fn *fn, void *arg)
{
    int rc = begin(runtime, fn, arg);
    if (rc < 0)
        return rc;
    struct ci_signal_mask before;
    ci_signal_block_pipe(&before);
    ci_worker_run(&runtime->workers[0]);
    ci_signal_restore(&before);
    finish(runtime);
    return ci_runtime_result(runtime);
}

/* ---- driven by somebody else's loop ---- */

/* A worker that somebody else's loop waits for needs a driver over a selector. */
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
    int rc = give_selector(runtime);
    struct ci_driver *driver = runtime->workers[0].loop.driver;
    return rc < 0 ? rc : driver->kind->descriptor ? driver->kind->descriptor(driver) : -ENOTSUP;
}

int coir_runtime_begin(coir_runtime *runtime, coir_task_fn *fn, void *arg)
{
    coir_fd fd = coir_runtime_fd(runtime);
    if (fd < 0)
        return fd;
    int rc = begin(runtime, fn, arg);
    if (rc == 0)
        enter_thread(&runtime->workers[0]);
    return rc;
}

coir_time coir_runtime_next(coir_runtime *runtime)
{
    if (ci_forked())
        return 0;
    struct ci_worker *worker = &runtime->workers[0];
    bool idle = ci_loop_announce_sleep(&worker->loop) && !worker->ready &&
                ci_list_empty(&worker->loop.fresh) && !ci_load_relaxed(&runtime->shared_count);
    return idle && !ci_run_ended(runtime) ? ci_wheel_next(&worker->loop.wheel) : 0;
}

int coir_runtime_step(coir_runtime *runtime)
{
    if (ci_forked())
        return 0;
    struct ci_worker *worker = &runtime->workers[0];
    if (phase_of(ci_load(&runtime->run)) != CI_RUN_RUNNING)
        return 0;
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
    uint32_t phase = phase_of(ci_load(&runtime->run));
    if (phase != CI_RUN_ENDED)
        return phase == CI_RUN_RUNNING ? -EBUSY : -EINVAL;
    leave_thread(&runtime->workers[0]);
    finish(runtime);
    return ci_runtime_result(runtime);
}

void coir_runtime_hold(coir_runtime *runtime)
{
    if (ci_forked())
        return;
    ci_fetch_add(&runtime->holds, 1);
}

void coir_runtime_release(coir_runtime *runtime)
{
    if (ci_forked())
        return;
    ci_fetch_sub(&runtime->holds, 1);
}
