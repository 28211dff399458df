/* One wait, in the way that the script says: alone, under a deadline, beside others of which one
 * wins, in a task of its own. */
#include <errno.h>

#include "place.h"
#include "program.h"

enum decoy { TIME, ITEM, SLOT, SEND, LATEST, EVENT, MUTEX, FAIR_MUTEX, SEMAPHORE, SHARED };
enum { DECOYS_MOST = 5, LOST_MOST = 12 };

struct decoy_wait {
    enum decoy decoy;
    uint64_t item;
    union place place;
};

/* ---- what was won, what was lost ---- */

static struct decoys *decoys_of(const struct actor *actor)
{
    return &actor->act->run->decoys;
}

static void hold_mutex(const struct actor *actor, int which)
{
    struct decoys *decoys = decoys_of(actor);
    ACT_CHECK_EQ(actor->act, __atomic_add_fetch(&decoys->holders[which], 1, __ATOMIC_RELAXED), 1);
    if (actor->number % 2)
        coir_yield();
    __atomic_sub_fetch(&decoys->holders[which], 1, __ATOMIC_RELAXED);
    coir_mutex_unlock(&decoys->mutexes[which]);
}

/* A decoy happened. */
static void won(const struct actor *actor, const struct decoy_wait *wait, int result)
{
    struct decoys *decoys = decoys_of(actor);
    if (result < 0 && wait->decoy != TIME)
        program_fail(actor->act, "a decoy (%d) gave %d", wait->decoy, result);
    switch (wait->decoy) {
    case ITEM:
    case SLOT:
        __atomic_add_fetch(&decoys->received, 1, __ATOMIC_RELAXED);
        __atomic_add_fetch(&decoys->sum_received, wait->item, __ATOMIC_RELAXED);
        break;
    case SEND:
        __atomic_add_fetch(&decoys->sent, 1, __ATOMIC_RELAXED);
        __atomic_add_fetch(&decoys->sum_sent, wait->item, __ATOMIC_RELAXED);
        break;
    case MUTEX: hold_mutex(actor, 0); break;
    case FAIR_MUTEX: hold_mutex(actor, 1); break;
    case SEMAPHORE: coir_semaphore_release(&decoys->semaphore, 2); break;
    case SHARED: coir_shared_mutex_unlock(&decoys->shared); break;
    default: break;
    }
}

static bool takes(enum decoy decoy)
{
    return decoy != TIME && decoy != LATEST && decoy != EVENT;
}

/* The decoys of a step, in the order of its bits. */
static int choose(const struct step *step, struct decoy_wait *waits, bool cases_only)
{
    static const enum decoy kinds[] = {ITEM, SLOT, SEND, LATEST, EVENT};
    static const enum decoy more[] = {MUTEX, FAIR_MUTEX, SEMAPHORE, SHARED, SLOT};
    int count = 0;
    waits[count++].decoy = TIME;
    for (int bit = 0; bit < 5 && count < DECOYS_MOST; bit++)
        if (step->decoys & 1 << bit)
            waits[count++].decoy = !cases_only && step->decoys & 32 ? more[bit] : kinds[bit];
    for (int i = 0; i < count; i++)
        waits[i].item = 1000u + step->us;
    return count;
}

/* ---- select ---- */

static coir_case make_case(struct decoys *decoys, struct decoy_wait *wait, const struct step *step)
{
    switch (wait->decoy) {
    case ITEM: return coir_case_recv(decoys->items, &wait->item);
    case SLOT: return coir_case_recv(decoys->slots, &wait->item);
    case SEND: return coir_case_send(decoys->items, &wait->item);
    case LATEST:
        return coir_case_latest(decoys->latest, coir_latest_get(decoys->latest, &(uint64_t){0}));
    case EVENT: return coir_case_event(&decoys->event);
    default: return coir_case_after(step->us * COIR_US);
    }
}

static int by_select(struct actor *actor, const struct step *step, struct wait *wait)
{
    struct decoy_wait decoys[DECOYS_MOST];
    coir_case cases[DECOYS_MOST + 1];
    int count = choose(step, decoys, true), own = step->place % (count + 1), at = 0;
    for (int i = 0; i <= count; i++)
        cases[i] =
            i == own ? wait->as_case(wait) : make_case(decoys_of(actor), &decoys[at++], step);
    int rc = step->way == WAY_SELECT ? coir_select(cases, (size_t)count + 1)
                                     : coir_select_in_order(cases, (size_t)count + 1);
    if (rc == own)
        return (int)cases[own].result;
    if (rc < 0)
        return rc;
    ACT_CHECK(actor->act, rc <= count);
    won(actor, &decoys[rc - (rc > own)], (int)cases[rc].result);
    return LOST;
}

