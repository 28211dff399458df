/* Trees of scopes: tasks that spawn tasks, under deadlines and shields, that fail and cancel each
 * other; into scopes around them, from any worker; and into the background.
 *
 * 1. A task that was started runs and ends once; none outlives its scope; who joins it gets what it
 * returned.
 * 2. -ECANCELED and -ETIME come where something said so: a cancel or a deadline, at or around the
 * task, and no shield between.
 */
#include <errno.h>
#include <stdlib.h>

#include "program.h"

enum { NODES_MOST = 400, DEPTH_MOST = 4, FAILURE = -EILSEQ };

struct tree;
struct node;

/* What an open scope adds to the chain of causes. */
struct bond {
    struct node *owner;
    coir_scope scope;
    coir_time deadline; /* of the block around it, where it is seen inside */
    bool serving, shielded, cancelled;
    unsigned started, ended, failed; /* failed: ended with an error */
    bool failures[3];                /* with FAILURE, -ECANCELED, -ETIME */
};

struct node {
    struct tree *tree;
    struct bond *bond; /* that it lives in; NULL: the background */
    struct ci_random random;
    int depth, result;
    bool cancelled; /* by its handle */
    unsigned begun, ended;
};

struct tree {
    struct act *act;
    unsigned used, quiet; /* nodes; one step in so many fails or cancels something */
    unsigned background_started, background_ended;
    struct node nodes[NODES_MOST];
};

static int draw_tree(struct act *act, struct ci_random *random)
{
    struct tree *tree = act->own = calloc(1, sizeof *tree);
    tree->act = act;
    tree->quiet = 1u << draw(random, 6);
    return 0;
}

static void print_tree(const struct act *act, FILE *file)
{
    const struct tree *tree = act->own;
    fprintf(file, ", one step in %u is violent", tree->quiet);
}

/* ---- causes ---- */

