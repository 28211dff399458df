#include "sys/signal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "sys/call.h"
#include "sys/fork.h"
#include "sys/lock.h"
#include "sys/signal_default.h"

enum { SINKS = 32, SIGNALS = 64, LEVELS = 4 };

typedef void handler_fn(int number, siginfo_t *info, void *context);

/* for writers of all tables; handlers read them without it */
static pthread_mutex_t attach_lock = PTHREAD_MUTEX_INITIALIZER;
/* how many handlers are reading the tables */
static int32_t inside;
static struct ci_signal_stop *stops; /* a list: handlers follow it */
static struct ci_signal_sink *sinks[SINKS];

/* Handlers of a signal form a chain: coir's, one that the program installed in front of it, coir's
 * again for a sink that was attached after that. The program's handler may call the one it
 * replaced, or not. So coir's handler is another function at each level, and each calls only the
 * handler that it replaced. */
struct level {
    struct sigaction before;
    void (*plain)(int number); /* the handler of `before` as ours reads it; at most one is set */
    handler_fn *informed;
};

static struct signal_state {
    struct level levels[LEVELS]; /* written before the handler of the level is installed */
    int used;
    bool only_stops; /* want it: from the second one on, the signal has its default effect */
    bool came;       /* the first one, since the handler was installed */
} states[SIGNALS];

/* What coir's handler of a level has told, while it calls the program's: that may call coir's of a
 * lower level, which does not tell the same signal again. */
static CI_THREAD_LOCAL struct told {
    int number, level;
    bool heard;
} told;

/* ---- handlers ---- */

static handler_fn on_first, on_second, on_third, on_fourth;
static handler_fn *const handlers[LEVELS] = {on_first, on_second, on_third, on_fourth};

/* False: nobody wants the signal. */
static bool tell_sinks_and_stops(int number)
{
    uint64_t bit = (uint64_t)1 << number;
    bool heard = false;
    ci_fetch_add(&inside, 1);
    for (int i = 0; i < SINKS; i++) {
        struct ci_signal_sink *sink = ci_load(&sinks[i]);
        if (!sink || !(sink->wanted & bit))
            continue;
        heard = true;
        if (ci_signal_count(sink, number))
            ci_sys_eventfd_add(sink->eventfd);
    }
    const struct ci_signal_stop *stop =
        number == SIGINT || number == SIGTERM ? ci_load(&stops) : NULL;
    for (; stop; stop = ci_load(&stop->next)) {
        heard = true;
        stop->fn(stop->arg);
    }
    ci_fetch_sub(&inside, 1);
    if (number == SIGCONT)
        ci_signal_resume();
    return heard;
}

/* Else the program has installed one in front of it, which calls it, and has its way. */
static bool is_installed(int number, handler_fn *ours)
{
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 && now.sa_flags & SA_SIGINFO &&
           now.sa_sigaction == ours;
}

/* Whether the program reacts to the first signal, for stops alone, and this is the second one. That
 * the kernel takes our handler away by itself (SA_RESETHAND) will not do: a second signal in
 * another thread would end the process before the guards were called. */
static bool is_one_too_many(int number, handler_fn *ours)
{
    struct signal_state *state = &states[number];
    return ci_load(&state->only_stops) && ci_load(&stops) && ci_exchange(&state->came, true) &&
           is_installed(number, ours);
}

/* The kernel spares the first process of a container the default effect: that one exits with the
 * code that a shell has for it. */
static void end_process(int number, const siginfo_t *info)
{
    ci_signal_take_default(number, info);
    if (getpid() == 1)
        _exit(128 + number);
}

/* Tells them, unless a higher level has. False: nobody wants the signal. In a child after fork(),
 * sinks and stops are the parent's, and nobody looks at them: the signal does there what it did
 * before them. */
static bool tell_once(int level, int number, siginfo_t *info)
{
    if (ci_forked())
        return false;
    /* `told` stays if a handler of the program's does not return (siglongjmp); as long as the
     * kernel calls that level, it is of this signal */
    if (told.number == number && told.level > level && is_installed(number, handlers[told.level]))
        return told.heard;
    if (is_one_too_many(number, handlers[level]))
        end_process(number, info);
    return tell_sinks_and_stops(number);
}

