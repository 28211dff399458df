/* Locks of every kind around plain memory: one at a time has it, readers share it, units are as
 * many as there are, and what goes through a buffer that a condition guards comes out once. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "ledger.h"

enum lock { LOCK_MUTEX, LOCK_FAIR, LOCK_SHARED, LOCK_SEMAPHORE, LOCKS };
enum { SLOTS = 4, UNITS_MOST = 8 };

struct locks {
    enum lock kind;
    unsigned rounds, units;
    coir_mutex mutex;
    coir_shared_mutex shared;
    coir_semaphore semaphore;
    coir_condition room, filled;
    uint64_t counted, expected; /* counted without atomics: the lock is what keeps it right */
    int32_t inside, readers, taken;
    /* the buffer, under the mutex: the first half of the actors fill it, the others empty it */
    bool buffered;
    struct ledger ledger;
    struct item slots[SLOTS];
    unsigned first, count;
    int filling;
};

static int draw_locks(struct act *act, struct ci_random *random)
{
    static const coir_mutex plain = COIR_MUTEX_INIT, fair = COIR_FAIR_MUTEX_INIT;
    struct locks *locks = act->own = calloc(1, sizeof *locks);
    locks->kind = (enum lock)draw(random, LOCKS);
    locks->rounds = draw_from(random, 1, 2u << draw(random, 8));
    locks->units = draw_from(random, 1, UNITS_MOST);
    locks->mutex = locks->kind == LOCK_FAIR ? fair : plain;
    locks->semaphore =
        (coir_semaphore)COIR_SEMAPHORE_INIT(locks->kind == LOCK_SEMAPHORE ? locks->units : 0);
    locks->buffered = act->actor_count > 1 && locks->kind <= LOCK_FAIR && draw(random, 2);
    locks->filling = act->actor_count / 2;
    for (int i = 0; i < act->actor_count && locks->buffered; i++)
        act->actors[i].thread = false;
    return ledger_init(&locks->ledger, act, (unsigned)locks->filling + 1, locks->rounds);
}

static void print_locks(const struct act *act, FILE *file)
{
    static const char *const names[] = {"mutex", "fair mutex", "shared mutex", "semaphore"};
    const struct locks *locks = act->own;
    fprintf(file, ", %s, %u rounds%s", names[locks->kind], locks->rounds,
            locks->buffered ? ", with a buffer and conditions" : "");
    if (locks->kind == LOCK_SEMAPHORE)
        fprintf(file, ", %u units", locks->units);
}

/* ---- taking it ---- */

static int call_lock(struct wait *wait)
{
    struct locks *locks = wait->object;
    switch (locks->kind) {
    case LOCK_SHARED:
        return wait->number ? coir_shared_mutex_share(&locks->shared)
                            : coir_shared_mutex_lock(&locks->shared);
    case LOCK_SEMAPHORE: return coir_semaphore_acquire(&locks->semaphore, (uint64_t)wait->number);
    default: return coir_mutex_lock(&locks->mutex);
    }
}

static coir_future *lock_op(struct wait *wait, void *place)
{
    struct locks *locks = wait->object;
    switch (locks->kind) {
    case LOCK_SHARED:
        return wait->number ? coir_shared_mutex_share_op(place, &locks->shared)
                            : coir_shared_mutex_lock_op(place, &locks->shared);
    case LOCK_SEMAPHORE:
        return coir_semaphore_acquire_op(place, &locks->semaphore, (uint64_t)wait->number);
    default: return coir_mutex_lock_op(place, &locks->mutex);
    }
}

static int try_lock(struct wait *wait)
{
    struct locks *locks = wait->object;
    switch (locks->kind) {
    case LOCK_SHARED:
        return wait->number ? coir_shared_mutex_try_share(&locks->shared)
                            : coir_shared_mutex_try_lock(&locks->shared);
    case LOCK_SEMAPHORE:
        return coir_semaphore_try_acquire(&locks->semaphore, (uint64_t)wait->number);
    default: return coir_mutex_try_lock(&locks->mutex);
    }
}

