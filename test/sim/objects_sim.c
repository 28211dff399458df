/* Tasks on one to four workers that use channels, locks, semaphores, latest values and events: one
 * at a time, or several at once by coir_any and coir_select; cancelled, under deadlines, with
 * memory that runs out.
 *
 * What must hold:
 * 1. The history of each object is linearizable; of several operations
 *    waited for at once, exactly the one reported took effect. An interrupted call had none.
 * 2. Every item that was sent is received or released, once.
 * 3. No task waits for something that is there; checked when no task has moved for longer than any
 *    pause lasts. After everything is closed, set and given back, all tasks end soon.
 * 4. While a task writes under a lock, no other task is inside of it.
 *
 * objects.c has the objects, objects_wait.c and objects_at_once.c what a task does with them,
 * objects_stuck.c the check of 3. */
#include <errno.h>
#include <string.h>

#include "sim/must.h"
#include "sim/objects.h"
#include "sim/scenario.h"

static int do_something(struct task *task)
{
    switch (below(8)) {
    case 0:
    case 1: do_at_once(task); return 0;
    case 2:
    case 3: return wait_for_any(task);
    case 4: return wait_for_select(task);
    case 5:
    case 6: {
        COIR_DEADLINE(coir_in((coir_time)below(below(2) ? 30 : 3000) * COIR_US));
        wait_for_one(task);
        return 0;
    }
    default: return wait_for_one(task);
    }
}

static void leave(struct task *task)
{
    for (int i = 0; i < run.object_count; i++)
        if (task->held[i])
            give_back(task, &run.objects[i], task->held[i]);
    run.ended++;
}

static int be_a_task(void *arg)
{
    struct task *task = arg;
    int rc = 0;
    for (int step = 0; rc == 0 && !run.over && step < run.steps; step++) {
        run.moves++;
        rc = do_something(task);
        if (rc == 0)
            rc = rest();
    }
    leave(task);
    run.moves++;
    return 0;
}

static int spawn(coir_scope *scope, struct task *task)
{
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = &task->handle;
    int on = (int)below((uint64_t)coir_worker_count(coir_runtime_current()));
    options.place = below(5) ? COIR_ON_WORKER(on) : COIR_ANYWHERE;
    int rc = coir_go_with(scope, &options, be_a_task, task);
    run.count += rc == 0;
    return rc;
}

static void disturb(int tasks)
{
    for (uint64_t cancels = below(2) ? below(2 * TASKS_MOST) : 0; cancels && tasks; cancels--) {
        coir_sleep_for((coir_time)below(2000) * COIR_US);
        coir_cancel(&run.tasks[below((uint64_t)tasks)].handle);
    }
    for (int moves = -1; moves != run.moves;) {
        moves = run.moves;
        coir_sleep_for(10 * COIR_MS); /* longer than any pause or deadline of a task */
    }
    check_waits();
}

static int play(void *arg)
{
    (void)arg;
    run.object_count = 1 + (int)below(OBJECTS);
    run.steps = 1 + (int)below(STEPS_MOST);
    memset(run.tasks, 0, sizeof run.tasks);
    int made = 0, tasks = 2 + (int)below(TASKS_MOST - 1), rc = 0;
    for (; made < run.object_count; made++)
        MUST_BE(object_make(&run.objects[made]), 0);
    coir_sim_faults(run.sim, NULL, (coir_faults){.no_memory = below(4) ? 0 : 0.1});
    {
        COIR_SERVING_SCOPE(scope);
        for (int i = 0; i < tasks; i++) {
            run.tasks[i] = (struct task){.number = i};
            rc = spawn(scope, &run.tasks[i]);
            MUST_BE(rc == -ENOMEM ? 0 : rc, 0);
        }
        disturb(tasks);
        objects_open();
        COIR_DEADLINE(coir_in(COIR_S));
        MUST_BE(coir_scope_wait(scope), 0); /* see 3 */
        MUST_BE(run.ended + (int)coir_scope_errors(scope),
                run.count); /* errors: there was no stack */
    }
    for (int i = 0; i < tasks; i++)
        coir_handle_done(&run.tasks[i].handle);
    return 0;
}

int scenario(coir_sim *sim)
{
    run.sim = sim;
    run.count = run.ended = run.next_item = 0;
    run.over = false;
    int rc = coir_sim_host_main(sim, "host", play, NULL);
    for (int i = 0; i < run.object_count; i++) /* not in a fiber: the search is deep */
        object_check(&run.objects[i]);
    objects_free();
    return rc;
}