/* A signal that nobody hears does what it did before coir: the handler may have been left behind
 * one of the program's, which has gone since. */
static void on_signal(int level_index, int number, siginfo_t *info, void *context)
{
    const struct level *level = &states[number].levels[level_index];
    struct told outer = told;
    int saved = errno;
    bool heard = tell_once(level_index, number, info);
    told = (struct told){number, level_index, heard};
    handler_fn *informed = ci_load(&level->informed);
    void (*plain)(int) = ci_load(&level->plain);
    if (informed)
        informed(number, info, context);
    else if (plain)
        plain(number);
    else if (!heard && ci_signal_is_default(&level->before) &&
             (ci_forked() || is_installed(number, handlers[level_index])))
        ci_signal_do_default(number, info);
    told = outer;
    errno = saved;
}

static void on_first(int number, siginfo_t *info, void *context)
{
    on_signal(0, number, info, context);
}

static void on_second(int number, siginfo_t *info, void *context)
{
    on_signal(1, number, info, context);
}

static void on_third(int number, siginfo_t *info, void *context)
{
    on_signal(2, number, info, context);
}

static void on_fourth(int number, siginfo_t *info, void *context)
{
    on_signal(3, number, info, context);
}

/* After a removal from a table: when it returns, no handler uses what was removed. */
static void wait_for_handlers(void)
{
    for (unsigned round = 0; ci_load(&inside); round++)
        ci_pause(round);
}

/* ---- installing ---- */

static bool is_none(const struct sigaction *action)
{
    return ci_signal_is_default(action) || action->sa_handler == SIG_IGN;
}

/* Whether an action is coir's handler; if so, the levels above it are no longer in use. */
static bool is_ours(struct signal_state *state, const struct sigaction *action)
{
    for (int i = 0; i < state->used; i++)
        if (action->sa_flags & SA_SIGINFO && action->sa_sigaction == handlers[i]) {
            state->used = i + 1;
            return true;
        }
    return false;
}

static void put_before(struct level *level, const struct sigaction *before)
{
    bool none = is_none(before), informed = before->sa_flags & SA_SIGINFO;
    level->before = *before;
    ci_store(&level->plain, none || informed ? NULL : before->sa_handler);
    ci_store(&level->informed, none || !informed ? NULL : before->sa_sigaction);
}

static bool is_wanted(int number)
{
    for (int i = 0; i < SINKS; i++)
        if (sinks[i] && sinks[i]->wanted >> number & 1)
            return true;
    return false;
}