static void unlock(struct locks *locks, int64_t number)
{
    switch (locks->kind) {
    case LOCK_SHARED: coir_shared_mutex_unlock(&locks->shared); break;
    case LOCK_SEMAPHORE: coir_semaphore_release(&locks->semaphore, (uint64_t)number); break;
    default: coir_mutex_unlock(&locks->mutex); break;
    }
}

static int take(struct actor *actor, struct wait *wait)
{
    int rc;
    if (actor->thread) {
        act_count(actor->act);
        while ((rc = try_lock(wait)) == -EAGAIN)
            sched_yield();
        return rc;
    }
    while ((rc = draw(&actor->random, 6) ? actor_wait(actor, wait) : try_lock(wait)) == LOST ||
           rc == -EAGAIN)
        if ((rc = actor_lull(actor)) < 0)
            break;
    return rc;
}

/* ---- having it ---- */

static int32_t add(int32_t *number, int32_t amount)
{
    return __atomic_add_fetch(number, amount, __ATOMIC_RELAXED);
}

/* Exclusive: no other task is inside, and data that is not atomic is consistent. */
static void have_it_alone(struct actor *actor, struct locks *locks)
{
    ACT_CHECK_EQ(actor->act, add(&locks->inside, 1), 1);
    ACT_CHECK_EQ(actor->act, __atomic_load_n(&locks->readers, __ATOMIC_RELAXED), 0);
    uint64_t before = locks->counted;
    if (!actor->thread && draw(&actor->random, 8) == 0)
        coir_yield();
    locks->counted = before + 1;
    __atomic_add_fetch(&locks->expected, 1, __ATOMIC_RELAXED);
    add(&locks->inside, -1);
}

static void have_it(struct actor *actor, struct locks *locks, int64_t number)
{
    bool shares = locks->kind == LOCK_SHARED && number;
    if (locks->kind == LOCK_SEMAPHORE) {
        ACT_CHECK(actor->act, add(&locks->taken, (int32_t)number) <= (int32_t)locks->units);
        if (!actor->thread && draw(&actor->random, 4) == 0)
            coir_yield();
        add(&locks->taken, (int32_t)-number);
    } else if (shares) {
        add(&locks->readers, 1);
        ACT_CHECK_EQ(actor->act, __atomic_load_n(&locks->inside, __ATOMIC_RELAXED), 0);
        uint64_t before = locks->counted;
        if (!actor->thread && draw(&actor->random, 4) == 0)
            coir_yield();
        ACT_CHECK_EQ(actor->act, locks->counted, before);
        add(&locks->readers, -1);
    } else {
        have_it_alone(actor, locks);
    }
}

static int lock_and_unlock(struct actor *actor)
{
    struct locks *locks = actor->act->own;
    int rc = 0;
    for (unsigned i = 0; i < locks->rounds && rc == 0; i++) {
        struct wait wait = {call_lock, lock_op, .object = locks};
        if (locks->kind == LOCK_SHARED)
            wait.number = draw(&actor->random, 3) > 0;
        else if (locks->kind == LOCK_SEMAPHORE)
            wait.number = draw_from(&actor->random, 1, locks->units);
        if ((rc = take(actor, &wait)) < 0)
            break;
        have_it(actor, locks, wait.number);
        unlock(locks, wait.number);
    }
    return rc < 0 ? actor_interrupted(actor, rc) : 0;
}

/* ---- conditions: a buffer ---- */

static int call_condition(struct wait *wait)
{
    return coir_condition_wait(wait->object, wait->data);
}

static coir_future *condition_op(struct wait *wait, void *place)
{
    return coir_condition_wait_op(place, wait->object, wait->data);
}

