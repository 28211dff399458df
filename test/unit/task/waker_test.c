/* Parkers and their wakers. */
#include <coir.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>

#include "harness.h"
#include "sys/misuse.h"

TEST_SIM(wake_ups_before_the_wait_are_kept_and_several_are_one)
{
    coir_parker parker;
    CHECK_EQ(coir_parker_init(&parker), 0);
    coir_waker waker = coir_parker_waker(&parker), other = coir_waker_clone(&waker);
    CHECK(coir_waker_will_wake(&waker, &other));
    coir_waker_wake_by_ref(&waker);
    coir_waker_wake(other);
    CHECK_EQ(coir_parker_wait(&parker), 0);
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(coir_parker_wait(&parker), -ETIME);
    }
    coir_waker_wake_by_ref(&waker);
    {
        COIR_DEADLINE(coir_in(0));
        CHECK_EQ(coir_parker_wait(&parker), -ETIME); /* and the wake-up is kept */
    }
    CHECK_EQ(coir_parker_wait(&parker), 0);
    coir_parker_done(&parker);
    coir_waker_wake_by_ref(&waker); /* stray: harmless */
    coir_parker again;
    CHECK_EQ(coir_parker_init(&again), 0);
    coir_waker_wake_by_ref(&waker);
    coir_waker mine = coir_parker_waker(&again);
    CHECK(!coir_waker_will_wake(&waker, &mine));
    coir_waker_drop(mine);
    coir_case waits[] = {coir_case_parker(&again), coir_case_after(COIR_MS)};
    CHECK_EQ(coir_select(waits, 2), 1);
    coir_parker_done(&again);
    coir_waker_drop(waker);
}

struct shuttle {
    coir_waker waker;
    sem_t next;  /* a round begins */
    bool turned; /* the thread has done its part of the round */
    int rounds;
};

static void *wake_thread(void *arg)
{
    struct shuttle *shuttle = arg;
    for (int i = 0; i < shuttle->rounds; i++) {
        sem_wait(&shuttle->next);
        __atomic_store_n(&shuttle->turned, true, __ATOMIC_RELEASE);
        coir_waker_wake_by_ref(&shuttle->waker);
    }
    coir_waker_wake(shuttle->waker);
    return NULL;
}

/* Each round the thread makes something true and wakes; the task waits until it is. A lost wake-up
 * would wait for ever. */
static int be_woken(void *arg)
{
    struct shuttle *shuttle = arg;
    coir_parker parker;
    pthread_t thread;
    CHECK_EQ(coir_parker_init(&parker), 0);
    shuttle->waker = coir_parker_waker(&parker);
    sem_init(&shuttle->next, 0, 0);
    pthread_create(&thread, NULL, wake_thread, shuttle);
    for (int i = 0; i < shuttle->rounds; i++) {
        __atomic_store_n(&shuttle->turned, false, __ATOMIC_RELEASE);
        sem_post(&shuttle->next);
        while (!__atomic_load_n(&shuttle->turned, __ATOMIC_ACQUIRE))
            CHECK_EQ(coir_parker_wait(&parker), 0);
    }
    coir_parker_done(&parker);
    pthread_join(thread, NULL);
    sem_destroy(&shuttle->next);
    return 0;
}

static coir_waker stray;

static int leave_a_waker(void *arg)
{
    (void)arg;
    coir_parker parker;
    CHECK_EQ(coir_parker_init(&parker), 0);
    stray = coir_parker_waker(&parker);
    return 0; /* it forgets to close, too */
}

TEST(a_foreign_thread_wakes_and_no_wake_up_is_lost)
{
    struct shuttle shuttle = {.rounds = 20000};
    CHECK_EQ(coir_main(be_woken, &shuttle), 0);
}

TEST(a_waker_may_outlive_its_runtime)
{
    CHECK_EQ(coir_main(leave_a_waker, NULL), 0);
    coir_waker copy = coir_waker_clone(&stray);
    coir_waker_wake(copy);
    coir_waker_drop(stray);
}

/* ---- a wake-up that waits for its task's turn ---- */

struct two_waits {
    coir_parker parker;
    coir_waker waker;
    int results[2];
    bool selects;
};

static int wait_first(void *arg)
{
    struct two_waits *waits = arg;
    coir_case waiting = coir_case_parker(&waits->parker);
    waits->results[0] =
        waits->selects ? coir_select(&waiting, 1) : coir_parker_wait(&waits->parker);
    return 0;
}

