/* One thread's event loop with callbacks, for programs that need no tasks. It belongs to the thread
 * that runs it; only coir_loop_post, coir_loop_call, coir_loop_stop, coir_loop_hold and
 * coir_loop_release may be called from others. Changing, stopping or freeing anything (but the
 * loop) from inside any callback is safe.
 *
 * One turn of the loop calls, in this order: hooks before the wait; after the wait the watches
 * whose events hold, the timers that are due, the calls that were posted, the hooks of the turn and
 * those after it. What a callback starts or posts is called when its place in this order comes
 * next: a timer or a posted call maybe in the same turn, but never while its kind is being called;
 * a watch or hook in the next turn, or later. So callbacks cannot starve I/O.
 *
 * The loop of a worker (coir_worker_loop) takes watches, timers and hooks as any other does; the
 * runtime runs and stops it. */
#ifndef COIR_LOOP_H
#define COIR_LOOP_H

#include <coir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An event loop. It is made by coir_loop_new. */
typedef struct coir_loop coir_loop;

/* A watch on a descriptor, zeroed before it is first started: coir_watch_start. */
typedef struct coir_watch {
    uint64_t opaque[16];
} coir_watch;

/* A timer, zeroed before it is first started: coir_timer_start. */
typedef struct coir_timer {
    uint64_t opaque[16];
} coir_timer;

/* A callback of each turn of a loop, zeroed before it is first started: coir_hook_start. */
typedef struct coir_hook {
    uint64_t opaque[12];
} coir_hook;

/* Options of a loop. */
typedef struct coir_loop_options {
    size_t size;                     /* sizeof(coir_loop_options), set by COIR_LOOP_OPTIONS */
    const char *driver;              /* [the best selector] "epoll", "io_uring" or "poll" */
    const coir_allocator *allocator; /* [malloc] copied */
} coir_loop_options;

#define COIR_LOOP_OPTIONS               \
    {                                   \
        sizeof(coir_loop_options), 0, 0 \
    }

/* Makes an event loop with callbacks. The thread that first runs it owns it from then on.
 * Suspends: no.  Threads: any.  Owns: *ret_loop is the caller's, freed by coir_loop_free.
 * Errors: -EINVAL unknown driver; -ENOMEM; -EMFILE; what keeps the one that was named from
 * working. */
COIR_API int coir_loop_new(coir_loop **ret_loop);

/* Makes an event loop as its options say. As coir_loop_new.
 * Errors also: -COIR_EUNSIZED; -COIR_ENEWER. */
COIR_API int coir_loop_new_with(const coir_loop_options *options, coir_loop **ret_loop);

/* Frees a loop that does not run. It waits for threads that have not returned yet from the call
 * that made the run end (coir_loop_stop, coir_loop_release) or sent what did. Calls that were
 * posted and still wait are made, and what they post; watches, timers and hooks are dropped, and
 * zeroed before they are used with another loop. Takes NULL.
 * Suspends: no (it blocks).  Threads: any; that of coir_loop_watchdog_start while it has a
 * watchdog. */
COIR_API void coir_loop_free(coir_loop *loop);

/* Runs a loop until it is stopped, or nothing is left (coir_loop_alive); returns 0. A stop from
 * before the run makes it return at once.
 * Suspends: no (it blocks).  Threads: a plain one, which owns the loop from then on.
 * Errors: the system's, when it repeatedly refuses to wait; -EBUSY a callback of the loop calls;
 * -EINVAL no loop, or that of a worker. */
COIR_API int coir_loop_run(coir_loop *loop);

/* Runs a loop until it is stopped, also when nothing is left. As coir_loop_run. */
COIR_API int coir_loop_run_forever(coir_loop *loop);

/* Runs one turn of a loop: waits for something to do, does it, and returns 0. It waits until
 * `deadline` at most; 0: not at all. After a stop it does not wait, either.
 * Suspends: no (it blocks).  Threads: a plain one, which owns the loop from then on.
 * Errors: those of coir_loop_run. */
COIR_API int coir_loop_run_once(coir_loop *loop, coir_time deadline);

/* Makes coir_loop_run return after the turn in progress. If none is in progress, the next run
 * returns at once.
 * Suspends: no.  Threads: any. */
COIR_API void coir_loop_stop(coir_loop *loop);

/* Whether something is left that keeps coir_loop_run running: a watch or timer that was not started
 * as weak, a hook of the turn, a posted call, or a hold.
 * Suspends: no.  Threads: owner. */