static bool is_set(const bool *flag)
{
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

static void set(bool *flag)
{
    __atomic_store_n(flag, true, __ATOMIC_RELEASE);
}

static bool outer_cause(const struct act *act)
{
    return act->hurry != HURRY_NOT || act->run->program->stops;
}

/* Whether a task with this bond around it may be told `rc`: its own scope's opening, then what
 * holds outside, up to a shield. */
static bool has_cause(const struct tree *tree, const struct bond *bond, int rc)
{
    coir_time now = coir_now();
    while (bond) {
        const struct node *owner = bond->owner;
        if ((rc == -ETIME && bond->deadline <= now) ||
            (rc == -ECANCELED && is_set(&bond->cancelled)))
            return true;
        if (bond->shielded)
            return false;
        if (rc == -ECANCELED && is_set(&owner->cancelled))
            return true;
        bond = owner->bond;
    }
    return outer_cause(tree->act);
}

/* The same for the node itself, within its own open scope (NULL: none). A scope that is cancelled
 * cancels its tasks, not its opener. */
static int caused(const struct node *node, const struct bond *own, int rc)
{
    bool may = false, seen_outside = !own || !own->shielded;
    if (rc != -ECANCELED && rc != -ETIME)
        program_fail(node->tree->act, "a task was told %d: %s", rc, coir_strerror(rc));
    if (own && rc == -ETIME)
        may = own->deadline <= coir_now();
    if (seen_outside)
        may |=
            (rc == -ECANCELED && is_set(&node->cancelled)) || has_cause(node->tree, node->bond, rc);
    if (!may)
        program_fail(node->tree->act, "a task at depth %d was told %d, and nothing says why",
                     node->depth, rc);
    return rc;
}

/* ---- tasks ---- */

static int live_as_node(struct node *node);

static int run_node(void *arg)
{
    struct node *node = arg;
    struct bond *bond = node->bond;
    ACT_CHECK_EQ(node->tree->act, __atomic_add_fetch(&node->begun, 1, __ATOMIC_RELAXED), 1);
    int rc = node->result = live_as_node(node);
    ACT_CHECK_EQ(node->tree->act, __atomic_add_fetch(&node->ended, 1, __ATOMIC_RELAXED), 1);
    act_count(node->tree->act);
    if (!bond) {
        __atomic_add_fetch(&node->tree->background_ended, 1, __ATOMIC_RELEASE);
        return 0;
    }
    if (rc < 0) {
        set(&bond->failures[rc == FAILURE ? 0 : rc == -ECANCELED ? 1 : 2]);
        __atomic_add_fetch(&bond->failed, 1, __ATOMIC_RELAXED);
        if (!bond->serving)
            set(&bond->cancelled);
    }
    __atomic_add_fetch(&bond->ended, 1, __ATOMIC_RELEASE);
    return rc;
}

static struct node *new_node(struct node *parent, struct bond *bond)
{
    struct tree *tree = parent->tree;
    unsigned index = __atomic_fetch_add(&tree->used, 1, __ATOMIC_RELAXED);
    if (index >= NODES_MOST)
        return NULL;
    struct node *node = &tree->nodes[index];
    node->tree = tree;
    node->bond = bond;
    node->depth = parent->depth + 1;
    node->random.state = ci_random_next(&parent->random);
    return node;
}

/* A refusal needs a cause with the caller, or with the scope that it would be in. */
static int refused(const struct node *parent, const struct bond *own, const struct bond *into,
                   int rc)
{
    if (into && (rc == -ECANCELED || rc == -ETIME) && has_cause(parent->tree, into, rc))
        return rc;
    return caused(parent, own, rc);
}

/* Into the caller's own scope, the one that it lives in, or the background (NULL). */
static int spawn(struct node *parent, struct bond *own, struct bond *into, coir_handle *handle,
                 struct node **ret_node)
{
    const struct act *act = parent->tree->act;
    struct node *node = new_node(parent, into);
    *ret_node = NULL;
    if (!node)
        return 0;
    unsigned workers = act->run->program->workers, where = draw(&parent->random, workers + 2);
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = into ? "node" : "background";
    options.place = where < workers    ? COIR_ON_WORKER((int)where)
                    : where == workers ? COIR_HERE
                                       : COIR_ANYWHERE;
    options.handle = handle;
    unsigned *started = into ? &into->started : &node->tree->background_started;
    __atomic_add_fetch(started, 1, __ATOMIC_RELAXED);
    int rc = coir_go_with(into ? &into->scope : NULL, &options, run_node, node);
    if (rc < 0) {
        __atomic_sub_fetch(started, 1, __ATOMIC_RELAXED);
        ACT_CHECK_EQ(act, node->begun, 0);
        return refused(parent, own, into, rc);
    }
    *ret_node = node;
    return 0;
}

static int rest(struct node *node, const struct bond *own)
{
    int rc = draw(&node->random, 3)
                 ? coir_sleep_for((coir_time)draw(&node->random, 1u << draw(&node->random, 10)) *
                                  COIR_US)
                 : coir_yield();
    return rc < 0 ? caused(node, own, rc) : 0;
}

static bool violent(struct node *node)
{
    return draw(&node->random, 4 * node->tree->quiet) == 0;
}

/* A task with a handle: joined, perhaps cancelled before. */
static int spawn_and_join(struct node *node, struct bond *own)
{
    COIR_HANDLE(handle);
    struct node *child;
    int rc = spawn(node, own, own, handle, &child);
    if (rc < 0 || !child)
        return rc;
    bool cancels = draw(&node->random, 2) && violent(node);
    if (cancels) {
        set(&child->cancelled);
        coir_cancel(handle);
    }
    rc = coir_join(handle);
    if (coir_handle_has_ended(handle)) {
        ACT_CHECK_EQ(node->tree->act, __atomic_load_n(&child->ended, __ATOMIC_ACQUIRE), 1);
        ACT_CHECK(node->tree->act, rc == child->result || coir_task_interrupted());
        return 0;
    }
    return caused(node, own, rc);
}

static int act_in_scope(struct node *node, struct bond *own)
{
    struct node *child;
    switch (draw(&node->random, 9)) {
    case 8:
    case 0:
    case 1: return spawn(node, own, own, NULL, &child);
    case 2: return spawn_and_join(node, own);
    case 3: return node->bond && node->depth > 1 ? spawn(node, own, node->bond, NULL, &child) : 0;
    case 4:
        return node->bond && draw(&node->random, 3) == 0 ? spawn(node, own, NULL, NULL, &child) : 0;
    case 5:
        if (violent(node)) {
            set(&own->cancelled);
            coir_scope_cancel(&own->scope);
        }
        return 0;
    default: return rest(node, own);
    }
}

/* ---- a task's own scope ---- */

static void check_wait(const struct node *node, const struct bond *own, int rc)
{
    struct act *act = node->tree->act;
    if (rc >= 0) {
        ACT_CHECK_EQ(act, rc, 0);
        ACT_CHECK_EQ(act, __atomic_load_n(&own->ended, __ATOMIC_ACQUIRE),
                     __atomic_load_n(&own->started, __ATOMIC_RELAXED));
        ACT_CHECK_EQ(act, coir_scope_live(&own->scope), 0);
        ACT_CHECK(act, !own->serving || coir_scope_errors(&own->scope) <= own->failed);
        return;
    }
    bool of_a_task = !own->serving && is_set(&own->failures[rc == FAILURE      ? 0
                                                            : rc == -ECANCELED ? 1
                                                                               : 2]);
    if (!of_a_task)
        caused(node, own, rc);
}

static int in_scope(struct node *node, struct bond *own)
{
    int rc = 0;
    own->owner = node;
    if (own->serving)
        coir_serving_scope_open(&own->scope);
    else
        coir_scope_open(&own->scope);
    for (unsigned i = draw(&node->random, 12); i && rc == 0; i--)
        rc = act_in_scope(node, own);
    if (rc == 0 && draw(&node->random, 4)) {
        rc = coir_scope_wait(&own->scope);
        check_wait(node, own, rc);
    }
    set(&own->cancelled); /* what closing it does */
    coir_scope_close(&own->scope);
    ACT_CHECK_EQ(node->tree->act, __atomic_load_n(&own->ended, __ATOMIC_ACQUIRE), own->started);
    return rc;
}

static int in_blocks(struct node *node, struct bond *own)
{
    coir_time when =
        coir_in((coir_time)draw(&node->random, 1u << draw(&node->random, 12)) * COIR_US);
    switch (draw(&node->random, 6)) {
    case 0: {
        COIR_DEADLINE(when);
        own->deadline = when;
        return in_scope(node, own);
    }
    case 1: {
        COIR_SHIELD;
        own->shielded = true;
        return in_scope(node, own);
    }
    case 2: {
        COIR_SHIELD;
        COIR_DEADLINE(when);
        own->shielded = true;
        own->deadline = when;
        return in_scope(node, own);
    }
    case 3: {
        COIR_DEADLINE(when);
        COIR_SHIELD;
        own->shielded = true;
        return in_scope(node, own);
    }
    default: return in_scope(node, own);
    }
}

/* What an inner block or task said is the task's own error only where it is interrupted itself. */
static int live_as_node(struct node *node)
{
    int rc = rest(node, NULL);
    if (rc == 0 && node->depth < DEPTH_MOST && draw(&node->random, 3)) {
        struct bond own = {.serving = draw(&node->random, 2), .deadline = COIR_NEVER};
        in_blocks(node, &own);
        rc = coir_task_interrupted();
        rc = rc ? caused(node, NULL, rc) : 0;
    }
    if (rc == 0)
        rc = rest(node, NULL);
    return rc == 0 && node->bond && node->depth > 1 && violent(node) ? FAILURE : rc;
}

/* ---- the act ---- */

static int play_tree(struct actor *actor)
{
    struct tree *tree = actor->act->own;
    struct node trunk = {.tree = tree, .depth = 0, .random = actor->random};
    struct bond own = {.serving = true, .deadline = COIR_NEVER};
    int rc = in_blocks(&trunk, &own);
    rc = coir_task_interrupted();
    return rc < 0 ? actor_interrupted(actor, rc) : 0;
}

static void end_tree(struct act *act)
{
    struct tree *tree = act->own;
    while (__atomic_load_n(&tree->background_ended, __ATOMIC_ACQUIRE) <
               __atomic_load_n(&tree->background_started, __ATOMIC_RELAXED) &&
           coir_sleep_for(100 * COIR_US) == 0) {
    }
}

static void check_tree(struct act *act)
{
    struct tree *tree = act->own;
    ACT_CHECK_EQ(act, tree->background_ended, tree->background_started);
    for (unsigned i = 0; i < NODES_MOST; i++)
        ACT_CHECK_EQ(act, tree->nodes[i].ended, tree->nodes[i].begun);
}

static void free_tree(struct act *act)
{
    free(act->own);
}

const struct act_kind act_tree = {
    .name = "tree",
    .weight = 4,
    .actors_least = 1,
    .actors_most = 4,
    .draw = draw_tree,
    .print = print_tree,
    .play = play_tree,
    .end = end_tree,
    .check = check_tree,
    .free = free_tree,
};
