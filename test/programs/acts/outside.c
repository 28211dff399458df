/* Plain threads that run functions in the runtime's fibers and post calls, while it runs and after
 * it has ended: each call is made once and its result is told; or it is refused, and was not
 * made. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "program.h"

struct visits {
    unsigned each, pause_us;
    coir_channel *numbers; /* what was posted */
    bool until_refused;    /* the threads go on until the runtime has ended */
    uint64_t posted, made, blocked, ran;
};

struct visit {
    struct visits *visits;
    struct ci_random random;
    int made, number;
};

static int draw_visits(struct act *act, struct ci_random *random)
{
    struct visits *visits = act->own = calloc(1, sizeof *visits);
    visits->each = draw_from(random, 1, 30);
    visits->pause_us = draw(random, 1u << draw(random, 9));
    visits->until_refused = draw(random, 2) && act->run->program->late_allowed;
    if (!act->run->program->late_allowed)
        act->hurry = HURRY_NOT; /* else its threads may be late */
    for (int i = 0; i < act->actor_count; i++)
        act->actors[i].thread = true;
    return coir_channel_new(sizeof(int), COIR_UNLIMITED, &visits->numbers);
}

static void print_visits(const struct act *act, FILE *file)
{
    const struct visits *visits = act->own;
    fprintf(file, ", %u visits each, pauses of %u us%s", visits->each, visits->pause_us,
            visits->until_refused ? ", until refused" : "");
}

static int be_useful(void *arg)
{
    struct visit *visit = arg;
    visit->made++;
    int rc = 0;
    for (unsigned i = draw(&visit->random, 4); i && rc == 0; i--)
        rc = draw(&visit->random, 2)
                 ? coir_yield()
                 : coir_sleep_for((coir_time)draw(&visit->random, 100) * COIR_US);
    return rc < 0 ? rc : visit->number;
}

static int await_number(void *arg)
{
    struct visit *visit = arg;
    visit->made++;
    int number, rc = coir_channel_recv(visit->visits->numbers, &number);
    return rc < 0 ? rc : visit->number;
}

static void post_number(void *arg)
{
    struct visits *visits = arg;
    int number = 1;
    __atomic_add_fetch(&visits->made, 1, __ATOMIC_RELAXED);
    coir_channel_try_send(visits->numbers, &number);
}

/* False: the runtime has ended. */
static bool block_on(struct actor *actor, struct visit *visit)
{
    struct visits *visits = visit->visits;
    bool posts = draw(&visit->random, 3) == 0;
    coir_call call;
    if (posts) {
        int rc = coir_runtime_post(actor->act->run->runtime,
                                   (int)draw(&visit->random, actor->act->run->program->workers),
                                   post_number, visits);
        if (rc == 0)
            __atomic_add_fetch(&visits->posted, 1, __ATOMIC_RELAXED);
        else
            return false;
    }
    visit->made = 0;
    visit->number = 1 + (int)draw(&visit->random, 1000);
    act_count(actor->act);
    int rc = (int)coir_block_on(actor->act->run->runtime,
                                coir_call_init(&call, posts ? await_number : be_useful, visit));
    ACT_CHECK(actor->act, visit->made <= 1);
    if (rc >= 0) {
        ACT_CHECK_EQ(actor->act, rc, visit->number);
        ACT_CHECK_EQ(actor->act, visit->made, 1);
    }
    return rc >= 0;
}

static int play_visits(struct actor *actor)
{
    struct visits *visits = actor->act->own;
    struct visit visit = {.visits = visits, .random = actor->random};
    bool welcome = true;
    for (unsigned i = 0; welcome && (i < visits->each || visits->until_refused); i++) {
        welcome = block_on(actor, &visit);
        struct timespec time = {0, (long)draw(&visit.random, visits->pause_us + 1) * 1000};
        nanosleep(&time, NULL);
        if (i == visits->each) { /* from here on it is nothing that the act waits for */
            __atomic_sub_fetch(&actor->act->threads, 1, __ATOMIC_RELEASE);
            coir_runtime_release(actor->act->run->runtime);
            actor->released = true;
        }
    }
    return 0;
}

static void check_visits(struct act *act)
{
    struct visits *visits = act->own;
    ACT_CHECK(act, visits->made <= visits->posted);
}

static void free_visits(struct act *act)
{
    struct visits *visits = act->own;
    coir_channel_free(visits->numbers);
    ACT_CHECK_EQ(act, visits->made, visits->posted); /* at the latest when the runtime was freed */
    free(visits);
}

const struct act_kind act_outside = {
    .name = "outside",
    .weight = 3,
    .real = true,
    .threads = true,
    .actors_least = 1,
    .actors_most = 3,
    .draw = draw_visits,
    .print = print_visits,
    .play = play_visits,
    .check = check_visits,
    .free = free_visits,
};