COIR_API bool coir_loop_alive(const coir_loop *loop);

/* Holds a loop: while it is held, coir_loop_run does not return because nothing is left.
 * Suspends: no.  Threads: any. */
COIR_API void coir_loop_hold(coir_loop *loop);

/* Takes one coir_loop_hold back.
 * Suspends: no.  Threads: any. */
COIR_API void coir_loop_release(coir_loop *loop);

/* The loop's time, which is cheaper than coir_now: it is read after each wait, by
 * coir_loop_update_now, and when a timer is started.
 * Suspends: no.  Threads: owner. */
COIR_API coir_time coir_loop_now(const coir_loop *loop);

/* Reads the clock anew: the time is the loop's from now on.
 * Suspends: no.  Threads: owner. */
COIR_API coir_time coir_loop_update_now(coir_loop *loop);

/* ---- descriptors ---- */

/* How a watch is started; added to COIR_READ and COIR_WRITE of enum coir_events. */
enum coir_watch_flags {
    COIR_WATCH_ONCE = 64, /* the watch is stopped before its function is called */
    COIR_WATCH_WEAK = 128 /* the watch does not keep its loop running */
};

/* What a watch calls, with the events that hold. */
typedef void coir_watch_fn(coir_loop *loop, coir_watch *watch, int events, void *arg);

/* Calls a function whenever some of `events` hold on a descriptor, as long as they do
 * (level-triggered). They are of enum coir_events, with enum coir_watch_flags. `fn` gets those that
 * hold, and COIR_HANGUP and COIR_EVENT_ERROR in any case. Reading and writing may have a watch
 * each. A coir_watch must be zeroed before its first start, and again if its loop was freed while
 * it was started. The watches of a descriptor are stopped before it is closed.
 * Suspends: no.  Threads: owner.
 * Errors: -EBUSY the watch is started, or another watches the descriptor for one of
 * the events; -EBADF; -EPERM a file that is always ready; -ENOMEM; -EINVAL no event. */
COIR_API int coir_watch_start(coir_loop *loop, coir_watch *watch, coir_fd fd, int events,
                              coir_watch_fn *fn, void *arg);

/* Changes what a started watch waits for; it costs nothing if that is the same as before.
 * Suspends: no.  Threads: owner.
 * Errors: -ENOENT the watch is not started. With those of coir_watch_start it is stopped, or, for
 * -EINVAL, as it was. */
COIR_API int coir_watch_modify(coir_loop *loop, coir_watch *watch, int events);

/* Stops a watch: its function is not called any more. Does nothing to one that is not started.
 * Suspends: no.  Threads: owner. */
COIR_API void coir_watch_stop(coir_loop *loop, coir_watch *watch);

/* ---- time ---- */

/* What a timer calls. */
typedef void coir_timer_fn(coir_loop *loop, coir_timer *timer, void *arg);

/* Options of a timer. */
typedef struct coir_timer_options {
    size_t size;        /* sizeof(coir_timer_options), set by COIR_TIMER_OPTIONS */
    coir_time delay;    /* [0] from now to the first call */
    coir_time interval; /* [0: one call] from then on, the time between calls. A loop that is late
                           by several intervals makes one call, and keeps to the rhythm */
    /* [0] how much later than due a call may be made, so that one wake-up serves several timers */
    coir_time slack;
    bool weak; /* [false] the timer does not keep its loop running */
} coir_timer_options;

#define COIR_TIMER_OPTIONS                         \
    {                                              \
        sizeof(coir_timer_options), 0, 0, 0, false \
    }

/* Calls a function once, `delay` from now; never early. Starting a started timer moves it. O(1). A
 * coir_timer must be zeroed before its first start, and again if its loop was freed while it was
 * started. Before it is started on another loop it is stopped: otherwise it stays where it is.
 * Suspends: no.  Threads: owner. */
COIR_API void coir_timer_start(coir_loop *loop, coir_timer *timer, coir_time delay,
                               coir_timer_fn *fn, void *arg);

/* Starts a timer as its options say. As coir_timer_start.
 * Errors: -EBUSY it is started on another loop; -EINVAL a negative interval or slack;
 * -COIR_EUNSIZED; -COIR_ENEWER. */
COIR_API int coir_timer_start_with(coir_loop *loop, coir_timer *timer,
                                   const coir_timer_options *options, coir_timer_fn *fn, void *arg);