/* ---- any ---- */

static coir_future *make_op(struct decoys *decoys, struct decoy_wait *wait, const struct step *step)
{
    coir_wait_op *op = &wait->place.wait;
    switch (wait->decoy) {
    case ITEM: return coir_channel_recv_op(op, decoys->items, &wait->item);
    case SLOT: return coir_channel_recv_op(op, decoys->slots, &wait->item);
    case SEND: return coir_channel_send_op(op, decoys->items, &wait->item);
    case LATEST:
        return coir_latest_wait_op(op, decoys->latest,
                                   coir_latest_get(decoys->latest, &(uint64_t){0}));
    case EVENT: return coir_event_wait_op(op, &decoys->event);
    case MUTEX: return coir_mutex_lock_op(op, &decoys->mutexes[0]);
    case FAIR_MUTEX: return coir_mutex_lock_op(op, &decoys->mutexes[1]);
    case SEMAPHORE: return coir_semaphore_acquire_op(op, &decoys->semaphore, 2);
    case SHARED: return coir_shared_mutex_share_op(op, &decoys->shared);
    default: return coir_sleep_for_op(&wait->place.sleep, step->us * COIR_US);
    }
}

static int by_any(struct actor *actor, const struct step *step, struct wait *wait)
{
    struct decoy_wait decoys[DECOYS_MOST];
    coir_branch branches[DECOYS_MOST + 1];
    union place place;
    int count = choose(step, decoys, false), own = step->place % (count + 1), at = 0;
    for (int i = 0; i <= count; i++) {
        coir_branch branch = COIR_BRANCH(i == own ? wait->op(wait, &place)
                                                  : make_op(decoys_of(actor), &decoys[at++], step));
        branches[i] = branch;
    }
    int rc = step->way == WAY_ANY ? coir_any(branches, (size_t)count + 1)
                                  : coir_any_in_order(branches, (size_t)count + 1);
    for (int i = 0; i <= count; i++) {
        const struct decoy_wait *decoy = i == own ? NULL : &decoys[i - (i > own)];
        if (i == rc)
            ACT_CHECK(actor->act, coir_branch_is_complete(&branches[i]));
        else if (decoy && takes(decoy->decoy) && coir_branch_is_complete(&branches[i]) &&
                 branches[i].future->result == 0)
            program_fail(actor->act,
                         "a member of a coir_any took from decoy %d and did not win: %d",
                         decoy->decoy, rc);
        else if (!decoy && !wait->keeps && coir_branch_is_complete(&branches[i]) &&
                 branches[i].future->result >= 0)
            program_fail(actor->act, "the wait took something in a coir_any that another won: %d",
                         rc);
    }
    int result = (int)branches[own].future->result;
    bool done = coir_branch_is_complete(&branches[own]);
    if (rc >= 0 && rc != own)
        won(actor, &decoys[rc - (rc > own)], (int)branches[rc].future->result);
    return done && (rc == own || result >= 0) ? result : rc < 0 ? rc : LOST;
}

/* ---- in other company ---- */

static int call_it(void *arg)
{
    struct wait *wait = arg;
    return wait->call(wait);
}

/* Ended by the sleep, by the call, or by what interrupts both. */
static int by_call_any(struct actor *actor, const struct step *step, struct wait *wait)
{
    coir_call call;
    coir_sleep_op sleep;
    coir_branch branches[] = {COIR_BRANCH(coir_call_init(&call, call_it, wait)),
                              COIR_BRANCH(coir_sleep_for_op(&sleep, step->us * COIR_US))};
    int rc = coir_any(branches, 2);
    bool done = coir_branch_is_complete(&branches[0]);
    int result = (int)call.future.result;
    ACT_CHECK(actor->act, rc != 0 || done);
    if (done && (result >= 0 || rc == 0))
        return result;
    return rc < 0 ? rc : LOST;
}

