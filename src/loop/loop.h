/* One thread's event loop: a driver, a timer wheel, an inbox, hooks. A worker is this loop plus a
 * run queue, which it hangs in as `run_ready`.
 *
 * 1. Only the owning thread touches a loop, except through ci_loop_send and ci_loop_alert.
 * 2. A turn: before-hooks, ready work, the clocks of fresh timers, wait (not at all while work is
 * ready), timers, inbox, after-hooks. What a hook or a callback adds runs in the next turn, so it
 * cannot starve I/O.
 * 3. A sender writes a wake-up only if the loop has announced its sleep, and at most one per sleep.
 * The loop announces, then looks at its inbox again; a sender pushes, then looks at the
 * announcement: with a full fence between on both sides one of them sees the other.
 * 4. A loop that has just received something may look for an answer for a moment before it
 * announces its sleep, which saves both sides the kernel. Where that is in vain it is left out,
 * twice as often each time.
 */
#ifndef CI_LOOP_LOOP_H
#define CI_LOOP_LOOP_H

#include "base/inbox.h"
#include "coir/loop.h"
#include "driver/driver.h"
#include "loop/wheel.h"
#include "sys/clock.h"

struct coir_loop {
    struct ci_driver *driver;
    coir_time now; /* when the turn began, read after each wait */
    /* runs what is ready; whether more is. NULL: nothing ever is */
    bool (*run_ready)(struct coir_loop *loop);
    /* asked before a sleep that no timer ends. NULL: always */
    bool (*may_sleep)(struct coir_loop *loop);
    struct ci_wheel wheel;
    struct ci_list fresh;    /* timers of which only the duration is known yet */
    struct ci_list hooks[2]; /* by enum coir_hook_when */
    size_t live_watches;
    /* how long to look for messages before a sleep, where some have just come; 0: not at all */
    coir_time spin_time;
    uint64_t spin_ticks; /* the same, in ticks of the processor's clock */
    /* when the driver was last asked, in such ticks; kept while spinning is on */
    uint64_t waited_at;
    /* after looks in vain: how many to leave out, of which so many were */
    uint32_t spin_skips, skipped;
    bool received; /* a message, since the last sleep */
    const coir_allocator *allocator;
    uint64_t waits;
    int error; /* of the last wait, where the driver has given up; 0: none */

    CI_CACHE_ALIGNED struct ci_inbox inbox; /* other threads' */
    int32_t idle;                           /* it waits for something to do; a word, as the next */
    int32_t asleep;                         /* a word: not every processor exchanges bytes */
    /* another thread wants the owner to look up: do not sleep */
    bool alert;
    uint64_t wakeups;
};

/* Takes the driver over. */
void ci_loop_init(struct coir_loop *loop, struct ci_driver *driver,
                  const coir_allocator *allocator);
void ci_loop_done(struct coir_loop *loop);

/* One turn; waits until `deadline` at most. */
void ci_loop_turn(struct coir_loop *loop, coir_time deadline);

/* Lets it look for messages for so long before it sleeps, where that has been worth it. */
static inline void ci_loop_spin(struct coir_loop *loop, coir_time time)
{
    loop->spin_time = time;
    loop->spin_ticks = ci_clock_ticks_in(time);
}

/* Says that the loop is asleep, for one that somebody else waits for. False: something has come in,
 * it must not sleep. */
bool ci_loop_announce_sleep(struct coir_loop *loop);

/* From any thread. */
void ci_loop_send(struct coir_loop *loop, struct ci_message *message);
void ci_loop_alert(struct coir_loop *loop);

/* Delivers what is in the inbox. */
void ci_loop_receive(struct coir_loop *loop);

/* The time now: fresh, and the loop's from here on. */
static inline coir_time ci_loop_update_now(struct coir_loop *loop)
{
    return loop->now = ci_driver_now(loop->driver);
}

/* Starts a timer that is due a duration from now. The clock is read for all such timers of a turn
 * together, before the loop waits: one that is cancelled before costs neither a look at the clock
 * nor one at the wheel, and none is early. */
static inline void ci_loop_start_timer_after(struct coir_loop *loop, struct ci_timer *timer,
                                             coir_time duration)
{
    timer->when = duration;
    loop->wheel.count++; /* ci_wheel_cancel takes it off */
    ci_list_push(&loop->fresh, &timer->link);
}

static inline void ci_loop_start_timer(struct coir_loop *loop, struct ci_timer *timer,
                                       coir_time when)
{
    ci_wheel_start(&loop->wheel, timer, when);
}

/* A message that carries a plain call and frees itself. -ENOMEM. */
int ci_loop_post(struct coir_loop *loop, const coir_allocator *allocator, void (*fn)(void *arg),
                 void *arg);

#endif
