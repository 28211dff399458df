/* One thread's event loop: a driver, a timer wheel, an inbox, hooks. A worker is this loop plus a
 * run queue, which the loop calls as `run_ready`.
 *
 * A turn: before-hooks, ready work, the clocks of fresh timers, wait (not at all while work is
 * ready), residents, timers, inbox, the hooks of the turn, after-hooks. Work that a hook or a
 * callback adds runs in the next turn, so it cannot starve I/O.
 *
 * 1. During a turn only the thread that makes it touches the loop, except through ci_loop_send and
 * ci_loop_alert.
 * 2. A turn does not begin inside of another one of the same loop.
 * 3. A sender writes a wake-up only if the loop has announced its sleep, and at most one for each
 * announcement.
 * 4. A loop that has just received something may spin before it announces its sleep: another
 * message saves both sides the kernel then. Spinning backs off: after each fruitless spin, twice as
 * many sleeps skip it, at most 1,023.
 *
 * No wake-up is lost: the loop announces its sleep, then looks at its inbox again; a sender pushes,
 * then looks at the announcement. The sender's push and look are sequentially consistent, and the
 * loop has a full fence between its two steps: one of them sees the other.
 */
#ifndef CI_LOOP_LOOP_H
#define CI_LOOP_LOOP_H

#include "base/check.h"
#include "base/inbox.h"
#include "coir/loop.h"
#include "driver/driver.h"
#include "loop/observer.h"
#include "loop/timer_wheel.h"
#include "sys/clock.h"
#include "sys/thread.h"

/* What lives on a loop until it is closed, and keeps it running: a socket or an acceptor. Its
 * operations complete at once or inside of the driver's wait; it is called after the wait, so that
 * no function of the program is called from inside of the call that started the operation. */
struct ci_resident {
    struct ci_list link;  /* of those of the loop */
    struct ci_list ready; /* of those to call */
    void (*call)(struct ci_resident *resident);
    void (*close)(struct ci_resident *resident); /* the loop is freed */
};

struct coir_loop {
    struct ci_driver *driver;
    coir_time now; /* when the turn began, read after each wait */
    /* runs ready work, and returns whether more is ready. NULL: there is never any */
    bool (*run_ready)(struct coir_loop *loop);
    /* whether it may sleep without a deadline. NULL: always */
    bool (*may_sleep)(struct coir_loop *loop);
    /* the name of the task that runs, or NULL; called in a signal handler. NULL: there are none */
    const char *(*task_name)(const struct coir_loop *loop);
    struct ci_wheel wheel;
    struct ci_list fresh;    /* timers whose `when` is a duration still, from the next turn on */
    struct ci_list hooks[3]; /* by enum coir_hook_when */
    struct ci_list residents, ready_residents;
    /* that are started */
    struct ci_list watches;
    size_t live;         /* watches that are started, and residents */
    size_t weak;         /* how many of the watches and timers do not keep the loop running */
    uint64_t turns;      /* that have begun; each asks the driver for events */
    bool standalone;     /* made by coir_loop_new: no worker's */
    coir_time spin_time; /* how long a spin lasts; 0: the loop never spins */
    uint64_t spin_ticks; /* the same, in ticks of the processor's clock */
    uint64_t waited_at;  /* ticks at the last wait in the driver; kept while the loop may spin */
    uint32_t spin_skips; /* how many sleeps skip the spin after the last fruitless one */
    uint32_t skipped;    /* how many of them have */
    bool received;       /* a message has come since the last sleep */
    const char *turning; /* inside of a turn: the mark of its thread (ci_thread_mark) */
    const coir_allocator *allocator;
    uint64_t sleeps; /* announcements of a sleep */
    int error;       /* of the last wait, where the driver has given up; 0: none */
    struct ci_observer observer;
    struct ci_own_watchdog *watchdog; /* NULL: none, or the runtime's */