static int by_task(struct actor *actor, const struct step *step, struct wait *wait)
{
    union place place;
    COIR_SERVING_SCOPE(scope);
    COIR_HANDLE(handle);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    options.name = "wait";
    bool stackless = step->way == WAY_STACKLESS && wait->op;
    int rc = stackless ? coir_go_future_with(scope, &options, wait->op(wait, &place))
                       : coir_go_with(scope, &options, call_it, wait);
    if (rc < 0)
        return rc;
    if (step->way == WAY_TASK_CANCEL) {
        if (step->us)
            coir_sleep_for(step->us * COIR_US);
        coir_cancel(handle);
    }
    coir_scope_wait(scope); /* also when the caller was interrupted: the wait's memory is its own */
    ACT_CHECK(actor->act, coir_handle_has_ended(handle));
    COIR_SHIELD;
    rc = coir_join(handle);
    return rc == -ECANCELED ? LOST : rc;
}

struct generated {
    struct wait *wait;
    int result;
};

static int generate(coir_generator *generator, uint64_t first, void *arg)
{
    struct generated *generated = arg;
    uint64_t sent;
    generated->result = generated->wait->call(generated->wait);
    return coir_generator_yield(generator, first, &sent);
}

static int by_generator(struct actor *actor, struct wait *wait)
{
    struct generated generated = {wait, LOST};
    coir_generator *generator;
    uint64_t value = 0;
    int rc = coir_generator_new(generate, &generated, &generator);
    if (rc < 0)
        return rc;
    if ((rc = coir_generator_next(generator, 4711, &value)) == 1)
        ACT_CHECK_EQ(actor->act, value, 4711);
    else if (rc != coir_task_interrupted())
        program_fail(actor->act, "coir_generator_next: %d", rc);
    coir_generator_free(generator);
    return rc == 1 ? generated.result : rc;
}

static int by_deadline(const struct step *step, struct wait *wait)
{
    COIR_DEADLINE(coir_in(step->us * COIR_US));
    return wait->call(wait);
}

static int by_shield(const struct step *step, struct wait *wait)
{
    COIR_SHIELD;
    return by_deadline(step, wait);
}

static int wait_once(struct actor *actor, const struct step *step, struct wait *wait)
{
    union place place;
    switch ((enum way)step->way) {
    case WAY_DEADLINE: return by_deadline(step, wait);
    case WAY_SHIELD: return by_shield(step, wait);
    case WAY_SELECT:
    case WAY_SELECT_IN_ORDER:
        return wait->as_case ? by_select(actor, step, wait)
               : wait->op    ? by_any(actor, step, wait)
                             : wait->call(wait);
    case WAY_ANY:
    case WAY_ANY_IN_ORDER: return wait->op ? by_any(actor, step, wait) : wait->call(wait);
    case WAY_AWAIT: return wait->op ? (int)coir_await(wait->op(wait, &place)) : wait->call(wait);
    case WAY_CALL_ANY: return by_call_any(actor, step, wait);
    case WAY_TASK:
    case WAY_TASK_CANCEL:
    case WAY_STACKLESS: return by_task(actor, step, wait);
    case WAY_GENERATOR: return by_generator(actor, wait);
    default: return wait->call(wait);
    }
}

int actor_wait(struct actor *actor, struct wait *wait)
{
    static const struct step plain = {.way = WAY_CALL, .rest = 255};
    const struct step *step = &actor->script.steps[actor->at++ % actor->script.count];
    if (actor->lost > LOST_MOST)
        step = &plain; /* a decoy that always wins would make the act endless */
    act_count(actor->act);
    int rc = wait_once(actor, step, wait);
    if ((rc == -ETIME || rc == -ECANCELED) && !coir_task_interrupted()) {
        if (rc == -ECANCELED && step->way != WAY_TASK_CANCEL && step->way != WAY_CALL_ANY)
            program_fail(actor->act, "actor %d: -ECANCELED, and it was not cancelled (way %d)",
                         actor->number, step->way);
        rc = LOST;
    }
    if (rc == LOST && coir_task_interrupted())
        rc = coir_task_interrupted();
    actor->lost = rc == LOST ? actor->lost + 1 : 0;
    if (rc != LOST)
        actor_rest(actor);
    return rc;
}

/* ---- a wait of several acts ---- */

static int call_recv(struct wait *wait)
{
    return coir_channel_recv(wait->object, wait->data);
}

static coir_future *recv_op(struct wait *wait, void *place)
{
    return coir_channel_recv_op(place, wait->object, wait->data);
}

static coir_case recv_case(struct wait *wait)
{
    return coir_case_recv(wait->object, wait->data);
}

struct wait wait_for_item(coir_channel *channel, void *item)
{
    return (struct wait){call_recv, recv_op, recv_case, .object = channel, .data = item};
}