/* Stops a timer: its function is not called any more. Does nothing to one that is not started.
 * O(1).
 * Suspends: no.  Threads: owner. */
COIR_API void coir_timer_stop(coir_loop *loop, coir_timer *timer);

/* A set of timeouts of one length: coir_timeout_set_init. To start one costs what it costs to
 * append to a list, however many there are. */
typedef struct coir_timeout_set {
    uint64_t opaque[22];
} coir_timeout_set;

/* A timeout of a set, zeroed before it is first started: coir_timeout_start. */
typedef struct coir_timeout {
    uint64_t opaque[10];
} coir_timeout;

/* What a set calls for each timeout that has passed. `arg` is that of coir_timeout_start. */
typedef void coir_timeout_fn(coir_timeout_set *set, coir_timeout *timeout, void *arg);

/* Makes a set of timeouts that are all `delay` long.
 * Suspends: no.  Threads: owner.
 * Errors: -EINVAL no loop or function. */
COIR_API int coir_timeout_set_init(coir_timeout_set *set, coir_loop *loop, coir_time delay,
                                   coir_timeout_fn *fn);

/* Stops all timeouts of a set, before its loop is freed. O(n). Takes NULL.
 * Suspends: no.  Threads: owner. */
COIR_API void coir_timeout_set_done(coir_timeout_set *set);

/* Starts a timeout, which counts from the end of the turn in progress; never early. Starting a
 * started one moves it. O(1), without a look at the clock.
 * Suspends: no.  Threads: owner. */
COIR_API void coir_timeout_start(coir_timeout_set *set, coir_timeout *timeout, void *arg);

/* Stops a timeout. Does nothing to one that is not started. O(1).
 * Suspends: no.  Threads: owner. */
COIR_API void coir_timeout_stop(coir_timeout_set *set, coir_timeout *timeout);

/* ---- turns ---- */

/* When a hook is called in each turn of its loop. */
enum coir_hook_when {
    COIR_HOOK_BEFORE_WAIT, /* before the loop waits */
    COIR_HOOK_AFTER_TURN,  /* after it has handled the events of the turn */
    /* with these events. While such a hook is started the loop runs, and does not wait: a hook that
       stops itself is called once, in the next turn */
    COIR_HOOK_IN_TURN
};

/* What a hook calls. */
typedef void coir_hook_fn(coir_loop *loop, coir_hook *hook, void *arg);

/* Calls a function in each turn of the loop. A hook that is started during a turn is first called
 * in the next one. One that is started stays as it is.
 * Suspends: no.  Threads: owner. */
COIR_API void coir_hook_start(coir_loop *loop, coir_hook *hook, enum coir_hook_when when,
                              coir_hook_fn *fn, void *arg);

/* Stops a hook: its function is not called any more. Does nothing to one that is not started.
 * Suspends: no.  Threads: owner. */
COIR_API void coir_hook_stop(coir_loop *loop, coir_hook *hook);

/* What an observer is told of a turn. */
typedef struct coir_turn {
    size_t size;            /* sizeof(coir_turn) of the library */
    coir_time busy;         /* how long the turn took, without its wait */
    coir_time waited;       /* how long it waited */
    uint64_t calls;         /* callbacks that it made */
    const void *slowest;    /* the address of the callback that took longest; NULL: none */
    coir_time slowest_time; /* how long that one took */
    /* the part of the time that the loop was busy, in thousandths: an average that follows a change
     * within a second */
    unsigned load;
} coir_turn;

#define COIR_TURN                           \
    {                                       \
        sizeof(coir_turn), 0, 0, 0, 0, 0, 0 \
    }

/* What observes turns. It is called at the end of a turn, and not counted. */
typedef void coir_observer_fn(coir_loop *loop, const coir_turn *turn, void *arg);

/* Has a function called after each turn that was busy for `busy_min` at least: 0 to observe all
 * turns, a limit to find what blocks the loop. A loop has one observer; NULL ends it. While there
 * is one, the clock is read before each callback.
 * Suspends: no.  Threads: owner. */
COIR_API void coir_loop_observe(coir_loop *loop, coir_time busy_min, coir_observer_fn *fn,
                                void *arg);

