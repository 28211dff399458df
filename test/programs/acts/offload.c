/* Calls on other threads: each is made once, and its result comes home; or it is not made at
 * all. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "program.h"

enum { CALLS_MOST = 40 };

struct calls {
    unsigned each, us;
    struct call *calls;
};

struct call {
    int number, made;
    unsigned us;
};

static int draw_calls(struct act *act, struct ci_random *random)
{
    struct calls *calls = act->own = calloc(1, sizeof *calls);
    calls->each = draw_from(random, 1, CALLS_MOST);
    calls->us = draw(random, 1u << draw(random, 10));
    calls->calls = calloc(ACTORS_MOST * CALLS_MOST, sizeof *calls->calls);
    return calls->calls ? 0 : -ENOMEM;
}

static void print_calls(const struct act *act, FILE *file)
{
    const struct calls *calls = act->own;
    fprintf(file, ", %u calls each, of up to %u us", calls->each, calls->us);
}

static int work(void *arg)
{
    struct call *call = arg;
    call->made++;
    struct timespec time = {0, call->us * 1000};
    if (call->us)
        nanosleep(&time, NULL);
    return call->number;
}

static int call_offload(struct wait *wait)
{
    return coir_offload(work, wait->object);
}

static coir_future *offload_op(struct wait *wait, void *place)
{
    return coir_offload_op(place, work, wait->object);
}

static int play_calls(struct actor *actor)
{
    struct calls *calls = actor->act->own;
    int rc = 0;
    for (unsigned i = 0; i < calls->each && rc >= 0; i++) {
        struct call *call = &calls->calls[(unsigned)actor->number * CALLS_MOST + i];
        struct wait wait = {call_offload, offload_op, .keeps = true, .object = call};
        call->number = (int)(i * 17 + 1);
        call->us = actor->act->run->program->simulated ? 0 : draw(&actor->random, calls->us + 1);
        while ((rc = actor_wait(actor, &wait)) == LOST)
            ACT_CHECK_EQ(actor->act, call->made, 0); /* withdrawn: it was not begun */
        ACT_CHECK_EQ(actor->act, call->made, rc >= 0);
        ACT_CHECK(actor->act, rc < 0 || rc == call->number);
    }
    return rc < 0 ? actor_interrupted(actor, rc) : 0;
}

static void free_calls(struct act *act)
{
    struct calls *calls = act->own;
    free(calls->calls);
    free(calls);
}

const struct act_kind act_offload = {
    .name = "offload",
    .weight = 3,
    .actors_least = 1,
    .actors_most = 6,
    .draw = draw_calls,
    .print = print_calls,
    .play = play_calls,
    .free = free_calls,
};
