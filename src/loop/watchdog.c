#include "loop/watchdog.h"

#include <errno.h>
#include <string.h>

#include "base/time.h"
#include "loop/loop.h"
#include "sys/fork.h"
#include "sys/misuse.h"
#include "sys/symbol.h"

/* How often it looks at each loop in the time that a turn may take. */
enum { LOOKS = 4 };

static const coir_time look_min = 1 * COIR_MS, answer_time = 200 * COIR_MS;

/* ---- on the loop's thread ---- */

/* In the handler: what the stack belongs to. */
static CI_UNTRACED void note(struct ci_traced *traced)
{
    struct ci_watched *watched = ci_container_of(traced, struct ci_watched, traced);
    const struct coir_loop *loop = watched->loop;
    const char *name = loop->task_name ? loop->task_name(loop) : NULL;
    size_t len = 0;
    for (; name && name[len] && len < CI_WATCHDOG_TASK - 1; len++)
        watched->task[len] = name[len];
    watched->task[len] = '\0';
    watched->taken = ci_load_relaxed(&loop->observer.spell);
    watched->running = loop->observer.running;
}

int ci_watchdog_add(struct ci_watchdog *watchdog, struct ci_watched *watched)
{
    int rc = ci_thread_trace_enter(&watched->traced, true, note);
    if (rc < 0)
        return rc;
    ci_observer_set_watched(watched->loop, true);
    watched->due = watched->limit;
    ci_mutex_lock(&watchdog->lock);
    ci_list_push(&watchdog->watched, &watched->link);
    ci_condition_signal(&watchdog->changed);
    ci_mutex_unlock(&watchdog->lock);
    return 0;
}

void ci_watchdog_remove(struct ci_watchdog *watchdog, struct ci_watched *watched)
{
    ci_mutex_lock(&watchdog->lock);
    ci_list_remove(&watched->link);
    ci_mutex_unlock(&watchdog->lock);
    ci_observer_set_watched(watched->loop, false);
    ci_thread_trace_leave(&watched->traced);
}

/* ---- the watchdog's thread ---- */

static void report(struct ci_watchdog *watchdog, struct ci_watched *watched, coir_time busy)
{
    coir_slow_turn turn = {.size = sizeof turn, .busy = busy, .stack = watchdog->text};
    watchdog->text[0] = '\0';
    if (ci_thread_trace_take(&watched->traced, answer_time) == 0) {
        if (watched->taken != watched->spell)
            return; /* it has just ended: the stack is another turn's */
        ci_symbol_write(&watched->traced, watchdog->text, sizeof watchdog->text);
        turn.callback = (const void *)(uintptr_t)watched->running;
        turn.task = watched->task[0] ? watched->task : NULL;
    }
    watched->fn(&turn, watched->arg);
}

static void look_at(struct ci_watchdog *watchdog, struct ci_watched *watched, coir_time now)
{
    uint64_t spell = ci_load_relaxed(&watched->loop->observer.spell);
    coir_time busy = ci_time_left(now, watched->since);
    if (spell != watched->spell) {
        watched->spell = spell;
        watched->since = now;
        watched->due = watched->limit;
    } else if (ci_observer_is_busy(spell) && busy >= watched->due) {
        watched->due = 2 * busy;
        report(watchdog, watched, busy);
    }
}

/* Returns when to look again. */
static coir_time look(struct ci_watchdog *watchdog)
{
    coir_time now = ci_clock_now(), pause = COIR_NEVER;
    ci_list_for_each (node, &watchdog->watched) {
        struct ci_watched *watched = ci_container_of(node, struct ci_watched, link);
        coir_time wanted = watched->limit / LOOKS;
        pause = wanted < pause ? wanted : pause;
        look_at(watchdog, watched, now);
    }
    return pause == COIR_NEVER ? COIR_NEVER
                               : ci_time_after(now, pause > look_min ? pause : look_min);
}

