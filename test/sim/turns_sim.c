/* Tasks of all workers that take turns at a semaphore or a mutex, and hold it for a while: by
 * calls, as operations, in a coir_any, without waiting; under deadlines that are often too short.
 *
 * What must hold:
 * 1. At a semaphore, a fair mutex and a shared mutex, no task passes one that has come earlier:
 * when a task is served, all that came before have been served or have given up, or do so within
 *    `just`.
 * 2. At a plain mutex, a task is passed once when it is the first, and once for each that was
 * before it.
 * 3. In the end, all are served. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <string.h>

#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { TASKS_MOST = 7, TURNS_MOST = 8, UNITS = 3 };
static const coir_time just = COIR_MS, hold_least = 2 * COIR_MS, patience = 10 * COIR_S;

enum kind { SEMAPHORE, PLAIN, FAIR, SHARED, KINDS };

struct turn {
    coir_time came, ended;
    bool served;
};

static struct {
    enum kind kind;
    coir_semaphore semaphore;
    coir_mutex mutex; /* PLAIN or FAIR */
    coir_shared_mutex shared;
    struct turn turns[TASKS_MOST * TURNS_MOST];
    int count;
} w;

/* `amount`: units; of a shared mutex, 1 reads and others write. */
static coir_future *future_of(coir_wait_op *op, uint64_t amount)
{
    switch (w.kind) {
    case SEMAPHORE: return coir_semaphore_acquire_op(op, &w.semaphore, amount);
    case PLAIN:
    case FAIR: return coir_mutex_lock_op(op, &w.mutex);
    case SHARED:
    case KINDS: break;
    }
    return amount == 1 ? coir_shared_mutex_share_op(op, &w.shared)
                       : coir_shared_mutex_lock_op(op, &w.shared);
}

static int call(uint64_t amount)
{
    if (w.kind == SEMAPHORE)
        return coir_semaphore_acquire(&w.semaphore, amount);
    if (w.kind != SHARED)
        return coir_mutex_lock(&w.mutex);
    return amount == 1 ? coir_shared_mutex_share(&w.shared) : coir_shared_mutex_lock(&w.shared);
}

static int try_now(uint64_t amount)
{
    if (w.kind == SEMAPHORE)
        return coir_semaphore_try_acquire(&w.semaphore, amount);
    if (w.kind != SHARED)
        return coir_mutex_try_lock(&w.mutex);
    return amount == 1 ? coir_shared_mutex_try_share(&w.shared)
                       : coir_shared_mutex_try_lock(&w.shared);
}

static int take(uint64_t amount)
{
    coir_wait_op op;
    coir_sleep_op sleep;
    COIR_DEADLINE(below(4) ? COIR_NEVER : coir_in((coir_time)below(20 * COIR_MS)));
    switch (below(4)) {
    case 0: return try_now(amount);
    case 1: return (int)coir_await(future_of(&op, amount));
    case 2: {
        coir_branch branches[] = {
            COIR_BRANCH(future_of(&op, amount)),
            COIR_BRANCH(coir_sleep_for_op(&sleep, (coir_time)below(50 * COIR_MS)))};
        int won = coir_any(branches, 2);
        return won == 1 ? -ETIME : won;
    }
    default: return call(amount);
    }
}

static void give_back(uint64_t amount)
{
    if (w.kind == SEMAPHORE)
        MUST_BE(coir_semaphore_release(&w.semaphore, amount), 0);
    else if (w.kind != SHARED)
        coir_mutex_unlock(&w.mutex);
    else
        coir_shared_mutex_unlock(&w.shared);
}

static int be_a_task(void *arg)
{
    (void)arg;
    for (uint64_t turns = 1 + below(TURNS_MOST); turns; turns--) {
        uint64_t amount = 1 + below(UNITS);
        struct turn *turn = &w.turns[w.count++];
        turn->came = coir_now();
        int rc = take(amount);
        *turn = (struct turn){turn->came, coir_now(), rc == 0};
        MUST(rc == 0 || rc == -ETIME || rc == -EAGAIN);
        if (rc == 0) {
            MUST_BE(coir_sleep_for(hold_least + (coir_time)below(5 * COIR_MS)), 0);
            give_back(amount);
        }
        if (below(2)) /* or it comes again at once */
            MUST_BE(coir_sleep_for((coir_time)below(20 * COIR_MS)), 0);
    }
    return 0;
}

static bool has_passed(const struct turn *late, const struct turn *early)
{
    return late->served && early->came + just <= late->came && late->ended + just <= early->ended;
}

static void check_turn(const struct turn *turn)
{
    int passed = 0, most = w.kind == PLAIN;
    for (const struct turn *other = w.turns; other != w.turns + w.count; other++) {
        passed += has_passed(other, turn);
        most += w.kind == PLAIN && other->came <= turn->came + just && other->ended >= turn->came;
    }
    MUST(passed <= most);
}

static int play(void *arg)
{
    uint64_t workers = (uint64_t)coir_worker_count(coir_runtime_current());
    COIR_SCOPE(scope);
    for (uint64_t tasks = 2 + below(TASKS_MOST - 1); tasks; tasks--)
        MUST_BE(coir_go_on(scope, (int)below(workers), be_a_task, arg), 0);
    COIR_DEADLINE(coir_in(patience));
    MUST_BE(coir_scope_wait(scope), 0);
    for (int i = 0; i < w.count; i++)
        check_turn(&w.turns[i]);
    return 0;
}

int scenario(coir_sim *sim)
{
    static const coir_mutex plain = COIR_MUTEX_INIT, fair = COIR_FAIR_MUTEX_INIT;
    memset(&w, 0, sizeof w);
    w.kind = (enum kind)below(KINDS);
    w.mutex = w.kind == FAIR ? fair : plain;
    w.semaphore = (coir_semaphore)COIR_SEMAPHORE_INIT(UNITS);
    MUST_BE(chaos_configure(sim), 0);
    return coir_sim_host_main(sim, "host", play, NULL);
}