static int wake_it(void *arg)
{
    coir_waker_wake_by_ref(&((struct two_waits *)arg)->waker);
    return 0;
}

/* On a worker whose tasks run in their order: the first is woken, and does not run before the
 * second waits. */
static void wait_twice(bool selects)
{
    struct two_waits waits = {.results = {1, 1}, .selects = selects};
    bool aborts = ci_misuse_aborts;
    CHECK_EQ(coir_parker_init(&waits.parker), 0);
    waits.waker = coir_parker_waker(&waits.parker);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, wait_first, &waits), 0);
    CHECK_EQ(coir_go(scope, wake_it, &waits), 0);
    ci_misuse_aborts = false;
    CHECK_EQ(coir_yield(), 0); /* behind wake_it, in front of wait_first */
    CHECK_EQ(waits.results[0], 1);
    coir_parker_done(&waits.parker); /* refused */
    waits.results[1] = coir_parker_wait(&waits.parker);
    ci_misuse_aborts = aborts;
    CHECK_EQ(waits.results[1], -EBUSY);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(waits.results[0], 0);
    coir_waker_wake(waits.waker);
    CHECK_EQ(coir_parker_wait(&waits.parker), 0);
    coir_parker_done(&waits.parker);
}

/* The same, where the first is a future that is a task by itself. */
static void wait_twice_behind_a_future(void)
{
    struct two_waits waits = {.results = {1, 1}};
    bool aborts = ci_misuse_aborts;
    CHECK_EQ(coir_parker_init(&waits.parker), 0);
    waits.waker = coir_parker_waker(&waits.parker);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go_future(scope, coir_parker_wait_op(&waits.parker)), 0);
    CHECK_EQ(coir_go(scope, wake_it, &waits), 0);
    ci_misuse_aborts = false;
    CHECK_EQ(coir_yield(), 0);
    CHECK_EQ(coir_parker_wait(&waits.parker), -EBUSY);
    ci_misuse_aborts = aborts;
    CHECK_EQ(coir_scope_wait(scope), 0);
    coir_waker_wake(waits.waker);
    CHECK_EQ(coir_parker_wait(&waits.parker), 0);
    coir_parker_done(&waits.parker);
}

TEST_REAL(a_second_wait_leaves_the_wake_up_of_the_first)
{
    wait_twice(false);
    wait_twice(true);
    wait_twice_behind_a_future();
}

/* ---- a wake-up of a case that does not happen ---- */

struct chosen {
    coir_parker parker;
    coir_waker waker;
    coir_channel *channel;
};

/* Both cases can happen before the select runs again. */
static int wake_and_send(void *arg)
{
    struct chosen *chosen = arg;
    int item = 7;
    coir_waker_wake_by_ref(&chosen->waker);
    CHECK_EQ(coir_channel_try_send(chosen->channel, &item), 0);
    return 0;
}

static int send_and_wake(void *arg)
{
    struct chosen *chosen = arg;
    int item = 7;
    CHECK_EQ(coir_channel_try_send(chosen->channel, &item), 0);
    coir_waker_wake_by_ref(&chosen->waker);
    return 0;
}

static void select_one(struct chosen *chosen, coir_task_fn *act)
{
    int item = 0;
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, act, chosen), 0);
    coir_case waits[] = {coir_case_parker(&chosen->parker), coir_case_recv(chosen->channel, &item)};
    int which = coir_select_in_order(waits, 2);
    CHECK_EQ(coir_scope_wait(scope), 0);
    if (which == 0)
        CHECK_EQ(coir_channel_try_recv(chosen->channel, &item), 0);
    else
        CHECK_EQ(coir_parker_wait(&chosen->parker), 0);
    CHECK_EQ(item, 7);
}

TEST_SIM(a_case_that_does_not_happen_keeps_its_wake_up)
{
    struct chosen chosen;
    CHECK_EQ(coir_parker_init(&chosen.parker), 0);
    chosen.waker = coir_parker_waker(&chosen.parker);
    CHECK_EQ(coir_channel_new(sizeof(int), 1, &chosen.channel), 0);
    COIR_DEADLINE(coir_in(COIR_S));
    select_one(&chosen, wake_and_send);
    select_one(&chosen, send_and_wake);
    coir_channel_free(chosen.channel);
    coir_waker_drop(chosen.waker);
    coir_parker_done(&chosen.parker);
}