/* What a watchdog tells of a turn that is slow. */
typedef struct coir_slow_turn {
    size_t size;    /* sizeof(coir_slow_turn) of the library */
    coir_time busy; /* for how long, at least, the loop has not looked at its events */
    /* the address of the callback in progress; NULL: none, or the thread did not answer */
    const void *callback;
    const char *task; /* the name of the task that runs on a worker; NULL: none */
    /* of the loop's thread, or of the fiber that runs on it: a line for each frame, innermost
     * first. Where coir was built with libbacktrace, with functions, files and lines; otherwise
     * with files and the addresses in them that addr2line understands. Empty: the thread did not
     * answer */
    const char *stack;
} coir_slow_turn;

#define COIR_SLOW_TURN                     \
    {                                      \
        sizeof(coir_slow_turn), 0, 0, 0, 0 \
    }

/* What a watchdog calls, on a thread of its own. What it is told is valid until it returns. It must
 * not wait for the loop, nor stop the watchdog. */
typedef void coir_slow_turn_fn(const coir_slow_turn *turn, void *arg);

/* Has a function called while a turn takes longer than `limit`, and again each time its duration
 * has doubled: also if it never ends. A thread looks at the loop four times in that time. It takes
 * the stack by a signal, SIGURG, which it unblocks in the loop's thread: a call of the system in
 * which the turn waits may be interrupted. While there is a watchdog the clock is read before each
 * callback. The watchdog of a worker is coir_config.slow_turn.
 * Suspends: no.  Threads: the one that runs the loop.
 * Errors: -EINVAL no loop, or that of a worker, no function, no limit; -EBUSY it has one; -ENOMEM;
 * -EAGAIN its thread could not be started. */
COIR_API int coir_loop_watchdog_start(coir_loop *loop, coir_time limit, coir_slow_turn_fn *fn,
                                      void *arg);

/* Stops a watchdog, before the thread that runs the loop ends. Its function does not run any more
 * when this returns. Does nothing if there is none; coir_loop_free calls it.
 * Suspends: no (it may wait for the function).  Threads: that of coir_loop_watchdog_start. */
COIR_API void coir_loop_watchdog_stop(coir_loop *loop);

/* What a loop counts since it was made; coir_loop_counters_get fills it in. */
typedef struct coir_loop_counters {
    size_t size;      /* sizeof(coir_loop_counters), set by COIR_LOOP_COUNTERS */
    uint64_t turns;   /* that it made */
    uint64_t sleeps;  /* times it announced to other threads that it sleeps */
    uint64_t wakeups; /* times another thread woke it from that, at the cost of a system call */
} coir_loop_counters;

#define COIR_LOOP_COUNTERS                  \
    {                                       \
        sizeof(coir_loop_counters), 0, 0, 0 \
    }

/* Reads the counters of a loop, as many as fit `ret_counters->size`; approximate while it runs.
 * Suspends: no.  Threads: any.
 * Errors: -COIR_EUNSIZED. */
COIR_API int coir_loop_counters_get(const coir_loop *loop, coir_loop_counters *ret_counters);

/* ---- other threads ---- */

/* Calls `fn(arg)` on the loop's thread, in the turn in progress or the next one. The loop is woken
 * if it waits. The calls of one sender are made in their order.
 * Suspends: no.  Threads: any.
 * Errors: -ENOMEM; -EINVAL no loop, or that of a worker: see coir_runtime_post. */
COIR_API int coir_loop_post(coir_loop *loop, void (*fn)(void *arg), void *arg);

/* Calls `fn(arg)` on the loop's thread and returns its result. It is called in order with what was
 * posted; the loop must be run, or freed, for that.
 * Suspends: no (it blocks).  Threads: any but the loop's own.
 * Errors: those of `fn`; -EDEADLK a callback of the loop calls; -EINVAL as coir_loop_post. */
COIR_API int coir_loop_call(coir_loop *loop, int (*fn)(void *arg), void *arg);

/* ---- inside of another event loop ---- */

/* The descriptor that is readable when coir_loop_run_once has something to do: another event loop
 * waits for it, until the time of coir_loop_next, and then calls coir_loop_run_once with 0.
 * Suspends: no.  Threads: owner.
 * Errors: -ENOTSUP the loop's driver has none; -EINVAL as coir_loop_post. */
COIR_API coir_fd coir_loop_fd(coir_loop *loop);

/* The time at which coir_loop_run_once has something to do, even if the descriptor is not readable.
 * 0: now; COIR_NEVER: only when the descriptor is readable. It is asked before each wait: from then
 * on, what other threads send makes the descriptor readable.
 * Suspends: no.  Threads: owner. */
COIR_API coir_time coir_loop_next(coir_loop *loop);

#ifdef __cplusplus
}
#endif

#endif
