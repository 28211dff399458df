/* Two tasks of one worker at one object: a set that both take members from, a handle that one task
 * joins and another one gives to a new task, a scope that another task closes than the one that has
 * opened it. Each often acts just as the other one is woken.
 *
 * What must hold:
 * 1. A wait returns what it has waited for, whatever others do with the object between its wake-up
 *    and its turn; a second wait at the same time is refused (-EBUSY).
 * 2. Each member of a set comes out once, at one of the tasks. Both are told of the end.
 * 3. A join has the result of the task that the handle had when it began.
 * 4. A close returns when no task is left in the scope, whoever calls it, and whatever interrupts
 *    the caller. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <string.h>

#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { PAIRS = 3, ACTS = 6, MEMBERS_MOST = 8, TASKS_MOST = 4 };
static const coir_time patience = 60 * COIR_S;

/* Often nothing. */
static coir_time some_time(void)
{
    return (coir_time)below((uint64_t)(2 * COIR_MS) >> below(12));
}

/* Where nothing is slept for, a task runs once more in the same turn of its loop. */
static void pause_a_little(void)
{
    coir_time time = some_time();
    MUST_BE(below(2) ? coir_yield() : coir_sleep_for(time), 0);
}

static void go_with_handle(coir_scope *scope, coir_handle *handle, coir_task_fn *fn, void *arg)
{
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    MUST_BE(coir_go_with(scope, &options, fn, arg), 0);
}

/* ---- a set ---- */

struct sleeper {
    coir_branch branch;
    coir_sleep_op sleep;
    bool out;
};

struct shared_set {
    coir_set set;
    struct sleeper members[MEMBERS_MOST];
    int added, out;
};

static void add_some(struct shared_set *shared)
{
    for (uint64_t n = below(4); n && shared->added < MEMBERS_MOST; n--) {
        struct sleeper *member = &shared->members[shared->added++];
        member->branch = (coir_branch)COIR_BRANCH(coir_sleep_for_op(&member->sleep, some_time()));
        MUST_BE(coir_set_add(&shared->set, &member->branch), 0);
    }
}

static int next_of(struct shared_set *shared, coir_branch **ret_branch)
{
    COIR_DEADLINE(below(4) ? COIR_NEVER : coir_in(some_time()));
    return coir_set_next(&shared->set, ret_branch);
}

/* Until none is left. */
static int take_members(void *arg)
{
    struct shared_set *shared = arg;
    for (int rc = 1; rc;) {
        coir_branch *branch = NULL;
        rc = next_of(shared, &branch);
        MUST((rc == 1) == (branch != NULL));
        if (rc == 1) {
            struct sleeper *member = (struct sleeper *)(void *)branch;
            MUST(member >= shared->members && member < shared->members + shared->added);
            MUST(coir_branch_is_complete(branch) && branch->future->result == 0 && !member->out);
            member->out = true;
            shared->out++;
            add_some(shared);
        } else {
            MUST(rc == 0 || rc == -EBUSY || rc == -ETIME);
        }
        if (rc < 0 || below(2))
            pause_a_little();
    }
    return 0;
}

static void share_set(void)
{
    struct shared_set shared = {.added = 0};
    COIR_SCOPE(scope);
    coir_set_init(&shared.set);
    add_some(&shared);
    MUST_BE(coir_go(scope, take_members, &shared), 0);
    take_members(&shared);
    MUST_BE(coir_scope_wait(scope), 0);
    MUST_BE(shared.out, shared.added);
    coir_set_done(&shared.set);
}

/* ---- a handle ---- */

struct work {
    int result;
    coir_event *almost_done; /* or NULL */
};

static int do_work(void *arg)
{
    struct work *work = arg;
    MUST_BE(coir_sleep_for(some_time()), 0);
    if (work->almost_done)
        coir_event_set(work->almost_done);
    return work->result;
}

struct reuse {
    coir_scope *scope;
    coir_handle *handle;
    coir_event almost_done;
    struct work first, second;
    bool used_again;
};

