/* Tasks of other workers start tasks in a scope whose home waits for its last task, or cancels it,
 * at that very moment.
 *
 * What must hold:
 * 1. A task whose spawn returned 0 before the wait began, or while another task of the scope lived,
 *    has ended when the wait returns, cancelled or not.
 * 2. The wait ends soon: a task that would sleep for longer is cancelled, wherever it was then.
 * 3. A task is told the reason of its scope: that of a deadline around it, or of its cancel. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <string.h>

#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { ROUNDS_MOST = 12, SPAWNS_MOST = 4 };
static const coir_time soon = COIR_S;

static struct {
    coir_scope *scope; /* of this round */
    int started, ended;
    bool sent;
    int reason; /* why its tasks are cancelled; 0: they are not */
} w;

static coir_time moment(void)
{
    return (coir_time)(below(20 * COIR_US) >> below(12));
}

static int arrive(void *arg)
{
    (void)arg;
    if (below(2)) {
        int rc = coir_sleep_for(w.reason && below(2) ? 2 * soon : moment());
        MUST(rc == 0 || rc == w.reason);
    }
    w.ended++;
    return 0;
}

static int start_some(void *arg)
{
    uint64_t workers = (uint64_t)coir_worker_count(coir_runtime_current());
    (void)arg;
    for (uint64_t i = 1 + below(SPAWNS_MOST); i; i--) {
        coir_go_options options = COIR_GO_OPTIONS;
        options.place = below(2)   ? COIR_HERE
                        : below(2) ? COIR_ANYWHERE
                                   : COIR_ON_WORKER((int)below(workers));
        int rc = coir_go_with(w.scope, &options, arrive, NULL);
        MUST(rc == 0 || rc == w.reason);
        w.started += rc == 0;
        if (below(3) == 0)
            MUST_BE(coir_sleep_for(moment()), 0);
    }
    w.sent = true;
    return 0;
}

/* Until all are started, and not a moment longer: they may be on their way. */
static int stay(void *arg)
{
    (void)arg;
    COIR_SHIELD;
    while (!w.sent)
        if (below(4) || coir_sleep_for(moment()) < 0) /* so that time goes on */
            coir_yield();
    return 0;
}

static void play_round(coir_scope *others, int workers)
{
    w.reason = below(4) ? 0 : below(2) ? -ECANCELED : -ETIME;
    w.started = w.ended = 0;
    w.sent = false;
    COIR_DEADLINE(w.reason == -ETIME ? coir_in(2 * moment()) : COIR_NEVER);
    COIR_SCOPE(scope);
    w.scope = scope;
    if (coir_go_on(others, (int)below((uint64_t)workers), start_some, NULL) < 0)
        return; /* the deadline has passed */
    if (below(2) || coir_go(scope, stay, NULL) < 0)
        stay(NULL);
    if (w.reason == -ECANCELED)
        coir_scope_cancel(scope);
    COIR_DEADLINE_AS(limit, coir_in(soon));
    int rc = coir_scope_wait(scope);
    MUST(!coir_deadline_passed(limit) && (rc == 0 || rc == w.reason));
    MUST(w.sent);
    MUST_BE(w.ended, w.started);
}

static int play(void *arg)
{
    int workers = (int)coir_worker_count(coir_runtime_current());
    (void)arg;
    COIR_SCOPE(others);
    for (uint64_t rounds = 1 + below(ROUNDS_MOST); rounds; rounds--)
        play_round(others, workers);
    return coir_scope_wait(others);
}

int scenario(coir_sim *sim)
{
    memset(&w, 0, sizeof w);
    MUST_BE(chaos_configure(sim), 0);
    return coir_sim_host_main(sim, "host", play, NULL);
}
