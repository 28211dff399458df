/* The state of a run, and which threads may send to its workers. */
#include "task/run_state.h"

#include <errno.h>

#include "base/check.h"
#include "sys/thread.h"
#include "task/current.h"

/* ---- the word ---- */

int ci_run_open(coir_runtime *runtime)
{
    uint32_t seen = ci_load(&runtime->run), open;
    do {
        if (ci_run_phase(seen) == CI_RUN_RUNNING || ci_run_phase(seen) == CI_RUN_ENDED)
            return -EBUSY;
        open = CI_RUN_RUNNING + (seen & (CI_RUN_STOP | CI_RUN_STOP_AT_ONCE)) + CI_RUN_ROOT;
    } while (!ci_compare_exchange(&runtime->run, &seen, open));
    return 0;
}

bool ci_run_add_root(coir_runtime *runtime)
{
    uint32_t seen = ci_load(&runtime->run);
    do
        if (ci_run_phase(seen) != CI_RUN_RUNNING)
            return false;
    while (!ci_compare_exchange(&runtime->run, &seen, seen + CI_RUN_ROOT));
    return true;
}

void ci_run_remove_root(coir_runtime *runtime)
{
    uint32_t seen = ci_load(&runtime->run), next;
    do {
        ci_check(ci_run_phase(seen) == CI_RUN_RUNNING && seen >= CI_RUN_ROOT, "run_state.h 1");
        next = seen - CI_RUN_ROOT;
        if (next < CI_RUN_ROOT)
            next = CI_RUN_ENDED;
    } while (!ci_compare_exchange(&runtime->run, &seen, next));
    if (next == CI_RUN_ENDED)
        ci_run_alert(runtime);
}

/* ---- waking the workers ---- */

void ci_run_alert(coir_runtime *runtime)
{
    for (int i = 0; i < runtime->worker_count; i++)
        ci_loop_alert(&runtime->workers[i].loop);
}

void ci_run_look_again(coir_runtime *runtime)
{
    if (runtime->config.deadlock != COIR_DEADLOCK_IGNORE && !ci_load_relaxed(&runtime->was_visited))
        ci_run_alert(runtime);
}

/* ---- stopping ---- */

void coir_runtime_stop(coir_runtime *runtime)
{
    if (ci_forked() || CI_REFUSED(!runtime, "runtime is NULL"))
        return;
    ci_fetch_add(&runtime->keepers, 1); /* the run may end at once, and the runtime be freed */
    ci_fetch_add(&runtime->visitors, 1);
    if (ci_fetch_or(&runtime->run, CI_RUN_STOP) & CI_RUN_STOP)
        ci_fetch_or(&runtime->run, CI_RUN_STOP_AT_ONCE);
    ci_run_alert(runtime);
    ci_fetch_sub(&runtime->visitors, 1);
    ci_run_look_again(runtime);
    ci_fetch_sub(&runtime->keepers, 1);
}

void ci_run_cancel(coir_runtime *runtime)
{
    ci_fetch_add(&runtime->visitors, 1); /* as in coir_runtime_stop */
    uint32_t seen = ci_load(&runtime->run);
    bool cancelled = false;
    while (ci_run_phase(seen) == CI_RUN_RUNNING && !cancelled)
        cancelled = ci_compare_exchange(&runtime->run, &seen, seen | CI_RUN_STOP_AT_ONCE);
    if (cancelled)
        ci_run_alert(runtime);
    ci_fetch_sub(&runtime->visitors, 1);
}

/* ---- sending from threads outside of the runtime ---- */

bool ci_run_is_outside(const coir_runtime *runtime)
{
    return !ci_worker_current || ci_worker_current->runtime != runtime;
}

static void visit(coir_runtime *runtime)
{
    /* before the look at the phase: pairs with the look at the visitors in ci_run_settle */
    ci_fetch_add(&runtime->visitors, 1);
    ci_run_note_visit(runtime);
}

void ci_runtime_send(struct ci_worker *worker, struct ci_message *message)
{
    coir_runtime *runtime = worker->runtime;
    bool visitor = ci_run_is_outside(runtime);
    if (visitor)
        visit(runtime);
    ci_loop_send(&worker->loop, message);
    if (visitor)
        ci_fetch_sub(&runtime->visitors, 1);
}

int ci_run_send(struct ci_worker *worker, struct ci_message *message)
{
    coir_runtime *runtime = worker->runtime;
    bool visitor = ci_run_is_outside(runtime);
    if (visitor)
        visit(runtime);
    bool ended = ci_run_ended(runtime);
    if (!ended)
        ci_loop_send(&worker->loop, message);
    if (visitor)
        ci_fetch_sub(&runtime->visitors, 1);
    return ended ? -COIR_EENDED : 0;
}

void ci_run_settle(coir_runtime *runtime)
{
    ci_check(ci_run_ended(runtime), "run_state.h 2");
    for (int i = 0; i < runtime->worker_count; i++)
        ci_posts_settle(&runtime->workers[i].posts);
    for (unsigned round = 0; ci_load(&runtime->visitors); round++) /* some of them post */
        ci_pause(round);
    for (unsigned round = 0; ci_load(&runtime->keepers); round++)
        ci_pause(round);
    bool delivered = true;
    while (delivered) { /* a delivery may send again, but a new post is refused */
        delivered = false;
        for (int i = 0; i < runtime->worker_count; i++) {
            delivered |= !ci_inbox_empty(&runtime->workers[i].loop.inbox);
            ci_loop_receive(&runtime->workers[i].loop);
        }
    }
    ci_fetch_or(&runtime->run, CI_RUN_SETTLED);
}