/* With the mutex held, and held after it. 0, or interrupted. */
static int await_condition(struct actor *actor, coir_condition *condition, coir_mutex *mutex)
{
    struct wait wait = {call_condition, condition_op, .keeps = true, .object = condition,
                        .data = mutex};
    int rc = actor_wait(actor, &wait);
    return rc == LOST ? 0 : rc;
}

/* A signal wakes one task; a task that is interrupted passes it on by a broadcast. */
static int fill(struct actor *actor, struct locks *locks, unsigned number)
{
    int rc = coir_mutex_lock(&locks->mutex);
    if (rc < 0)
        return rc;
    while (rc == 0 && locks->count == SLOTS)
        rc = await_condition(actor, &locks->room, &locks->mutex);
    if (rc == 0) {
        struct item item = ledger_item(&locks->ledger, (unsigned)actor->number, number);
        locks->slots[(locks->first + locks->count++) % SLOTS] = item;
        ledger_sent(&locks->ledger, &item);
        if (draw(&actor->random, 4))
            coir_condition_signal(&locks->filled);
        else
            coir_condition_broadcast(&locks->filled);
    }
    coir_mutex_unlock(&locks->mutex);
    return rc;
}

static int fill_all(struct actor *actor)
{
    struct locks *locks = actor->act->own;
    int rc = 0;
    for (unsigned i = 0; i < locks->rounds && rc == 0; i++)
        rc = fill(actor, locks, i);
    COIR_SHIELD;
    coir_mutex_lock(&locks->mutex);
    locks->filling--;
    coir_condition_broadcast(&locks->filled);
    coir_mutex_unlock(&locks->mutex);
    return rc < 0 ? actor_interrupted(actor, rc) : 0;
}

static int empty_all(struct actor *actor)
{
    struct locks *locks = actor->act->own;
    struct order order;
    order_init(&order);
    int rc = coir_mutex_lock(&locks->mutex);
    bool locked = rc == 0;
    while (rc == 0 && (locks->count || locks->filling > 0)) {
        if (!locks->count) {
            rc = await_condition(actor, &locks->filled, &locks->mutex);
            continue;
        }
        struct item item = locks->slots[locks->first++ % SLOTS];
        locks->count--;
        ledger_received(&locks->ledger, &item);
        order_check(&order, &locks->ledger, &item);
        coir_condition_broadcast(&locks->room);
    }
    if (locked)
        coir_mutex_unlock(&locks->mutex);
    return rc < 0 ? actor_interrupted(actor, rc) : 0;
}

static int play_locks(struct actor *actor)
{
    const struct locks *locks = actor->act->own;
    if (!locks->buffered)
        return lock_and_unlock(actor);
    return actor->number < actor->act->actor_count / 2 ? fill_all(actor) : empty_all(actor);
}

static void check_locks(struct act *act)
{
    struct locks *locks = act->own;
    ACT_CHECK_EQ(act, locks->counted, locks->expected);
    ACT_CHECK_EQ(act, coir_mutex_try_lock(&locks->mutex), 0);
    ACT_CHECK_EQ(act, coir_shared_mutex_try_lock(&locks->shared), 0);
    ACT_CHECK_EQ(act, coir_semaphore_units(&locks->semaphore),
                 locks->kind == LOCK_SEMAPHORE ? locks->units : 0);
    for (; locks->count; locks->count--)
        ledger_received(&locks->ledger, &locks->slots[locks->first++ % SLOTS]);
    ledger_check(&locks->ledger);
}

static void free_locks(struct act *act)
{
    struct locks *locks = act->own;
    ledger_free(&locks->ledger);
    free(locks);
}

const struct act_kind act_lock = {
    .name = "lock",
    .weight = 5,
    .threads = true,
    .actors_least = 1,
    .actors_most = 8,
    .draw = draw_locks,
    .print = print_locks,
    .play = play_locks,
    .check = check_locks,
    .free = free_locks,
};
