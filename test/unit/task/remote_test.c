/* Spawning into a scope of another worker. In the simulator, with three workers whose order is the
 * seed's, and on real threads. */
#include <coir.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "harness.h"

enum { WORKERS = 3, SEEDS = 300, REAL_ROUNDS = 20 };

static void everywhere(void (*body)(void))
{
    for (int i = 0; i < REAL_ROUNDS; i++)
        test_in_runtime(body, WORKERS);
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        test_in_sim(body, WORKERS, seed);
}

static int bump(int *counter)
{
    return __atomic_add_fetch(counter, 1, __ATOMIC_SEQ_CST);
}

static int look(int *counter)
{
    return __atomic_load_n(counter, __ATOMIC_SEQ_CST);
}

static coir_scope *shared_scope;
static int started, ended, refused;

/* ---- a tree of tasks, all of them in the one scope, spawned by each other from everywhere ---- */

enum { DEPTH = 4, CHILDREN = 3, TREE = 1 + 3 + 9 + 27 + 81 };

struct node {
    int depth, worker; /* worker: where it must run; -1: anywhere */
};

static int grow(void *arg)
{
    struct node self = *(struct node *)arg;
    int here = coir_worker_index();
    if (self.worker >= 0)
        CHECK_EQ(here, self.worker);
    bump(&started);
    if (self.depth % 2)
        coir_yield();
    for (int i = 0; i < CHILDREN && self.depth > 0; i++) {
        struct node child = {self.depth - 1, i == 0 ? here : i == 1 ? (here + 1) % WORKERS : -1};
        coir_go_options options = COIR_GO_OPTIONS;
        options.copy_size = sizeof child;
        options.place = i == 0 ? COIR_HERE : i == 1 ? COIR_ON_WORKER(child.worker) : COIR_ANYWHERE;
        CHECK_EQ(coir_go_with(shared_scope, &options, grow, &child), 0);
    }
    bump(&ended);
    return 0;
}

static void grow_a_tree(void)
{
    started = ended = 0;
    struct node root = {DEPTH, 1};
    COIR_SCOPE(scope);
    shared_scope = scope;
    coir_go_options options = COIR_GO_OPTIONS;
    options.copy_size = sizeof root;
    options.place = COIR_ON_WORKER(1);
    CHECK_EQ(coir_go_with(scope, &options, grow, &root), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(look(&ended), TREE);
    CHECK_EQ(coir_scope_live(scope), 0);
}

TEST(a_scope_takes_tasks_from_every_worker_and_waits_for_all)
{
    everywhere(grow_a_tree);
}

/* ---- from the moment of the spawn it counts, whatever the home worker hears of first ---- */

static coir_event spawned;

static int end_at_once(void *arg)
{
    (void)arg;
    bump(&ended);
    return 0;
}

static int spawn_and_say_so(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++)
        CHECK_EQ(coir_go(shared_scope, end_at_once, NULL), 0);
    coir_event_set(&spawned);
    return 0;
}

/* The spawner is no member of the scope: only the spawn itself holds it open. */
static void end_after_a_spawn(void)
{
    ended = 0;
    spawned = (coir_event)COIR_EVENT_INIT;
    COIR_SCOPE(others);
    {
        COIR_SERVING_SCOPE(scope);
        shared_scope = scope;
        CHECK_EQ(coir_go_on(others, 1, spawn_and_say_so, NULL), 0);
        CHECK_EQ(coir_event_wait(&spawned), 0);
    }
    CHECK_EQ(look(&ended), 3);
    CHECK_EQ(coir_scope_wait(others), 0);
}

TEST(a_remote_spawn_counts_from_the_moment_it_returns)
{
    everywhere(end_after_a_spawn);
}

/* ---- cancel, first error, deadlines: at any moment of a spawn from elsewhere ---- */

static int wait_long(void *arg)
{
    (void)arg;
    int rc = coir_sleep_for(1000 * COIR_S);
    bump(&ended);
    return rc;
}

static int reason_seen;

enum { MANY = 60 };

