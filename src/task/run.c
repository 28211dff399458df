/* Runs: their begin and their end, and the threads in between.
 *
 * 1. Either every worker's thread starts or the first task does not: threads wait at a gate until
 * that is known.
 */
#include "task/run.h"

#include <errno.h>

#include "base/check.h"
#include "sys/cpu.h"
#include "sys/gate.h"
#include "sys/signal.h"
#include "sys/thread.h"
#include "task/background.h"
#include "task/current.h"
#include "task/overflow.h"
#include "task/run_state.h"
#include "task/slow_turn.h"
#include "task/stall.h"

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

/* Spawns the first task and gives back the root that was held since ci_run_open. */
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
        /* a stop requested before the run: the end of the last run may have consumed its alert */
        ci_run_alert(runtime);
    ci_run_remove_root(runtime);
    return rc;
}

int ci_runtime_begin(coir_runtime *runtime, coir_task_fn *fn, void *arg)
{
    int rc = ci_run_open(runtime);
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

void ci_run_enter_thread(struct ci_worker *worker)
{
    if (worker->runtime->config.pin_workers)
        ci_cpu_pin((unsigned)worker->index);
    ci_slow_turn_enter(worker);
    ci_halt_enter_thread(worker, worker->runtime->answers);
    if (worker->runtime->config
            .report_overflow) /* replaces the stack for signals that those make */
        ci_overflow_watch(worker);
    ci_loop_resume_watches(&worker->loop);
}

void ci_run_leave_thread(struct ci_worker *worker)
{
    struct ci_driver *driver = worker->loop.driver;
    if (worker->runtime->config.pin_workers)
        ci_cpu_unpin();
    ci_overflow_unwatch(worker);
    ci_halt_leave_thread(worker);
    ci_slow_turn_leave(worker);
    ci_loop_close_residents(&worker->loop);
    if (!driver->kind->end)
        return;
    ci_loop_suspend_watches(&worker->loop);
    driver->kind->end(driver);
}

void ci_worker_run(struct ci_worker *worker)
{
    ci_run_enter_thread(worker);
    while (!ci_run_ended(worker->runtime))
        ci_worker_turn(worker, COIR_NEVER);
    ci_run_leave_thread(worker);
}

static void *worker_thread(void *arg)
{
    struct ci_worker *worker = arg;
    coir_runtime *runtime = worker->runtime;
    ci_gate_wait(&runtime->start);
    ci_check(runtime->started == runtime->worker_count || ci_run_ended(runtime), "run.c 1");
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

int ci_run_start(coir_runtime *runtime, coir_task_fn *fn, void *arg)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!fn)
        return -EINVAL;
    int rc = ci_worker_current ? -EBUSY : ci_run_open(runtime);
    if (rc < 0)
        return rc;
    reset(runtime);
    runtime->answers = runtime->config.slow_turn != 0 || ci_thread_trace_is_free();
    ci_worker_adopt_thread(&runtime->workers[0]);
    if ((rc = begin_drivers(runtime)) == 0 && (rc = ci_slow_turn_begin(runtime)) == 0 &&
        (rc = ci_stall_begin(runtime)) == 0)
        rc = start_threads(runtime);
    if (rc == 0)
        rc = start_first_task(runtime, fn, arg);
    else
        ci_run_remove_root(runtime); /* the end, before anything has run */
    if (runtime->started)
        ci_gate_open(&runtime->start);
    if (rc < 0) {
        ci_run_finish(runtime);
    } else if (runtime->config.stop_signals) {
        runtime->stop = (struct ci_signal_stop){NULL, on_stop_signal, runtime};
        ci_signal_watch(&runtime->stop);
    }
    return rc;
}

/* ---- end ---- */

void ci_run_finish(coir_runtime *runtime)
{
    for (int i = 1; i < runtime->started; i++)
        ci_thread_join(&runtime->workers[i].thread);
    if (runtime->started)
        ci_gate_done(&runtime->start);
    runtime->started = 0;
    ci_stall_end(runtime);
    ci_slow_turn_end(runtime);
    if (runtime->stop.fn)
        ci_signal_unwatch(&runtime->stop);
    runtime->stop.fn = NULL;
    ci_run_settle(runtime);
}

void ci_run_close(coir_runtime *runtime)
{
    for (unsigned round = 0; ci_load(&runtime->holds); round++)
        ci_pause(round);
    uint32_t before = ci_fetch_or(&runtime->run, CI_RUN_ENDED);
    ci_check(ci_run_phase(before) != CI_RUN_RUNNING, "runtime.c 1"); /* freed while it runs */
    if (runtime->started) { /* a run that was driven to its end, without coir_runtime_end */
        ci_run_leave_thread(&runtime->workers[0]);
        ci_run_finish(runtime);
    } else {
        ci_run_settle(runtime);
    }
}

int ci_runtime_result(coir_runtime *runtime)
{
    bool dead = runtime->deadlocked && runtime->config.deadlock == COIR_DEADLOCK_END;
    for (int i = 0; i < runtime->worker_count; i++)
        if (runtime->workers[i].blind)
            return runtime->workers[i].blind;
    return dead ? -EDEADLK : runtime->first.result;
}

/* ---- all of it ---- */

int coir_runtime_run(coir_runtime *runtime, coir_task_fn *fn, void *arg)
{
    if (!runtime || !fn)
        return ci_forked() ? -COIR_EFORKED : CI_MISUSE(-EINVAL, "runtime or fn is NULL");
    int rc = ci_run_start(runtime, fn, arg);
    if (rc < 0)
        return rc;
    struct ci_signal_mask before;
    ci_signal_block_pipe(&before);
    ci_worker_run(&runtime->workers[0]);
    ci_signal_restore(&before);
    ci_run_finish(runtime);
    return ci_runtime_result(runtime);
}
