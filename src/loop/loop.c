#include "loop/loop.h"

#include <errno.h>
#include <string.h>

#include "base/time.h"
#include "loop/hook.h"
#include "sys/clock.h"
#include "sys/fork.h"
#include "sys/lock.h"

enum { SKIPS_MOST = 1023 };

void ci_loop_init(struct coir_loop *loop, struct ci_driver *driver, const coir_allocator *allocator)
{
    memset(loop, 0, sizeof *loop); /* too large for a compound literal's copy on the stack */
    loop->driver = driver;
    loop->allocator = allocator;
    ci_wheel_init(&loop->wheel, ci_loop_update_now(loop));
    ci_list_init(&loop->fresh);
    ci_list_init(&loop->residents);
    ci_list_init(&loop->ready_residents);
    ci_list_init(&loop->watches);
    for (int when = COIR_HOOK_BEFORE_WAIT; when <= COIR_HOOK_IN_TURN; when++)
        ci_list_init(&loop->hooks[when]);
}

void ci_loop_receive(struct coir_loop *loop)
{
    ci_debug_check(!ci_loop_is_foreign(loop), "loop.h 1");
    if (ci_inbox_empty(&loop->inbox))
        return;
    loop->received = true;
    struct ci_message *message = ci_inbox_take(&loop->inbox);
    while (message) {
        struct ci_message *next = message->next; /* the message may be freed by its deliver */
        message->deliver(message);
        message = next;
    }
}

void ci_loop_close_residents(struct coir_loop *loop)
{
    while (!ci_list_empty(&loop->residents)) {
        struct ci_resident *resident =
            ci_container_of(loop->residents.next, struct ci_resident, link);
        resident->close(resident);
    }
}

/* Until no message is left, nor a thread that sends one or wakes the loop. Keepers are looked at
 * first: who has left has sent. */
static void receive_last(struct coir_loop *loop)
{
    unsigned round = 0;
    while (ci_load(&loop->keepers) || !ci_inbox_empty(&loop->inbox))
        if (ci_inbox_empty(&loop->inbox))
            ci_pause(round++);
        else
            ci_loop_receive(loop);
}

void ci_loop_done(struct coir_loop *loop)
{
    /* for the last callbacks: no call of theirs may wait */
    ci_store_relaxed(&loop->turning, ci_thread_mark());
    receive_last(loop);
    while (!ci_list_empty(&loop->residents)) {
        ci_loop_close_residents(loop);
        receive_last(loop); /* what outcomes have posted, which may open a socket */
    }
    coir_loop_watchdog_stop(loop); /* also one that those callbacks have started */
    loop->driver->kind->free(loop->driver);
}

static CI_NOINLINE void wake_sleeper(struct coir_loop *loop)
{
    if (!ci_exchange(&loop->asleep, false) || ci_forked())
        return;
    ci_fetch_add_relaxed(&loop->wakeups, 1);
    loop->driver->kind->wake(loop->driver);
}

/* After a push or a store of `alert`. These and this look are seq_cst, so that no fence is needed
 * between them: pairs with the fence in ci_loop_announce_sleep. */
CI_INLINE void wake(struct coir_loop *loop)
{
    if (ci_load(&loop->asleep))
        wake_sleeper(loop);
}

void ci_loop_send(struct coir_loop *loop, struct ci_message *message)
{
    ci_inbox_push(&loop->inbox, message);
    wake(loop);
}

void ci_loop_alert(struct coir_loop *loop)
{
    ci_store(&loop->alert, true); /* pairs with the exchanges in standalone.c */
    wake(loop);
}

/* Spins until a message or an alert comes, for `spin_time` at most. True: one has come. */
static bool spin(struct coir_loop *loop)
{
    /* one less than a power of two, as it is doubled and one added */
    ci_check(loop->spin_skips <= SKIPS_MOST && !(loop->spin_skips & (loop->spin_skips + 1)),
             "loop.h 4");
    if (loop->skipped < loop->spin_skips) {
        loop->skipped++;
        return false;
    }
    uint64_t start = ci_clock_ticks();
    do
        if (!ci_inbox_empty(&loop->inbox) || ci_load_relaxed(&loop->alert)) {
            loop->spin_skips = 0;
            return true;
        }
    while (ci_clock_ticks() - start < loop->spin_ticks);
    loop->skipped = 0;
    loop->spin_skips = loop->spin_skips < SKIPS_MOST ? 2 * loop->spin_skips + 1 : SKIPS_MOST;
    return false;
}

static void wait_for(struct coir_loop *loop, coir_time deadline)
{
    int rc = loop->driver->kind->wait(loop->driver, deadline);
    if (ci_unlikely((rc | loop->error) < 0))
        loop->error = rc;
}