/* Spawns until it is refused, which it is: the scope is cancelled sooner or later. */
static int spawn_until_refused(void *arg)
{
    int want = (int)(intptr_t)arg, rc;
    while ((rc = coir_go(shared_scope, wait_long, NULL)) == 0) {
        if (bump(&started) < MANY)
            coir_yield();
        else
            coir_sleep_for(COIR_S);
    }
    CHECK_EQ(rc, want);
    bump(&refused);
    return coir_task_interrupted();
}

static void spawn_from_everywhere(int want)
{
    started = ended = refused = 0;
    for (int i = 0; i < WORKERS; i++)
        CHECK_EQ(coir_go_on(shared_scope, i, spawn_until_refused, (void *)(intptr_t)want), 0);
    while (look(&started) < 5)
        coir_yield();
}

static void check_all_ended(void)
{
    CHECK_EQ(look(&refused), WORKERS);
    CHECK_EQ(look(&ended), look(&started)); /* whatever was spawned ran, and was told to end */
    CHECK_EQ(coir_scope_live(shared_scope), 0);
}

static void cancel_while_spawning(void)
{
    COIR_SCOPE(scope);
    shared_scope = scope;
    spawn_from_everywhere(-ECANCELED);
    coir_scope_cancel(scope);
    CHECK_EQ(coir_scope_wait(scope), 0);
    check_all_ended();
}

static int fail(void *arg)
{
    (void)arg;
    return -EBADMSG;
}

static int spawn_a_failure(void *arg)
{
    (void)arg;
    return coir_go(shared_scope, fail, NULL);
}

static void fail_while_spawning(void)
{
    COIR_SCOPE(scope);
    shared_scope = scope;
    spawn_from_everywhere(-ECANCELED);
    CHECK_EQ(coir_go_on(scope, 2, spawn_a_failure, NULL), 0);
    CHECK_EQ(coir_scope_wait(scope), -EBADMSG);
    check_all_ended();
}

static void run_late_while_spawning(void)
{
    COIR_DEADLINE(coir_in(50 * COIR_MS));
    COIR_SCOPE(scope);
    shared_scope = scope;
    spawn_from_everywhere(-ETIME);
    CHECK_EQ(coir_scope_wait(scope), -ETIME);
    check_all_ended();
}

TEST(cancelling_a_scope_meets_spawns_from_elsewhere)
{
    everywhere(cancel_while_spawning);
}

TEST(the_first_error_of_a_scope_may_come_from_a_remote_spawn)
{
    everywhere(fail_while_spawning);
}

TEST(a_deadline_meets_spawns_from_elsewhere)
{
    test_in_runtime(run_late_while_spawning, WORKERS);
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        test_in_sim(run_late_while_spawning, WORKERS, seed);
}

/* ---- handles ---- */

static int answer(void *arg)
{
    coir_yield();
    return (int)(intptr_t)arg;
}

static int use_handles(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2 * WORKERS; i++) {
        COIR_HANDLE(handle);
        coir_go_options options = COIR_GO_OPTIONS;
        options.place = i < WORKERS ? COIR_ON_WORKER(i) : COIR_HERE;
        options.handle = handle;
        CHECK_EQ(coir_go_with(shared_scope, &options, answer, (void *)(intptr_t)(40 + i)), 0);
        CHECK_EQ(coir_join(handle), 40 + i);
        CHECK_EQ(coir_go_with(shared_scope, &options, wait_long, NULL), 0);
        if (i % 2)
            coir_yield();
        coir_cancel(handle);
        reason_seen = coir_join(handle);
        CHECK_EQ(reason_seen, -ECANCELED);
        /* it outlives its handle */
        CHECK_EQ(coir_go_with(shared_scope, &options, wait_long, NULL), 0);
    }
    return 0;
}

static int use_handles_and_cancel(void *arg)
{
    use_handles(arg);
    coir_event_set(&spawned);
    return 0;
}

