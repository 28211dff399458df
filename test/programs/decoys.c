/* Objects that every worker's selects wait for beside what they are for: so the claims of all acts
 * meet. What they hand over is counted. */
#include <errno.h>

#include "program.h"

enum { UNITS = 3 };

static void add(uint64_t *to, uint64_t amount)
{
    __atomic_add_fetch(to, amount, __ATOMIC_RELAXED);
}

void decoys_init(struct run *run)
{
    static const coir_mutex free_mutex = COIR_MUTEX_INIT, fair_mutex = COIR_FAIR_MUTEX_INIT;
    static const coir_semaphore units = COIR_SEMAPHORE_INIT(UNITS);
    struct decoys *decoys = &run->decoys;
    uint64_t zero = 0;
    *decoys = (struct decoys){.mutexes = {free_mutex, fair_mutex}, .semaphore = units};
    if (coir_channel_new(sizeof(uint64_t), 0, &decoys->items) < 0 ||
        coir_channel_new(sizeof(uint64_t), 2, &decoys->slots) < 0 ||
        coir_latest_new(sizeof zero, &zero, &decoys->latest) < 0)
        program_fail(&run->program->acts[0], "no memory for the decoys");
}

static void tick(struct run *run, struct ci_random *random, uint64_t number)
{
    struct decoys *decoys = &run->decoys;
    uint64_t item;
    switch (draw(random, 6)) {
    case 0:
    case 1:
        item = number;
        if (coir_channel_try_send(draw(random, 2) ? decoys->items : decoys->slots, &item) == 0) {
            add(&decoys->sent, 1);
            add(&decoys->sum_sent, item);
        }
        break;
    case 2:
        if (coir_channel_try_recv(decoys->slots, &item) == 0) {
            add(&decoys->received, 1);
            add(&decoys->sum_received, item);
        }
        break;
    case 3:
        draw(random, 4) ? coir_event_reset(&decoys->event) : coir_event_set(&decoys->event);
        break;
    case 4: coir_latest_set(decoys->latest, &number); break;
    default: break;
    }
}

int decoys_tick(void *arg)
{
    struct run *run = arg;
    struct ci_random random = {run->program->seed + 77};
    int rc = 0;
    for (uint64_t number = 1; rc >= 0; number++) {
        coir_mutex *mutex = &run->decoys.mutexes[number % 2];
        bool locked = draw(&random, 3) == 0 && coir_mutex_try_lock(mutex) == 0;
        tick(run, &random, number);
        /* a long run would do little else */
        coir_time rest = (coir_time)(draw(&random, 1u << draw(&random, 12)) * (1 + number / 1024));
        coir_case waits[] = {coir_case_after(rest * COIR_US), coir_case_event(&run->over)};
        rc = coir_select(waits, 2);
        if (locked)
            coir_mutex_unlock(mutex);
        if (rc == 1)
            break;
    }
    return 0;
}

void decoys_check(struct run *run)
{
    struct decoys *decoys = &run->decoys;
    const struct act *act = &run->program->acts[0];
    uint64_t item;
    while (coir_channel_try_recv(decoys->slots, &item) == 0) {
        add(&decoys->received, 1);
        add(&decoys->sum_received, item);
    }
    ACT_CHECK_EQ(act, coir_channel_try_recv(decoys->items, &item), -EAGAIN);
    ACT_CHECK_EQ(act, decoys->received, decoys->sent);
    ACT_CHECK_EQ(act, decoys->sum_received, decoys->sum_sent);
    ACT_CHECK_EQ(act, coir_semaphore_units(&decoys->semaphore), UNITS);
    ACT_CHECK_EQ(act, coir_mutex_try_lock(&decoys->mutexes[0]), 0);
    ACT_CHECK_EQ(act, coir_mutex_try_lock(&decoys->mutexes[1]), 0);
    ACT_CHECK_EQ(act, coir_shared_mutex_try_lock(&decoys->shared), 0);
}

void decoys_free(struct run *run)
{
    coir_channel_free(run->decoys.items);
    coir_channel_free(run->decoys.slots);
    coir_latest_free(run->decoys.latest);
}