    /* what other threads write */
    CI_CACHE_ALIGNED struct ci_inbox inbox;
    int32_t idle;    /* it waits for something to do; a word, as the next */
    int32_t asleep;  /* its sleep is announced; a word: not every processor exchanges bytes */
    bool alert;      /* another thread requests a turn: do not sleep */
    bool stopped;    /* coir_loop_run is to return */
    int32_t holds;   /* keep coir_loop_run running */
    int32_t keepers; /* threads in a call of the loop: it is not freed before they have left */
    uint64_t wakeups;
};

/* Whether the loop is in a turn of another thread's. */
static inline bool ci_loop_is_foreign(const struct coir_loop *loop)
{
    return loop->turning && loop->turning != ci_thread_mark();
}

/* The loop owns the driver from here on. */
void ci_loop_init(struct coir_loop *loop, struct ci_driver *driver,
                  const coir_allocator *allocator);
void ci_loop_done(struct coir_loop *loop);

/* One turn; waits until `deadline` at most. */
void ci_loop_turn(struct coir_loop *loop, coir_time deadline);

/* Lets the loop spin for up to `time` before it sleeps; see 4. */
static inline void ci_loop_spin(struct coir_loop *loop, coir_time time)
{
    loop->spin_time = time;
    loop->spin_ticks = ci_clock_ticks_in(time);
}

/* Announces that the loop sleeps; also for a loop whose driver a foreign loop waits for. False: a
 * message or an alert has come, it must not sleep. */
bool ci_loop_announce_sleep(struct coir_loop *loop);

/* From any thread: a message to deliver; a reason to make a turn (`alert`). */
void ci_loop_send(struct coir_loop *loop, struct ci_message *message);
void ci_loop_alert(struct coir_loop *loop);

/* Delivers the messages in the inbox. */
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
    ci_debug_check(!ci_loop_is_foreign(loop), "loop.h 1");
    timer->when = duration;
    loop->wheel.count++; /* ci_wheel_cancel takes it off */
    ci_list_push(&loop->fresh, &timer->link);
}

/* A fresh timer of this duration fires as soon as the clock has been read, before the loop waits:
 * for what counts from the end of a turn. */
#define CI_LOOP_WHEN_READ INT64_MIN

/* Whether the next turn has something to do that neither the driver nor the wheel knows of. */
static inline bool ci_loop_has_work(const struct coir_loop *loop)
{
    return !ci_list_empty(&loop->fresh) || !ci_list_empty(&loop->ready_residents) ||
           !ci_list_empty(&loop->hooks[COIR_HOOK_IN_TURN]);
}

/* Reads the clock for fresh timers. The loop must not be in a turn, or just before its wait. */
void ci_loop_start_fresh(struct coir_loop *loop);

static inline void ci_loop_start_timer(struct coir_loop *loop, struct ci_timer *timer,
                                       coir_time when)
{
    ci_debug_check(!ci_loop_is_foreign(loop), "loop.h 1");
    ci_wheel_start(&loop->wheel, timer, when);
}

static inline void ci_loop_add_resident(struct coir_loop *loop, struct ci_resident *resident)
{
    ci_list_push(&loop->residents, &resident->link);
    ci_list_init(&resident->ready);
    loop->live++;
}

static inline void ci_loop_remove_resident(struct coir_loop *loop, struct ci_resident *resident)
{
    ci_list_remove(&resident->link);
    ci_list_remove(&resident->ready);
    loop->live--;
}

/* Before the thread gives the driver up. */
void ci_loop_close_residents(struct coir_loop *loop);

/* Before the thread gives up a driver that can have nothing in flight then, and on the thread that
 * has it next. They stay started meanwhile. */
void ci_loop_suspend_watches(struct coir_loop *loop);
void ci_loop_resume_watches(struct coir_loop *loop);

/* Has the resident called after the next wait, which is no sleep then. */
static inline void ci_loop_make_ready(struct coir_loop *loop, struct ci_resident *resident)
{
    if (ci_list_empty(&resident->ready))
        ci_list_push(&loop->ready_residents, &resident->ready);
}

/* Before each callback of the program. */
#define ci_loop_note_call(loop, fn)                                                        \
    (ci_unlikely((loop)->observer.active) ? ci_observer_note((loop), (void (*)(void))(fn)) \
                                          : (void)0)

#endif
