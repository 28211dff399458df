/* Parkers that are woken from tasks and plain threads: no wake-up is lost, none is invented, and
 * wakers may be used when their parker is gone. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "program.h"

struct mailbox {
    coir_parker parker;
    uint64_t posts, wakes, taken, parks; /* posts come before their wake-up */
    int slots_filled;
    coir_waker slots[ACTORS_MOST]; /* one for each who wakes */
    bool slot_taken[ACTORS_MOST];
};

struct mail {
    unsigned each;
    int parkers, waking; /* actors: the first; those of the others that are not done */
    bool over;
    struct mailbox boxes[ACTORS_MOST];
};

static int draw_mail(struct act *act, struct ci_random *random)
{
    struct mail *mail = act->own = calloc(1, sizeof *mail);
    mail->each = 1 + draw(random, 1u << draw_from(random, 1, 8));
    mail->parkers = (int)draw_from(random, 1, (unsigned)act->actor_count - 1);
    mail->waking = act->actor_count - mail->parkers;
    for (int i = 0; i < act->actor_count; i++)
        act->actors[i].thread = i >= mail->parkers && draw(random, 2);
    return 0;
}

static void print_mail(const struct act *act, FILE *file)
{
    const struct mail *mail = act->own;
    fprintf(file, ", %d parkers, %u posts by each of the others", mail->parkers, mail->each);
}

/* ---- those who park ---- */

static int call_park(struct wait *wait)
{
    return coir_parker_wait(wait->object);
}

static coir_future *park_op(struct wait *wait, void *place)
{
    (void)place;
    return coir_parker_wait_op(wait->object);
}

static coir_case park_case(struct wait *wait)
{
    return coir_case_parker(wait->object);
}

static int park_until_all(struct actor *actor, struct mailbox *box)
{
    const struct mail *mail = actor->act->own;
    struct wait wait = {call_park, park_op, park_case, .object = &box->parker};
    for (;;) {
        bool last = __atomic_load_n(&mail->waking, __ATOMIC_ACQUIRE) == 0;
        box->taken = __atomic_load_n(&box->posts, __ATOMIC_ACQUIRE);
        if (last)
            return 0;
        int rc = actor_wait(actor, &wait);
        if (rc < 0 && rc != LOST)
            return rc;
        box->parks += rc == 0;
        ACT_CHECK(actor->act, box->parks <= __atomic_load_n(&box->wakes, __ATOMIC_RELAXED));
    }
}

static int play_parker(struct actor *actor)
{
    struct mail *mail = actor->act->own;
    struct mailbox *box = &mail->boxes[actor->number];
    int rc = coir_parker_init(&box->parker);
    if (rc < 0)
        program_fail(actor->act, "coir_parker_init: %s", coir_strerror(rc));
    for (int i = mail->parkers; i < actor->act->actor_count; i++)
        box->slots[i] = coir_parker_waker(&box->parker);
    __atomic_store_n(&box->slots_filled, 1, __ATOMIC_RELEASE);
    rc = park_until_all(actor, box);
    coir_parker_done(&box->parker);
    return rc < 0 ? actor_interrupted(actor, rc) : 0;
}

/* ---- those who wake ---- */

static int find_waker(struct actor *actor, struct mailbox *box)
{
    const struct mail *mail = actor->act->own;
    int rc = 0;
    while (!__atomic_load_n(&box->slots_filled, __ATOMIC_ACQUIRE) && rc == 0) {
        if (__atomic_load_n(&mail->over, __ATOMIC_ACQUIRE))
            return -ECANCELED;
        rc = actor->thread ? sched_yield() : actor_lull(actor);
    }
    return rc;
}

static void wake(struct actor *actor, struct mailbox *box)
{
    const coir_waker *waker = &box->slots[actor->number];
    __atomic_add_fetch(&box->posts, 1, __ATOMIC_RELEASE);
    __atomic_add_fetch(&box->wakes, 1, __ATOMIC_RELAXED);
    switch (draw(&actor->random, 3)) {
    case 0: coir_waker_wake(coir_waker_clone(waker)); break;
    case 1:
        coir_waker_drop(coir_waker_clone(waker));
        coir_waker_wake_by_ref(waker);
        break;
    default: coir_waker_wake_by_ref(waker); break;
    }
    act_count(actor->act);
}

/* All of them, once more: after the last post of the last one every parker sees that there are no
 * more. */
static void let_go(struct actor *actor)
{
    struct mail *mail = actor->act->own;
    __atomic_sub_fetch(&mail->waking, 1, __ATOMIC_ACQ_REL);
    for (int i = 0; i < mail->parkers; i++) {
        struct mailbox *box = &mail->boxes[i];
        if (!__atomic_load_n(&box->slots_filled, __ATOMIC_ACQUIRE))
            continue;
        __atomic_add_fetch(&box->wakes, 1, __ATOMIC_RELAXED);
        box->slot_taken[actor->number] = true;
        coir_waker_wake(box->slots[actor->number]);
    }
}

static int play_mail(struct actor *actor)
{
    struct mail *mail = actor->act->own;
    if (actor->number < mail->parkers)
        return play_parker(actor);
    int rc = 0;
    for (int i = 0; i < mail->parkers && rc == 0; i++)
        rc = find_waker(actor, &mail->boxes[i]);
    for (unsigned i = 0; i < mail->each && rc == 0; i++) {
        wake(actor, &mail->boxes[draw(&actor->random, (unsigned)mail->parkers)]);
        if (draw(&actor->random, 3) == 0)
            rc = actor->thread ? sched_yield() : actor_lull(actor);
    }
    let_go(actor);
    return rc < 0 ? actor_interrupted(actor, rc) : 0;
}

static void drop_left(struct act *act)
{
    struct mail *mail = act->own;
    for (int i = 0; i < mail->parkers; i++) {
        struct mailbox *box = &mail->boxes[i];
        for (int j = mail->parkers; j < act->actor_count && box->slots_filled; j++)
            if (!box->slot_taken[j])
                coir_waker_drop(box->slots[j]);
        box->slots_filled = 0;
    }
}

static void end_mail(struct act *act)
{
    struct mail *mail = act->own;
    __atomic_store_n(&mail->over, true, __ATOMIC_RELEASE);
    if (act->run->program->simulated) /* no threads, and its host must end with nothing open */
        drop_left(act);
}

static void check_mail(struct act *act)
{
    struct mail *mail = act->own;
    uint64_t posts = 0, taken = 0;
    for (int i = 0; i < mail->parkers; i++) {
        struct mailbox *box = &mail->boxes[i];
        posts += box->posts;
        taken += box->taken;
    }
    drop_left(act);
    ACT_CHECK(act, !act_complete(act) || taken == posts);
    ACT_CHECK(act, !act_complete(act) ||
                       posts == (uint64_t)(act->actor_count - mail->parkers) * mail->each);
}

static void free_mail(struct act *act)
{
    free(act->own);
}

const struct act_kind act_waker = {
    .name = "waker",
    .weight = 2,
    .threads = true,
    .actors_least = 2,
    .actors_most = 6,
    .draw = draw_mail,
    .print = print_mail,
    .play = play_mail,
    .end = end_mail,
    .check = check_mail,
    .free = free_mail,
};
