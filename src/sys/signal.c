#include "sys/signal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>

#include "base/atomic.h"
#include "sys/call.h"
#include "sys/lock.h"

static pthread_mutex_t attach_lock = PTHREAD_MUTEX_INITIALIZER; /* guards all tables but what handlers read */
static int32_t inside;                                          /* handlers that look at the tables */

/* The handler that was there before ours, as ours reads it; at most one is set. It is written before
 * ours is installed, and may be while one of ours still runs. */
struct chain {
    void (*plain)(int number);
    void (*informed)(int number, siginfo_t *info, void *context);
};

static void set_chain(struct chain *chain, const struct sigaction *earlier)
{
    bool none = earlier->sa_handler == SIG_DFL || earlier->sa_handler == SIG_IGN;
    bool informed = earlier->sa_flags & SA_SIGINFO;
    ci_store(&chain->plain, none || informed ? NULL : earlier->sa_handler);
    ci_store(&chain->informed, none || !informed ? NULL : earlier->sa_sigaction);
}

static void follow_chain(const struct chain *chain, int number, siginfo_t *info, void *context)
{
    void (*plain)(int) = ci_load(&chain->plain);
    void (*informed)(int, siginfo_t *, void *) = ci_load(&chain->informed);
    if (informed)
        informed(number, info, context);
    else if (plain)
        plain(number);
}

/* After something was taken out of a table: no handler has it in its hands any more. */
static void wait_for_handlers(void)
{
    for (unsigned round = 0; ci_load(&inside); round++)
        ci_pause(round);
}

/* ---- stops ---- */

static const int watched[] = {SIGINT, SIGTERM};
static struct sigaction before[ci_countof(watched)];
static struct chain stop_chains[ci_countof(watched)];
static struct ci_signal_stop *stops; /* a list: handlers follow it */

static void on_stop(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    ci_fetch_add(&inside, 1);
    for (const struct ci_signal_stop *stop = ci_load(&stops); stop; stop = ci_load(&stop->next))
        stop->fn(stop->arg);
    ci_fetch_sub(&inside, 1);
    for (size_t i = 0; i < ci_countof(watched); i++)
        if (watched[i] == number)
            follow_chain(&stop_chains[i], number, info, context);
    errno = saved;
}

static bool is_ours(const struct sigaction *action)
{
    return action->sa_flags & SA_SIGINFO && action->sa_sigaction == on_stop;
}

void ci_signal_watch(struct ci_signal_stop *stop)
{
    struct sigaction action = {.sa_sigaction = on_stop, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK | (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    pthread_mutex_lock(&attach_lock);
    bool first = !stops;
    stop->next = stops;
    ci_store(&stops, stop);
    for (size_t i = 0; i < ci_countof(watched); i++) { /* also for a second one: a signal may have taken the handler away */
        struct sigaction now;
        if (sigaction(watched[i], NULL, &now) == 0 && !is_ours(&now) && (first || now.sa_handler != SIG_DFL)) {
            before[i] = now;
            set_chain(&stop_chains[i], &now);
        }
        sigaction(watched[i], &action, NULL);
    }
    pthread_mutex_unlock(&attach_lock);
}

/* Puts the handler back that was there, unless the program has put another one in the place of ours. */
static void restore(size_t i)
{
    struct sigaction now;
    if (sigaction(watched[i], NULL, &now) == 0 && (is_ours(&now) || now.sa_handler == SIG_DFL))
        sigaction(watched[i], &before[i], NULL);
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
        restore(i);
    wait_for_handlers();
    pthread_mutex_unlock(&attach_lock);
}

/* ---- sinks ---- */

enum { SINKS = 32, SIGNALS = 64 };
static struct ci_signal_sink *sinks[SINKS];
static struct sigaction chained[SIGNALS];
static struct chain chains[SIGNALS];
static bool caught[SIGNALS];

static void on_caught(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    uint64_t bit = (uint64_t)1 << number;
    ci_fetch_add(&inside, 1);
    for (int i = 0; i < SINKS; i++) {
        struct ci_signal_sink *sink = ci_load(&sinks[i]);
        if (sink && sink->wanted & bit && !(ci_fetch_or(&sink->pending, bit) & bit))
            ci_sys_eventfd_add(sink->eventfd);
    }
    ci_fetch_sub(&inside, 1);
    follow_chain(&chains[number], number, info, context);
    errno = saved;
}

static int catch_signal(int number)
{
    struct sigaction action = {.sa_sigaction = on_caught, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    if (caught[number])
        return 0;
    if (sigaction(number, NULL, &chained[number]) < 0)
        return -errno;
    set_chain(&chains[number], &chained[number]);
    if (sigaction(number, &action, NULL) < 0)
        return -errno;
    caught[number] = true;
    return 0;
}

static bool is_wanted(int number)
{
    for (int i = 0; i < SINKS; i++)
        if (sinks[i] && sinks[i]->wanted >> number & 1)
            return true;
    return false;
}

/* Puts the handler back that was there, unless somebody has put another one in our place. */
static void let_go(int number)
{
    struct sigaction current;
    if (!caught[number] || is_wanted(number) || sigaction(number, NULL, &current) < 0 || current.sa_sigaction != on_caught)
        return;
    sigaction(number, &chained[number], NULL);
    caught[number] = false;
}

int ci_signal_attach(struct ci_signal_sink *sink)
{
    int rc = 0, place = 0;
    pthread_mutex_lock(&attach_lock);
    while (place < SINKS && sinks[place])
        place++;
    if (place == SINKS)
        rc = -ENOBUFS;
    for (int number = 1; rc == 0 && number < SIGNALS; number++)
        if (sink->wanted >> number & 1)
            rc = catch_signal(number);
    if (rc == 0)
        ci_store(&sinks[place], sink);
    pthread_mutex_unlock(&attach_lock);
    return rc;
}

void ci_signal_detach(struct ci_signal_sink *sink)
{
    pthread_mutex_lock(&attach_lock);
    for (int i = 0; i < SINKS; i++)
        if (sinks[i] == sink)
            ci_store(&sinks[i], NULL);
    for (int number = 1; number < SIGNALS; number++)
        if (sink->wanted >> number & 1)
            let_go(number);
    wait_for_handlers();
    pthread_mutex_unlock(&attach_lock);
}

void ci_signal_block_pipe(struct ci_signal_mask *ret_before)
{
    sigset_t pipe, pending;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    ret_before->was_pending = sigismember(&pending, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &ret_before->mask);
}

void ci_signal_restore(const struct ci_signal_mask *saved)
{
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    while (!saved->was_pending && sigtimedwait(&pipe, NULL, &(struct timespec){0, 0}) == SIGPIPE)
        continue;
    pthread_sigmask(SIG_SETMASK, &saved->mask, NULL);
}
