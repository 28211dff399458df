/* The timer wheel against a model that looks at every timer. */
#include <stdlib.h>

#include "base/random.h"
#include "harness.h"
#include "loop/timer_wheel.h"

enum { TIMERS = 300 };

static struct ci_timer timers[TIMERS];
static coir_time due[TIMERS]; /* the model: 0 is not started */
static coir_time now;
static struct ci_wheel wheel;
static size_t fired;
static const coir_time turn = (coir_time)CI_WHEEL_SLOTS << CI_WHEEL_TICK_BITS;
static coir_time last_turn; /* of the timers that were fired together */

static void on_fire(struct ci_timer *timer)
{
    size_t i = (size_t)(timer - timers);
    CHECK(due[i] != 0);
    CHECK(due[i] <= now);              /* never early */
    CHECK(due[i] / turn >= last_turn); /* and in order, however late all of them are */
    last_turn = due[i] / turn;
    due[i] = 0;
    fired++;
}

static coir_time earliest(void)
{
    coir_time least = COIR_NEVER;
    for (size_t i = 0; i < TIMERS; i++)
        if (due[i] && due[i] < least)
            least = due[i];
    return least;
}

static coir_time some_delay(struct ci_random *random)
{
    return (coir_time)ci_random_below(random, (uint64_t)1 << ci_random_below(random, 50));
}

static void change_one(struct ci_random *random)
{
    size_t i = ci_random_below(random, TIMERS);
    switch (ci_random_below(random, 3)) {
    case 0:
        if (ci_timer_started(&timers[i])) {
            due[i] = now + 1 + some_delay(random);
            ci_wheel_move(&wheel, &timers[i], due[i]);
            break;
        }
        due[i] = now + 1 + some_delay(random);
        ci_wheel_start(&wheel, &timers[i], due[i]);
        break;
    case 1:
        ci_wheel_cancel(&wheel, &timers[i]);
        due[i] = 0;
        break;
    default: break;
    }
}

static void run_model(uint64_t seed)
{
    struct ci_random random = {seed};
    now = (coir_time)ci_random_below(&random, (uint64_t)1 << 55);
    ci_wheel_init(&wheel, now);
    for (size_t i = 0; i < TIMERS; i++) {
        ci_timer_init(&timers[i], on_fire);
        due[i] = 0;
    }
    for (int step = 0; step < 4000; step++) {
        change_one(&random);
        if (ci_random_below(&random, 4))
            continue;
        CHECK(ci_wheel_next(&wheel) <= earliest());
        now = ci_random_below(&random, 2) && ci_wheel_next(&wheel) != COIR_NEVER &&
                      ci_wheel_next(&wheel) > now
                  ? ci_wheel_next(&wheel)
                  : now + some_delay(&random);
        last_turn = 0;
        ci_wheel_fire(&wheel, now);
        CHECK(earliest() > now); /* nothing that is due is left */
    }
    size_t left = 0;
    for (size_t i = 0; i < TIMERS; i++)
        left += due[i] != 0;
    CHECK_EQ(wheel.count, left);
}

TEST(wheel_fires_what_is_due_and_nothing_else)
{
    for (uint64_t seed = 1; seed <= 200; seed++)
        run_model(seed);
    CHECK(fired > 10000);
}

/* A lone timer, however far, wakes its thread once: no cascades on the way. */
TEST(wheel_wakes_once_for_a_lone_timer)
{
    for (int bits = 0; bits < 50; bits++) {
        now = 123456789;
        ci_wheel_init(&wheel, now);
        ci_timer_init(&timers[0], on_fire);
        due[0] = now + ((coir_time)1 << bits);
        coir_time when = due[0];
        ci_wheel_start(&wheel, &timers[0], when);
        CHECK_EQ(ci_wheel_next(&wheel), when);
        now = when;
        CHECK_EQ(ci_wheel_fire(&wheel, now), 1);
        CHECK_EQ(ci_wheel_next(&wheel), COIR_NEVER);
    }
}

TEST(wheel_forgets_what_was_cancelled)
{
    now = 1000;
    ci_wheel_init(&wheel, now);
    ci_timer_init(&timers[0], on_fire);
    ci_wheel_start(&wheel, &timers[0], now + COIR_S);
    ci_wheel_cancel(&wheel, &timers[0]);
    ci_wheel_cancel(&wheel, &timers[0]);
    CHECK_EQ(ci_wheel_next(&wheel), COIR_NEVER);
}

static void restart_itself(struct ci_timer *timer)
{
    fired++;
    if (timer == &timers[0])
        ci_wheel_cancel(&wheel, &timers[1]); /* due at the same time */
    if (fired < 5)
        ci_wheel_start(&wheel, timer, now);
}

TEST(wheel_may_be_changed_from_its_callbacks)
{
    now = 5000;
    ci_wheel_init(&wheel, now);
    ci_timer_init(&timers[0], restart_itself);
    ci_timer_init(&timers[1], restart_itself);
    ci_wheel_start(&wheel, &timers[0], now + 10);
    ci_wheel_start(&wheel, &timers[1], now + 10);
    now += 10;
    CHECK_EQ(ci_wheel_fire(&wheel, now), 1); /* one restarts, the other is gone */
    for (int i = 0; i < 10; i++)
        ci_wheel_fire(&wheel, now);
    CHECK_EQ(fired, 5);
    CHECK_EQ(wheel.count, 0);
}

/* Of timers that are due together, the first to fire moves others: later, far, and back. What was
 * moved fires at its new time, once. */
static coir_time moved_to[TIMERS];
static int fired_each[TIMERS];

static void move_the_others(struct ci_timer *timer)
{
    size_t self = (size_t)(timer - timers);
    CHECK(now >= timer->when);
    fired_each[self]++;
    for (size_t i = 0; self == 0 && i < TIMERS; i++)
        if (moved_to[i])
            ci_wheel_move(&wheel, &timers[i], moved_to[i]);
}

TEST(wheel_postpones_what_was_already_found_due)
{
    static const coir_time later[] = {1, 1000, 1 << 20, COIR_S, 1000 * COIR_S};
    for (size_t shift = 0; shift < 5; shift++) {
        now = 1000000;
        ci_wheel_init(&wheel, now);
        for (size_t i = 0; i < TIMERS; i++) {
            ci_timer_init(&timers[i], move_the_others);
            moved_to[i] = i % 3 == 1 ? now + 10 + later[(i + shift) % 5] : 0; /* every third */
            fired_each[i] = 0;
            ci_wheel_start(&wheel, &timers[i], now + 10);
        }
        now += 10;
        ci_wheel_fire(&wheel, now);
        for (size_t i = 0; i < TIMERS; i++)
            CHECK_EQ(fired_each[i], moved_to[i] == 0);
        while (wheel.count) {
            coir_time next = ci_wheel_next(&wheel);
            CHECK(next > now);
            now = next;
            ci_wheel_fire(&wheel, now);
            for (size_t i = 0; i < TIMERS; i++)
                CHECK_EQ(fired_each[i], moved_to[i] <= now);
        }
    }
}
