/* Every order of a spawn into a scope of another worker against the scope's end, its cancellation
 * and the end of what was spawned. */
#include <errno.h>

#include "harness.h"
#include "model/model.h"

enum { PREEMPTIONS = 3 };

static int spawned, ran, refused;
static coir_scope *shared_scope;
static coir_event said, never;
static coir_runtime *runtime;
static bool waits; /* what is spawned: until it is cancelled */
static coir_handle handle;

static void reset(void)
{
    spawned = ran = refused = 0;
    said = never = (coir_event)COIR_EVENT_INIT;
    waits = false;
}

static void check_all_ran(void)
{
    coir_counters counters = COIR_COUNTERS;
    coir_counters_get(runtime, &counters);
    CHECK_EQ(ran, spawned);
    CHECK_EQ(counters.tasks_live, 0); /* every record went home, once */
}

static int yield_once(void *arg)
{
    (void)arg;
    __atomic_fetch_add(&ran, 1, __ATOMIC_RELAXED);
    return waits ? coir_event_wait(&never) : coir_yield();
}

static int spawn(int placement, coir_handle *of)
{
    coir_go_options options = COIR_GO_OPTIONS;
    options.place = placement;
    options.handle = of;
    int rc = coir_go_with(shared_scope, &options, yield_once, NULL);
    CHECK(rc == 0 || rc == -ECANCELED);
    __atomic_fetch_add(rc == 0 ? &spawned : &refused, 1, __ATOMIC_RELAXED);
    return 0;
}

static int spawn_here(void *arg)
{
    (void)arg;
    return spawn(COIR_HERE, NULL);
}

static int spawn_at_home(void *arg)
{
    (void)arg;
    return spawn(COIR_ON_WORKER(0), NULL);
}

static int spawn_and_join(void *arg)
{
    (void)arg;
    spawn(COIR_HERE, &handle);
    CHECK_EQ(coir_join(&handle), 0);
    return 0;
}

static int spawn_and_cancel(void *arg)
{
    (void)arg;
    spawn(COIR_ANYWHERE, &handle);
    coir_cancel(&handle);
    int rc = refused ? 0 : coir_join(&handle);
    CHECK(refused ? rc == 0 : rc == -ECANCELED);
    return 0;
}

static int spawn_and_say_so(void *arg)
{
    spawn_here(arg);
    coir_event_set(&said);
    return 0;
}

/* ---- against the end of the scope ---- */

static int wait_for_all(coir_task_fn *fn)
{
    COIR_SCOPE(scope);
    shared_scope = scope;
    CHECK_EQ(coir_go_on(scope, 1, fn, NULL), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(refused, 0);
    CHECK_EQ(ran, 1);
    CHECK_EQ(coir_scope_live(scope), 0);
    return 0;
}

static int end_here(void *arg)
{
    runtime = arg;
    return wait_for_all(spawn_here);
}

static int end_at_home(void *arg)
{
    runtime = arg;
    return wait_for_all(spawn_at_home);
}

static int end_with_handle(void *arg)
{
    runtime = arg;
    return wait_for_all(spawn_and_join);
}

/* Only the spawn holds the scope open: the spawner is in another one. */
static int end_after_event(void *arg)
{
    runtime = arg;
    COIR_SERVING_SCOPE(others);
    {
        COIR_SCOPE(scope);
        shared_scope = scope;
        CHECK_EQ(coir_go_on(others, 1, spawn_and_say_so, NULL), 0);
        CHECK_EQ(coir_event_wait(&said), 0);
    }
    CHECK_EQ(ran, 1);
    return 0;
}

static int wait_until_said(void *arg)
{
    (void)arg;
    return coir_event_wait(&said);
}

/* The scope's own last task ends, and the scope is waited for, while the new one is on its way. */
static int end_after_task(void *arg)
{
    runtime = arg;
    COIR_SERVING_SCOPE(others);
    COIR_SCOPE(scope);
    shared_scope = scope;
    CHECK_EQ(coir_go(scope, wait_until_said, NULL), 0);
    CHECK_EQ(coir_go_on(others, 1, spawn_and_say_so, NULL), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(ran, 1);
    return coir_scope_wait(others);
}

TEST(remote_spawn_against_the_end)
{
    model_run(&(struct model){"remote spawn against the end",
                              2,
                              PREEMPTIONS,
                              reset,
                              end_here,
                              {NULL, NULL},
                              check_all_ran,
                              0,
                              0});
    model_run(&(struct model){"remote spawn to the home",
                              2,
                              PREEMPTIONS,
                              reset,
                              end_at_home,
                              {NULL, NULL},
                              check_all_ran,
                              0,
                              0});
    model_run(&(struct model){"remote spawn with a handle",
                              2,
                              PREEMPTIONS,
                              reset,
                              end_with_handle,
                              {NULL, NULL},
                              check_all_ran,
                              0,
                              0});
    model_run(&(struct model){"remote spawn holds open",
                              2,
                              PREEMPTIONS,
                              reset,
                              end_after_event,
                              {NULL, NULL},
                              check_all_ran,
                              0,
                              0});
    model_run(&(struct model){"remote spawn and the last task",
                              2,
                              PREEMPTIONS,
                              reset,
                              end_after_task,
                              {NULL, NULL},
                              check_all_ran,
                              0,
                              0});
}

/* ---- against cancellation ---- */

static int cancel_during(coir_task_fn *fn)
{
    COIR_SCOPE(scope);
    shared_scope = scope;
    waits = true;
    CHECK_EQ(coir_go_on(scope, 1, fn, NULL), 0);
    coir_yield();
    coir_scope_cancel(scope);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(spawned + refused, 1);
    return 0;
}

static int cancel_here(void *arg)
{
    runtime = arg;
    return cancel_during(spawn_here);
}

static int cancel_at_home(void *arg)
{
    runtime = arg;
    return cancel_during(spawn_at_home);
}

static int cancel_both(void *arg)
{
    runtime = arg;
    return cancel_during(spawn_and_cancel);
}

TEST(remote_spawn_against_cancel)
{
    model_run(&(struct model){"remote spawn against cancel",
                              2,
                              PREEMPTIONS,
                              reset,
                              cancel_here,
                              {NULL, NULL},
                              check_all_ran,
                              0,
                              0});
    model_run(&(struct model){"remote spawn to home and cancel",
                              2,
                              PREEMPTIONS,
                              reset,
                              cancel_at_home,
                              {NULL, NULL},
                              check_all_ran,
                              0,
                              0});
    model_run(&(struct model){"two cancels of a remote spawn",
                              2,
                              PREEMPTIONS,
                              reset,
                              cancel_both,
                              {NULL, NULL},
                              check_all_ran,
                              0,
                              0});
}

/* ---- three workers: spawned on one, run on another, into a scope of the third ---- */

static int spawn_on_2(void *arg)
{
    (void)arg;
    return spawn(COIR_ON_WORKER(2), NULL);
}

static int end_on_three(void *arg)
{
    runtime = arg;
    return wait_for_all(spawn_on_2);
}

static int cancel_on_three(void *arg)
{
    runtime = arg;
    return cancel_during(spawn_on_2);
}

TEST(remote_spawn_over_three_workers)
{
    model_run(&(struct model){"three workers against the end",
                              3,
                              PREEMPTIONS - 1,
                              reset,
                              end_on_three,
                              {NULL, NULL},
                              check_all_ran,
                              0,
                              0});
    model_run(&(struct model){"three workers against cancel",
                              3,
                              PREEMPTIONS - 1,
                              reset,
                              cancel_on_three,
                              {NULL, NULL},
                              check_all_ran,
                              0,
                              0});
}
