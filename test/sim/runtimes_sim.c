/* Runtimes that threads of one program start, run again, stop and free, beside the host's own; in
 * each, calls that are offloaded to a bounded pool. Only over the simulated kernel, which has
 * threads.
 *
 * What must hold:
 * 1. A run ends, with 0, or with -ECANCELED where it was stopped; every task that was spawned has
 *    ended by then. Nothing of a runtime is left when it is freed (the host's audit).
 * 2. An offloaded call is made once, or not at all where it was refused (-EAGAIN) or withdrawn
 *    (-ECANCELED, -ETIME); no more run at a time than there may be threads; each ends soon.
 * 3. Its task goes on on the worker that it was on. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>

#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { USERS = 2, RUNS = 2, TASKS_MOST = 5, CALLS_MOST = 4 };
static const coir_time patience = 20 * COIR_S;

static coir_time some_time(void)
{
    return (coir_time)below((uint64_t)(2 * COIR_MS) >> below(8));
}

/* One runtime, and what has happened in it. */
struct user {
    coir_runtime *runtime;
    size_t threads_max;
    int begun, ended, running;
    bool stopped;
};

/* ---- offloaded calls ---- */

struct call {
    struct user *user;
    int made;
};

static int work(void *arg)
{
    struct call *call = arg;
    struct user *user = call->user;
    MUST_BE(call->made++, 0);
    MUST((size_t)++user->running <= user->threads_max);
    for (uint64_t steps = below(20); steps; steps--)
        usleep((useconds_t)(some_time() / COIR_US));
    user->running--;
    return 7;
}

static int offload_one(struct user *user)
{
    struct call call = {user, 0};
    int worker = coir_worker_index(), rc;
    if (below(3)) {
        rc = coir_offload(work, &call);
    } else {
        COIR_DEADLINE(coir_in(some_time()));
        rc = coir_offload(work, &call);
    }
    MUST(rc == 7 || rc == -EAGAIN || rc == -ETIME || (rc == -ECANCELED && user->stopped));
    MUST_BE(call.made, rc == 7);
    MUST_BE(coir_worker_index(), worker);
    return rc == -ECANCELED ? rc : 0;
}

/* ---- what runs in a runtime ---- */

static int be_a_task(void *arg)
{
    struct user *user = arg;
    int rc = coir_sleep_for(some_time());
    for (uint64_t calls = below(CALLS_MOST); rc == 0 && calls; calls--)
        rc = offload_one(user);
    MUST(rc == 0 || (rc == -ECANCELED && user->stopped));
    user->ended++;
    return rc;
}

static int stop_it(void *arg)
{
    struct user *user = arg;
    int rc = coir_sleep_for(some_time());
    if (rc == 0) {
        user->stopped = true;
        coir_runtime_stop(coir_runtime_current());
    }
    user->ended++;
    return rc;
}

static int first_task(void *arg)
{
    struct user *user = arg;
    MUST(coir_runtime_current() == user->runtime);
    COIR_SCOPE(scope);
    int rc = 0;
    for (uint64_t tasks = below(TASKS_MOST); rc == 0 && tasks; tasks--) {
        user->begun++;
        rc = coir_go_anywhere(scope, below(6) ? be_a_task : stop_it, user);
        if (rc < 0)
            user->begun--;
    }
    if (rc == 0 && below(3) == 0) { /* in the background: it may outlive this task */
        user->begun++;
        if (coir_go(NULL, be_a_task, user) < 0)
            user->begun--;
    }
    int waited = coir_scope_wait(scope);
    return rc < 0 ? rc : waited;
}

/* On a thread of its own. */
static int use_runtime(void *arg)
{
    static const char *const drivers[] = {"epoll", "io_uring", "poll", "kqueue"};
    struct user user = {.threads_max = 1 + below(3)};
    coir_config config = COIR_CONFIG;
    (void)arg;
    config.driver = drivers[below(4)];
    config.workers = 1 + below(3);
    config.offload_threads_max = user.threads_max;
    config.offload_queue_max = below(2) ? COIR_UNLIMITED : 1 + below(2);
    MUST_BE(coir_runtime_new(&config, &user.runtime), 0);
    for (int i = 0; i < RUNS; i++) {
        coir_time begin = coir_now();
        user.stopped = false;
        int rc = coir_runtime_run(user.runtime, first_task, &user);
        MUST(rc == 0 || (rc == -ECANCELED && user.stopped));
        MUST_BE(user.ended, user.begun);
        MUST_BE(user.running, 0);
        MUST(coir_now() <= begin + patience);
    }
    coir_runtime_free(user.runtime);
    return 0;
}

static int be_a_user(void *arg)
{
    MUST_BE(coir_offload(use_runtime, arg), 0);
    return 0;
}

static int play(void *arg)
{
    COIR_SCOPE(scope);
    for (int i = 0; i < USERS; i++)
        MUST_BE(coir_go_anywhere(scope, be_a_user, arg), 0);
    return coir_scope_wait(scope);
}

int scenario(coir_sim *sim)
{
    if (!posix_has_kernel())
        return -ENOTSUP;
    MUST_BE(chaos_configure(sim), 0);
    return coir_sim_host_main(sim, "host", play, NULL);
}