static void *watchdog_thread(void *arg)
{
    struct ci_watchdog *watchdog = arg;
    ci_mutex_lock(&watchdog->lock);
    while (!watchdog->ended)
        ci_condition_wait(&watchdog->changed, &watchdog->lock, look(watchdog));
    ci_mutex_unlock(&watchdog->lock);
    return NULL;
}

int ci_watchdog_new(const coir_allocator *allocator, struct ci_watchdog **ret_watchdog)
{
    struct ci_watchdog *watchdog = ci_alloc_zero(allocator, sizeof *watchdog);
    if (!watchdog)
        return -ENOMEM;
    ci_mutex_init(&watchdog->lock);
    ci_condition_init(&watchdog->changed);
    ci_list_init(&watchdog->watched);
    int rc = ci_thread_start(&watchdog->thread, watchdog_thread, watchdog);
    if (rc == 0) {
        *ret_watchdog = watchdog;
        return 0;
    }
    ci_condition_done(&watchdog->changed);
    ci_mutex_done(&watchdog->lock);
    ci_free(allocator, watchdog, sizeof *watchdog);
    return rc;
}

void ci_watchdog_free(struct ci_watchdog *watchdog, const coir_allocator *allocator)
{
    if (!watchdog)
        return;
    ci_check(ci_list_empty(&watchdog->watched), "watchdog.h 1");
    ci_mutex_lock(&watchdog->lock);
    watchdog->ended = true;
    ci_condition_signal(&watchdog->changed);
    ci_mutex_unlock(&watchdog->lock);
    ci_thread_join(&watchdog->thread);
    ci_condition_done(&watchdog->changed);
    ci_mutex_done(&watchdog->lock);
    ci_free(allocator, watchdog, sizeof *watchdog);
}

/* ---- for a loop that a program made ---- */

/* With a watchdog of its own. */
struct ci_own_watchdog {
    struct ci_watchdog *watchdog;
    const char *thread; /* the mark of the one that has started it */
    struct ci_watched watched;
};

bool ci_loop_watchdog_is_elsewhere(const struct coir_loop *loop)
{
    return loop->watchdog && loop->watchdog->thread != ci_thread_mark();
}

int coir_loop_watchdog_start(coir_loop *loop, coir_time limit, coir_slow_turn_fn *fn, void *arg)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!loop || !fn || limit <= 0)
        return CI_MISUSE(-EINVAL, "loop or fn is NULL, or limit is not positive");
    if (!loop->standalone)
        return CI_MISUSE(-EINVAL, "the loop is a worker's; use coir_config.slow_turn");
    if (ci_loop_is_foreign(loop))
        return CI_MISUSE(-EXDEV, "another thread is in a turn of the loop; use coir_loop_post");
    if (loop->watchdog)
        return CI_MISUSE(-EBUSY, "the loop has a watchdog; stop it first");
    int rc;
    struct ci_own_watchdog *own = ci_alloc_zero(loop->allocator, sizeof *own);
    if (!own)
        return -ENOMEM;
    own->thread = ci_thread_mark();
    own->watched.loop = loop;
    own->watched.limit = limit;
    own->watched.fn = fn;
    own->watched.arg = arg;
    if ((rc = ci_watchdog_new(loop->allocator, &own->watchdog)) == 0 &&
        (rc = ci_watchdog_add(own->watchdog, &own->watched)) == 0) {
        loop->watchdog = own;
        return 0;
    }
    ci_watchdog_free(own->watchdog, loop->allocator);
    ci_free(loop->allocator, own, sizeof *own);
    return rc;
}

void coir_loop_watchdog_stop(coir_loop *loop)
{
    if (ci_forked() || CI_REFUSED(!loop, "loop is NULL") || !loop->watchdog ||
        CI_REFUSED_AS(-EXDEV, ci_loop_watchdog_is_elsewhere(loop),
                      "another thread has started the watchdog; stop it there"))
        return;
    struct ci_own_watchdog *own = loop->watchdog;
    loop->watchdog = NULL;
    ci_watchdog_remove(own->watchdog, &own->watched);
    ci_watchdog_free(own->watchdog, loop->allocator);
    ci_free(loop->allocator, own, sizeof *own);
}
