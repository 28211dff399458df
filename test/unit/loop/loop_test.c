/* The loop over a driver that only counts: what a turn does, and when others have to wake it. */
#include "loop/loop.h"

#include "base/check.h"
#include "harness.h"

static struct ci_driver driver;
static struct coir_loop loop;
static coir_time clock_now = 5;
static int waits, wake_ups;
static coir_time waited_until;

/* Called by the driver as the loop waits: what another thread does meanwhile. */
static void (*meanwhile)(void);

static int wait_for_nothing(struct ci_driver *self, coir_time deadline)
{
    (void)self;
    waits++;
    waited_until = deadline;
    if (meanwhile)
        meanwhile();
    return 0;
}

static void count_wake_up(struct ci_driver *self)
{
    (void)self;
    wake_ups++;
}

static coir_time read_clock(struct ci_driver *self)
{
    (void)self;
    return clock_now;
}

static void free_nothing(struct ci_driver *self)
{
    (void)self;
}

static const struct ci_driver_kind counting = {
    .name = "counting",
    .wait = wait_for_nothing,
    .wake = count_wake_up,
    .now = read_clock,
    .free = free_nothing,
};

static void open_loop(void)
{
    driver.kind = &counting;
    ci_loop_init(&loop, &driver, &ci_system_allocator);
}

static struct ci_message messages[8];
static int delivered;

static void deliver(struct ci_message *message)
{
    CHECK(message == &messages[delivered]);
    delivered++;
}

static void send_some(void)
{
    for (int i = 0; i < 4; i++) {
        messages[i].deliver = deliver;
        ci_loop_send(&loop, &messages[i]);
    }
}

TEST(many_senders_wake_a_sleeping_loop_once)
{
    open_loop();
    meanwhile = send_some;
    ci_loop_turn(&loop, COIR_NEVER);
    CHECK_EQ(waited_until, COIR_NEVER);
    CHECK_EQ(wake_ups, 1);
    CHECK_EQ(delivered, 4); /* in the order in which they were sent */
    ci_loop_done(&loop);
}

TEST(a_loop_that_is_awake_is_not_woken)
{
    open_loop();
    send_some();
    CHECK_EQ(wake_ups, 0);
    ci_loop_turn(&loop, COIR_NEVER);
    CHECK_EQ(waited_until, 0); /* what came before the sleep is seen by the last look */
    CHECK_EQ(delivered, 4);
    ci_loop_alert(&loop);
    CHECK_EQ(wake_ups, 0);
    ci_loop_turn(&loop, COIR_NEVER);
    CHECK_EQ(waited_until, 0);
    ci_loop_done(&loop);
}

static void alert(void)
{
    ci_loop_alert(&loop);
    ci_loop_alert(&loop);
}

TEST(an_alert_ends_a_sleep)
{
    open_loop();
    meanwhile = alert;
    ci_loop_turn(&loop, 1000);
    CHECK_EQ(waited_until, 1000);
    CHECK_EQ(wake_ups, 1);
    ci_loop_done(&loop);
}

static bool more_work;

static bool have_work(struct coir_loop *self)
{
    CHECK(self == &loop);
    return more_work;
}

static bool refuse_sleep(struct coir_loop *self)
{
    (void)self;
    return false;
}

TEST(a_loop_with_work_or_without_a_reason_does_not_sleep)
{
    open_loop();
    loop.run_ready = have_work;
    more_work = true;
    ci_loop_turn(&loop, COIR_NEVER);
    CHECK_EQ(waited_until, 0);
    more_work = false;
    ci_loop_turn(&loop, COIR_NEVER);
    CHECK_EQ(waited_until, COIR_NEVER);
    loop.may_sleep = refuse_sleep;
    ci_loop_turn(&loop, COIR_NEVER);
    CHECK_EQ(waited_until, 0);
    ci_loop_turn(&loop, 77); /* one that a time ends is not asked about */
    CHECK_EQ(waited_until, 77);
    ci_loop_done(&loop);
}

static struct ci_timer timer;
static int fired;

static void count_fire(struct ci_timer *self)
{
    CHECK(self == &timer);
    CHECK(clock_now >= 1000105);
    fired++;
}

static void sleep_long(void)
{
    clock_now = waited_until;
}

/* A fresh timer counts from the turn after it was started, as the clock is read then. */
TEST(a_fresh_timer_is_due_after_its_whole_duration)
{
    open_loop();
    ci_timer_init(&timer, count_fire);
    clock_now = 105;
    ci_loop_start_timer_after(&loop, &timer, 1000000);
    meanwhile = sleep_long;
    for (int turn = 0; turn < 10 && !fired; turn++)
        ci_loop_turn(&loop, COIR_NEVER);
    CHECK_EQ(fired, 1);
    CHECK_EQ(loop.wheel.count, 0);
    ci_loop_start_timer_after(&loop, &timer, 1000000);
    ci_wheel_cancel(&loop.wheel, &timer);
    ci_loop_turn(&loop, COIR_NEVER);
    CHECK_EQ(waited_until, COIR_NEVER);
    ci_loop_done(&loop);
}

static void send_one(void)
{
    messages[0].deliver = deliver;
    delivered = 0;
    ci_loop_send(&loop, &messages[0]);
}

/* After each fruitless spin, twice as many sleeps skip it. */
TEST(spinning_backs_off)
{
    uint32_t skips = 0;
    open_loop();
    ci_loop_spin(&loop, 1);
    clock_now = 0;
    for (int turn = 0; turn < 5000; turn++) {
        uint32_t before = loop.spin_skips;
        meanwhile = send_one; /* only after a message is there a reason to spin */
        ci_loop_turn(&loop, COIR_NEVER);
        if (loop.spin_skips != before)
            CHECK_EQ(loop.spin_skips, 2 * before + 1);
        skips = loop.spin_skips;
    }
    CHECK_EQ(skips, 1023);
    meanwhile = NULL;
    ci_loop_done(&loop);
}