static void hold_handles(void)
{
    spawned = (coir_event)COIR_EVENT_INIT;
    COIR_SERVING_SCOPE(scope);
    shared_scope = scope;
    CHECK_EQ(coir_go_on(scope, 1, use_handles_and_cancel, NULL), 0);
    CHECK_EQ(coir_event_wait(&spawned), 0);
    coir_scope_cancel(scope);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(coir_scope_errors(scope), 0);
}

TEST(handles_of_remote_spawns_join_and_cancel)
{
    everywhere(hold_handles);
}

/* ---- futures, locals, limits ---- */

static const char key;
static int completed;

static int look_at_local(void *arg)
{
    (void)arg;
    CHECK(coir_local_get(&key) == &key);
    return 0;
}

static void on_complete(int64_t result, void *arg)
{
    (void)arg;
    CHECK_EQ(result, -EBADMSG);
    CHECK_EQ(coir_worker_index(), 1);
    bump(&completed);
}

static int spawn_other_kinds(void *arg)
{
    (void)arg;
    static coir_call calls[2];
    static coir_completion completion;
    coir_local_set(&key, (void *)(uintptr_t)&key);
    CHECK_EQ(coir_go(shared_scope, look_at_local, NULL), 0);
    CHECK_EQ(coir_go_future(shared_scope, coir_call_init(&calls[0], look_at_local, NULL)), 0);
    CHECK_EQ(coir_completion_start(shared_scope, &completion, coir_call_init(&calls[1], fail, NULL),
                                   on_complete, NULL),
             0);
    return 0;
}

static void other_kinds(void)
{
    completed = 0;
    COIR_SERVING_SCOPE(scope);
    shared_scope = scope;
    CHECK_EQ(coir_go_on(scope, 1, spawn_other_kinds, NULL), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(completed, 1);
    CHECK_EQ(coir_scope_errors(scope), 1);
}

TEST(futures_and_locals_work_in_remote_spawns)
{
    everywhere(other_kinds);
}

enum { LIMIT = 4 };

static int spawn_to_the_limit(void *arg)
{
    (void)arg;
    for (int round = 0; round < 50; round++) {
        int rc = 0, count = 0;
        while ((rc = coir_go(shared_scope, end_at_once, NULL)) == 0)
            count++;
        CHECK_EQ(rc, -EAGAIN);
        CHECK(count <= LIMIT);
        while (coir_go(shared_scope, end_at_once, NULL) ==
               -EAGAIN) /* a place comes back when one has ended */
            CHECK_EQ(coir_yield(), 0);
    }
    return 0;
}

static int spawn_with_a_limit(void *arg)
{
    (void)arg;
    COIR_SCOPE(scope);
    shared_scope = scope;
    CHECK_EQ(coir_go_on(scope, 1, spawn_to_the_limit, NULL), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    return 0;
}

TEST(the_limit_of_tasks_holds_for_remote_spawns)
{
    coir_config config = COIR_CONFIG;
    config.workers = 2;
    config.tasks_max = LIMIT;
    CHECK_EQ(test_run(&config, spawn_with_a_limit, NULL), 0);
}

/* ---- what stays refused ---- */

static int use_from_another_runtime(void *arg)
{
    (void)arg;
    CHECK_EQ(coir_go(shared_scope, end_at_once, NULL), -EXDEV);
    return 0;
}

static void *run_another_runtime(void *arg)
{
    (void)arg;
    CHECK_EQ(test_run(NULL, use_from_another_runtime, NULL), 0);
    return NULL;
}

static int wait_elsewhere(void *arg)
{
    return coir_scope_wait(arg) == -EXDEV ? 0 : -EBADMSG;
}

TEST_REAL(a_scope_belongs_to_its_runtime_and_is_waited_for_on_its_worker)
{
    COIR_SCOPE(scope);
    shared_scope = scope;
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, run_another_runtime, NULL), 0);
    pthread_join(thread, NULL);
}

static void wait_elsewhere_too(void)
{
    COIR_SCOPE(waiters);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go_on(waiters, 1, wait_elsewhere, scope), 0);
    CHECK_EQ(coir_scope_wait(waiters), 0);
}

TEST(a_scope_is_waited_for_on_its_worker)
{
    everywhere(wait_elsewhere_too);
}
