/* One thread's event loop with callbacks, for programs that need no tasks. It belongs to the thread
 * that runs it; only coir_loop_post and coir_loop_stop may be called from others. Changing or
 * stopping anything from inside any callback is safe. */
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
    uint64_t opaque[12];
} coir_timer;

/* A callback of each turn of a loop, zeroed before it is first started: coir_hook_start. */
typedef struct coir_hook {
    uint64_t opaque[8];
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

/* Frees a loop that does not run. Calls that were posted and still wait are made; watches, timers
 * and hooks are dropped. Takes NULL.
 * Suspends: no.  Threads: any. */
COIR_API void coir_loop_free(coir_loop *loop);

/* Runs a loop until it is stopped, or no watch, timer or posted call is left; returns 0. A stop
 * from before the run makes it return at once.
 * Suspends: no (it blocks).  Threads: a plain one, which owns the loop from then on.
 * Errors: the system's, when it repeatedly refuses to wait. */
COIR_API int coir_loop_run(coir_loop *loop);

/* Runs one turn of a loop: waits for something to do, does it, and returns 0. It waits until
 * `deadline` at most; 0: not at all.
 * Suspends: no (it blocks).  Threads: a plain one, which owns the loop from then on.
 * Errors: those of coir_loop_run. */
COIR_API int coir_loop_run_once(coir_loop *loop, coir_time deadline);

/* Makes coir_loop_run return after the turn in progress. If none is in progress, the next run
 * returns at once.
 * Suspends: no.  Threads: any. */
COIR_API void coir_loop_stop(coir_loop *loop);

/* The time at which the loop's turn in progress began; cheaper than coir_now.
 * Suspends: no.  Threads: owner. */
COIR_API coir_time coir_loop_now(const coir_loop *loop);

/* What a watch calls, with the events that hold. */
typedef void coir_watch_fn(coir_loop *loop, coir_watch *watch, int events, void *arg);

/* Calls a function whenever some of `events` hold on a descriptor, as long as they do
 * (level-triggered). `fn` gets those that hold, of enum coir_events. A coir_watch must be zeroed
 * before its first start, and again if its loop was freed while it was started.
 * Suspends: no.  Threads: owner.
 * Errors: -EBUSY the watch is started, or another watches the descriptor; -EBADF; -EPERM a file
 * that is always ready; -ENOMEM. */
COIR_API int coir_watch_start(coir_loop *loop, coir_watch *watch, coir_fd fd, int events,
                              coir_watch_fn *fn, void *arg);

/* Stops a watch: its function is not called any more. Does nothing to one that is not started.
 * Suspends: no.  Threads: owner. */
COIR_API void coir_watch_stop(coir_loop *loop, coir_watch *watch);

/* What a timer calls. */
typedef void coir_timer_fn(coir_loop *loop, coir_timer *timer, void *arg);

/* Calls a function once, `delay` from now; never early. Starting a started timer moves it. O(1). A
 * coir_timer must be zeroed before its first start.
 * Suspends: no.  Threads: owner. */
COIR_API void coir_timer_start(coir_loop *loop, coir_timer *timer, coir_time delay,
                               coir_timer_fn *fn, void *arg);

/* Stops a timer: its function is not called any more. Does nothing to one that is not started.
 * O(1).
 * Suspends: no.  Threads: owner. */
COIR_API void coir_timer_stop(coir_loop *loop, coir_timer *timer);

/* When a hook is called in each turn of its loop. */
enum coir_hook_when {
    COIR_HOOK_BEFORE_WAIT, /* before the loop waits */
    COIR_HOOK_AFTER_TURN   /* after it has handled the events of the turn */
};

/* What a hook calls. */
typedef void coir_hook_fn(coir_loop *loop, coir_hook *hook, void *arg);

/* Calls a function in each turn of the loop, before it waits or after it has handled events. A hook
 * that is started during a turn is first called in the next one. Hooks do not keep the loop
 * running.
 * Suspends: no.  Threads: owner. */
COIR_API void coir_hook_start(coir_loop *loop, coir_hook *hook, enum coir_hook_when when,
                              coir_hook_fn *fn, void *arg);

/* Stops a hook: its function is not called any more. Does nothing to one that is not started.
 * Suspends: no.  Threads: owner. */
COIR_API void coir_hook_stop(coir_loop *loop, coir_hook *hook);

/* Calls `fn(arg)` on the loop's thread, in its next turn. The loop is woken if it waits. The calls
 * of one sender are made in their order.
 * Suspends: no.  Threads: any.
 * Errors: -ENOMEM. */
COIR_API int coir_loop_post(coir_loop *loop, void (*fn)(void *arg), void *arg);

#ifdef __cplusplus
}
#endif

#endif
