/* A random walk of deadlines, shields, scopes and cancels, beside a reference model that knows to
 * the nanosecond what each call must say, and when. Worth running with --workers 3.
 *
 * What must hold: a sleep ends at its time with 0; or when the first thing that is seen from where
 * it stands interrupts it, with -ECANCELED or -ETIME; no earlier, and at most `slack` later. A
 * deadline is seen inside of its block, up to the innermost shield, also after it was moved, be it
 * by a timer that is due at the same time; so is the cancel of the task. A spawned task sees what
 * its opener sees around the scope, also one that a member has spawned from another worker, and no
 * outer scope's end comes before its tasks' ends. coir_deadline_passed says so for the blocks whose
 * time it was, and coir_task_deadline which of a task's own is the nearest up to the innermost
 * shield. */
#include <coir.h>
#include <coir/loop.h>
#include <coir/sim.h>
#include <errno.h>
#include <string.h>

#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { DEPTH_MOST = 6, STEPS_MOST = 6, TASKS_MOST = 60 };

/* None where virtual time stands still. Over a simulated kernel calls take time, and a worker that
 * io_uring refuses for want of memory pauses for a millisecond: more than twice is rare. */
static const coir_time slack_most = 3 * COIR_MS;
static coir_time slack;

enum what { DEADLINE, SHIELD, CANCEL };

struct members;

/* What surrounds a call, innermost first: a chain over tasks. */
struct node {
    const struct node *outer;
    enum what what;
    coir_time when; /* of a deadline; of a cancel, once it has been made; else COIR_NEVER */
    struct members *members; /* of a task's own node: of which scope it is one */
};

/* A scope's tasks: its opener's, and those that they spawn beside themselves. */
struct members {
    coir_scope *scope;
    const struct node *node; /* what they see of it */
    int spawned, ended;
};

struct task {
    struct node node;
    int depth;
    coir_handle handle;
};

static struct {
    struct task tasks[TASKS_MOST];
    int spawned;
} w;

static coir_time some_time(void)
{
    return (coir_time)below(1 + ((uint64_t)(20 * COIR_MS) >> below(8)));
}

/* ---- the model ---- */

static coir_time first_cause(const struct node *node)
{
    coir_time first = COIR_NEVER;
    for (; node && node->what != SHIELD; node = node->outer)
        first = node->when < first ? node->when : first;
    return first;
}

/* Of the task's own: not beyond what its opener sees. */
static coir_time nearest_deadline(const struct node *node)
{
    coir_time nearest = COIR_NEVER;
    for (; node && node->what == DEADLINE; node = node->outer)
        nearest = node->when < nearest ? node->when : nearest;
    return nearest;
}

/* Whether something that is seen says `rc` by now. */
static bool has_cause(const struct node *node, int rc, coir_time now)
{
    for (; node && node->what != SHIELD; node = node->outer)
        if (node->when <= now && (node->what == DEADLINE ? -ETIME : -ECANCELED) == rc)
            return true;
    return false;
}

static void check_call(const struct node *node, coir_time begin, coir_time until, int rc)
{
    coir_time first = first_cause(node), now = coir_now();
    coir_time due = first > begin ? first : begin;
    MUST(rc == 0 || has_cause(node, rc, now));
    MUST(rc < 0 || now >= until);
    if (due < until - slack)
        MUST(rc < 0 && now <= due + slack);
    else
        MUST(now <= (until > begin ? until : begin) + slack);
    MUST(first >= now - slack || coir_task_interrupted() < 0); /* a remote cancel takes a message */
}

/* ---- the walk ---- */

static void walk(const struct node *node, int depth);

static int be_a_task(void *arg)
{
    struct task *task = arg;
    walk(&task->node, task->depth);
    task->node.members->ended++;
    return 0;
}

static void sleep_a_while(const struct node *node)
{
    coir_time begin = coir_now(), until = begin + (below(4) ? some_time() : 0);
    MUST_BE(coir_task_deadline(), nearest_deadline(node));
    check_call(node, begin, until, until > begin ? coir_sleep_until(until) : coir_yield());
}

static void walk_under_deadline(const struct node *outer, int depth)
{
    struct node node = {outer, DEADLINE, coir_in(some_time()), NULL};
    COIR_DEADLINE_AS(block, node.when);
    walk(&node, depth);
    if (below(2)) { /* no scope is open inside: earlier or later, whether it has passed or not */
        node.when = below(8) ? coir_in(some_time()) : COIR_NEVER;
        coir_deadline_move(block, node.when);
        walk(&node, depth);
    }
    MUST(!coir_deadline_passed(block) || node.when <= coir_now());
}

