/* One thread's event loop with callbacks, for programs that want no more. It belongs to the thread
 * that runs it; only coir_loop_post and coir_loop_stop may be called from others. Changing or
 * stopping anything from inside any callback is safe. */
#ifndef COIR_LOOP_H
#define COIR_LOOP_H

#include <coir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct coir_loop coir_loop;

typedef struct coir_watch {
    uint64_t opaque[16];
} coir_watch;

typedef struct coir_timer {
    uint64_t opaque[12];
} coir_timer;

typedef struct coir_hook {
    uint64_t opaque[8];
} coir_hook;

typedef struct coir_loop_options {
    size_t size;                     /* sizeof(coir_loop_options), set by COIR_LOOP_OPTIONS */
    const char *driver;              /* [the best selector] "epoll", "io_uring" or "poll" */
    const coir_allocator *allocator; /* [malloc] copied */
} coir_loop_options;

#define COIR_LOOP_OPTIONS               \
    {                                   \
        sizeof(coir_loop_options), 0, 0 \
    }

/* Makes a loop.
 * Suspends: no.  Threads: any.  Owns: *ret_loop is the caller's, freed by coir_loop_free.
 * Errors: -EINVAL unknown driver; -ENOMEM; -EMFILE; what keeps the one that was named from
 * working. */
COIR_API int coir_loop_new(coir_loop **ret_loop);
COIR_API int coir_loop_new_with(const coir_loop_options *options, coir_loop **ret_loop);

/* Messages that still wait are delivered; watches, timers and hooks are dropped. Takes NULL. Not
 * while it runs.
 * Suspends: no.  Threads: any. */
COIR_API void coir_loop_free(coir_loop *loop);

/* Runs until stopped, or until no watch, timer or message is left. A stop from before the run makes
 * it return at once. 0.
 * Suspends: no (it blocks).  Threads: a plain one, which owns the loop from then on.
 * Errors: what the system says when it refuses to wait, again and again. */
COIR_API int coir_loop_run(coir_loop *loop);

/* One turn: waits until `deadline` at most (0: not at all) for something to do, and does it. 0.
 * Suspends: no (it blocks).  Threads: owner.
 * Errors: as above. */
COIR_API int coir_loop_run_once(coir_loop *loop, coir_time deadline);

/* The run returns after the turn in progress, or the next run at once.
 * Suspends: no.  Threads: any. */
COIR_API void coir_loop_stop(coir_loop *loop);

/* The time at which the turn in progress began; cheaper than coir_now.
 * Suspends: no.  Threads: owner. */
COIR_API coir_time coir_loop_now(const coir_loop *loop);

/* Calls `fn` with those of `events` that hold, as long as they hold (level-triggered). A coir_watch
 * must be zeroed before its first start, and again if its loop was freed while it was started.
 * Stopping one that is not started does nothing.
 * Suspends: no.  Threads: owner.
 * Errors: -EBUSY the watch is started, or another watches the descriptor; -EBADF; -EPERM a file
 * that is always ready; -ENOMEM. */
typedef void coir_watch_fn(coir_loop *loop, coir_watch *watch, int events, void *arg);
COIR_API int coir_watch_start(coir_loop *loop, coir_watch *watch, coir_fd fd, int events,
                              coir_watch_fn *fn, void *arg);
COIR_API void coir_watch_stop(coir_loop *loop, coir_watch *watch);

/* Calls `fn` once, `delay` from now; never early. Starting a started timer moves it. O(1). A
 * coir_timer must be zeroed before its first start.
 * Suspends: no.  Threads: owner. */
typedef void coir_timer_fn(coir_loop *loop, coir_timer *timer, void *arg);
COIR_API void coir_timer_start(coir_loop *loop, coir_timer *timer, coir_time delay,
                               coir_timer_fn *fn, void *arg);
COIR_API void coir_timer_stop(coir_loop *loop, coir_timer *timer);

/* Callbacks before the loop waits and after it has handled what came, in each turn. A hook that is
 * added during a turn is first called in the next one. Hooks do not keep the loop alive.
 * Suspends: no.  Threads: owner. */
enum coir_hook_when { COIR_HOOK_BEFORE_WAIT, COIR_HOOK_AFTER_TURN };
typedef void coir_hook_fn(coir_loop *loop, coir_hook *hook, void *arg);
COIR_API void coir_hook_start(coir_loop *loop, coir_hook *hook, enum coir_hook_when when,
                              coir_hook_fn *fn, void *arg);
COIR_API void coir_hook_stop(coir_loop *loop, coir_hook *hook);

/* Has `fn(arg)` called in the loop's thread, in the next turn; wakes it where it waits. Order is
 * kept per sender.
 * Suspends: no.  Threads: any.
 * Errors: -ENOMEM. */
COIR_API int coir_loop_post(coir_loop *loop, void (*fn)(void *arg), void *arg);

#ifdef __cplusplus
}
#endif

#endif
