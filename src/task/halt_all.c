/* Asking the workers to halt: on the thread that reads them. */
#include "base/check.h"
#include "base/time.h"
#include "sys/clock.h"
#include "sys/futex.h"
#include "task/halt.h"
#include "task/run_state.h"

static const coir_time look = 1 * COIR_MS; /* for what nobody tells: a run that ends */

static int32_t busy; /* a thread halts workers (1) */

static void begin(void)
{
    for (;;) {
        uint32_t releases = ci_load(&ci_halt_releases);
        if (!ci_exchange(&busy, true))
            return;
        ci_futex_wait(&ci_halt_releases, releases, COIR_NEVER);
    }
}

static void end(void)
{
    ci_store(&busy, false);
    ci_halt_tell(&ci_halt_releases);
}

void ci_halt_call_failed(struct ci_worker *worker)
{
    begin(); /* another thread may be reading it */
    ci_store(&worker->halt.state, CI_HALT_RUNS);
    end();
}

bool ci_is_halted(const struct ci_halted *halted, const struct ci_worker *worker)
{
    int32_t state = ci_load(&worker->halt.state);
    return state == CI_HALT_HALTED || state == CI_HALT_CALLS ||
           ci_load(&worker->halt.thread) == halted->thread;
}

/* Workers of a simulated runtime are on one thread, whose order of events is the seed's. */
static bool is_wanted(const coir_runtime *runtime, const struct ci_halted *halted)
{
    return ci_run_phase(ci_load(&runtime->run)) == CI_RUN_RUNNING &&
           (!runtime->simulated || ci_load(&runtime->workers[0].halt.thread) == halted->thread);
}

static void pin_runtimes(struct ci_halted *halted)
{
    halted->count = halted->left_out = 0;
    ci_lock_take(&ci_runtimes_lock);
    ci_list_for_each (node, &ci_runtimes) {
        coir_runtime *runtime = ci_container_of(node, coir_runtime, link);
        if (halted->count == CI_HALTED_RUNTIMES) {
            halted->left_out += ci_run_phase(ci_load(&runtime->run)) == CI_RUN_RUNNING;
            continue;
        }
        /* before the look at the phase: pairs with the look at the keepers in ci_run_settle */
        ci_fetch_add(&runtime->keepers, 1);
        if (is_wanted(runtime, halted))
            halted->runtimes[halted->count++] = runtime;
        else
            ci_fetch_sub(&runtime->keepers, 1);
    }
    ci_lock_give(&ci_runtimes_lock);
}

static void ask(const struct ci_halted *halted, struct ci_worker *worker)
{
    struct ci_halt *halt = &worker->halt;
    int32_t state = CI_HALT_RUNS;
    if (ci_load(&halt->thread) == halted->thread ||
        !ci_compare_exchange(&halt->state, &state, CI_HALT_ASKED))
        return;
    if (!ci_exchange(&halt->sent, true)) /* otherwise the last one was not delivered yet */
        ci_loop_send(&worker->loop, &halt->message);
}

static bool is_awaited(const struct ci_halted *halted)
{
    for (int i = 0; i < halted->count; i++)
        for (int j = 0; !ci_run_ended(halted->runtimes[i]) && j < halted->runtimes[i]->worker_count;
             j++)
            if (!ci_is_halted(halted, &halted->runtimes[i]->workers[j]))
                return true;
    return false;
}

static void wait_for_answers(const struct ci_halted *halted, coir_time timeout)
{
    coir_time end = ci_time_after(halted->asked, timeout), left;
    for (;;) {
        uint32_t answers = ci_load(&ci_halt_answers);
        if (!is_awaited(halted) || !(left = ci_time_left(end, ci_clock_now())))
            return;
        ci_futex_wait(&ci_halt_answers, answers, left < look ? left : look);
    }
}

/* Those that have not answered go on. The others are listed: once one of them goes on, its runtime
 * may be freed. */
static void settle(struct ci_halted *halted)
{
    halted->first = NULL;
    for (int i = 0; i < halted->count; i++)
        for (int j = 0; j < halted->runtimes[i]->worker_count; j++) {
            struct ci_worker *worker = &halted->runtimes[i]->workers[j];
            int32_t state = CI_HALT_ASKED;
            if (ci_compare_exchange(&worker->halt.state, &state, CI_HALT_RUNS) ||
                state != CI_HALT_HALTED)
                continue;
            worker->halt.next = halted->first;
            halted->first = worker;
        }
}

void ci_halt_all(struct ci_halted *halted, coir_time timeout)
{
    begin();
    halted->asked = ci_clock_now();
    pin_runtimes(halted);
    for (int i = 0; i < halted->count; i++)
        for (int j = 0; j < halted->runtimes[i]->worker_count; j++)
            ask(halted, &halted->runtimes[i]->workers[j]);
    wait_for_answers(halted, timeout);
    settle(halted);
}

void ci_halt_release(struct ci_halted *halted)
{
    ci_check(ci_load(&busy), "task/halt.h 1");
    for (int i = 0; i < halted->count; i++)
        ci_check(ci_fetch_sub(&halted->runtimes[i]->keepers, 1) > 0, "task/halt.h 2");
    for (struct ci_worker *worker = halted->first, *next; worker; worker = next) {
        next = worker->halt.next;
        ci_store(&worker->halt.state, CI_HALT_RUNS);
    }
    if (halted->self)
        ci_store(&halted->self->halt.state, CI_HALT_RUNS);
    end();
}
