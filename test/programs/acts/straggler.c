/* Tasks that begin late, by calls that were posted while the run was about to end, and then want
 * something of other workers: they get it, or are refused. */
#include <errno.h>
#include <stdlib.h>

#include "program.h"

struct stragglers {
    unsigned each;
    uint64_t posted, made, refused, began, ended;
};

struct straggler {
    struct actor *actor;
    struct ci_random random;
    int depth;
};

static int draw_stragglers(struct act *act, struct ci_random *random)
{
    struct stragglers *stragglers = act->own = calloc(1, sizeof *stragglers);
    stragglers->each = draw_from(random, 1, 5);
    return stragglers ? 0 : -ENOMEM;
}

static void count(uint64_t *number)
{
    __atomic_add_fetch(number, 1, __ATOMIC_RELAXED);
}

static void begin_straggler(void *arg);

static void post_straggler(struct actor *actor, struct ci_random *random, int depth)
{
    struct stragglers *stragglers = actor->act->own;
    struct straggler *straggler = malloc(sizeof *straggler);
    *straggler = (struct straggler){actor, {ci_random_next(random)}, depth};
    count(&stragglers->posted);
    if (coir_runtime_post(actor->act->run->runtime,
                          (int)draw(random, actor->act->run->program->workers), begin_straggler,
                          straggler) < 0) {
        count(&stragglers->refused);
        count(&stragglers->made);
        free(straggler);
    }
}

static int answer(void *arg)
{
    (void)arg;
    coir_yield();
    return 4711;
}

static int be_a_straggler(void *arg)
{
    struct straggler *straggler = arg;
    struct actor *actor = straggler->actor;
    struct stragglers *stragglers = actor->act->own;
    int workers = (int)actor->act->run->program->workers;
    count(&stragglers->began);
    act_count(actor->act);
    if (straggler->depth && draw(&straggler->random, 2))
        post_straggler(actor, &straggler->random, straggler->depth - 1);
    for (unsigned i = draw(&straggler->random, 3); i; i--)
        coir_yield();
    int rc = 0;
    {
        COIR_DEADLINE(draw(&straggler->random, 2) ? coir_in(50 * COIR_MS) : COIR_NEVER);
        rc = coir_call_on((int)draw(&straggler->random, (unsigned)workers), answer, NULL);
    }
    if (rc >= 0)
        ACT_CHECK_EQ(actor->act, rc, 4711);
    count(&stragglers->ended);
    free(straggler);
    return 0;
}

static void begin_straggler(void *arg)
{
    struct straggler *straggler = arg;
    struct stragglers *stragglers = straggler->actor->act->own;
    count(&stragglers->made);
    if (coir_go(NULL, be_a_straggler, straggler) < 0) {
        count(&stragglers->refused);
        free(straggler);
    }
}

static int play_stragglers(struct actor *actor)
{
    const struct stragglers *stragglers = actor->act->own;
    for (unsigned i = 0; i < stragglers->each; i++) {
        post_straggler(actor, &actor->random, (int)draw(&actor->random, 4));
        actor->at++;
        actor_rest(actor);
    }
    return 0;
}

static void post_last(struct act *act)
{
    struct ci_random random = {act->seed + 1}; /* its actors may still draw from theirs */
    for (unsigned i = draw(&random, 3); i; i--)
        post_straggler(&act->actors[0], &random, (int)draw(&random, 3));
}

static void check_stragglers(struct act *act)
{
    const struct stragglers *stragglers = act->own;
    ACT_CHECK_EQ(act, stragglers->began, stragglers->ended);
}

static void free_stragglers(struct act *act)
{
    struct stragglers *stragglers = act->own;
    ACT_CHECK_EQ(act, stragglers->made, stragglers->posted);
    ACT_CHECK_EQ(act, stragglers->began + stragglers->refused, stragglers->posted);
    free(stragglers);
}

const struct act_kind act_straggler = {
    .name = "straggler",
    .weight = 3,
    .actors_least = 1,
    .actors_most = 3,
    .draw = draw_stragglers,
    .play = play_stragglers,
    .last = post_last,
    .check = check_stragglers,
    .free = free_stragglers,
};