/* The handle's task has ended, and who joins it may not know yet. */
static int use_again(void *arg)
{
    struct reuse *reuse = arg;
    MUST_BE(coir_event_wait(&reuse->almost_done), 0);
    while (!coir_handle_has_ended(reuse->handle))
        pause_a_little();
    reuse->used_again = true;
    go_with_handle(reuse->scope, reuse->handle, do_work, &reuse->second);
    if (below(2))
        MUST_BE(coir_join(reuse->handle), reuse->second.result);
    return 0;
}

/* A case of a join is misuse where another task joins, too. */
static int join_somehow(coir_handle *handle, bool others_may)
{
    if (others_may || below(2))
        return coir_join(handle);
    coir_case cases[] = {coir_case_join(handle), coir_case_after(patience)};
    MUST_BE(coir_select(cases, 1 + below(2)), 0);
    return (int)cases[0].result;
}

static void share_handle(void)
{
    COIR_HANDLE(handle);
    COIR_SERVING_SCOPE(scope);
    struct reuse reuse = {.scope = scope, .handle = handle};
    reuse.first = (struct work){.result = 1 - (int)below(9), .almost_done = &reuse.almost_done};
    reuse.second = (struct work){.result = 1 + (int)below(9)};
    go_with_handle(scope, handle, do_work, &reuse.first);
    MUST_BE(coir_go(scope, use_again, &reuse), 0);
    if (below(3) == 0)
        pause_a_little();
    struct work *joined = reuse.used_again ? &reuse.second : &reuse.first;
    int rc = join_somehow(handle, reuse.used_again);
    MUST(rc == joined->result || rc == -EBUSY);
    MUST(rc != -EBUSY || reuse.used_again);
    coir_scope_wait(scope); /* the first failure, if there was one */
    MUST_BE(coir_join(handle), reuse.second.result);
}

/* ---- a scope ---- */

struct closing {
    coir_scope *scope;
    int begun, ended;
};

static int work_on(void *arg)
{
    struct closing *closing = arg;
    closing->begun++;
    {
        COIR_SHIELD;
        MUST_BE(coir_sleep_for(some_time()), 0);
    }
    int rc = coir_sleep_for(some_time());
    MUST(rc == 0 || rc == -ECANCELED);
    closing->ended++;
    return 0;
}

static int close_it(void *arg)
{
    struct closing *closing = arg;
    COIR_DEADLINE(below(2) ? COIR_NEVER : coir_in(some_time()));
    int rc = coir_sleep_for(some_time());
    MUST(rc == 0 || rc == -ECANCELED || rc == -ETIME);
    coir_scope_close(closing->scope);
    MUST_BE(closing->begun, closing->ended); /* 4 */
    return 0;
}

static void share_scope(void)
{
    COIR_SERVING_SCOPE(around);
    COIR_HANDLE(closer);
    coir_scope storage;
    struct closing closing = {.scope = coir_scope_open(&storage)};
    for (uint64_t n = below(TASKS_MOST); n; n--)
        MUST_BE(below(2) ? coir_go(closing.scope, work_on, &closing)
                         : coir_go_anywhere(closing.scope, work_on, &closing),
                0);
    go_with_handle(around, closer, close_it, &closing);
    if (below(2)) {
        MUST_BE(coir_sleep_for(some_time()), 0);
        coir_cancel(closer);
    }
    int rc = coir_join(closer);
    MUST(rc == 0 || rc == -ECANCELED); /* it had not begun */
    if (rc < 0)
        coir_scope_close(closing.scope);
    MUST_BE(closing.begun, closing.ended);
}

/* ---- all of it ---- */

static int play(void *arg)
{
    (void)arg;
    for (int i = 0; i < ACTS; i++)
        switch (below(3)) {
        case 0: share_set(); break;
        case 1: share_handle(); break;
        default: share_scope(); break;
        }
    return 0;
}

static int be_everybody(void *arg)
{
    COIR_DEADLINE(coir_in(patience));
    COIR_SCOPE(scope);
    for (int i = 0; i < PAIRS; i++)
        MUST_BE(coir_go_anywhere(scope, play, arg), 0);
    return coir_scope_wait(scope);
}

int scenario(coir_sim *sim)
{
    MUST_BE(chaos_configure(sim), 0);
    return coir_sim_host_main(sim, "host", be_everybody, NULL);
}
