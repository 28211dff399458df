/* Events: a latch that all wait for, and then a ring of batons of which one is set at a time: who
 * has it takes it back and sets the next. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "program.h"

struct ring {
    unsigned laps, done; /* done: batons that were handed on */
    unsigned holders, passed;
    bool over;
    coir_event gate, batons[ACTORS_MOST];
};

static int draw_ring(struct act *act, struct ci_random *random)
{
    struct ring *ring = act->own = calloc(1, sizeof *ring);
    ring->laps = 1 + draw(random, 1u << draw(random, 8));
    return 0;
}

static void print_ring(const struct act *act, FILE *file)
{
    const struct ring *ring = act->own;
    fprintf(file, ", %u laps", ring->laps);
}

static int call_wait(struct wait *wait)
{
    return coir_event_wait(wait->object);
}

static coir_future *wait_op(struct wait *wait, void *place)
{
    return coir_event_wait_op(place, wait->object);
}

static coir_case wait_case(struct wait *wait)
{
    return coir_case_event(wait->object);
}

/* 0, or interrupted. */
static int await_event(struct actor *actor, coir_event *event)
{
    const struct ring *ring = actor->act->own;
    struct wait wait = {call_wait, wait_op, wait_case, .keeps = true, .object = event};
    int rc;
    while (actor->thread && !coir_event_is_set(event)) {
        if (__atomic_load_n(&ring->over, __ATOMIC_ACQUIRE))
            return -ECANCELED;
        sched_yield();
    }
    while (!actor->thread && (rc = actor_wait(actor, &wait)) != 0)
        if (rc != LOST)
            return rc;
    ACT_CHECK(actor->act, coir_event_is_set(event));
    return 0;
}

static int play_ring(struct actor *actor)
{
    struct ring *ring = actor->act->own;
    int next = (actor->number + 1) % actor->act->actor_count;
    if (actor->number == 0) {
        coir_event_set(&ring->batons[0]);
        coir_event_set(&ring->gate);
    }
    int rc = await_event(actor, &ring->gate);
    __atomic_add_fetch(&ring->passed, rc == 0, __ATOMIC_RELAXED);
    for (unsigned lap = 0; lap < ring->laps && rc == 0; lap++) {
        if ((rc = await_event(actor, &ring->batons[actor->number])) < 0)
            break;
        coir_event_reset(&ring->batons[actor->number]);
        ACT_CHECK_EQ(actor->act, __atomic_add_fetch(&ring->holders, 1, __ATOMIC_RELAXED), 1);
        ACT_CHECK_EQ(actor->act, ring->done++,
                     lap * (unsigned)actor->act->actor_count + (unsigned)actor->number);
        if (!actor->thread)
            actor_rest(actor);
        __atomic_sub_fetch(&ring->holders, 1, __ATOMIC_RELAXED);
        coir_event_set(&ring->batons[next]);
        act_count(actor->act);
    }
    return rc < 0 ? actor_interrupted(actor, rc) : 0;
}

static void end_ring(struct act *act)
{
    struct ring *ring = act->own;
    __atomic_store_n(&ring->over, true, __ATOMIC_RELEASE);
}

static void check_ring(struct act *act)
{
    const struct ring *ring = act->own;
    unsigned actors = (unsigned)act->actor_count;
    if (!act_complete(act))
        return;
    ACT_CHECK_EQ(act, ring->passed, actors);
    ACT_CHECK_EQ(act, ring->done, actors * ring->laps);
    for (unsigned i = 0; i < actors; i++)
        ACT_CHECK_EQ(act, coir_event_is_set(&ring->batons[i]), i == 0);
}

static void free_ring(struct act *act)
{
    free(act->own);
}

const struct act_kind act_event = {
    .name = "event",
    .weight = 2,
    .threads = true,
    .actors_least = 1,
    .actors_most = 6,
    .draw = draw_ring,
    .print = print_ring,
    .play = play_ring,
    .end = end_ring,
    .check = check_ring,
    .free = free_ring,
};