/* A deadline, and a timer of the worker's loop that is due at the same time and moves it to a later
 * one. */
struct postponed {
    struct node node;
    coir_cancel_scope *block;
};

static void postpone(coir_loop *loop, coir_timer *timer, void *arg)
{
    struct postponed *self = arg;
    (void)loop, (void)timer;
    if (coir_deadline_passed(self->block))
        return;
    self->node.when += 1 + some_time();
    coir_deadline_move(self->block, self->node.when);
}

static void sleep_under_postponed(const struct node *outer)
{
    struct postponed self = {.node = {outer, DEADLINE, COIR_NEVER, NULL}};
    coir_timer timer = {0};
    coir_time delay = some_time(), begin, until;
    coir_timer_start(coir_worker_loop(), &timer, delay, postpone, &self);
    self.node.when = coir_in(delay);
    COIR_DEADLINE_AS(block, self.node.when);
    self.block = block;
    begin = coir_now();
    until = begin + 2 * some_time();
    check_call(&self.node, begin, until, coir_sleep_until(until));
    coir_timer_stop(coir_worker_loop(), &timer);
}

static void walk_shielded(const struct node *outer, int depth)
{
    const struct node node = {outer, SHIELD, COIR_NEVER, NULL};
    COIR_SHIELD;
    MUST_BE(coir_task_interrupted(), 0);
    walk(&node, depth);
}

static struct task *spawn(struct members *members, const struct node *caller, bool handle,
                          int depth)
{
    if (w.spawned == TASKS_MOST)
        return NULL;
    struct task *task = &w.tasks[w.spawned++]; /* at once: others spawn meanwhile */
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle ? &task->handle : NULL;
    options.place = COIR_ON_WORKER((int)below((uint64_t)coir_worker_count(coir_runtime_current())));
    task->node = (struct node){members->node, CANCEL, COIR_NEVER, members};
    task->depth = depth;
    members->spawned++;
    int rc = coir_go_with(members->scope, &options, be_a_task, task);
    if (rc == 0)
        return task;
    members->spawned--;
    MUST(has_cause(caller, rc, coir_now()) || has_cause(members->node, rc, coir_now()));
    return NULL;
}

static void walk_in_scope(const struct node *outer, int depth)
{
    /* what its tasks see: when it is cancelled */
    struct node node = {outer, CANCEL, COIR_NEVER, NULL};
    struct task *tasks[3];
    int count = (int)below(3) + 1;
    COIR_SERVING_SCOPE(scope);
    struct members members = {scope, &node, 0, 0};
    for (int i = 0; i < count; i++)
        tasks[i] = spawn(&members, outer, true, depth);
    walk(outer, depth);
    for (int i = 0; i < count; i++)
        if (tasks[i] && below(2)) {
            tasks[i]->node.when = coir_now();
            coir_cancel(&tasks[i]->handle);
        }
    if (below(2))
        walk(outer, depth);
    if (below(2) == 0)
        node.when = coir_now();
    if (node.when != COIR_NEVER)
        coir_scope_cancel(scope);
    int rc = coir_scope_wait(scope); /* no deadline is inside: it waits for all, whatever it says */
    MUST(rc == 0 || has_cause(outer, rc, coir_now()));
    MUST_BE(members.ended, members.spawned);
    for (int i = 0; i < count; i++)
        if (tasks[i])
            coir_handle_done(&tasks[i]->handle);
}

/* A task spawns another one into the scope that it is in itself, which may be another worker's. */
static void spawn_beside(const struct node *caller, int depth)
{
    const struct node *node = caller;
    while (node && !node->members)
        node = node->outer;
    if (node)
        spawn(node->members, caller, false, depth);
}

static void walk(const struct node *node, int depth)
{
    for (uint64_t steps = below(STEPS_MOST); steps; steps--) {
        switch (depth < DEPTH_MOST ? below(8) : 0) {
        case 1: walk_under_deadline(node, depth + 1); break;
        case 2: walk_shielded(node, depth + 1); break;
        case 3: walk_in_scope(node, depth + 1); break;
        case 4: spawn_beside(node, depth + 1); break;
        case 5: (below(8) ? sleep_a_while : sleep_under_postponed)(node); break;
        default: sleep_a_while(node);
        }
    }
}

static int begin(void *arg)
{
    (void)arg;
    coir_time now = coir_now();
    slack = coir_now() == now ? 0 : slack_most;
    for (int i = 0; i < 5; i++)
        walk(NULL, 0);
    return 0;
}

int scenario(coir_sim *sim)
{
    memset(&w, 0, sizeof w);
    MUST_BE(chaos_configure(sim), 0);
    return coir_sim_host_main(sim, "host", begin, NULL);
}
