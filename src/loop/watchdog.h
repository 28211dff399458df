/* Watches loops from a thread of its own, and takes the stack of a loop's thread while one of its
 * turns is slow.
 *
 * 1. Between ci_watchdog_add and ci_watchdog_remove, which take the lock, the loop's thread lives
 * and the loop is there: both are touched under the lock only.
 */
#ifndef CI_LOOP_WATCHDOG_H
#define CI_LOOP_WATCHDOG_H

#include "base/list.h"
#include "coir/loop.h"
#include "sys/thread.h"
#include "sys/thread_trace.h"

enum { CI_WATCHDOG_TASK = 64, CI_WATCHDOG_TEXT = 16 * 1024 };

struct ci_watchdog {
    struct ci_thread thread;
    struct ci_mutex lock;
    struct ci_condition changed;
    struct ci_list watched;
    bool ended;
    char text[CI_WATCHDOG_TEXT]; /* of the report in progress */
};

/* A loop that is watched. */
struct ci_watched {
    struct ci_traced traced;
    struct ci_list link;
    struct coir_loop *loop;
    coir_time limit;
    coir_slow_turn_fn *fn;
    void *arg;

    /* the watchdog's */
    uint64_t spell;  /* that it saw last: ci_observer.spell */
    coir_time since; /* when it saw this one first */
    coir_time due;   /* how long the spell may last before it is reported */

    /* written by the handler */
    uint64_t taken; /* the spell in which the stack was taken */
    void (*running)(void);
    char task[CI_WATCHDOG_TASK];
};

/* 0 or -errno; `*ret_watchdog` is freed by ci_watchdog_free, when it watches none. */
int ci_watchdog_new(const coir_allocator *allocator, struct ci_watchdog **ret_watchdog);
void ci_watchdog_free(struct ci_watchdog *watchdog, const coir_allocator *allocator);

/* Whether another thread has started the watchdog of a loop: it alone can stop it. */
bool ci_loop_watchdog_is_elsewhere(const struct coir_loop *loop);

/* By the thread that runs the loop. 0 or -ENOTSUP. */
int ci_watchdog_add(struct ci_watchdog *watchdog, struct ci_watched *watched);
void ci_watchdog_remove(struct ci_watchdog *watchdog, struct ci_watched *watched);

#endif