/* Tries to avoid a sleep by spinning; true if a message or an alert came. The driver is polled all
 * the same if that was not done for the length of a spin, so that messages cannot starve I/O. */
static bool stay_awake(struct coir_loop *loop, coir_time deadline)
{
    loop->received = false;
    if (ci_time_left(deadline, loop->now) <= loop->spin_time || !spin(loop))
        return false;
    uint64_t ticks = ci_clock_ticks();
    if (ticks - loop->waited_at > loop->spin_ticks) {
        loop->waited_at = ticks;
        wait_for(loop, 0);
    }
    return true;
}

bool ci_loop_announce_sleep(struct coir_loop *loop)
{
    ci_bump(&loop->sleeps);
    ci_store_relaxed(&loop->idle, true);
    ci_store_relaxed(&loop->asleep, true);
    ci_fence(); /* after the announcement, before the last look: pairs with the look in wake */
    return ci_inbox_empty(&loop->inbox) && !ci_load_relaxed(&loop->alert);
}

/* Waits in the driver, unless a message or an alert came while the sleep was being announced. */
static void sleep_until(struct coir_loop *loop, coir_time deadline)
{
    ci_store_relaxed(&loop->idle, true);
    if (ci_unlikely(loop->received && loop->spin_time) && stay_awake(loop, deadline))
        return;
    if (!ci_loop_announce_sleep(loop) ||
        (deadline == COIR_NEVER && loop->may_sleep && !loop->may_sleep(loop)))
        deadline = 0;
    wait_for(loop, deadline);
    ci_store_relaxed(&loop->asleep, false);
    ci_check(ci_load_relaxed(&loop->wakeups) <= loop->sleeps, "loop.h 3");
}

void ci_loop_start_fresh(struct coir_loop *loop)
{
    coir_time now = ci_loop_update_now(loop);
    struct ci_list *node;
    while ((node = ci_list_pop(&loop->fresh))) {
        struct ci_timer *timer = ci_container_of(node, struct ci_timer, link);
        loop->wheel.count--;
        if (ci_unlikely(timer->when == CI_LOOP_WHEN_READ))
            timer->fire(timer);
        else
            ci_wheel_start(&loop->wheel, timer, ci_time_after(now, timer->when));
    }
}

static void call_hooks(struct coir_loop *loop, enum coir_hook_when when)
{
    if (ci_unlikely(!ci_list_empty(&loop->hooks[when])))
        ci_hooks_call(loop, &loop->hooks[when]);
}

/* One that becomes ready meanwhile is called in the next turn. */
static void call_residents(struct coir_loop *loop)
{
    struct ci_list *node, ready;
    ci_list_init(&ready);
    ci_list_take(&ready, &loop->ready_residents);
    while ((node = ci_list_pop(&ready))) {
        struct ci_resident *resident = ci_container_of(node, struct ci_resident, ready);
        resident->call(resident);
    }
}

void ci_loop_turn(struct coir_loop *loop, coir_time deadline)
{
    ci_check(!loop->turning, "loop.h 2");
    ci_store_relaxed(&loop->turning, ci_thread_mark()); /* coir_loop_call looks at it */
    ci_bump(&loop->turns);
    if (ci_unlikely(loop->observer.wanted))
        ci_observer_begin(loop);
    call_hooks(loop, COIR_HOOK_BEFORE_WAIT);
    if (loop->run_ready && loop->run_ready(loop))
        deadline = 0;
    if (!ci_list_empty(&loop->fresh))
        ci_loop_start_fresh(loop);
    if (ci_unlikely(!ci_list_empty(&loop->hooks[COIR_HOOK_IN_TURN]) ||
                    !ci_list_empty(&loop->ready_residents)))
        deadline = 0;
    if (ci_unlikely(loop->observer.active))
        ci_observer_wait(loop);
    if (deadline != 0) {
        coir_time next = ci_wheel_next(&loop->wheel);
        sleep_until(loop, next < deadline ? next : deadline);
    } else {
        wait_for(loop, 0);
    }
    /* simulated workers wait between their turns */
    ci_store_relaxed(&loop->idle, loop->driver->kind->simulated);
    if (ci_unlikely(loop->observer.active))
        ci_observer_woken(loop);
    coir_time now = ci_loop_update_now(loop);
    if (!ci_list_empty(&loop->ready_residents))
        call_residents(loop);
    ci_wheel_fire(&loop->wheel, now);
    ci_loop_receive(loop);
    call_hooks(loop, COIR_HOOK_IN_TURN);
    call_hooks(loop, COIR_HOOK_AFTER_TURN);
    if (ci_unlikely(loop->observer.active))
        ci_observer_end(loop);
    ci_store_relaxed(&loop->turning, NULL);
}
