/* Conditions: no signal is lost, and the mutex is held again after the wait. */
#include <coir.h>
#include <errno.h>

#include "unit/sync/everywhere.h"

struct box {
    coir_mutex mutex;
    coir_condition changed;
    int value, taken;
};

static int take_box(void *arg)
{
    struct box *box = arg;
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(coir_mutex_lock(&box->mutex), 0);
        while (!box->value)
            CHECK_EQ(coir_condition_wait(&box->changed, &box->mutex), 0);
        box->value--;
        box->taken++;
        coir_mutex_unlock(&box->mutex);
    }
    return 0;
}

static int fill_box(void *arg)
{
    struct box *box = arg;
    for (int i = 0; i < 10; i++) {
        coir_mutex_lock(&box->mutex);
        box->value += 2;
        coir_mutex_unlock(&box->mutex);
        if (i % 2) {
            coir_condition_broadcast(&box->changed);
        } else {
            coir_condition_signal(&box->changed);
            coir_condition_signal(&box->changed);
        }
        coir_yield();
    }
    return 0;
}

static void condition(void)
{
    struct box box = {.mutex = COIR_MUTEX_INIT, .changed = COIR_CONDITION_INIT};
    COIR_SCOPE(scope);
    for (int i = 0; i < 4; i++)
        coir_go_on(scope, i % workers(), take_box, &box);
    coir_go(scope, fill_box, &box);
    coir_go_on(scope, workers() - 1, fill_box, &box);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(box.taken, 40);
    coir_mutex_lock(&box.mutex);
    {
        COIR_DEADLINE(coir_in(COIR_US));
        CHECK_EQ(coir_condition_wait(&box.changed, &box.mutex), -ETIME);
    }
    CHECK_EQ(coir_mutex_try_lock(&box.mutex), -EAGAIN); /* it was taken again */
    coir_mutex_unlock(&box.mutex);
}

TEST(a_condition_wakes_those_who_wait)
{
    everywhere(condition);
}
