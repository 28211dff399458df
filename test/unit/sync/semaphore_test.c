/* Semaphores: never more units than there are, served from the front. */
#include <coir.h>
#include <errno.h>

#include "unit/sync/everywhere.h"

struct pool {
    coir_semaphore semaphore;
    int used, most;
};

static int use_units(void *arg)
{
    struct pool *pool = arg;
    for (int i = 1; i <= 20; i++) {
        uint64_t amount = 1 + (uint64_t)i % 4;
        COIR_DEADLINE(i % 5 == 4 ? coir_in(20 * COIR_US) : COIR_NEVER);
        if (coir_semaphore_acquire(&pool->semaphore, amount) < 0)
            continue;
        CHECK(__atomic_add_fetch(&pool->used, (int)amount, __ATOMIC_SEQ_CST) <= 5);
        coir_yield();
        __atomic_sub_fetch(&pool->used, (int)amount, __ATOMIC_SEQ_CST);
        coir_semaphore_release(&pool->semaphore, amount);
    }
    return 0;
}

static void semaphore(void)
{
    struct pool pool = {.semaphore = COIR_SEMAPHORE_INIT(5)};
    COIR_SCOPE(scope);
    for (int i = 0; i < 6; i++)
        coir_go_on(scope, i % workers(), use_units, &pool);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(coir_semaphore_units(&pool.semaphore), 5);
    CHECK_EQ(coir_semaphore_try_acquire(&pool.semaphore, 6), -EAGAIN);
    CHECK_EQ(coir_semaphore_try_acquire(&pool.semaphore, 5), 0);
}

TEST(a_semaphore_never_gives_more_than_it_has)
{
    everywhere(semaphore);
}

struct queue {
    coir_semaphore semaphore;
    int next, asked;
};

static int ask_in_turn(void *arg)
{
    struct queue *queue = arg;
    int turn = queue->asked++;
    int rc = coir_semaphore_acquire(&queue->semaphore, 1 + (uint64_t)turn % 3);
    if (rc == 0)
        CHECK_EQ(queue->next++, turn);
    return rc;
}

/* Also where a later request is smaller and could be met. */
TEST_REAL(a_semaphore_is_served_from_the_front)
{
    struct queue queue = {.semaphore = COIR_SEMAPHORE_INIT(0)};
    COIR_SCOPE(scope);
    for (int i = 0; i < 9; i++)
        CHECK_EQ(coir_go(scope, ask_in_turn, &queue), 0);
    coir_yield();
    CHECK_EQ(queue.asked, 9);
    for (int units = 0; units < 18; units++) {
        CHECK_EQ(coir_semaphore_try_acquire(&queue.semaphore, 1), -EAGAIN);
        coir_semaphore_release(&queue.semaphore, 1);
        coir_yield();
    }
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(queue.next, 9);
    CHECK_EQ(coir_semaphore_units(&queue.semaphore), 0);
}

static int ask_for_2(void *semaphore)
{
    CHECK_EQ(coir_semaphore_acquire(semaphore, 2), -ECANCELED);
    return 0;
}

static int ask_for_1(void *semaphore)
{
    return coir_semaphore_acquire(semaphore, 1);
}

TEST_REAL(a_large_request_that_gives_up_lets_small_ones_through)
{
    coir_semaphore semaphore = COIR_SEMAPHORE_INIT(1);
    COIR_SCOPE(scope);
    {
        COIR_SERVING_SCOPE(impatient);
        CHECK_EQ(coir_go(impatient, ask_for_2, &semaphore), 0);
        coir_yield();
        CHECK_EQ(coir_go(scope, ask_for_1, &semaphore), 0);
        coir_yield();
        CHECK_EQ(coir_semaphore_units(&semaphore), 1); /* it is not passed by a smaller one */
        coir_scope_cancel(impatient);
        coir_scope_wait(impatient);
    }
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(coir_semaphore_units(&semaphore), 0);
}