/* Installs coir's handler of the highest level. */
static int put_handler(struct signal_state *state, int number)
{
    struct sigaction action = {.sa_sigaction = handlers[state->used - 1],
                               .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    ci_store(&state->came, false);
    ci_store(&state->only_stops, !is_wanted(number));
    return sigaction(number, &action, NULL) < 0 ? -errno : 0;
}

/* Installs coir's handler in front, if it is not there. If all levels are in use, coir relies on
 * the program's handlers to call it. */
static int catch_signal(int number)
{
    struct signal_state *state = &states[number];
    struct sigaction now;
    if (sigaction(number, NULL, &now) < 0)
        return -errno;
    if (is_ours(state, &now))
        return put_handler(state, number);
    if (is_none(&now))
        state->used = 0;
    if (state->used == LEVELS)
        return 0;
    put_before(&state->levels[state->used++], &now);
    int rc = put_handler(state, number);
    state->used -= rc < 0;
    return rc;
}

static void put_back(int number, const struct sigaction *before)
{
    if (ci_signal_is_default(before))
        ci_signal_put_default(number);
    else
        sigaction(number, before, NULL);
}

/* A sink or stop has gone. The last one restores the handler that was there, unless the program has
 * replaced coir's by another, which may still call it. */
static void let_go(int number, bool stops_too)
{
    struct signal_state *state = &states[number];
    struct sigaction now;
    if (is_wanted(number) || sigaction(number, NULL, &now) < 0)
        return;
    if (!is_ours(state, &now))
        return;
    if (stops_too)
        put_handler(state, number);
    else
        put_back(number, &state->levels[--state->used].before);
}

/* ---- stops ---- */

static const int watched[] = {SIGINT, SIGTERM};

void ci_signal_watch(struct ci_signal_stop *stop)
{
    pthread_mutex_lock(&attach_lock);
    stop->next = stops;
    ci_store(&stops, stop);
    for (size_t i = 0; i < ci_countof(watched); i++)
        catch_signal(watched[i]); /* also for a second stop: the next signal is the first again */
    pthread_mutex_unlock(&attach_lock);
}

void ci_signal_unwatch(struct ci_signal_stop *stop)
{
    pthread_mutex_lock(&attach_lock);
    for (struct ci_signal_stop **at = &stops; *at; at = &(*at)->next)
        if (*at == stop) {
            ci_store(at, stop->next);
            break;
        }
    for (size_t i = 0; !stops && i < ci_countof(watched); i++)
        let_go(watched[i], false);
    wait_for_handlers();
    pthread_mutex_unlock(&attach_lock);
}

/* ---- sinks ---- */

static void remove_sink(const struct ci_signal_sink *sink)
{
    for (int i = 0; i < SINKS; i++)
        if (sinks[i] == sink)
            ci_store(&sinks[i], NULL);
    for (int number = 1; number < SIGNALS; number++)
        if (sink->wanted >> number & 1)
            let_go(number, stops && (number == SIGINT || number == SIGTERM));
    wait_for_handlers();
}

int ci_signal_attach(struct ci_signal_sink *sink)
{
    int rc = 0, place = 0;
    pthread_mutex_lock(&attach_lock);
    while (place < SINKS && sinks[place])
        place++;
    if (place == SINKS)
        rc = -ENOBUFS;
    else
        ci_store(&sinks[place], sink);
    for (int number = 1; rc == 0 && number < SIGNALS; number++)
        if (sink->wanted >> number & 1)
            rc = catch_signal(number);
    if (rc < 0 && place < SINKS)
        remove_sink(sink);
    pthread_mutex_unlock(&attach_lock);
    return rc;
}

void ci_signal_detach(struct ci_signal_sink *sink)
{
    pthread_mutex_lock(&attach_lock);
    remove_sink(sink);
    pthread_mutex_unlock(&attach_lock);
}

/* ---- guards ---- */

int ci_signal_guard(struct ci_signal_guard *guard)
{
    pthread_mutex_lock(&attach_lock);
    int rc = ci_signal_add_guard(guard);
    pthread_mutex_unlock(&attach_lock);
    return rc;
}

void ci_signal_unguard(struct ci_signal_guard *guard)
{
    pthread_mutex_lock(&attach_lock);
    ci_signal_remove_guard(guard);
    pthread_mutex_unlock(&attach_lock);
}

static void block(const sigset_t *signals, struct ci_signal_mask *ret_before)
{
    static const int numbers[] = {SIGPIPE, SIGXFSZ};
    sigset_t pending;
    sigpending(&pending);
    sigemptyset(&ret_before->drops);
    for (size_t i = 0; i < ci_countof(numbers); i++)
        if (sigismember(signals, numbers[i]) && !sigismember(&pending, numbers[i]))
            sigaddset(&ret_before->drops, numbers[i]);
    pthread_sigmask(SIG_BLOCK, signals, &ret_before->mask);
}

void ci_signal_block_pipe(struct ci_signal_mask *ret_before)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGPIPE);
    block(&signals, ret_before);
}

void ci_signal_block_write(struct ci_signal_mask *ret_before)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGPIPE);
    sigaddset(&signals, SIGXFSZ);
    block(&signals, ret_before);
}

void ci_signal_restore(const struct ci_signal_mask *saved)
{
    while (sigtimedwait(&saved->drops, NULL, &(struct timespec){0, 0}) > 0)
        continue;
    pthread_sigmask(SIG_SETMASK, &saved->mask, NULL);
}
